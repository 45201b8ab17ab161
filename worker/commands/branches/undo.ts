import type { branches } from "../../../src/protocol/branches.ts";
import type { ParsedOf } from "../../../src/protocol/command.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { requireRow } from "../../ledger/required.ts";
import { decodeCheckpoint } from "../../ledger/rows.ts";
import { requireSoundBranch } from "../../ledger/sessions.ts";
import type { Row } from "../../storage/database.ts";
import type { Context, Task } from "../command.ts";
import { idsOf, revertBranch } from "./revert.ts";

type Target = ParsedOf<typeof branches.revert>["checkpointId"];

export const undoRevert: Task<typeof branches.undo> = async (input, task) => {
  const { revertCheckpointId, ...others } = input;
  const checkpointId = await task.transact((context) => undoTarget(context, input, revertCheckpointId));
  return revertBranch({ ...others, checkpointId }, task);
};

/** The newest checkpoint of a branch, past those that reverts which came to nothing kept of the state before them. */
function lastOfHistory(ledger: Ledger, headId: Row[string]): Row[string] {
  for (let id = headId; typeof id === "string"; ) {
    const checkpoint = decodeCheckpoint(requireRow(ledger, "session_checkpoints", id, "branchId"));
    const isLeftover =
      checkpoint.reason === "before_revert" && typeof checkpoint.metadata["operation_id"] === "string";
    if (!isLeftover) return id;
    id = checkpoint.parentCheckpointId;
  }
  return null;
}

function undoTarget(
  context: Context,
  input: ParsedOf<typeof branches.undo>,
  revertCheckpointId: string | undefined,
): Target {
  const { ledger } = context;
  const branchId = input.branchId ?? input.rootFrameId;
  const branch = requireSoundBranch(ledger, branchId, input.rootFrameId);
  const done = ledger.row("session_checkpoints", idsOf(input, branchId).revertCheckpointId);
  const repeated = done && decodeCheckpoint(done).metadata["reverted_to"];
  if (typeof repeated === "string") return repeated as Target;
  const revertId = revertCheckpointId ?? lastOfHistory(ledger, branch["head_checkpoint_id"] ?? null);
  const revert =
    typeof revertId === "string"
      ? requireRow(ledger, "session_checkpoints", revertId, "checkpointId", input.rootFrameId)
      : undefined;
  const undoId = revert && decodeCheckpoint(revert).metadata["undo_checkpoint_id"];
  if (typeof undoId === "string") return undoId as Target;
  throw new LedgerConflictError(
    "not_a_revert",
    `checkpoint ${String(revertId)} is not a revert that could be undone`,
    {
      field: "revertCheckpointId",
      checkpointId: revertId ?? null,
    },
  );
}
