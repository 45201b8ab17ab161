import type { Setting, settings } from "../../../src/protocol/settings.ts";
import { decodeRow } from "../../ledger/rows.ts";
import type { Handler } from "../command.ts";

const selectSetting = "SELECT * FROM settings WHERE key = ?";

export const getSetting: Handler<typeof settings.get> = ({ key }, { ledger }) => {
  const row = ledger.database.get(selectSetting, [key]);
  return row === undefined ? null : decodeRow<Setting>(row);
};
