import { expect } from "vitest";
import { LedgerConflictError } from "../../src/index.ts";
import type { TestLedger } from "../../src/testing.ts";
import {
  candidateFields,
  completionFields,
  reviewFields,
  startFields,
  terminalFields,
} from "../support/fields.ts";
import { projectedRun } from "../support/scenario.ts";
import { test } from "../support/session.ts";

test("historical_candidate_prefix_and_fork_do_not_inherit_later_terminal", async ({
  session: { ledger, root },
}) => {
  await ledger.runs.start(startFields(root));
  await ledger.runs.recordCandidate(candidateFields);
  const checkpoint = await checkpointNow(ledger, root, "checkpoint-candidate", "candidate");
  await ledger.reviews.start(reviewFields);
  await ledger.reviews.complete(completionFields);
  await ledger.runs.terminate(terminalFields);

  const historical = await ledger.runs.project({
    rootFrameId: root,
    branchId: root,
    uptoEventCursor: checkpoint.autoEventCursor,
  });
  await ledger.branches.fork({
    rootFrameId: root,
    fromCheckpointId: checkpoint.checkpointId,
    branchId: "branch-candidate",
  });
  const forked = await ledger.runs.project({ rootFrameId: root, branchId: "branch-candidate" });

  expect(historical.run?.status).toBe("candidate");
  expect(historical.run?.sourceClaimedStatus).toBeUndefined();
  expect(forked.run?.status).toBe("candidate");
  expect(forked.run?.sourceClaimedStatus).toBeUndefined();
});

test("fork_from_active_run_can_start_independent_child_run", async ({ session: { ledger, root } }) => {
  await ledger.runs.start(startFields(root, { runId: "parent-run" }));
  const checkpoint = await checkpointNow(ledger, root, "checkpoint-active-parent", "active_parent");
  await ledger.branches.fork({
    rootFrameId: root,
    fromCheckpointId: checkpoint.checkpointId,
    branchId: "branch-child",
  });

  await ledger.runs.start(
    startFields(root, {
      runId: "child-run",
      branchId: "branch-child",
      turnId: "turn-child",
      executionId: "execution-child",
    }),
  );

  expect((await projectedRun(ledger, root))?.runId).toBe("parent-run");
  expect((await projectedRun(ledger, root, "branch-child"))?.runId).toBe("child-run");
});

test("same_branch_revert_before_terminal_can_start_new_continuation", async ({
  session: { ledger, root },
}) => {
  await ledger.runs.start(startFields(root));
  await ledger.runs.recordCandidate(candidateFields);
  const checkpoint = await checkpointNow(ledger, root, "checkpoint-before-terminal", "candidate");
  await ledger.reviews.start(reviewFields);
  await ledger.reviews.complete(completionFields);
  await ledger.runs.terminate(terminalFields);
  await appendRevertCheckpoint(ledger, root, checkpoint.checkpointId);
  expect((await projectedRun(ledger, root))?.status).toBe("candidate");

  await ledger.runs.start(continuation(root));

  expect((await projectedRun(ledger, root))?.runId).toBe("continuation-run");
  const [old] = await ledger.testing.sql(
    "SELECT status,abandoned_at FROM auto_mode_runs WHERE run_id='run-1'",
  );
  expect(old).toEqual({ status: "verified", abandoned_at: null });
});

test("same_branch_revert_hiding_started_review_abandons_old_active_run", async ({
  session: { ledger, root },
}) => {
  const oldStart = startFields(root);
  await ledger.runs.start(oldStart);
  await ledger.runs.recordCandidate(candidateFields);
  const checkpoint = await checkpointNow(ledger, root, "checkpoint-before-review", "candidate");
  await ledger.reviews.start(reviewFields);
  await appendRevertCheckpoint(ledger, root, checkpoint.checkpointId);

  await ledger.runs.start(continuation(root));

  const [old] = await ledger.testing.sql(
    "SELECT status,abandoned_at FROM auto_mode_runs WHERE run_id='run-1'",
  );
  expect(old?.["status"]).toBe("reviewing");
  expect(old?.["abandoned_at"]).not.toBeNull();
  expect((await projectedRun(ledger, root))?.runId).toBe("continuation-run");
  await expectConflict(ledger.reviews.complete(completionFields), "abandoned branch tail");
  await expectConflict(ledger.runs.start(oldStart), "abandoned branch tail");
});

test("revert_hidden_candidate_and_review_cannot_authorize_a_transition", async ({
  session: { ledger, root },
}) => {
  const start = startFields(root);
  await ledger.runs.start(start);
  const checkpoint = await checkpointNow(ledger, root, "checkpoint-start-only", "start_only");
  await ledger.runs.recordCandidate(candidateFields);
  await ledger.reviews.start(reviewFields);
  await ledger.reviews.complete(completionFields);
  await appendRevertCheckpoint(ledger, root, checkpoint.checkpointId);

  expect((await projectedRun(ledger, root))?.status).toBe("running");
  const secondReview = {
    ...reviewFields,
    reviewRunId: "review-hidden",
    auditId: "audit-hidden",
    idempotencyKey: "review:hidden:start",
    attempt: 2,
  };
  await expectConflict(ledger.reviews.start(secondReview), "branch head");
  await expectConflict(
    ledger.runs.terminate({
      runId: "run-1",
      idempotencyKey: "terminal:hidden-proof",
      status: "verified",
      reason: "hidden_review_passed",
    }),
    "branch head",
  );
  await expectConflict(ledger.runs.start(start), "branch tail");
});

async function checkpointNow(ledger: TestLedger, root: string, checkpointId: string, reason: string) {
  const { cursor } = await ledger.events.cursor({ rootFrameId: root });
  return ledger.checkpoints.create({
    checkpointId,
    rootFrameId: root,
    branchId: root,
    reason,
    workspaceTreeId: null,
    autoEventCursor: cursor,
  });
}

/** The revert that the scenarios build by hand: an undo checkpoint, then one that goes back to the target. */
async function appendRevertCheckpoint(ledger: TestLedger, root: string, targetCheckpointId: string) {
  const undo = await checkpointNow(ledger, root, "checkpoint-undo", "undo_capture");
  const target = await ledger.checkpoints.get({ checkpointId: targetCheckpointId });
  await ledger.checkpoints.create({
    checkpointId: "checkpoint-revert",
    rootFrameId: root,
    branchId: root,
    reason: "revert_continue",
    workspaceTreeId: null,
    autoEventCursor: target.autoEventCursor,
    metadata: {
      reverted_to: targetCheckpointId,
      undo_checkpoint_id: undo.checkpointId,
      history_projection: {
        version: 1,
        base_checkpoint_id: targetCheckpointId,
        resume_cursors: { auto_event_cursor: undo.autoEventCursor },
      },
    },
  });
}

function continuation(root: string) {
  return startFields(root, { runId: "continuation-run", turnId: "turn-2", executionId: "execution-2" });
}

async function expectConflict(answer: Promise<unknown>, words: string): Promise<void> {
  await expect(answer).rejects.toThrow(LedgerConflictError);
  await expect(answer).rejects.toThrow(words);
}
