import type { branches } from "../../../src/protocol/branches.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import { decodeBranch } from "../../ledger/rows.ts";
import { newBranchRow, requireSession } from "../../ledger/sessions.ts";
import type { Handler } from "../command.ts";

const selectBranch = "SELECT * FROM session_branches WHERE branch_id = ?";

export const ensureBranch: Handler<typeof branches.ensure> = (input, { ledger, caller, now }) => {
  const { rootFrameId } = input;
  requireSession(ledger.database, rootFrameId);
  const branchId = input.branchId ?? rootFrameId;
  const existing = ledger.database.get(selectBranch, [branchId]);
  if (existing !== undefined) {
    if (existing["root_frame_id"] !== rootFrameId) {
      throw new LedgerConflictError(
        "branch_of_other_session",
        `branch ${branchId} belongs to another session`,
        {
          field: "branchId",
          branchId,
        },
      );
    }
    return { ...decodeBranch(existing), created: false };
  }
  const at = input.createdAt ?? now();
  const row = newBranchRow(rootFrameId, branchId, input.name ?? null, at);
  ledger.append(caller, {
    command: "branches.ensure",
    rootFrameId,
    branchId,
    at,
    writes: [{ act: "insert", table: "session_branches", row }],
  });
  return { ...decodeBranch(row), created: true };
};
