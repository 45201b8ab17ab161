import type { Sha256 } from "../../../src/proof/sha256.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { RevertOutcome, recovery } from "../../../src/protocol/recovery.ts";
import { restore } from "../../files/restore.ts";
import { requireRow } from "../../ledger/required.ts";
import { decodeCheckpoint } from "../../ledger/rows.ts";
import { requireSession, requireSoundBranch } from "../../ledger/sessions.ts";
import { shortText } from "../../recovery/isolated.ts";
import {
  clearMarker,
  parseMarker,
  type RevertMarker,
  readMarkerRow,
  underWay,
} from "../../recovery/revert-marker.ts";
import type { Context, Handler, Task } from "../command.ts";

type Verdict = "cancelled" | "compensated" | "committed";

/** What is left to do: which files to bring to which tree, from which, and what that makes of the revert. */
interface Remedy {
  readonly verdict: Verdict;
  readonly files: { readonly to: Sha256; readonly from: Sha256 } | null;
}

interface Found {
  readonly text: string;
  readonly headCheckpointId: string | null;
  readonly marker: RevertMarker | undefined;
}

export const reconcileReverts: Task<typeof recovery.reconcileReverts> = async (
  input,
  { transact, files },
) => {
  const { rootFrameId, directory } = input;
  const found = await transact((context) => find(context, rootFrameId));
  if (found === undefined) return { rootFrameId, resolved: true, state: "none" };
  const { marker, text } = found;
  if (marker === undefined)
    return unresolved(
      rootFrameId,
      found,
      "marker_corrupt",
      "the barrier's text is not one that a revert writes",
    );
  const owner = marker.owner_instance_id;
  if (underWay.has(marker.operation_id) || (owner !== undefined && input.liveInstanceIds.includes(owner)))
    return unresolved(rootFrameId, found, "owner_alive", `the tab ${owner} is at work on it`);
  try {
    const remedy = await transact((context) => findRemedy(context, rootFrameId, marker));
    if (remedy.files !== null) {
      if (directory === undefined)
        throw new Error("the session's workspace directory is needed to set its files right");
      const done = await restore(await files.store(), directory, remedy.files.to, remedy.files.from);
      if (!done.applied) throw new Error(`the workspace can't be set right: ${done.reason}`);
    }
    const isCleared = await transact((context) =>
      clearMarker(context, rootFrameId, text, input.now ?? context.now()),
    );
    if (!isCleared) throw new Error("the barrier was changed meanwhile");
    return { rootFrameId, resolved: true, state: remedy.verdict };
  } catch (error) {
    // The marker stays as it is: what failed now, a busy database or a missing folder, can be tried again.
    return unresolved(rootFrameId, found, "recovery_required", shortText(error));
  }
};

function unresolved(
  rootFrameId: string,
  { text, headCheckpointId }: Found,
  state: Extract<RevertOutcome, { resolved: false }>["state"],
  error: string,
): RevertOutcome {
  return { rootFrameId, resolved: false, state, error, markerText: text, headCheckpointId };
}

function find(context: Context, rootFrameId: string): Found | undefined {
  requireSession(context.ledger.database, rootFrameId);
  const row = readMarkerRow(context, rootFrameId);
  if (row === undefined) return undefined;
  const text = String(row["value"]);
  const marker = parseMarker(text);
  return { text, marker, headCheckpointId: headOf(context, rootFrameId, marker?.branch_id ?? rootFrameId) };
}

const selectHead =
  "SELECT head_checkpoint_id FROM session_branches WHERE branch_id = ? AND root_frame_id = ?";

function headOf({ ledger }: Context, rootFrameId: string, branchId: string): string | null {
  const head = ledger.database.value(selectHead, [branchId, rootFrameId]);
  return typeof head === "string" ? head : null;
}

/** The branch head alone decides (spec/session_store 2.9.5). @throws LedgerConflictError it proves neither direction. */
function findRemedy({ ledger }: Context, rootFrameId: string, marker: RevertMarker): Remedy {
  const headId = requireSoundBranch(ledger, marker.branch_id, rootFrameId)["head_checkpoint_id"];
  const unproven = (reason: string) =>
    new LedgerConflictError("revert_unproven", `the revert can't be resolved: ${reason}`, { rootFrameId });
  if (typeof headId !== "string") throw unproven("the branch has no head");
  const head = decodeCheckpoint(
    requireRow(ledger, "session_checkpoints", headId, "checkpointId", rootFrameId),
  );
  if (marker.state === "preparing") {
    const isUntouched =
      headId === marker.current_checkpoint_id ||
      (head.reason === "before_revert" && head.metadata["operation_id"] === marker.operation_id);
    if (!isUntouched) throw unproven("the branch head moved while it was prepared");
    return { verdict: "cancelled", files: null };
  }
  const [undoTree, targetTree] = [
    marker.undo_tree_id as Sha256 | null,
    marker.target_tree_id as Sha256 | null,
  ];
  const between = (to: Sha256 | null, from: Sha256 | null) =>
    to === null || from === null ? null : { to, from };
  if (headId === marker.undo_checkpoint_id) {
    if (head.reason !== "before_revert" || head.metadata["operation_id"] !== marker.operation_id)
      throw unproven("the checkpoint before it is of another operation");
    if (head.workspaceTreeId !== undoTree)
      throw unproven("the checkpoint before it has another workspace tree");
    return { verdict: "compensated", files: between(undoTree, targetTree) };
  }
  if (headId === marker.revert_checkpoint_id) {
    if (head.metadata["operation_id"] !== marker.operation_id || head.workspaceTreeId !== targetTree)
      throw unproven("its checkpoint is of another operation");
    return { verdict: "committed", files: between(targetTree, undoTree) };
  }
  throw unproven("the branch head is neither the state before it nor the one after it");
}

export const releaseBarrier: Handler<typeof recovery.releaseBarrier> = (input, context) => {
  const { rootFrameId, markerText, headCheckpointId } = input;
  requireSession(context.ledger.database, rootFrameId);
  const head = headOf(context, rootFrameId, input.branchId ?? rootFrameId);
  if (head !== headCheckpointId) {
    throw new LedgerConflictError(
      "head_moved",
      `the branch head is ${String(head)}, not ${String(headCheckpointId)}`,
      {
        field: "headCheckpointId",
        headCheckpointId: head,
      },
    );
  }
  if (clearMarker(context, rootFrameId, markerText, input.now ?? context.now())) return { released: true };
  throw new LedgerConflictError("barrier_differs", "there is no barrier with that text", {
    field: "markerText",
  });
};
