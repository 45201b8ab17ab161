import { expect } from "vitest";
import { LedgerConflictError, revertRecoverySettingKey } from "../../src/index.ts";
import { canonicalJson } from "../../src/proof/index.ts";
import { candidateFields, completionFields, reviewFields, startFields } from "../support/fields.ts";
import { buildVerified, crashMidReview, nextTurn, projectedRun } from "../support/scenario.ts";
import { newSession, test } from "../support/session.ts";

test("crash_mid_review_wedges_the_branch_without_reconciliation", async ({ session: { ledger, root } }) => {
  await crashMidReview(ledger, root);

  expect((await projectedRun(ledger, root))?.status).toBe("reviewing");
  const next = nextTurn(ledger, root, "daemon-NEW");
  await expect(next).rejects.toThrow(LedgerConflictError);
  await expect(next).rejects.toThrow("recovery-required active run");
});

test("reconcile_moves_a_crashed_run_to_review_unavailable", async ({ session: { ledger, root } }) => {
  await crashMidReview(ledger, root);

  const outcomes = await ledger.recovery.reconcileRuns({ ownerInstanceId: "daemon-NEW", now: 500 });

  expect(outcomes).toEqual([
    { runId: "run-1", status: "review_unavailable", terminalReason: "daemon_restart" },
  ]);
  expect(await projectedRun(ledger, root)).toMatchObject({
    status: "review_unavailable",
    terminalReason: "daemon_restart",
    finishedAt: 500,
  });
  expect(await nextTurn(ledger, root, "daemon-NEW")).toBe("running");
});

test("reconcile_closes_the_stranded_review_without_inventing_a_verdict", async ({
  session: { ledger, root },
}) => {
  await crashMidReview(ledger, root);

  await ledger.recovery.reconcileRuns({ ownerInstanceId: "daemon-NEW", now: 500 });

  expect(
    await ledger.testing.sql("SELECT status,verdict,completed_at FROM review_runs WHERE review_run_id=?", [
      "review-1",
    ]),
  ).toEqual([{ status: "unavailable", verdict: "review_unavailable", completed_at: 500 }]);
  expect(await ledger.testing.sql("SELECT COUNT(*) AS n FROM review_findings WHERE run_id='run-1'")).toEqual([
    { n: 0 },
  ]);
  const audits = await ledger.audits.list({ rootFrameId: root, branchId: root });
  expect(audits.map(({ status, verdict }) => [status, verdict])).toEqual([
    ["unavailable", "review_unavailable"],
  ]);
  expect(audits[0]?.publicSummary).toContain("exited before");
});

test("reconcile_preserves_every_committed_side_effect", async ({ session: { ledger, root } }) => {
  await crashMidReview(ledger, root);
  const committedColumns = () =>
    ledger.testing.sql(
      `SELECT candidate_id,candidate_snapshot_sha256,evidence_snapshot_sha256,artifact_set_sha256,
       candidate_artifact_ids_json,candidate_version_ids_json,created_at FROM auto_mode_runs WHERE run_id='run-1'`,
    );
  const eventTypes = async () =>
    (await ledger.events.list({ rootFrameId: root, branchId: root })).map((e) => e.type);
  const before = await committedColumns();
  const eventsBefore = await eventTypes();
  expect(eventsBefore).toEqual(["auto_run_started", "candidate_ready", "auto_audit_started"]);

  await ledger.recovery.reconcileRuns({ ownerInstanceId: "daemon-NEW", now: 500 });

  expect(await committedColumns()).toEqual(before);
  expect(await eventTypes()).toEqual([...eventsBefore, "auto_audit_completed", "auto_run_terminal"]);
});

test("reconcile_never_touches_a_run_this_instance_owns", async ({ session: { ledger, root } }) => {
  await ledger.runs.start(startFields(root, { ownerInstanceId: "daemon-LIVE" }));
  await ledger.runs.recordCandidate(candidateFields);
  await ledger.reviews.start(reviewFields);

  expect(await ledger.recovery.reconcileRuns({ ownerInstanceId: "daemon-LIVE", now: 500 })).toEqual([]);
  expect((await projectedRun(ledger, root))?.status).toBe("reviewing");
  await ledger.reviews.complete(completionFields);
  expect((await projectedRun(ledger, root))?.status).toBe("candidate");
});

