import type { JsonObject } from "../../../src/proof/canonical.ts";
import { digest, type Sha256 } from "../../../src/proof/sha256.ts";
import type { branches, RevertPreview, RevertResult } from "../../../src/protocol/branches.ts";
import type { ParsedOf } from "../../../src/protocol/command.ts";
import { LedgerConflictError, RecoveryRequiredError } from "../../../src/protocol/errors.ts";
import { restore } from "../../files/restore.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
import { requireRow } from "../../ledger/required.ts";
import { decodeBranch, decodeCheckpoint } from "../../ledger/rows.ts";
import { requireSession, requireSoundBranch } from "../../ledger/sessions.ts";
import {
  clearMarker,
  parseMarker,
  type RevertMarker,
  readMarkerRow,
  underWay,
  writeMarker,
} from "../../recovery/revert-marker.ts";
import type { Row } from "../../storage/database.ts";
import { recordCheckpoint } from "../checkpoints/create.ts";
import type { Context, Task, TaskContext } from "../command.ts";
import { reconcileReverts } from "../recovery/reconcile-reverts.ts";
import { captureNow, missingBlobs, planRevert, type Scope, scopeOfRevert } from "./revert-plan.ts";

type Input = ParsedOf<typeof branches.revert>;

export const previewRevert: Task<typeof branches.previewRevert> = async (input, task) => {
  const scope = await task.transact((context) => scopeOfRevert(context, input));
  return (await planRevert(task, scope, input.directory)).preview;
};

/**
 * The guarded protocol of spec/session_store 2.8.2. What the branch head is decides at every moment what became of it:
 * until the revert checkpoint is the head nothing has happened, from then on all of it has.
 */
export const revertBranch: Task<typeof branches.revert> = async (input, task) => {
  const first = await task.transact((context) => begin(context, input));
  const begun = first === "interrupted" ? await beginAgain(task, input) : first;
  if ("replayed" in begun) return begun.replayed;
  const { scope, marker } = begun;
  underWay.add(marker.operation_id);
  try {
    return await proceed(task, input, scope, marker);
  } finally {
    underWay.delete(marker.operation_id);
  }
};

async function proceed(
  task: TaskContext,
  input: Input,
  scope: Scope,
  marker: RevertMarker,
): Promise<RevertResult> {
  await task.faults.hold("branches.revert.prepared");
  const { plan, preview, refusal } = await guarded(task, scope, marker, async () => {
    const planned = await planRevert(task, scope, input.directory);
    const missing = planned.preview.canApply ? await missingBlobs(task, planned.plan) : false;
    return { ...planned, refusal: refusalOf(planned.preview, missing) };
  });
  if (refusal !== undefined) {
    await task.transact((context) => takeBack(context, scope, marker));
    return { applied: false, reason: refusal, preview };
  }
  await task.faults.hold("branches.revert.planned");
  return carryOut(task, input, scope, marker, plan !== null);
}

function refusalOf(preview: RevertPreview, blobsMissing: boolean) {
  if (preview.missingVersions.length > 0) return "artifacts_missing" as const;
  if (preview.workspace !== null && preview.workspace.conflicts.length > 0)
    return "workspace_conflicts" as const;
  return blobsMissing ? ("blobs_unavailable" as const) : undefined;
}

/** Before anything is touched an error takes the barrier away again. */
async function guarded<Result>(
  task: TaskContext,
  scope: Scope,
  marker: RevertMarker,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    await task.transact((context) => takeBack(context, scope, marker));
    throw error;
  }
}

/** Takes the barrier away, if it is still that of this revert. */
function takeBack(
  context: Context,
  { rootFrameId }: Scope,
  { operation_id: operationId }: Pick<RevertMarker, "operation_id">,
): void {
  const text = String(readMarkerRow(context, rootFrameId)?.["value"] ?? "");
  if (parseMarker(text)?.operation_id === operationId) clearMarker(context, rootFrameId, text, context.now());
}

/** The ids of a revert follow from its key, so that its repetition finds it. */
export function idsOf(
  { rootFrameId, idempotencyKey }: Pick<Input, "rootFrameId" | "idempotencyKey">,
  branchId: string,
) {
  const id = digest([rootFrameId, branchId, idempotencyKey]).slice(0, 16);
  return { operationId: `so-${id}`, revertCheckpointId: `cp-${id}` };
}

/** Those of one try: a revert that was taken back left its undo checkpoint in history, and can be tried again. */
function idsOfTry(input: Input, { branchId, current }: Scope) {
  const ids = idsOf(input, branchId);
  const id = digest([ids.operationId, String(current["checkpoint_id"])]).slice(0, 16);
  return { ...ids, undoCheckpointId: `cp-undo-${id}` };
}

type Begun = { readonly replayed: RevertResult } | { readonly scope: Scope; readonly marker: RevertMarker };

