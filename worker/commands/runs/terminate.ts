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
import { promote, promotionDigest } from "./promotion.ts";

export const terminateRun: Handler<typeof runs.terminate> = (input, context) => {
  const { ledger, caller, now } = context;
  const { runId, idempotencyKey, status, reason } = input;
  const stopReason = input.stopReason ?? null;
  const promotion = input.messagePromotion ?? undefined;
  const promotionSha256 = promotion === undefined ? undefined : promotionDigest(promotion);
  const requestSha256 = digest({
    status,
    reason,
    stop_reason: stopReason,
    ...(promotionSha256 !== undefined && { message_promotion_sha256: promotionSha256 }),
  });
  const proof = ledger.run(runId);
  const replayed = replayedEvent(proof, runId, { idempotencyKey, type: "auto_run_terminal", requestSha256 });
  if (replayed !== undefined) {
    assertReplayable(ledger, proof, runId);
    return committed(proof.run, replayed, false);
  }
  if (proof.sound) assertNotFinished(proof);
  const run = requireMutable(context, proof, runId);
  assertNoOpenPhase(run);
  assertEarned(run, status);

  const at = input.finishedAt ?? now();
  const settled = promotion === undefined ? undefined : promote(context, run, input, promotion, at);
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
    writes: settled?.writes ?? [],
    event: {
      type: "auto_run_terminal",
      idempotencyKey,
      requestSha256,
      payload: {
        status,
        terminal_reason: reason,
        stop_reason: stopReason,
        ...(promotionSha256 !== undefined &&
          settled !== undefined && {
            message_promotion_sha256: promotionSha256,
            message_promotion_receipt: settled.receipt,
          }),
      },
    },
  });
  return committed(after.run, lastEvent(after), true);
};

/** A review or a repair that is under way must be closed first. */
function assertNoOpenPhase({ run, reviews, repairs }: SoundRun): void {
  const review = reviews.find((each) => each["status"] === "started");
  const repair = repairs.find((each) => each["status"] === "started");
  if (review === undefined && repair === undefined) return;
  const [kind, id] =
    review === undefined ? ["repair", repair?.["repair_run_id"]] : ["review", review["review_run_id"]];
  throw new LedgerConflictError(
    "phase_open",
    `run ${run.runId} can't end while ${kind} ${String(id)} is open`,
    {
      runId: run.runId,
      [`${kind}RunId`]: id,
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
