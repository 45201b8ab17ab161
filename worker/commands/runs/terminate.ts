import { digest } from "../../../src/proof/sha256.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { runs, TerminalStatus } from "../../../src/protocol/runs.ts";
import type { SoundRun } from "../../ledger/run-proof.ts";
import { missingForCompletedWithIssues, missingForVerified } from "../../ledger/verified.ts";
import type { Handler } from "../command.ts";
import {
  assertNotFinished,
  assertReplayable,
  committed,
  lastEvent,
  replayedEvent,
  requireMutable,
} from "./guards.ts";

export const terminateRun: Handler<typeof runs.terminate> = (input, { ledger, caller, now }) => {
  const { runId, idempotencyKey, status, reason } = input;
  const stopReason = input.stopReason ?? null;
  const requestSha256 = digest({ status, reason, stop_reason: stopReason });
  const proof = ledger.run(runId);
  const replayed = replayedEvent(proof, runId, { idempotencyKey, type: "auto_run_terminal", requestSha256 });
  if (replayed !== undefined) {
    assertReplayable(ledger, proof, runId);
    return committed(proof.run, replayed, false);
  }
  if (proof.sound) assertNotFinished(proof);
  const run = requireMutable(ledger, proof, runId);
  assertNoOpenPhase(run);
  assertEarned(run, status);

  const at = input.finishedAt ?? now();
  const after = ledger.appendToRun(caller, run, {
    command: "runs.terminate",
    at,
    run: {
      status,
      terminal_reason: reason,
      stop_reason: stopReason,
      terminal_idempotency_key: idempotencyKey,
      terminal_request_sha256: requestSha256,
      finished_at: at,
    },
    event: {
      type: "auto_run_terminal",
      idempotencyKey,
      requestSha256,
      payload: { status, terminal_reason: reason, stop_reason: stopReason },
    },
  });
  return committed(after.run, lastEvent(after), true);
};

function assertNoOpenPhase({ run, reviews }: SoundRun): void {
  const open = reviews.find((review) => review["status"] === "started");
  if (open === undefined) return;
  const reviewRunId = String(open["review_run_id"]);
  throw new LedgerConflictError(
    "phase_open",
    `run ${run.runId} can't end while review ${reviewRunId} is open`,
    {
      runId: run.runId,
      reviewRunId,
    },
  );
}

function assertEarned(run: SoundRun, status: TerminalStatus): void {
  const missing = evidenceMissing(run, status);
  if (missing === undefined) return;
  throw new LedgerConflictError(
    "evidence_missing",
    `run ${run.run.runId} can't end as ${status}: ${missing}`,
    {
      field: "status",
      runId: run.run.runId,
      status,
      missing,
    },
  );
}

/** What a run lacks for the status it is to end with (spec/auto_mode 5.1). */
function evidenceMissing(run: SoundRun, status: TerminalStatus): string | undefined {
  switch (status) {
    case "verified":
      return missingForVerified(run);
    case "completed_with_issues":
      return missingForCompletedWithIssues(run);
    case "review_unavailable":
    case "blocked_by_guardian":
    case "cancelled":
    case "failed":
    case "paused":
      return undefined;
  }
}
