import * as z from "zod";
import type { JsonObject } from "../proof/canonical.ts";
import type { Sha256 } from "../proof/sha256.ts";
import { defineCommand } from "./command.ts";
import {
  existingBranchId,
  existingCheckpointId,
  existingRootFrameId,
  integer,
  jsonObject,
  LONG_TEXT,
  millis,
  newCheckpointId,
  sha256,
  text,
  textList,
  word,
} from "./fields.ts";

/** A moment of a branch. Cursors say the last record that was there then; see `checkpoints.create`. */
export interface Checkpoint {
  readonly checkpointId: string;
  readonly rootFrameId: string;
  /** The branch that it was recorded on. */
  readonly branchId: string;
  readonly parentCheckpointId: string | null;
  readonly sourceKind: "cell" | "message" | null;
  readonly sourceId: string | null;
  /** Made by the ledger for its own use, as the state before a revert is. */
  readonly internal: boolean;
  readonly reason: string;
  /** Ordinal of the branch's last action group; -1 when there is none. */
  readonly actionCursor: number;
  /** Number of messages in the session. */
  readonly messageCursor: number;
  /** Highest state revision of a cell; 0 when there is none. */
  readonly cellCursor: number;
  /** Cursor of the session's last event; 0 when there is none. */
  readonly autoEventCursor: number;
  readonly workspaceTreeId: Sha256 | null;
  readonly artifactVersions: readonly string[];
  readonly environmentPins: JsonObject;
  readonly generationRefs: JsonObject;
  readonly capabilityState: JsonObject;
  readonly permissionState: JsonObject;
  readonly recoveryRecipe: JsonObject;
  readonly metadata: JsonObject;
  readonly createdAt: number;
}

const documents = {
  environmentPins: jsonObject().default({}),
  generationRefs: jsonObject().default({}),
  capabilityState: jsonObject().default({}),
  permissionState: jsonObject().default({}),
  recoveryRecipe: jsonObject().default({}),
  metadata: jsonObject().default({}),
};

export const checkpoints = {
  /**
   * Records a checkpoint as the new head of its branch (default: the main one), which is made if it is missing
   * (spec/session_store 2.2). A cursor that is left out is that of this moment; none may point past it.
   *
   * With `metadata.reverted_to` the checkpoint is a revert: from it on the branch shows the history of that
   * checkpoint, then what follows `metadata.history_projection.resume_cursors`. An unfinished run of the branch is
   * abandoned in the same transaction. With a `source` that has a checkpoint already, that one is returned.
   *
   * @throws LedgerConflictError the head is not `expectedHeadCheckpointId` or `parentCheckpointId`, or the id is taken.
   * @throws NotFoundError the session, or a checkpoint that the metadata names, is unknown.
   */
  create: defineCommand<Checkpoint & { readonly created: boolean }>()(
    "write",
    z.strictObject({
      checkpointId: newCheckpointId().optional(),
      rootFrameId: existingRootFrameId(),
      branchId: existingBranchId().optional(),
      reason: text(LONG_TEXT),
      parentCheckpointId: existingCheckpointId().nullish(),
      expectedHeadCheckpointId: existingCheckpointId().nullish(),
      source: z.strictObject({ kind: word(["cell", "message"]), id: text() }).optional(),
      internal: z.boolean("true or false").default(false),
      actionCursor: integer(-1).optional(),
      messageCursor: integer(0).optional(),
      cellCursor: integer(0).optional(),
      autoEventCursor: integer(0).optional(),
      workspaceTreeId: sha256().nullish(),
      artifactVersions: textList(),
      ...documents,
      createdAt: millis(),
    }),
  ),
  /** @throws NotFoundError */
  get: defineCommand<Checkpoint>()("read", z.strictObject({ checkpointId: existingCheckpointId() })),
  /** The checkpoints of a session or of one branch, newest first. Lineage is `parentCheckpointId`, not this order. */
  list: defineCommand<Checkpoint[]>()(
    "read",
    z.strictObject({
      rootFrameId: existingRootFrameId(),
      branchId: existingBranchId().optional(),
      limit: integer(1).default(100),
    }),
  ),
};
