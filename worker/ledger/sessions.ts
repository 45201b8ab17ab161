import type { JsonObject } from "../../src/proof/canonical.ts";
import { IntegrityError, LedgerConflictError, NotFoundError } from "../../src/protocol/errors.ts";
import type { Database, Row } from "../storage/database.ts";
import { DamageFound, findDamage } from "./damage.ts";
import type { Ledger } from "./ledger.ts";
import { type LineagePoint, pointAt, pointOfRevert, type Range, visibleRanges } from "./lineage.ts";

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
  return visibleRanges(branchId, typeof head === "string" ? lineageOf(ledger, head, kind) : undefined);
}

/** @throws DamageFound the checkpoint was changed or removed. */
function lineageOf(ledger: Ledger, checkpointId: string, kind: HistoryKind): LineagePoint {
  const row = ledger.row("session_checkpoints", checkpointId);
  if (row === undefined) throw new DamageFound("session_checkpoints", checkpointId, "is missing");
  const points = JSON.parse(String(row["lineage"])) as Record<HistoryKind, Omit<LineagePoint, "branchId">>;
  return { branchId: String(row["branch_id"]), ...points[kind] };
}

const CURSORS = {
  events: { column: "auto_event_cursor", offset: 0 },
  messages: { column: "message_cursor", offset: 0 },
  actions: { column: "action_cursor", offset: 1 },
} as const satisfies Record<HistoryKind, { column: string; offset: number }>;

const KINDS = Object.keys(CURSORS) as HistoryKind[];

/** What a revert's metadata says of history (spec/session_store 2.8.4). */
interface CheckpointMetadata {
  readonly reverted_to?: string;
  readonly undo_checkpoint_id?: string;
  readonly history_projection?: {
    readonly base_checkpoint_id?: string;
    readonly resume_cursors?: Readonly<Record<string, number | null>>;
  };
}

/**
 * Where history stands at a new checkpoint, as its row keeps it. The checkpoint it follows, and those that its metadata
 * names, must be there.
 */
export function newLineage(ledger: Ledger, row: Row, metadata: CheckpointMetadata): JsonObject {
  const branchId = String(row["branch_id"]);
  const parentId = row["parent_checkpoint_id"];
  const targetId = metadata.history_projection?.base_checkpoint_id || metadata.reverted_to;
  const points = KINDS.map((kind) => {
    const parent = typeof parentId === "string" ? lineageOf(ledger, parentId, kind) : undefined;
    const { shown, resumeAfter } =
      targetId === undefined
        ? pointAt(branchId, parent, positionOf(row, kind))
        : pointOfRevert(branchId, lineageOf(ledger, targetId, kind), resumePosition(ledger, metadata, kind));
    return [kind, { shown: shown.map((range) => ({ ...range })), resumeAfter }] as const;
  });
  return Object.fromEntries(points);
}

function positionOf(row: Row, kind: HistoryKind): number {
  const { column, offset } = CURSORS[kind];
  return Number(row[column]) + offset;
}

/** Where history goes on after a revert; without a word about it, after the state that the undo checkpoint kept. */
function resumePosition(ledger: Ledger, metadata: CheckpointMetadata, kind: HistoryKind): number {
  const { column, offset } = CURSORS[kind];
  const resume = metadata.history_projection?.resume_cursors?.[column];
  if (typeof resume === "number") return resume + offset;
  const undo =
    metadata.undo_checkpoint_id === undefined
      ? undefined
      : ledger.row("session_checkpoints", metadata.undo_checkpoint_id);
  return undo === undefined ? 0 : positionOf(undo, kind);
}
