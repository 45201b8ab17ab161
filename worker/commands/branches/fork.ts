import type { branches } from "../../../src/protocol/branches.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import { requireRow } from "../../ledger/required.ts";
import { decodeBranch } from "../../ledger/rows.ts";
import { newBranchRow, requireSession } from "../../ledger/sessions.ts";
import type { Row } from "../../storage/database.ts";
import type { Handler } from "../command.ts";

export const forkBranch: Handler<typeof branches.fork> = (input, { ledger, caller, now, newId }) => {
  const { rootFrameId, fromCheckpointId } = input;
  requireSession(ledger.database, rootFrameId);
  const checkpoint = requireRow(
    ledger,
    "session_checkpoints",
    fromCheckpointId,
    "fromCheckpointId",
    rootFrameId,
  );
  const branchId = input.branchId ?? newId("br-");
  const existing = ledger.row("session_branches", branchId);
  if (existing !== undefined) return sameFork(existing, rootFrameId, fromCheckpointId);
  ledger.assertNoBarrier(rootFrameId);

  const at = input.createdAt ?? now();
  const row: Row = {
    ...newBranchRow(rootFrameId, branchId, input.name ?? null, at),
    parent_branch_id: checkpoint["branch_id"] ?? null,
    base_checkpoint_id: fromCheckpointId,
    head_checkpoint_id: fromCheckpointId,
  };
  ledger.append(caller, {
    command: "branches.fork",
    rootFrameId,
    branchId,
    at,
    writes: [{ act: "insert", table: "session_branches", row }],
  });
  return { ...decodeBranch(row), created: true };
};

function sameFork(existing: Row, rootFrameId: string, fromCheckpointId: string) {
  if (existing["root_frame_id"] === rootFrameId && existing["base_checkpoint_id"] === fromCheckpointId) {
    return { ...decodeBranch(existing), created: false };
  }
  const branchId = existing["branch_id"];
  throw new LedgerConflictError("id_taken", `the branch id ${String(branchId)} is taken by another branch`, {
    field: "branchId",
    branchId,
  });
}
