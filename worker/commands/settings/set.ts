import type { Setting, settings } from "../../../src/protocol/settings.ts";
import { LEDGER_ROOT } from "../../ledger/journal.ts";
import { decodeRow } from "../../ledger/rows.ts";
import type { Handler } from "../command.ts";

const selectKey = "SELECT key FROM settings WHERE key = ?";

export const setSetting: Handler<typeof settings.set> = (input, { ledger, caller, now }) => {
  const at = input.updatedAt ?? now();
  const row = { key: input.key, value: input.value, updated_at: at };
  const act = ledger.database.value(selectKey, [input.key]) === undefined ? "insert" : "update";
  ledger.append(caller, {
    command: "settings.set",
    rootFrameId: LEDGER_ROOT,
    at,
    writes: [{ act, table: "settings", row }],
  });
  return decodeRow<Setting>(row);
};
