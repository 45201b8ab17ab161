import type { settings } from "../../../src/protocol/settings.ts";
import { LEDGER_ROOT } from "../../ledger/journal.ts";
import type { Handler } from "../command.ts";

const selectSetting = "SELECT * FROM settings WHERE key = ?";

export const deleteSetting: Handler<typeof settings.delete> = (
  { key, onlyIfValue },
  { ledger, caller, now },
) => {
  const row = ledger.database.get(selectSetting, [key]);
  if (row === undefined || (onlyIfValue !== undefined && row["value"] !== onlyIfValue))
    return { deleted: false };
  ledger.append(caller, {
    command: "settings.delete",
    rootFrameId: LEDGER_ROOT,
    at: now(),
    writes: [{ act: "delete", table: "settings", row }],
  });
  return { deleted: true };
};
