import type { attempts } from "../../../src/protocol/attempts.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import { soundRow } from "../../ledger/required.ts";
import type { Row } from "../../storage/database.ts";
import { admit, writeToGroup } from "../actions/admission.ts";
import { decodeAttempt, differingColumn } from "../actions/rows.ts";
import type { Handler } from "../command.ts";

const selectNextOrdinal =
  "SELECT COALESCE(MAX(attempt_ordinal), -1) + 1 FROM execution_attempts WHERE producing_cell_id = ?";

export const allocateAttempt: Handler<typeof attempts.allocate> = (input, context) => {
  const { ledger, caller, now, newId } = context;
  const wanted: Row = {
    group_id: input.groupId,
    producing_cell_id: input.producingCellId,
    state_revision: input.stateRevision ?? null,
    generation_id: input.generationId ?? null,
    replayed_from_cell_id: input.replayedFromCellId ?? null,
  };
  const existing =
    input.attemptId === undefined
      ? undefined
      : soundRow(ledger, "execution_attempts", input.attemptId, "attemptId");
  if (existing !== undefined) return sameAttempt(existing, wanted);

  const admission = admit(context, input.groupId, "work");
  const at = input.at ?? now();
  const row: Row = {
    attempt_id: input.attemptId ?? newId("xa-"),
    ...wanted,
    attempt_ordinal: ledger.database.value(selectNextOrdinal, [input.producingCellId]) ?? 0,
    owner_instance_id: input.ownerInstanceId ?? caller.ownerInstanceId,
    allocated_at: at,
    started_at: null,
    response_at: null,
    capture_at: null,
    finished_at: null,
    terminal_state: null,
    error: null,
  };
  writeToGroup(context, admission, "attempts.allocate", at, [
    { act: "insert", table: "execution_attempts", row },
  ]);
  return { ...decodeAttempt(row), created: true };
};

function sameAttempt(existing: Row, wanted: Row) {
  const differs = differingColumn(existing, wanted);
  if (differs === undefined) return { ...decodeAttempt(existing), created: false };
  const attemptId = existing["attempt_id"];
  throw new LedgerConflictError("id_taken", `attempt ${String(attemptId)} exists with another ${differs}`, {
    field: "attemptId",
    attemptId,
  });
}
