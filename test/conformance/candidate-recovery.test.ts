import { expect } from "vitest";
import { addCandidateMessage, commitCandidateDelivery, sessionOf } from "../support/candidates.ts";
import { startFields } from "../support/fields.ts";
import { crashMidReview, nextTurn, projectedRun } from "../support/scenario.ts";
import { openBuilt, test } from "../support/session.ts";

test("reconcile_startup_wires_auto_mode_recovery_at_boot", async ({ session: { ledger, root } }) => {
  await crashMidReview(ledger, root);

  const report = await ledger.recovery.reconcileStartup({ ownerInstanceId: "daemon-NEW" });

  expect(report.runs.map(({ runId }) => runId)).toEqual(["run-1"]);
  expect((await projectedRun(ledger, root))?.status).toBe("review_unavailable");
  expect(await nextTurn(ledger, root, "daemon-NEW")).toBe("running");
});

test("reopen_settles_candidate_and_delivery_once_without_changing_bytes", async ({ fresh: ledger }) => {
  const root = await sessionOf(ledger, "project-1");
  const work = { turnId: "turn-before-run", executionId: "execution-before-run" };
  const committed = await commitCandidateDelivery(ledger, root, work);
  const recoveryAt = committed.createdAt + 10_000;
  await ledger.close();

  const reopened = await openBuilt(ledger.name);
  const report = await reopened.recovery.reconcileStartup({
    ownerInstanceId: "daemon-after-crash",
    now: recoveryAt,
  });
  expect(report.candidates).toHaveLength(1);
  expect(report.candidates[0]).toMatchObject({
    messageId: committed.messageId,
    reviewStatus: "review_unavailable",
    deliveryStatus: "published",
    reason: "daemon_restart_before_auto_run",
  });
  expect(await reopened.testing.sql("SELECT COUNT(*) AS n FROM auto_mode_runs")).toEqual([{ n: 0 }]);
  const recovered = await reopened.deliveries.get({ deliveryId: committed.deliveryId });
  expect(recovered).toMatchObject({
    status: "published",
    publishedAt: recoveryAt,
    messageContent: committed.messageContent,
  });
  expect(recovered.messageMetadata).toMatchObject({
    review_status: "review_unavailable",
    unverified: true,
    review_recovery: {
      schema_version: 1,
      reason: "daemon_restart_before_auto_run",
      reconciled_at: recoveryAt,
    },
    completion_delivery: { status: "published" },
    candidate_verdict_metadata_sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
  expect(Object.keys(recovered.messageMetadata["review_recovery"] as object)).toHaveLength(3);
  const metadataText = "SELECT metadata FROM messages WHERE message_id=?";
  const first = await reopened.testing.sql(metadataText, [committed.messageId]);
  await reopened.close();

  await using again = await openBuilt(ledger.name);
  const second = await again.recovery.reconcileStartup({
    ownerInstanceId: "daemon-after-second-restart",
    now: recoveryAt + 10_000,
  });
  expect(second.candidates).toEqual([]);
  const replayed = await again.deliveries.get({ deliveryId: committed.deliveryId });
  expect(replayed.publishedAt).toBe(recoveryAt);
  expect(replayed.messageContent).toBe(committed.messageContent);
  expect(await again.testing.sql(metadataText, [committed.messageId])).toEqual(first);
});

test("reopen_settles_candidate_owned_by_prestarted_run_without_second_run", async ({ fresh: ledger }) => {
  const root = await sessionOf(ledger, "project-1");
  const work = { turnId: "turn-prestarted", executionId: "execution-prestarted" };
  const runId = `auto-${root}-${work.turnId}`;
  await ledger.runs.start(startFields(root, { ...work, runId, ownerInstanceId: "daemon-before-crash" }));
  const committed = await commitCandidateDelivery(ledger, root, work);
  const recoveryAt = committed.createdAt + 10_000;
  await ledger.close();

  await using reopened = await openBuilt(ledger.name);
  const report = await reopened.recovery.reconcileStartup({
    ownerInstanceId: "daemon-after-crash",
    now: recoveryAt,
  });

  expect(report.runs).toEqual([{ runId, status: "review_unavailable", terminalReason: "daemon_restart" }]);
  expect(report.candidates).toHaveLength(1);
  expect(report.candidates[0]).toMatchObject({
    runId,
    reason: "daemon_restart_before_candidate_promotion",
    deliveryStatus: "published",
  });
  expect(await reopened.testing.sql("SELECT COUNT(*) AS n FROM auto_mode_runs")).toEqual([{ n: 1 }]);
  expect(await projectedRun(reopened, root)).toMatchObject({ runId, status: "review_unavailable" });
  const delivery = await reopened.deliveries.get({ deliveryId: committed.deliveryId });
  expect(delivery).toMatchObject({
    status: "published",
    publishedAt: recoveryAt,
    messageContent: committed.messageContent,
  });
  expect(delivery.messageMetadata["review_status"]).toBe("review_unavailable");
  expect(delivery.messageMetadata["review_recovery"]).toEqual({
    schema_version: 1,
    reason: "daemon_restart_before_candidate_promotion",
    reconciled_at: recoveryAt,
    run_id: runId,
  });
});

test("candidate_recovery_matches_run_in_exact_project_session_and_branch", async ({ fresh: ledger }) => {
  const rootA = await sessionOf(ledger, "project-a");
  const rootB = await sessionOf(ledger, "project-b");
  const childA = "branch-team-a-child";
  await ledger.branches.ensure({ rootFrameId: rootA, branchId: childA });
  const work = { turnId: "turn-shared", executionId: "execution-shared" };
  const add = (rootFrameId: string, branchId: string, content: string) =>
    addCandidateMessage(ledger, { rootFrameId, branchId, content, work });
  const guarded = await add(rootA, rootA, "candidate with exact run");
  const branchOrphan = await add(rootA, childA, "candidate on sibling branch");
  const projectOrphan = await add(rootB, rootB, "candidate in another team project");
  await ledger.runs.start(
    startFields(rootA, { ...work, runId: "run-exact", branchId: rootA, ownerInstanceId: "daemon-live" }),
  );

  const outcomes = await ledger.recovery.reconcileCandidates({ now: 500 });

  expect(new Set(outcomes.map(({ messageId }) => messageId))).toEqual(
    new Set([branchOrphan.messageId, projectOrphan.messageId]),
  );
  const reviewStatus = async (messageId: string) => {
    const [row] = await ledger.testing.sql("SELECT metadata FROM messages WHERE message_id=?", [messageId]);
    return JSON.parse(String(row?.["metadata"])).review_status;
  };
  expect(await reviewStatus(guarded.messageId)).toBe("candidate");
  expect(await reviewStatus(branchOrphan.messageId)).toBe("review_unavailable");
  expect(await reviewStatus(projectOrphan.messageId)).toBe("review_unavailable");
});

test("candidate_delivery_recovery_rolls_back_both_rows_on_publish_failure", async ({ fresh: ledger }) => {
  const root = await sessionOf(ledger, "project-1");
  const work = { turnId: "turn-atomic", executionId: "execution-atomic" };
  const committed = await commitCandidateDelivery(ledger, root, work);
  const recoveryAt = committed.createdAt + 10_000;
  await ledger.testing.sql(
    "CREATE TRIGGER fail_candidate_delivery_recovery BEFORE UPDATE OF status ON completion_deliveries BEGIN " +
      "SELECT RAISE(ABORT,'injected delivery recovery failure'); END",
  );

  const failed = await ledger.recovery.reconcileCandidates({ now: recoveryAt });
  expect(failed[0]).toMatchObject({
    messageId: committed.messageId,
    unreconciled: expect.stringMatching(/.+/),
  });
  const stillCommitted = await ledger.deliveries.get({ deliveryId: committed.deliveryId });
  expect(stillCommitted.status).toBe("committed");
  expect(stillCommitted.messageMetadata["review_status"]).toBe("candidate");

  await ledger.testing.sql("DROP TRIGGER fail_candidate_delivery_recovery");
  const recovered = await ledger.recovery.reconcileCandidates({ now: recoveryAt });
  expect(recovered[0]).toMatchObject({ reviewStatus: "review_unavailable" });
  const settled = await ledger.deliveries.get({ deliveryId: committed.deliveryId });
  expect(settled.status).toBe("published");
  expect(settled.messageMetadata["review_status"]).toBe("review_unavailable");
});
