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

/**
 * The checkpoint's row, proven. A checkpoint of another session is not found.
 *
 * @param field the input that names it
 * @throws NotFoundError
 * @throws IntegrityError
 */
export function requireSoundCheckpoint(
  ledger: Ledger,
  checkpointId: string,
  rootFrameId?: string,
  field = "checkpointId",
): Row {
  const row = findDamage(() => ledger.row("session_checkpoints", checkpointId));
  if (row instanceof DamageFound) {
    throw new IntegrityError("checkpoint_damaged", `checkpoint ${checkpointId} is damaged: ${row.message}`, {
      field,
      ...row.damage,
    });
  }
  if (row === undefined || (rootFrameId !== undefined && row["root_frame_id"] !== rootFrameId)) {
    throw new NotFoundError("checkpoint_not_found", `there is no checkpoint ${checkpointId}`, {
      field,
      checkpointId,
    });
  }
  return row;
}

/** As `historyOf`, for commands that can't go on with a damaged one. */
export function soundHistoryOf(
  ledger: Ledger,
  rootFrameId: string,
  branchId: string,
  kind: HistoryKind = "events",
): Range[] {
  return orIntegrityError(branchId, () => historyOf(ledger, rootFrameId, branchId, kind));
}

function orIntegrityError<Result>(branchId: string, read: () => Result): Result {
  const result = findDamage(read);
  if (!(result instanceof DamageFound)) return result;
  throw new IntegrityError("branch_damaged", `branch ${branchId} is damaged: ${result.message}`, {
    field: "branchId",
    ...result.damage,
  });
}

/** Which of the records that branches share a history is asked for. */
export type HistoryKind = "events" | "messages" | "actions";

/**
 * The visible history of a branch as ranges of positions, which count from 1: of an event its cursor, of a message
 * its `seq` + 1, of an action group its `ordinal` + 1 (spec/session_store 2.6). A cursor says the last position that
 * was there; 0 says that there was nothing yet.
 *
 * @throws NotFoundError
 * @throws DamageFound the branch or a checkpoint on its chain was changed.
 */
export function historyOf(
  ledger: Ledger,
  rootFrameId: string,
  branchId: string,
  kind: HistoryKind = "events",
): Range[] {
  if (branchId === rootFrameId && ledger.row("session_branches", branchId) === undefined) {
    return [{ branchId, after: 0, upto: null }];
  }
  const head = requireBranch(ledger, branchId, rootFrameId)["head_checkpoint_id"];
  return visibleRanges(branchId, head === null || head === undefined ? null : String(head), (checkpointId) =>
    readCheckpoint(ledger, rootFrameId, checkpointId, kind),
  );
}

function readCheckpoint(
  ledger: Ledger,
  rootFrameId: string,
  checkpointId: string,
  kind: HistoryKind,
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
    cursor: positionOf(row, kind),
    revertedTo,
    resumeAfter: revertedTo === null ? null : resumePosition(ledger, metadata, kind),
  };
}

const CURSORS = {
  events: { column: "auto_event_cursor", offset: 0 },
  messages: { column: "message_cursor", offset: 0 },
  actions: { column: "action_cursor", offset: 1 },
} as const satisfies Record<HistoryKind, { column: string; offset: number }>;

function positionOf(row: Row, kind: HistoryKind): number {
  const { column, offset } = CURSORS[kind];
  return Number(row[column]) + offset;
}

/** What a revert's metadata says of history (spec/session_store 2.8.4). */
interface CheckpointMetadata {
  readonly reverted_to?: string;
  readonly undo_checkpoint_id?: string;
  readonly history_projection?: {
    readonly base_checkpoint_id?: string;
    readonly resume_cursors?: Readonly<Record<string, number | null>>;
  };
}

/** Where history goes on after a revert; without a word about it, after the state that the undo checkpoint kept. */
function resumePosition(ledger: Ledger, metadata: CheckpointMetadata, kind: HistoryKind): number | null {
  const { column, offset } = CURSORS[kind];
  const resume = metadata.history_projection?.resume_cursors?.[column];
  if (typeof resume === "number") return resume + offset;
  if (metadata.undo_checkpoint_id === undefined) return null;
  const undo = ledger.row("session_checkpoints", metadata.undo_checkpoint_id);
  return undo === undefined ? null : positionOf(undo, kind);
}