/** Sets right what a host that died left of this very revert, then begins anew. */
async function beginAgain(task: TaskContext, input: Input): Promise<Begun> {
  const { rootFrameId, directory } = input;
  const outcome = await reconcileReverts(
    { rootFrameId, liveInstanceIds: [], now: input.at, ...(directory !== undefined && { directory }) },
    task,
  );
  const begun = outcome.resolved ? await task.transact((context) => begin(context, input)) : "interrupted";
  if (begun !== "interrupted") return begun;
  throw new RecoveryRequiredError(
    "revert_unresolved",
    `the revert of session ${rootFrameId} was interrupted and requires recovery`,
    { ...outcome },
  );
}

/** Answers a repetition, or puts the barrier up; unless it is up for this very revert, and nobody is at it. */
function begin(context: Context, input: Input): Begun | "interrupted" {
  const { ledger, caller, now } = context;
  requireSession(ledger.database, input.rootFrameId);
  const branchId = input.branchId ?? input.rootFrameId;
  const ids = idsOf(input, branchId);
  const done = ledger.row("session_checkpoints", ids.revertCheckpointId);
  if (done !== undefined) return { replayed: replayOf(context, done, input.checkpointId, ids, branchId) };
  const scope = scopeOfRevert(context, input);
  const barrier = readMarkerRow(context, input.rootFrameId);
  const isOurs = parseMarker(String(barrier?.["value"]))?.operation_id === ids.operationId;
  if (isOurs && !underWay.has(ids.operationId)) return "interrupted";
  ledger.assertAdmitted(input.rootFrameId, "branches.revert");
  const marker: RevertMarker = {
    schema_version: 1,
    state: "preparing",
    operation_id: ids.operationId,
    branch_id: branchId,
    owner_instance_id: caller.ownerInstanceId,
    current_checkpoint_id: String(scope.current["checkpoint_id"]),
    target_checkpoint_id: input.checkpointId,
  };
  writeMarker(context, input.rootFrameId, marker, input.at ?? now());
  return { scope, marker };
}

function replayOf(
  { ledger }: Context,
  row: Row,
  targetCheckpointId: string,
  ids: ReturnType<typeof idsOf>,
  branchId: string,
): RevertResult {
  const checkpoint = decodeCheckpoint(row);
  if (checkpoint.metadata["reverted_to"] !== targetCheckpointId) {
    throw new LedgerConflictError(
      "idempotency_key_reused",
      "the idempotency key was used for a revert to another checkpoint",
      { field: "idempotencyKey", checkpointId: checkpoint.metadata["reverted_to"] ?? null },
    );
  }
  const branch = decodeBranch(requireSoundBranch(ledger, branchId));
  return {
    applied: true,
    created: false,
    operationId: ids.operationId,
    branch,
    checkpoint,
    undoCheckpointId: String(checkpoint.metadata["undo_checkpoint_id"]),
  };
}

async function carryOut(
  task: TaskContext,
  input: Input,
  scope: Scope,
  preparing: RevertMarker,
  touchesWorkspace: boolean,
): Promise<RevertResult> {
  const ids = idsOfTry(input, scope);
  const targetTreeId = (scope.target["workspace_tree_id"] ?? null) as Sha256 | null;
  const { files, transact, conclude } = task;
  return files.holding(async (hold) => {
    const undoTreeId =
      input.directory === undefined
        ? ((scope.current["workspace_tree_id"] ?? null) as Sha256 | null)
        : await guarded(task, scope, preparing, () => captureNow(input.directory, hold));
    await task.faults.hold("branches.revert.captured");
    const marker: RevertMarker = {
      ...preparing,
      state: "reverting",
      undo_checkpoint_id: ids.undoCheckpointId,
      revert_checkpoint_id: ids.revertCheckpointId,
      undo_tree_id: undoTreeId,
      target_tree_id: targetTreeId,
    };
    await guarded(task, scope, preparing, () =>
      transact((context) => keepUndo(context, input, scope, marker, undoTreeId)),
    );
    await task.faults.hold("branches.revert.undoKept");
    try {
      if (touchesWorkspace && input.directory !== undefined && targetTreeId !== null) {
        const store = await files.store();
        const restored = await restore(store, input.directory, targetTreeId, undoTreeId);
        if (!restored.applied)
          throw new LedgerConflictError("workspace_changed", "the workspace was changed meanwhile", {});
      }
      await task.faults.hold("branches.revert.restored");
      const result = await conclude((context) => commit(context, input, scope, ids));
      await task.faults.hold("branches.revert.committed");
      return result;
    } catch (error) {
      await compensate(task, input, scope, marker, undoTreeId, targetTreeId);
      throw error;
    }
  });
}

