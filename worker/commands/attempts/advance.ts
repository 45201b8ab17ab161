import { type attempts, MILESTONES } from "../../../src/protocol/attempts.ts";
import { invalidInput, LedgerConflictError } from "../../../src/protocol/errors.ts";
import { requireRow } from "../../ledger/required.ts";
import type { Row } from "../../storage/database.ts";
import { admit, writeToGroup } from "../actions/admission.ts";
import { decodeAttempt, textOf } from "../actions/rows.ts";
import type { Context, Handler } from "../command.ts";
import { lastMilestone } from "./milestones.ts";

export const recordMilestone: Handler<typeof attempts.record> = (input, context) => {
  const before = requireRow(context.ledger, "execution_attempts", input.attemptId, "attemptId");
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
  const at = timeOf(input.at, before, context);
  // Starting is new work; a response or a capture is evidence of work that was started.
  return update(context, before, { [column]: at }, at, "attempts.record", index === 0 ? "work" : "evidence");
};

export const finishAttempt: Handler<typeof attempts.finish> = (input, context) => {
  const before = requireRow(context.ledger, "execution_attempts", input.attemptId, "attemptId");
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
  const at = timeOf(input.at, before, context);
  const columns = { finished_at: at, terminal_state: input.terminalState, error };
  return update(context, before, columns, at, "attempts.finish", "evidence");
};

export const listAttempts: Handler<typeof attempts.list> = ({ groupId }, context) => {
  requireRow(context.ledger, "action_groups", groupId, "groupId");
  return context.ledger.database
    .all("SELECT attempt_id FROM execution_attempts WHERE group_id = ? ORDER BY allocated_at, attempt_id", [
      groupId,
    ])
    .map((row) => requireRow(context.ledger, "execution_attempts", String(row["attempt_id"]), "groupId"))
    .map(decodeAttempt);
};

function assertUnfinished(attempt: Row): void {
  if (attempt["finished_at"] === null) return;
  const attemptId = String(attempt["attempt_id"]);
  throw new LedgerConflictError(
    "attempt_finished",
    `attempt ${attemptId} ended as ${String(attempt["terminal_state"])} and can't change`,
    { attemptId, terminalState: attempt["terminal_state"] },
  );
}

/** The time given, or now; a clock that was set back does not stop an attempt. @throws ValidationError */
function timeOf(at: number | null | undefined, attempt: Row, { now }: Context): number {
  const latest = lastMilestone(attempt);
  if (at == null) return Math.max(now(), latest);
  if (at >= latest) return at;
  const expected = `a time from ${latest}, the attempt's last milestone`;
  throw invalidInput("attempts", "at", expected);
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
