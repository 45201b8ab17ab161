import { LedgerError } from "../../src/protocol/errors.ts";
import type { ReconcileOutcome } from "../../src/protocol/recovery.ts";
import type { Context } from "../commands/command.ts";
import { completeRepair } from "../commands/repairs/complete.ts";
import { bindingsOf } from "../commands/repairs/rows.ts";
import { completeReview } from "../commands/reviews/complete.ts";
import { assertSound } from "../commands/runs/guards.ts";
import { terminateRun } from "../commands/runs/terminate.ts";
import type { RunProof } from "../ledger/run-proof.ts";
import { shortText } from "./isolated.ts";

const REASON = "daemon_restart";

/**
 * Closes one run whose owner is gone (spec/auto_mode 7.3): open reviews end without a verdict, then the run ends.
 * Where its own rules forbid that, it is released: abandoned, so that the branch can go on.
 */
export function reconcileRun(runId: string, now: number, itself: Context): ReconcileOutcome {
  const context: Context = { ...itself, caller: { ...itself.caller, acts: "for the dead" } };
  const { ledger } = context;
  const proof = ledger.run(runId);
  if (proof.sound && ledger.isBarrierUp(proof.run.rootFrameId)) {
    return {
      runId,
      status: proof.run.status,
      deferred: "revert_recovery_required",
      error: `session ${proof.run.rootFrameId} requires recovery: a workspace revert is unresolved`,
    };
  }
  try {
    return ledger.atomically(() => {
      closeOpenReviews(runId, proof, now, context);
      closeOpenRepairs(runId, proof, now, context);
      const closed = ledger.run(runId);
      if (closed.sound && closed.run.finishedAt !== null) {
        // The repair ended the run itself: what it says stands.
        return { runId, status: closed.run.status, terminalReason: closed.run.terminalReason ?? REASON };
      }
      const { status, terminalReason } = terminate(runId, now, context);
      return { runId, status, terminalReason: terminalReason ?? REASON };
    });
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return release(runId, now, shortText(error), context);
  }
}

function closeOpenReviews(runId: string, proof: RunProof, now: number, context: Context): void {
  assertSound(proof, runId);
  for (const review of proof.reviews) {
    if (review["status"] !== "started") continue;
    const reviewRunId = String(review["review_run_id"]) as Parameters<
      typeof completeReview
    >[0]["reviewRunId"];
    completeReview(
      {
        reviewRunId,
        idempotencyKey: `daemon-restart:review:${reviewRunId}`,
        status: "unavailable",
        verdict: "review_unavailable",
        assessment: {
          public_summary:
            "The tab that ran this review exited before the reviewer answered. No verdict was given.",
          reconciled_by: REASON,
        },
        findings: [],
        usage: {},
        completedAt: now,
      },
      context,
    );
  }
}

function closeOpenRepairs(runId: string, proof: RunProof, now: number, context: Context): void {
  assertSound(proof, runId);
  for (const repair of proof.repairs) {
    if (repair["status"] !== "started") continue;
    const repairRunId = String(repair["repair_run_id"]) as Parameters<
      typeof completeRepair
    >[0]["repairRunId"];
    const groups = bindingsOf(proof, repairRunId).map((each) => String(each["action_group_id"]));
    completeRepair(
      {
        repairRunId,
        idempotencyKey: `daemon-restart:repair:${repairRunId}`,
        status: "outcome_unknown",
        afterVersionIds: [],
        executionGroupIds: groups,
        completedAt: now,
      },
      context,
    );
  }
}

function terminate(runId: string, now: number, context: Context) {
  return terminateRun(
    {
      runId: runId as Parameters<typeof terminateRun>[0]["runId"],
      idempotencyKey: `daemon-restart:terminal:${runId}`,
      status: "review_unavailable",
      reason: REASON,
      finishedAt: now,
    },
    context,
  );
}

/** spec/auto_mode 7.4: no terminal, no event, no change to open phases; the journal says who did it and why. */
function release(runId: string, now: number, error: string, { ledger, caller }: Context): ReconcileOutcome {
  const proof = ledger.run(runId);
  const status = proof.sound ? proof.run.status : String(proof.row?.["status"] ?? "failed");
  if (proof.sound) {
    ledger.appendToRun(caller, proof, {
      command: "runs.abandon",
      at: now,
      run: { abandoned_at: now },
      details: { reason: REASON, error },
    });
  } else if (proof.row !== undefined) {
    ledger.closeDamagedRun(caller, runId, proof.row, now, { damage: { ...proof.damage } });
  }
  return { runId, status, abandonedAt: now, error };
}

/** A rule said no. A failing database is something else: it says nothing about the run. */
function isRefusal(error: unknown): boolean {
  const refusals = ["LedgerConflictError", "RecoveryRequiredError", "ValidationError", "NotFoundError"];
  return error instanceof LedgerError && refusals.includes(error.name);
}
