import * as z from "zod";
import type { Checkpoint } from "./checkpoints.ts";
import { defineCommand } from "./command.ts";
import {
  existingBranchId,
  existingCheckpointId,
  existingRootFrameId,
  idempotencyKey,
  millis,
  newBranchId,
  text,
} from "./fields.ts";
import { directory, type RestorePlan } from "./workspace.ts";

export interface Branch {
  readonly branchId: string;
  readonly rootFrameId: string;
  readonly parentBranchId: string | null;
  readonly baseCheckpointId: string | null;
  readonly headCheckpointId: string | null;
  readonly name: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** What a revert would do (spec/session_store 2.8.3). */
export interface RevertPreview {
  readonly branchId: string;
  readonly currentCheckpointId: string;
  readonly targetCheckpointId: string;
  /** Null where neither the current state nor the target has a workspace. */
  readonly workspace: RestorePlan | null;
  /** How far each cursor would move. */
  readonly cursors: Readonly<
    Record<"actions" | "messages" | "cells" | "events", { readonly from: number; readonly to: number }>
  >;
  readonly artifactVersions: { readonly added: readonly string[]; readonly removed: readonly string[] };
  /** Artifact versions of the target that are gone: a revert to it is refused. */
  readonly missingVersions: readonly string[];
  readonly canApply: boolean;
}

export type RevertResult =
  | {
      readonly applied: true;
      readonly created: boolean;
      readonly operationId: string;
      readonly branch: Branch;
      readonly checkpoint: Checkpoint;
      /** The state just before: revert to it, or call `undo`, to go back. */
      readonly undoCheckpointId: string;
    }
  | {
      readonly applied: false;
      readonly reason: "workspace_conflicts" | "blobs_unavailable" | "artifacts_missing";
      readonly preview: RevertPreview;
    };

const reversion = {
  rootFrameId: existingRootFrameId(),
  branchId: existingBranchId().optional(),
  checkpointId: existingCheckpointId(),
  /** The session's workspace; needed where the current state or the target has a workspace tree. */
  directory: directory().optional(),
};

export const branches = {
  /**
   * Makes the branch if it is missing and returns it. `branchId` defaults to the session's main branch, whose
   * id is the root frame's.
   *
   * @throws NotFoundError the session is unknown.
   * @throws LedgerConflictError the id belongs to another session, or the frame is not a root.
   */
  ensure: defineCommand<Branch & { readonly created: boolean }>()(
    "write",
    z.strictObject({
      rootFrameId: existingRootFrameId(),
      branchId: newBranchId().optional(),
      name: text().nullish(),
      createdAt: millis(),
    }),
  ),
  /**
   * Makes a branch that begins where a checkpoint is: it shows the history up to there, then its own. Nothing is
   * copied, and runs of the parent branch are left as they are (spec/session_store 2.7).
   *
   * @throws NotFoundError the session or the checkpoint is unknown.
   * @throws LedgerConflictError the branch id is taken by another branch.
   */
  fork: defineCommand<Branch & { readonly created: boolean }>()(
    "write",
    z.strictObject({
      rootFrameId: existingRootFrameId(),
      fromCheckpointId: existingCheckpointId(),
      branchId: newBranchId().optional(),
      name: text().nullish(),
      createdAt: millis(),
    }),
  ),
  /** What `revert` would do now. Writes nothing. */
  previewRevert: defineCommand<RevertPreview>()("read", z.strictObject(reversion)),
  /**
   * Goes back to a checkpoint on the same branch: history, workspace and artifact heads (spec/session_store 2.8). It
   * deletes nothing: the state before is kept as a checkpoint, and `undo` brings it back. An unfinished run of the
   * branch is abandoned. A workspace that was edited since the branch's head is a conflict, and then nothing is done.
   *
   * The session is behind its barrier meanwhile. A tab that dies on the way leaves it up; `recovery.reconcileReverts`
   * finishes or takes back what was begun.
   *
   * @throws RecoveryRequiredError another revert is unresolved, or this one could be neither finished nor taken back.
   * @throws LedgerConflictError the key belongs to another revert.
   * @throws ValidationError the workspace's directory is needed.
   */
  revert: defineCommand<RevertResult>()(
    "write",
    z.strictObject({ ...reversion, idempotencyKey: idempotencyKey(), at: millis() }),
  ),
  /**
   * Takes back a revert: a revert to the state just before it. Without `revertCheckpointId` the branch's newest
   * checkpoint must be the revert.
   *
   * @throws LedgerConflictError the checkpoint is no revert; and as `revert`.
   */
  undo: defineCommand<RevertResult>()(
    "write",
    z.strictObject({
      rootFrameId: existingRootFrameId(),
      branchId: existingBranchId().optional(),
      revertCheckpointId: existingCheckpointId().optional(),
      directory: directory().optional(),
      idempotencyKey: idempotencyKey(),
      at: millis(),
    }),
  ),
  /** @throws NotFoundError the branch is unknown. */
  get: defineCommand<Branch>()("read", z.strictObject({ branchId: existingBranchId() })),
  /** The branches of a session, oldest first. */
  list: defineCommand<Branch[]>()("read", z.strictObject({ rootFrameId: existingRootFrameId() })),
};
