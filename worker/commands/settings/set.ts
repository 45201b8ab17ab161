import type { Setting, settings } from "../../../src/protocol/settings.ts";
import { LEDGER_ROOT } from "../../ledger/journal.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
import { decodeRow } from "../../ledger/rows.ts";
import type { Handler } from "../command.ts";

const selectSetting = "SELECT * FROM settings WHERE key = ?";

export const setSetting: Handler<typeof settings.set> = (input, { ledger, caller, now }) => {
  const at = input.updatedAt ?? now();
  const row = { key: input.key, value: input.value, updated_at: at };
  const before = ledger.database.get(selectSetting, [input.key]);
  const write: RowWrite =
    before === undefined
      ? { act: "insert", table: "settings", row }
      : { act: "update", table: "settings", before, row };
  ledger.append(caller, {
    command: "settings.set",
    rootFrameId: LEDGER_ROOT,
    at,
    writes: [write],
  });
  return decodeRow<Setting>(row);
};
