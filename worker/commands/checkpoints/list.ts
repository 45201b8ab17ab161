import type { checkpoints } from "../../../src/protocol/checkpoints.ts";
import { decodeCheckpoint } from "../../ledger/rows.ts";
import { requireSession, requireSoundBranch } from "../../ledger/sessions.ts";
import type { Handler } from "../command.ts";

const MAX_CHECKPOINTS = 1_000;

const selectOfSession = `SELECT * FROM session_checkpoints WHERE root_frame_id = ?
  ORDER BY created_at DESC, checkpoint_id DESC LIMIT ?`;
const selectOfBranch = `SELECT * FROM session_checkpoints WHERE root_frame_id = ? AND branch_id = ?
  ORDER BY created_at DESC, checkpoint_id DESC LIMIT ?`;

export const listCheckpoints: Handler<typeof checkpoints.list> = (input, { ledger }) => {
  const { rootFrameId, branchId } = input;
  requireSession(ledger.database, rootFrameId);
  const limit = Math.min(input.limit, MAX_CHECKPOINTS);
  if (branchId === undefined) {
    return ledger.database.all(selectOfSession, [rootFrameId, limit]).map(decodeCheckpoint);
  }
  requireSoundBranch(ledger, branchId, rootFrameId);
  return ledger.database.all(selectOfBranch, [rootFrameId, branchId, limit]).map(decodeCheckpoint);
};
