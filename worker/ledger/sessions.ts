import { IntegrityError, LedgerConflictError, NotFoundError } from "../../src/protocol/errors.ts";
import type { Database, Row } from "../storage/database.ts";
import { DamageFound, findDamage } from "./damage.ts";
import type { Ledger } from "./ledger.ts";
import { type LineageCheckpoint, type Range, visibleRanges } from "./lineage.ts";

const selectFrame = "SELECT * FROM frames WHERE frame_id = ?";

/**
 * The row of a session's root frame.
 *
 * @throws NotFoundError there is no such frame.
 * @throws LedgerConflictError the frame is not a root.
 */
export function requireSession(database: Database, rootFrameId: string): Row {
  const frame = database.get(selectFrame, [rootFrameId]);
  if (frame === undefined) {
    throw new NotFoundError("session_not_found", `there is no session ${rootFrameId}`, {
      field: "rootFrameId",
      rootFrameId,
    });
  }
  if (frame["parent_id"] !== null || frame["root_frame_id"] !== rootFrameId) {
    throw new LedgerConflictError("not_a_root", `frame ${rootFrameId} is not the root of a session`, {
      field: "rootFrameId",
      rootFrameId,
    });
  }
  return frame;
}

/** The row of a branch that grows from nothing. A session's main branch has the session's own id. */
export function newBranchRow(rootFrameId: string, branchId: string, name: string | null, at: number): Row {
  return {
    branch_id: branchId,
    root_frame_id: rootFrameId,
    parent_branch_id: null,
    base_checkpoint_id: null,
    head_checkpoint_id: null,
    name,
    created_at: at,
    updated_at: at,
  };
}

/** The frame's row, unchecked: frames carry no proof. */
export function findFrame(database: Database, frameId: string): Row | undefined {
  return database.get(selectFrame, [frameId]);
}

/**
 * The branch's row, proven. A branch of another session is not found, so that ids tell nothing across sessions.
 *
 * @throws NotFoundError
 * @throws DamageFound
 */
function requireBranch(ledger: Ledger, branchId: string, rootFrameId?: string): Row {
  const branch = ledger.row("session_branches", branchId);
  if (branch === undefined || (rootFrameId !== undefined && branch["root_frame_id"] !== rootFrameId)) {
    throw new NotFoundError(
      "branch_not_found",
      `there is no branch ${branchId}${rootFrameId === undefined ? "" : ` in session ${rootFrameId}`}`,
      {
        field: "branchId",
        branchId,
      },
    );
  }
  return branch;
}

/** As `requireBranch`, for commands that can't go on with a damaged one. */
export function requireSoundBranch(ledger: Ledger, branchId: string, rootFrameId?: string): Row {
  return orIntegrityError(branchId, () => requireBranch(ledger, branchId, rootFrameId));
}

/** As `historyOf`, for commands that can't go on with a damaged one. */
export function soundHistoryOf(ledger: Ledger, rootFrameId: string, branchId: string): Range[] {
  return orIntegrityError(branchId, () => historyOf(ledger, rootFrameId, branchId));
}

function orIntegrityError<Result>(branchId: string, read: () => Result): Result {
  const result = findDamage(read);
  if (!(result instanceof DamageFound)) return result;
  throw new IntegrityError("branch_damaged", `branch ${branchId} is damaged: ${result.message}`, {
    field: "branchId",
    ...result.damage,
  });
}

/**
 * The visible history of a branch as ranges of events.
 *
 * @throws NotFoundError
 * @throws DamageFound the branch or a checkpoint on its chain was changed.
 */
export function historyOf(ledger: Ledger, rootFrameId: string, branchId: string): Range[] {
  if (branchId === rootFrameId && ledger.row("session_branches", branchId) === undefined) {
    return [{ branchId, after: 0, upto: null }];
  }
  const head = requireBranch(ledger, branchId, rootFrameId)["head_checkpoint_id"];
  return visibleRanges(branchId, head === null || head === undefined ? null : String(head), (checkpointId) =>
    readCheckpoint(ledger, rootFrameId, checkpointId),
  );
}

function readCheckpoint(
  ledger: Ledger,
  rootFrameId: string,
  checkpointId: string,
): LineageCheckpoint | undefined {
  const row = ledger.row("session_checkpoints", checkpointId);
  if (row === undefined || row["root_frame_id"] !== rootFrameId) return undefined;
  const metadata = JSON.parse(String(row["metadata"])) as CheckpointMetadata;
  const projection = metadata.history_projection;
  const revertedTo = projection?.base_checkpoint_id || metadata.reverted_to || null;
  return {
    checkpointId,
    branchId: String(row["branch_id"]),
    parentCheckpointId: row["parent_checkpoint_id"] === null ? null : String(row["parent_checkpoint_id"]),
    cursor: Number(row["auto_event_cursor"]),
    revertedTo,
    resumeAfter:
      revertedTo === null
        ? null
        : (projection?.resume_cursors?.auto_event_cursor ?? undoCursor(ledger, metadata)),
  };
}

/** What a revert's metadata says of history (spec/auto_mode 4.1). */
interface CheckpointMetadata {
  readonly reverted_to?: string;
  readonly undo_checkpoint_id?: string;
  readonly history_projection?: {
    readonly base_checkpoint_id?: string;
    readonly resume_cursors?: { readonly auto_event_cursor?: number | null };
  };
}

function undoCursor(ledger: Ledger, metadata: CheckpointMetadata): number | null {
  if (metadata.undo_checkpoint_id === undefined) return null;
  const undo = ledger.row("session_checkpoints", metadata.undo_checkpoint_id);
  return undo === undefined ? null : Number(undo["auto_event_cursor"]);
}
