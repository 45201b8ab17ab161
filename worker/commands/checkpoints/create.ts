import { canonicalJson, type JsonObject } from "../../../src/proof/canonical.ts";
import type { checkpoints } from "../../../src/protocol/checkpoints.ts";
import type { ParsedOf } from "../../../src/protocol/command.ts";
import { invalidInput, LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
import { requireRow } from "../../ledger/required.ts";
import { decodeCheckpoint } from "../../ledger/rows.ts";
import { newBranchRow, newLineage, requireSession, requireSoundBranch } from "../../ledger/sessions.ts";
import type { Row, SqlValue } from "../../storage/database.ts";
import { differingColumn } from "../actions/rows.ts";
import type { Context, Handler } from "../command.ts";
import { abandonForRevert } from "../runs/abandon.ts";

type Input = ParsedOf<typeof checkpoints.create>;

const selectBySource = `SELECT checkpoint_id FROM session_checkpoints
  WHERE root_frame_id = ? AND source_kind = ? AND source_id = ?`;

export const createCheckpoint: Handler<typeof checkpoints.create> = (input, context) => {
  const { ledger } = context;
  requireSession(ledger.database, input.rootFrameId);
  const existing = findBySource(context, input) ?? findSame(context, input);
  if (existing !== undefined) return { ...decodeCheckpoint(existing), created: false };
  const row = recordCheckpoint(context, "checkpoints.create", input);
  return { ...decodeCheckpoint(row), created: true };
};

/**
 * Writes a checkpoint and makes it the head of its branch, in one journal entry with what else is written. If it is a
 * revert, the branch's unfinished run is abandoned first (spec/session_store 2.2).
 */
export function recordCheckpoint(
  context: Context,
  command: string,
  input: Input,
  alsoWritten: readonly RowWrite[] = [],
): Row {
  const { ledger, caller, now, newId } = context;
  const { rootFrameId } = input;
  const branchId = input.branchId ?? rootFrameId;
  const at = input.createdAt ?? now();
  const isNewMain = branchId === rootFrameId && ledger.row("session_branches", branchId) === undefined;
  const branch = isNewMain
    ? newBranchRow(rootFrameId, branchId, null, at)
    : requireSoundBranch(ledger, branchId, rootFrameId);
  assertHead(input, branch["head_checkpoint_id"] ?? null);
  assertReferences(context, input);

  const columns: Row = {
    checkpoint_id: input.checkpointId ?? newId("cp-"),
    root_frame_id: rootFrameId,
    parent_checkpoint_id: branch["head_checkpoint_id"] ?? null,
    ...contentOf(input, branchId),
    ...cursors(context, input, branchId),
    created_at: at,
  };
  const row: Row = { ...columns, lineage: canonicalJson(newLineage(ledger, columns, input.metadata)) };
  // The run that the revert hides is closed first: its journal entry belongs to the branch as it was.
  if (typeof input.metadata["reverted_to"] === "string") {
    abandonForRevert(context, rootFrameId, branchId, String(row["checkpoint_id"]), at);
  }
  const moved = { ...branch, head_checkpoint_id: row["checkpoint_id"] as SqlValue, updated_at: at };
  const head: RowWrite = isNewMain
    ? { act: "insert", table: "session_branches", row: moved }
    : { act: "update", table: "session_branches", before: branch, row: moved };
  ledger.append(caller, {
    command,
    rootFrameId,
    branchId,
    at,
    writes: [{ act: "insert", table: "session_checkpoints", row }, head, ...alsoWritten],
  });
  return row;
}

/** The columns that the input sets, whatever the moment. */
function contentOf(input: Input, branchId: string): Row {
  return {
    branch_id: branchId,
    source_kind: input.source?.kind ?? null,
    source_id: input.source?.id ?? null,
    internal: input.internal ? 1 : 0,
    reason: input.reason,
    workspace_tree_id: input.workspaceTreeId ?? null,
    artifact_versions: canonicalJson(input.artifactVersions),
    environment_pins: canonicalJson(input.environmentPins),
    generation_refs: canonicalJson(input.generationRefs),
    capability_state: canonicalJson(input.capabilityState),
    permission_state: canonicalJson(input.permissionState),
    recovery_recipe: canonicalJson(input.recoveryRecipe),
    metadata: canonicalJson(input.metadata),
  };
}

/** The checkpoint of the given id, if this is its exact repetition. @throws LedgerConflictError it is another one. */
function findSame({ ledger }: Context, input: Input): Row | undefined {
  const { checkpointId, rootFrameId } = input;
  if (checkpointId === undefined) return undefined;
  const row = ledger.row("session_checkpoints", checkpointId);
  if (row === undefined) return undefined;
  const given = {
    action_cursor: input.actionCursor,
    message_cursor: input.messageCursor,
    cell_cursor: input.cellCursor,
    auto_event_cursor: input.autoEventCursor,
  };
  const wanted: Row = { root_frame_id: rootFrameId, ...contentOf(input, input.branchId ?? rootFrameId) };
  for (const [column, cursor] of Object.entries(given)) if (cursor !== undefined) wanted[column] = cursor;
  const differs = differingColumn(row, wanted);
  if (differs === undefined) return row;
  throw new LedgerConflictError("id_taken", `checkpoint ${checkpointId} exists with another ${differs}`, {
    field: "checkpointId",
    checkpointId,
  });
}

function findBySource({ ledger }: Context, { rootFrameId, source }: Input): Row | undefined {
  if (source === undefined) return undefined;
  const checkpointId = ledger.database.value(selectBySource, [rootFrameId, source.kind, source.id]);
  return typeof checkpointId === "string"
    ? requireRow(ledger, "session_checkpoints", checkpointId, "checkpointId")
    : undefined;
}

function assertHead(input: Input, head: SqlValue): void {
  for (const field of ["parentCheckpointId", "expectedHeadCheckpointId"] as const) {
    const expected = input[field];
    if (expected === undefined || expected === head) continue;
    // A parent of null stands for the default: the head, whatever it is.
    if (field === "parentCheckpointId" && expected === null) continue;
    throw new LedgerConflictError(
      "head_moved",
      `the branch head is ${String(head)}, not ${String(expected)}`,
      { field, headCheckpointId: head, expected },
    );
  }
}

/** The checkpoints that the input and its metadata name must be there: history is read through them for ever. */
function assertReferences({ ledger }: Context, { rootFrameId, metadata }: Input): void {
  const projection = metadata["history_projection"] as JsonObject | undefined;
  const named = {
    "metadata.reverted_to": metadata["reverted_to"],
    "metadata.undo_checkpoint_id": metadata["undo_checkpoint_id"],
    "metadata.history_projection.base_checkpoint_id": projection?.["base_checkpoint_id"],
  };
  for (const [field, checkpointId] of Object.entries(named)) {
    if (checkpointId === undefined || checkpointId === null) continue;
    if (typeof checkpointId !== "string")
      throw invalidInput("checkpoints.create", field, "the id of a checkpoint");
    requireRow(ledger, "session_checkpoints", checkpointId, field, rootFrameId);
  }
  const resume = projection?.["resume_cursors"] ?? {};
  if (typeof resume !== "object" || Array.isArray(resume)) {
    throw invalidInput(
      "checkpoints.create",
      "metadata.history_projection.resume_cursors",
      "an object of cursors",
    );
  }
  for (const [cursor, value] of Object.entries(resume)) {
    if (value === null || (Number.isSafeInteger(value) && Number(value) >= -1)) continue;
    throw invalidInput(
      "checkpoints.create",
      `metadata.history_projection.resume_cursors.${cursor}`,
      "an integer or null",
    );
  }
}

const selectCursors = `SELECT
  (SELECT COALESCE(MAX(ordinal), -1) FROM action_groups WHERE root_frame_id = ?1 AND branch_id = ?2) AS action_cursor,
  (SELECT COALESCE(MAX(seq), -1) + 1 FROM messages WHERE root_frame_id = ?1) AS message_cursor,
  (SELECT COALESCE(MAX(event_cursor), 0) FROM auto_mode_events WHERE root_frame_id = ?1) AS auto_event_cursor`;

function cursors({ ledger }: Context, input: Input, branchId: string): Row {
  const current = ledger.database.get(selectCursors, [input.rootFrameId, branchId]) ?? {};
  const chosen = {
    action_cursor: input.actionCursor,
    message_cursor: input.messageCursor,
    auto_event_cursor: input.autoEventCursor,
  };
  // A revert carries the cursors of its target, which may lie on another branch with more action groups.
  const isRevert = typeof input.metadata["reverted_to"] === "string";
  for (const [column, cursor] of Object.entries(chosen)) {
    if (isRevert || cursor === undefined || cursor <= Number(current[column])) continue;
    const field = column.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    throw invalidInput(
      "checkpoints.create",
      field,
      `at most ${String(current[column])}, where the session is now`,
    );
  }
  return {
    action_cursor: chosen.action_cursor ?? current["action_cursor"] ?? -1,
    message_cursor: chosen.message_cursor ?? current["message_cursor"] ?? 0,
    cell_cursor: input.cellCursor ?? 0,
    auto_event_cursor: chosen.auto_event_cursor ?? current["auto_event_cursor"] ?? 0,
  };
}
