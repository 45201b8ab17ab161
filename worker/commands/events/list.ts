import type { events, StoredEvent } from "../../../src/protocol/events.ts";
import { clipRanges } from "../../ledger/lineage.ts";
import { decodeEvent } from "../../ledger/rows.ts";
import { requireSession, soundHistoryOf } from "../../ledger/sessions.ts";
import type { Handler } from "../command.ts";

const MAX_EVENTS = 100_000;

const selectOfSession = `SELECT * FROM auto_mode_events
  WHERE root_frame_id = ? AND event_cursor > ? AND event_cursor <= ? ORDER BY event_cursor LIMIT ?`;
const selectOfBranch = `SELECT * FROM auto_mode_events
  WHERE root_frame_id = ? AND branch_id = ? AND event_cursor > ? AND event_cursor <= ? ORDER BY event_cursor LIMIT ?`;

export const listEvents: Handler<typeof events.list> = (input, { ledger }) => {
  const { rootFrameId, branchId } = input;
  requireSession(ledger.database, rootFrameId);
  const after = input.afterCursor ?? 0;
  const upto = input.uptoCursor ?? Number.MAX_SAFE_INTEGER;
  const limit = Math.min(input.limit, MAX_EVENTS);
  if (branchId === undefined) {
    return ledger.database.all(selectOfSession, [rootFrameId, after, upto, limit]).map(decodeEvent);
  }
  const result: StoredEvent[] = [];
  for (const range of clipRanges(soundHistoryOf(ledger, rootFrameId, branchId), upto)) {
    const bounds = [
      rootFrameId,
      range.branchId,
      Math.max(after, range.after),
      range.upto,
      limit - result.length,
    ];
    result.push(...ledger.database.all(selectOfBranch, bounds).map(decodeEvent));
  }
  return result;
};
