import { canonicalJson } from "../../../src/proof/canonical.ts";
import { digest } from "../../../src/proof/sha256.ts";
import type { ParsedOf } from "../../../src/protocol/command.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { RepairOutcome, repairs } from "../../../src/protocol/repairs.ts";
import { ledgerOfGroup, sealOf } from "../../ledger/action-ledger.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
import type { SoundRun } from "../../ledger/run-proof.ts";
import type { Row } from "../../storage/database.ts";
import { decodeActionEvent, decodeAttempt } from "../actions/rows.ts";
import { cutOff } from "../attempts/milestones.ts";
import type { Context, Handler } from "../command.ts";
import { assertReplayable, committed, keyReused, replayedEvent, requireMutable } from "../runs/guards.ts";
import { type GroupLedger, hasCommittedEffect, hasKnownFailure, isUncertain, refusalOf } from "./judge.ts";
import { bindingsOf, decodeRepair, repairRow, runOfRepair } from "./rows.ts";

type Input = ParsedOf<typeof repairs.complete>;

export const completeRepair: Handler<typeof repairs.complete> = (input, context) => {
  const { ledger, caller, now } = context;
  const { repairRunId, idempotencyKey, status } = input;
  const requestSha256 = digest({
    status,
    after_version_ids: input.afterVersionIds,
    execution_group_ids: input.executionGroupIds,
    verification_review_run_id: null,
  });
  const runId = runOfRepair(context, repairRunId);
  const proof = ledger.run(runId);
  const replayed = replayedEvent(proof, runId, { idempotencyKey, type: "repair_completed", requestSha256 });
  if (replayed?.type === "repair_completed") {
    assertReplayable(ledger, proof, runId);
    if (replayed.payload.repair_run_id !== repairRunId)
      throw keyReused(runId, idempotencyKey, "repairs.complete");
    return committed(decodeRepair(proof, repairRunId), replayed, false);
  }
  const open = requireMutable(context, proof, runId);
  const bindings = assertCompletable(open, input);

  const at = input.completedAt ?? now();
  // Attempts that were cut off are given an end first: judgement and seal are over what then stands.
  const run = status === "outcome_unknown" ? finishOpenAttempts(context, open, bindings, at) : open;
  const judged = judge(run, bindings, status);
  const repair = repairRow(run, repairRunId);
  const completed: Row = {
    ...repair,
    completion_idempotency_key: idempotencyKey,
    completion_request_sha256: requestSha256,
    after_version_ids_json: canonicalJson(input.afterVersionIds),
    status,
    completed_at: at,
  };
  const nextStatus = statusAfter(status, judged.hasEffect);
  const closed = ledger.appendToRun(caller, run, {
    command: "repairs.complete",
    at,
    ...(nextStatus !== "repairing" && {
      run: { status: nextStatus, ...(nextStatus === "running" && NO_CANDIDATE) },
    }),
    writes: [
      ...bindings.map((binding) => sealWrite(run, binding, at)),
      { act: "update", table: "repair_runs", before: repair, row: completed },
      ...findingWrites(run, repair, status, at),
    ],
    event: {
      type: "repair_completed",
      idempotencyKey,
      requestSha256,
      payload: {
        repair_run_id: repairRunId,
        status,
        after_version_ids: input.afterVersionIds,
        execution_group_ids: input.executionGroupIds,
        verification_review_run_id: null,
      },
    },
  });
  const event = closed.events.at(-1);
  if (event === undefined) throw new TypeError(`run ${runId} has no event`);
  const after = nextStatus === "repairing" ? pause(context, closed, input, requestSha256, at) : closed;
  return committed(decodeRepair(after, repairRunId), event, true);
};

const NO_CANDIDATE: Row = {
  candidate_id: null,
  candidate_snapshot_sha256: null,
  evidence_snapshot_sha256: null,
  artifact_set_sha256: null,
  candidate_artifact_ids_json: "[]",
  candidate_version_ids_json: "[]",
};

function statusAfter(status: RepairOutcome, hasEffect: boolean): "running" | "candidate" | "repairing" {
  if (status === "completed") return "running";
  return status === "failed" && !hasEffect ? "candidate" : "repairing";
}

function refuse(code: string, message: string, details: Row): LedgerConflictError {
  return new LedgerConflictError(code, message, details);
}

