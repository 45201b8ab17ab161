import type { Sha256 } from "../../../src/proof/sha256.ts";
import type { RevertPreview } from "../../../src/protocol/branches.ts";
import { invalidInput, LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { RestorePlan } from "../../../src/protocol/workspace.ts";
import type { Hold } from "../../files/blob-store.ts";
import { capture } from "../../files/capture.ts";
import { previewRestore } from "../../files/restore.ts";
import { requireRow } from "../../ledger/required.ts";
import { decodeCheckpoint } from "../../ledger/rows.ts";
import { requireSession, requireSoundBranch } from "../../ledger/sessions.ts";
import type { Row } from "../../storage/database.ts";
import type { Context, TaskContext } from "../command.ts";

/** What a revert would do (spec/session_store 2.8.3), before anything is done. */

export interface Scope {
  readonly rootFrameId: string;
  readonly branchId: string;
  /** The branch head. */
  readonly current: Row;
  readonly target: Row;
  /** Versions that the target names and that are gone. */
  readonly missingVersions: readonly string[];
}

/** @throws LedgerConflictError the branch has no checkpoint yet. */
export function scopeOfRevert(
  context: Context,
  input: {
    readonly rootFrameId: string;
    readonly branchId?: string | undefined;
    readonly checkpointId: string;
  },
): Scope {
  const { ledger } = context;
  const { rootFrameId } = input;
  const branchId = input.branchId ?? rootFrameId;
  requireSession(ledger.database, rootFrameId);
  const head = requireSoundBranch(ledger, branchId, rootFrameId)["head_checkpoint_id"];
  if (typeof head !== "string")
    throw new LedgerConflictError("no_checkpoint", `branch ${branchId} has no checkpoint to revert from`, {
      branchId,
    });
  const target = requireRow(ledger, "session_checkpoints", input.checkpointId, "checkpointId", rootFrameId);
  const missingVersions = decodeCheckpoint(target).artifactVersions.filter(
    (versionId) => ledger.row("artifact_versions", versionId) === undefined,
  );
  return {
    rootFrameId,
    branchId,
    current: requireRow(ledger, "session_checkpoints", head, "checkpointId"),
    target,
    missingVersions,
  };
}

/** @throws ValidationError a workspace is concerned, and no directory was given. */
export async function planRevert(
  { files }: TaskContext,
  scope: Scope,
  directory: FileSystemDirectoryHandle | undefined,
): Promise<{ plan: RestorePlan | null; preview: RevertPreview }> {
  const [current, target] = [decodeCheckpoint(scope.current), decodeCheckpoint(scope.target)];
  let plan: RestorePlan | null = null;
  if (target.workspaceTreeId !== null) {
    if (directory === undefined) {
      const expected = "the session's workspace directory, as the checkpoint has a workspace tree";
      throw invalidInput("branches.revert", "directory", expected);
    }
    const store = await files.store();
    plan = await previewRestore(store, directory, target.workspaceTreeId, current.workspaceTreeId);
  }
  const moved = (from: number, to: number) => ({ from, to });
  const [before, after] = [new Set(current.artifactVersions), new Set(target.artifactVersions)];
  const preview: RevertPreview = {
    branchId: scope.branchId,
    currentCheckpointId: current.checkpointId,
    targetCheckpointId: target.checkpointId,
    workspace: plan,
    cursors: {
      actions: moved(current.actionCursor, target.actionCursor),
      messages: moved(current.messageCursor, target.messageCursor),
      cells: moved(current.cellCursor, target.cellCursor),
      events: moved(current.autoEventCursor, target.autoEventCursor),
    },
    artifactVersions: {
      added: [...after].filter((id) => !before.has(id)),
      removed: [...before].filter((id) => !after.has(id)),
    },
    missingVersions: scope.missingVersions,
    canApply: scope.missingVersions.length === 0 && (plan === null || plan.conflicts.length === 0),
  };
  return { plan, preview };
}

/** Whether bytes that the plan would write are missing or damaged. */
export async function missingBlobs({ files }: TaskContext, plan: RestorePlan | null): Promise<boolean> {
  for (const { toBlob, size } of plan?.writes ?? [])
    if ((await files.check(toBlob, size)) !== "ok") return true;
  return false;
}

/** Keeps the workspace as it is, for the undo. */
export async function captureNow(
  directory: FileSystemDirectoryHandle | undefined,
  hold: Hold,
): Promise<Sha256 | null> {
  return directory === undefined ? null : (await capture(directory, hold)).treeId;
}