/** Keeps the state before as a checkpoint; from now on files may be half-way. */
function keepUndo(
  context: Context,
  input: Input,
  scope: Scope,
  marker: RevertMarker,
  undoTreeId: Sha256 | null,
): void {
  const at = input.at ?? context.now();
  const { current } = scope;
  if (marker.state === "preparing") throw new TypeError("an undo is kept on the way, not before");
  recordCheckpoint(context, "branches.revert.prepare", {
    ...stateOf(current),
    checkpointId: marker.undo_checkpoint_id as Input["checkpointId"],
    rootFrameId: input.rootFrameId,
    branchId: scope.branchId as Input["branchId"],
    reason: "before_revert",
    internal: true,
    expectedHeadCheckpointId: String(current["checkpoint_id"]) as Input["checkpointId"],
    workspaceTreeId: undoTreeId,
    metadata: { operation_id: marker.operation_id, undo_for_target: input.checkpointId },
    createdAt: at,
  });
  writeMarker(context, input.rootFrameId, marker, at);
}

/** What a checkpoint says besides its place in history. */
function stateOf(row: Row) {
  const {
    artifactVersions,
    environmentPins,
    generationRefs,
    capabilityState,
    permissionState,
    recoveryRecipe,
    cellCursor,
  } = decodeCheckpoint(row);
  return {
    artifactVersions: [...artifactVersions],
    environmentPins,
    generationRefs,
    capabilityState,
    permissionState,
    recoveryRecipe,
    cellCursor,
  };
}

/** The commit point: the revert checkpoint, the artifact heads and the end of the barrier, all in one transaction. */
function commit(
  context: Context,
  input: Input,
  scope: Scope,
  ids: ReturnType<typeof idsOfTry>,
): RevertResult {
  const { ledger } = context;
  const at = input.at ?? context.now();
  const target = decodeCheckpoint(scope.target);
  const undo = decodeCheckpoint(
    requireRow(ledger, "session_checkpoints", ids.undoCheckpointId, "checkpointId"),
  );
  const metadata: JsonObject = {
    operation_id: ids.operationId,
    reverted_to: target.checkpointId,
    undo_checkpoint_id: undo.checkpointId,
    requires_kernel_recovery: true,
    history_projection: {
      version: 1,
      base_checkpoint_id: target.checkpointId,
      resume_cursors: {
        action_cursor: undo.actionCursor,
        message_cursor: undo.messageCursor,
        cell_cursor: undo.cellCursor,
        auto_event_cursor: undo.autoEventCursor,
      },
    },
  };
  const row = recordCheckpoint(
    context,
    "branches.revert.commit",
    {
      ...stateOf(scope.target),
      checkpointId: ids.revertCheckpointId as Input["checkpointId"],
      rootFrameId: input.rootFrameId,
      branchId: scope.branchId as Input["branchId"],
      reason: "revert_continue",
      internal: false,
      expectedHeadCheckpointId: undo.checkpointId as Input["checkpointId"],
      workspaceTreeId: target.workspaceTreeId,
      actionCursor: target.actionCursor,
      messageCursor: target.messageCursor,
      autoEventCursor: target.autoEventCursor,
      metadata,
      createdAt: at,
    },
    artifactHeads(context, target.artifactVersions, at),
  );
  takeBack(context, scope, { operation_id: ids.operationId });
  return {
    applied: true,
    created: true,
    operationId: ids.operationId,
    branch: decodeBranch(requireSoundBranch(ledger, scope.branchId)),
    checkpoint: decodeCheckpoint(row),
    undoCheckpointId: undo.checkpointId,
  };
}

/** Artifacts whose newest version is not the one that the checkpoint names. Artifacts that it does not name stay. */
function artifactHeads({ ledger }: Context, versionIds: readonly string[], at: number): RowWrite[] {
  return versionIds.flatMap((versionId): RowWrite[] => {
    const version = ledger.row("artifact_versions", versionId);
    const before = version && ledger.row("artifacts", String(version["artifact_id"]));
    if (before === undefined || before["latest_version_id"] === versionId) return [];
    return [
      {
        act: "update",
        table: "artifacts",
        before,
        row: { ...before, latest_version_id: versionId, updated_at: at },
      },
    ];
  });
}

/** Takes the files back to the state before; if that fails the barrier stays, and recovery is needed. */
async function compensate(
  task: TaskContext,
  input: Input,
  scope: Scope,
  marker: RevertMarker,
  undoTreeId: Sha256 | null,
  targetTreeId: Sha256 | null,
): Promise<void> {
  try {
    if (input.directory !== undefined && undoTreeId !== null && targetTreeId !== null) {
      const restored = await restore(await task.files.store(), input.directory, undoTreeId, targetTreeId);
      if (!restored.applied) throw new Error(restored.reason);
    }
    await task.transact((context) => takeBack(context, scope, marker));
  } catch (error) {
    throw new RecoveryRequiredError(
      "revert_unresolved",
      `the revert of session ${scope.rootFrameId} requires recovery: it could be neither finished nor taken back`,
      { rootFrameId: scope.rootFrameId, operationId: marker.operation_id, reason: String(error) },
    );
  }
}
