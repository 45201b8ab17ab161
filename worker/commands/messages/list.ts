import type { messages, StoredMessage } from "../../../src/protocol/messages.ts";
import { DamageFound, findDamage } from "../../ledger/damage.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { requireSession, soundHistoryOf } from "../../ledger/sessions.ts";
import type { Row } from "../../storage/database.ts";
import type { Handler } from "../command.ts";
import { decodeMessage } from "./rows.ts";

const MAX_MESSAGES = 10_000;

const selectRange = `SELECT * FROM messages
  WHERE root_frame_id = ? AND branch_id = ? AND seq >= ? AND seq < ? ORDER BY seq LIMIT ?`;

export const listMessages: Handler<typeof messages.list> = (input, { ledger }) => {
  const { rootFrameId } = input;
  requireSession(ledger.database, rootFrameId);
  const limit = Math.min(input.limit, MAX_MESSAGES);
  const first = (input.afterSeq ?? -1) + 1;
  const rows: Row[] = [];
  for (const range of soundHistoryOf(ledger, rootFrameId, input.branchId ?? rootFrameId, "messages")) {
    // A position is a seq plus one, so the seqs of a range run from `after` to below `upto`.
    const from = Math.max(first, range.after);
    const upto = range.upto ?? Number.MAX_SAFE_INTEGER;
    rows.push(
      ...ledger.database.all(selectRange, [rootFrameId, range.branchId, from, upto, limit - rows.length]),
    );
  }
  return rows.map((row) => checked(ledger, row));
};

/** A damaged message is shown as what it is, and hides no other. */
function checked(ledger: Ledger, row: Row): StoredMessage {
  const sound = findDamage(() => ledger.row("messages", String(row["message_id"])));
  if (!(sound instanceof DamageFound)) return decodeMessage(row);
  const metadata = isObject(row["metadata"] ?? null) ? (row["metadata"] ?? null) : null;
  return { ...decodeMessage({ ...row, metadata }), damage: sound.damage.reason };
}

function isObject(text: Row[string]): boolean {
  try {
    const value: unknown = JSON.parse(String(text));
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