test("reconcile_is_idempotent_across_repeated_restarts", async ({ session: { ledger, root } }) => {
  await crashMidReview(ledger, root);

  expect(await ledger.recovery.reconcileRuns({ ownerInstanceId: "daemon-NEW", now: 500 })).toHaveLength(1);
  for (const now of [600, 700]) {
    expect(await ledger.recovery.reconcileRuns({ ownerInstanceId: "daemon-NEWER", now })).toEqual([]);
  }

  const events = await ledger.events.list({ rootFrameId: root, branchId: root });
  expect(events.filter((event) => event.type === "auto_run_terminal")).toHaveLength(1);
  expect((await projectedRun(ledger, root))?.finishedAt).toBe(500);
});

test("reconcile_leaves_an_already_terminal_run_alone", async ({ session: { ledger, root } }) => {
  await buildVerified(ledger, root);

  expect(await ledger.recovery.reconcileRuns({ ownerInstanceId: "daemon-NEW", now: 500 })).toEqual([]);
  expect(await projectedRun(ledger, root)).toMatchObject({
    status: "verified",
    terminalReason: "review_passed",
  });
});

test("reconcile_defers_to_an_unresolved_revert_recovery_hold", async ({ session: { ledger, root } }) => {
  await crashMidReview(ledger, root);
  await ledger.settings.set({
    key: revertRecoverySettingKey(root),
    value: canonicalJson({ operation_id: "op-1", branch_id: root, state: "reverting" }),
  });

  const outcomes = await ledger.recovery.reconcileRuns({ ownerInstanceId: "daemon-NEW", now: 500 });

  expect(outcomes).toHaveLength(1);
  expect(outcomes[0]).toMatchObject({ deferred: "revert_recovery_required" });
  expect(
    await ledger.testing.sql(
      "SELECT status,finished_at,abandoned_at FROM auto_mode_runs WHERE run_id='run-1'",
    ),
  ).toEqual([{ status: "reviewing", finished_at: null, abandoned_at: null }]);
});

test("one_sweep_reconciles_every_dead_session_and_spares_the_live_one", async ({ fresh: ledger }) => {
  const roots: string[] = [];
  for (const index of [0, 1, 2]) {
    const root = await newSession(ledger);
    roots.push(root);
    await ledger.runs.start(
      startFields(root, {
        runId: `run-${index}`,
        turnId: `turn-${index}`,
        executionId: `execution-${index}`,
        ownerInstanceId: index === 2 ? "daemon-LIVE" : `daemon-DEAD-${index}`,
      }),
    );
  }

  const outcomes = await ledger.recovery.reconcileRuns({ ownerInstanceId: "daemon-LIVE", now: 500 });

  expect(outcomes.map((outcome) => outcome.runId)).toEqual(["run-0", "run-1"]);
  for (const outcome of outcomes) expect(outcome).toMatchObject({ status: "review_unavailable" });
  expect((await projectedRun(ledger, roots[2] ?? ""))?.status).toBe("running");
});

test("one_unreconcilable_run_does_not_deny_the_others_recovery", async ({ fresh: ledger }) => {
  await ledger.projects.create({ name: "p", projectId: "proj-1" });
  for (const frameId of ["root-1", "root-2"]) {
    await ledger.testing.sql(
      "INSERT INTO frames(frame_id,parent_id,project_id,root_frame_id,kind,status,depth,created_at,updated_at) VALUES(?,?,?,?,?,?,?,?,?)",
      [frameId, null, "proj-1", frameId, "turn", "processing", 0, 1, 1],
    );
  }
  for (const frameId of ["root-1", "root-2"]) {
    await ledger.branches.ensure({ rootFrameId: frameId, branchId: frameId });
    await ledger.runs.start({
      runId: `auto-${frameId}`,
      rootFrameId: frameId,
      branchId: frameId,
      turnId: "t1",
      executionId: `e-${frameId}`,
      mode: "review_only",
      selection: { preset: "off", result_review_mode: "review_only", approvals_reviewer: "user" },
      budgets: {},
      ownerInstanceId: "daemon-OLD",
      idempotencyKey: "t1:start",
      createdAt: 1000,
    });
  }

  await ledger.testing.failNext("recovery.reconcileRun", "auto-root-1");
  const outcomes = await ledger.recovery.reconcileRuns({ ownerInstanceId: "daemon-NEW", now: 2000 });

  const byRun = new Map(outcomes.map((outcome) => [outcome.runId, outcome]));
  expect(byRun.get("auto-root-1")).toHaveProperty("unreconciled", expect.stringMatching(/.+/));
  expect(byRun.get("auto-root-2")).toMatchObject({ status: "review_unavailable" });
});
