import * as z from "zod";
import { defineCommand } from "./command.ts";
import {
  existingBranchId,
  existingCheckpointId,
  existingRootFrameId,
  millis,
  newBranchId,
  text,
} from "./fields.ts";

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
  /** @throws NotFoundError the branch is unknown. */
  get: defineCommand<Branch>()("read", z.strictObject({ branchId: existingBranchId() })),
  /** The branches of a session, oldest first. */
  list: defineCommand<Branch[]>()("read", z.strictObject({ rootFrameId: existingRootFrameId() })),
};
