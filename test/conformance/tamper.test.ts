import { describe, expect } from "vitest";
import { LedgerConflictError } from "../../src/index.ts";
import {
  candidateFields,
  completionFields,
  minorFinding,
  reviewFields,
  startFields,
} from "../support/fields.ts";
import { buildVerified, expectSafetyBoundary, rehashPayload } from "../support/scenario.ts";
import { test } from "../support/session.ts";

describe("verified_exact_replays_fail_closed_after_proof_tamper", () => {
  for (const replayKind of ["start", "candidate", "terminal"] as const) {
    test(replayKind, async ({ session: { ledger, root } }) => {
      const fields = await buildVerified(ledger, root);
      await ledger.testing.sql("UPDATE review_runs SET assessment_json='{}' WHERE review_run_id='review-1'");

      const replay = {
        start: () => ledger.runs.start(fields.start),
        candidate: () => ledger.runs.recordCandidate(fields.candidate),
        terminal: () => ledger.runs.terminate(fields.terminal),
      }[replayKind];
      await expect(replay()).rejects.toThrow(LedgerConflictError);

      await expectSafetyBoundary(ledger, root);
    });
  }
});

test("verified_projection_rejects_finding_bound_to_another_candidate", async ({
  session: { ledger, root },
}) => {
  await buildVerified(ledger, root, [minorFinding]);
  await ledger.testing.sql(
    "UPDATE review_findings SET candidate_id='candidate-other' WHERE finding_id='finding-1'",
  );

  await expectSafetyBoundary(ledger, root);
});

describe("verified_projection_rejects_review_event_order_swap", () => {
  for (const ordinal of ["sequence", "event_cursor"]) {
    test(ordinal, async ({ session: { ledger, root } }) => {
      await buildVerified(ledger, root);
      const ordinalOf = async (type: string) => {
        const sql = `SELECT ${ordinal} AS n FROM auto_mode_events WHERE run_id='run-1' AND type='${type}'`;
        return (await ledger.testing.sql(sql))[0]?.["n"] ?? null;
      };
      const set = (type: string, value: Awaited<ReturnType<typeof ordinalOf>>) =>
        ledger.testing.sql(
          `UPDATE auto_mode_events SET ${ordinal}=? WHERE run_id='run-1' AND type='${type}'`,
          [value],
        );
      const started = await ordinalOf("auto_audit_started");
      const completed = await ordinalOf("auto_audit_completed");
      await set("auto_audit_started", 9999);
      await set("auto_audit_completed", started);
      await set("auto_audit_started", completed);

      await expectSafetyBoundary(ledger, root);
    });
  }
});

describe("terminal_event_tamper_cannot_hide_verified_integrity_failure", () => {
  test("rehashed_downgrade", async ({ session: { ledger, root } }) => {
    await buildVerified(ledger, root);
    await rehashPayload(ledger, "run_id='run-1' AND type='auto_run_terminal'", {
      status: "review_unavailable",
      terminal_reason: "timeout",
    });

    await expectSafetyBoundary(ledger, root);
  });

  test("event_type", async ({ session: { ledger, root } }) => {
    await buildVerified(ledger, root);
    await ledger.testing.sql(
      "UPDATE auto_mode_events SET type='repair_completed' WHERE run_id='run-1' AND type='auto_run_terminal'",
    );

    await expectSafetyBoundary(ledger, root);
  });
});

test("newer_failed_review_cannot_be_rehashed_away_to_resurrect_old_pass", async ({
  session: { ledger, root },
}) => {
  await ledger.runs.start(startFields(root));
  await ledger.runs.recordCandidate(candidateFields);
  await ledger.reviews.start(reviewFields);
  await ledger.reviews.complete(completionFields);
  await ledger.reviews.start({
    ...reviewFields,
    reviewRunId: "review-2",
    auditId: "audit-2",
    idempotencyKey: "review:2:start",
    attempt: 2,
    startedAt: 140,
  });
  await ledger.reviews.complete({
    reviewRunId: "review-2",
    idempotencyKey: "review:2:complete",
    status: "completed",
    verdict: "failed",
    assessment: { public_summary: "Latest review failed." },
    findings: [],
    completedAt: 150,
  });
  await rehashPayload(ledger, "run_id='run-1' AND idempotency_key='review:2:complete'", {
    candidate_id: "candidate-other",
    subject_entity_id: "candidate-other",
  });

  await expect(
    ledger.runs.terminate({
      runId: "run-1",
      idempotencyKey: "terminal:no-fallback",
      status: "verified",
      reason: "must_not_fallback",
    }),
  ).rejects.toThrow(LedgerConflictError);
});

test("current_candidate_event_rehash_tamper_fails_read_and_replay", async ({ session: { ledger, root } }) => {
  await ledger.runs.start(startFields(root));
  await ledger.runs.recordCandidate(candidateFields);
  await rehashPayload(ledger, "run_id='run-1' AND type='candidate_ready'", {
    candidate_id: "candidate-tampered",
  });

  await expectSafetyBoundary(ledger, root, "candidate");
  await expect(ledger.runs.recordCandidate(candidateFields)).rejects.toThrow(LedgerConflictError);
});
