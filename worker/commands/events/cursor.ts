import type { events } from "../../../src/protocol/events.ts";
import { requireSession, soundHistoryOf } from "../../ledger/sessions.ts";
import type { Handler } from "../command.ts";

const selectOfSession = "SELECT MAX(event_cursor) FROM auto_mode_events WHERE root_frame_id = ?";
const selectOfRange = `SELECT MAX(event_cursor) FROM auto_mode_events
  WHERE root_frame_id = ? AND branch_id = ? AND event_cursor > ? AND event_cursor <= ?`;

export const eventCursor: Handler<typeof events.cursor> = ({ rootFrameId, branchId }, { ledger }) => {
  requireSession(ledger.database, rootFrameId);
  if (branchId === undefined)
    return { cursor: Number(ledger.database.value(selectOfSession, [rootFrameId]) ?? 0) };
  const newest = soundHistoryOf(ledger, rootFrameId, branchId).map(({ branchId: branch, after, upto }) =>
    Number(
      ledger.database.value(selectOfRange, [rootFrameId, branch, after, upto ?? Number.MAX_SAFE_INTEGER]) ??
        0,
    ),
  );
  return { cursor: Math.max(0, ...newest) };
};
