import { type attempts, MILESTONES } from "../../../src/protocol/attempts.ts";
import {
  IntegrityError,
  LedgerConflictError,
  NotFoundError,
  ValidationError,
} from "../../../src/protocol/errors.ts";
import { DamageFound, findDamage } from "../../ledger/damage.ts";
import type { Row } from "../../storage/database.ts";
import { admit, requireGroup, writeToGroup } from "../actions/admission.ts";
import { decodeAttempt, textOf } from "../actions/rows.ts";
import type { Context, Handler } from "../command.ts";

export const recordMilestone: Handler<typeof attempts.record> = (input, context) => {
  const before = requireAttempt(context, input.attemptId);
  const column = `${input.milestone}_at`;
  if (before[column] !== null) return decodeAttempt(before);
  assertUnfinished(before);
  const index = MILESTONES.indexOf(input.milestone);
  const earlier = MILESTONES[index - 1];
  if (earlier !== undefined && before[`${earlier}_at`] === null) {
    throw new LedgerConflictError(
      "milestone_order",
      `attempt ${input.attemptId} has no ${earlier} yet, so it can't have a ${input.milestone}`,
      { attemptId: input.attemptId, missing: earlier },
    );
  }
  const at = timeAfter(before, input.at ?? context.now());
  // Starting is new work; a response or a capture is evidence of work that was started.
  return update(context, before, { [column]: at }, at, "attempts.record", index === 0 ? "work" : "evidence");
};

export const finishAttempt: Handler<typeof attempts.finish> = (input, context) => {
  const before = requireAttempt(context, input.attemptId);
  const error = textOf(input.error);
  if (before["finished_at"] !== null) {
    if (before["terminal_state"] === input.terminalState && before["error"] === error)
      return decodeAttempt(before);
    assertUnfinished(before);
  }
  if (input.terminalState === "completed" && before["capture_at"] === null) {
    throw new LedgerConflictError(
      "capture_missing",
      `attempt ${input.attemptId} can't be completed before what it made was captured`,
      { attemptId: input.attemptId },
    );
  }
  const at = timeAfter(before, input.at ?? context.now());
  const columns = { finished_at: at, terminal_state: input.terminalState, error };
  return update(context, before, columns, at, "attempts.finish", "evidence");
};

export const listAttempts: Handler<typeof attempts.list> = ({ groupId }, context) => {
  requireGroup(context, groupId);
  return context.ledger.database
    .all("SELECT * FROM execution_attempts WHERE group_id = ? ORDER BY allocated_at, attempt_id", [groupId])
    .map(decodeAttempt);
};

function requireAttempt({ ledger }: Context, attemptId: string): Row {
  const row = findDamage(() => ledger.row("execution_attempts", attemptId));
  if (row instanceof DamageFound) {
    throw new IntegrityError("attempt_damaged", `attempt ${attemptId} is damaged: ${row.message}`, {
      field: "attemptId",
      ...row.damage,
    });
  }
  if (row !== undefined) return row;
  throw new NotFoundError("attempt_not_found", `there is no attempt ${attemptId}`, {
    field: "attemptId",
    attemptId,
  });
}

function assertUnfinished(attempt: Row): void {
  if (attempt["finished_at"] === null) return;
  const attemptId = String(attempt["attempt_id"]);
  throw new LedgerConflictError(
    "attempt_finished",
    `attempt ${attemptId} ended as ${String(attempt["terminal_state"])} and can't change`,
    { attemptId, terminalState: attempt["terminal_state"] },
  );
}

/** @throws ValidationError the time lies before an earlier milestone. */
function timeAfter(attempt: Row, at: number): number {
  const earlier = ["allocated_at", "started_at", "response_at", "capture_at"].map((column) =>
    Number(attempt[column] ?? 0),
  );
  const latest = Math.max(...earlier);
  if (at >= latest) return at;
  const expected = `a time from ${latest}, the attempt's last milestone`;
  throw new ValidationError("invalid_input", `attempts: at: expected ${expected}`, {
    field: "at",
    issues: [{ field: "at", expected }],
  });
}

function update(
  context: Context,
  before: Row,
  columns: Row,
  at: number,
  command: string,
  kind: "work" | "evidence",
) {
  const admission = admit(context, String(before["group_id"]), kind);
  const row = { ...before, ...columns };
  writeToGroup(context, admission, command, at, [
    { act: "update", table: "execution_attempts", before, row },
  ]);
  return decodeAttempt(row);
}
