import type { branches } from "../../../src/protocol/branches.ts";
import { decodeBranch } from "../../ledger/rows.ts";
import { requireSession } from "../../ledger/sessions.ts";
import type { Handler } from "../command.ts";

const selectBranches =
  "SELECT * FROM session_branches WHERE root_frame_id = ? ORDER BY created_at, branch_id";

export const listBranches: Handler<typeof branches.list> = ({ rootFrameId }, { ledger }) => {
  requireSession(ledger.database, rootFrameId);
  return ledger.database.all(selectBranches, [rootFrameId]).map(decodeBranch);
};