function assertCompletable(run: SoundRun, { repairRunId, status, executionGroupIds }: Input): Row[] {
  const repair = repairRow(run, repairRunId);
  if (repair["status"] !== "started")
    throw refuse("repair_closed", `repair ${repairRunId} ended as ${String(repair["status"])}`, {
      repairRunId,
    });
  const bindings = bindingsOf(run, repairRunId);
  const bound = bindings.map((each) => each["action_group_id"] ?? null);
  if (canonicalJson(bound) !== canonicalJson(executionGroupIds))
    throw refuse(
      "groups_differ",
      "executionGroupIds are not the groups bound to the repair, in their order",
      {
        field: "executionGroupIds",
        repairRunId,
      },
    );
  // Nothing was done in it, so it did not work: the one thing that can be said of such a repair.
  if (bound.length === 0 && status !== "failed")
    throw refuse("nothing_bound", `repair ${repairRunId} bound no action group, so it can only have failed`, {
      field: "status",
      repairRunId,
    });
  return bindings;
}

/** spec/auto_mode 6.4: an attempt that was started ends unknown, one that was not is cancelled. */
function finishOpenAttempts(
  { ledger, caller }: Context,
  run: SoundRun,
  bindings: readonly Row[],
  at: number,
) {
  const groupIds = new Set(bindings.map((each) => each["action_group_id"]));
  const open = run.ledger.attempts.filter(
    (row) => groupIds.has(row["group_id"] ?? null) && row["finished_at"] === null,
  );
  if (open.length === 0) return run;
  const writes = open.map((before) => {
    const state = before["started_at"] === null ? "cancelled" : "outcome_unknown";
    const error = { type: state, message: "The attempt was cut off: nothing says how it ended." };
    return cutOff(before, state, error, at);
  });
  return ledger.appendToRun(caller, run, { command: "attempts.cutOff", at, writes });
}

/** @throws LedgerConflictError the ledgers do not bear the outcome out. */
function judge(run: SoundRun, bindings: readonly Row[], status: RepairOutcome): { hasEffect: boolean } {
  const ledgers = bindings.map((binding) => groupLedger(run, binding));
  ledgers.forEach((ledger, index) => {
    const reason = refusalOf(status, ledger);
    if (reason === undefined) return;
    const groupId = String(bindings[index]?.["action_group_id"]);
    throw refuse("outcome_unproven", `group ${groupId} does not bear out ${status}: ${reason}`, {
      field: "status",
      groupId,
    });
  });
  if (status === "outcome_unknown" && !ledgers.some(isUncertain))
    throw refuse("outcome_known", "no group of the repair leaves its outcome open", { field: "status" });
  if (status === "failed" && ledgers.length > 0 && !ledgers.some(hasKnownFailure))
    throw refuse("outcome_unproven", "nothing in the groups of the repair failed", { field: "status" });
  return { hasEffect: ledgers.some(hasCommittedEffect) };
}

function groupLedger(run: SoundRun, binding: Row): GroupLedger {
  const { events, attempts } = ledgerOfGroup(run.ledger, String(binding["action_group_id"]));
  return {
    kind: String(binding["group_kind"]),
    events: events.map(decodeActionEvent),
    attempts: attempts.map(decodeAttempt),
  };
}

function sealWrite(run: SoundRun, before: Row, at: number): RowWrite {
  const { eventCount, sha256 } = sealOf(ledgerOfGroup(run.ledger, String(before["action_group_id"])));
  const row = { ...before, ledger_event_count: eventCount, ledger_sha256: sha256, sealed_at: at };
  return { act: "update", table: "repair_execution_groups", before, row };
}

function findingWrites({ findings }: SoundRun, repair: Row, status: RepairOutcome, at: number): RowWrite[] {
  const ids = new Set(JSON.parse(String(repair["finding_ids_json"])) as string[]);
  const next = status === "completed" ? "addressed_pending_review" : "unaddressed";
  return findings
    .filter((finding) => ids.has(String(finding["finding_id"])))
    .map((before) => ({
      act: "update",
      table: "review_findings",
      before,
      row: { ...before, status: next, updated_at: at },
    }));
}

/** Nobody can say what the workspace is now: the run ends, in the same transaction (spec/auto_mode 6.5). */
function pause(
  { ledger, caller }: Context,
  run: SoundRun,
  { repairRunId, status }: Input,
  completionSha256: string,
  at: number,
): SoundRun {
  const reason = status === "outcome_unknown" ? "outcome_unknown" : "repair_partial_commit";
  const requestSha256 = digest({ status: "paused", reason, stop_reason: null });
  const idempotencyKey = `repair-terminal:${repairRunId}:${completionSha256.slice(0, 16)}`;
  return ledger.appendToRun(caller, run, {
    command: "runs.terminate",
    at,
    run: {
      status: "paused",
      terminal_reason: reason,
      stop_reason: null,
      terminal_idempotency_key: idempotencyKey,
      terminal_request_sha256: requestSha256,
      finished_at: at,
    },
    event: {
      type: "auto_run_terminal",
      idempotencyKey,
      requestSha256,
      payload: { status: "paused", terminal_reason: reason, stop_reason: null },
    },
  });
}
