import { describe, expect } from "vitest";
import { digest } from "../../src/proof/index.ts";
import type { TestLedger } from "../../src/testing.ts";
import { candidateFields, completionFields, reviewFields, startFields } from "../support/fields.ts";
import { majorFinding, proposal } from "../support/repair.ts";
import { projectedRun } from "../support/scenario.ts";
import { newRoot } from "../support/session.ts";
import {
  addBoundGroup,
  addCall,
  addCheckpoint,
  addGroup,
  bindingOf,
  completionOf,
  conflict,
  expectRefused,
  NOW,
  RESULTS,
  type Refusal,
  ROOT,
  resultOf,
  test,
} from "./arrange.ts";

/** How repairs end, and what each command of a repair refuses (spec/auto_mode 3.5 to 3.7). */

/** From spec/auto_mode 2.8, not computed by the code under test. */
const SPEC = {
  start: "06d9a241c2fb4e0bfe23ea62103063d9de57b804c0fbc252b32e7b8fc5912e7a",
  binding: "ff02a4f026a701d216dd5e759bd94e77745e0a2ea61d384da7136f6754215656",
  completion: "6045c2d49e3d4170efcc0e3ae2dc188b33a7e7581456a50c51e3f041314513c5",
  terminal: "193354b083a563acb34801a0fc9ca55f8f8b949c85fa71ac1649a51bf8f6f883",
};

const CANDIDATE = {
  candidate_id: "candidate-1",
  candidate_snapshot_sha256: candidateFields.candidateSnapshotSha256,
  evidence_snapshot_sha256: candidateFields.evidenceSnapshotSha256,
  artifact_set_sha256: candidateFields.artifactSetSha256,
  candidate_artifact_ids_json: '["artifact-1"]',
  candidate_version_ids_json: '["version-1"]',
};
const NO_CANDIDATE = {
  candidate_id: null,
  candidate_snapshot_sha256: null,
  evidence_snapshot_sha256: null,
  artifact_set_sha256: null,
  candidate_artifact_ids_json: "[]",
  candidate_version_ids_json: "[]",
};

describe("an open repair", () => {
  test("claims its findings, and the run waits for it", async ({ reached: { ledger, repair } }) => {
    const { event, eventId, eventCursor, ...answer } = await ledger.repairs.start(repair);
    expect(answer).toEqual({ ...startedRepair, created: true });
    expect([event.eventId, event.eventCursor]).toEqual([eventId, eventCursor]);
    expect(event).toMatchObject({
      type: "repair_started",
      idempotencyKey: "repair-1:start",
      requestSha256: SPEC.start,
      createdAt: NOW,
      sequence: 5,
      payload: {
        repair_run_id: "repair-1",
        finding_ids: ["finding-1"],
        before_version_ids: ["version-1"],
        checkpoint_id: "checkpoint-repair",
        status: "started",
      },
    });
    expect(await stateOf(ledger)).toEqual({
      ...unfinished("repairing", 5),
      ...CANDIDATE,
      finding: "claimed",
    });
  });

  test("binds groups in their order, without a change of the run's row", async ({ opened: { ledger } }) => {
    const { event, ...answer } = await addBoundGroup(ledger, "ag-1");
    await addBoundGroup(ledger, "ag-2", { kind: "code" });
    const binding = {
      groupKind: "native_tools",
      idempotencyKey: "repair-1:bind:ag-1",
      requestSha256: SPEC.binding,
      boundAt: NOW,
      ledgerEventCount: null,
      ledgerSha256: null,
      sealedAt: null,
    };
    expect(answer.executionGroupIds).toEqual(["ag-1"]);
    expect(answer.groups).toMatchObject([{ actionGroupId: "ag-1", ordinal: 0, ...binding }]);
    expect(event).toMatchObject({
      type: "repair_started",
      requestSha256: SPEC.binding,
      payload: {
        repair_run_id: "repair-1",
        phase: "execution_group_bound",
        action_group_id: "ag-1",
        status: "started",
      },
    });
    expect(
      await ledger.testing.sql(
        "SELECT action_group_id, ordinal, group_kind FROM repair_execution_groups ORDER BY ordinal",
      ),
    ).toEqual([
      { action_group_id: "ag-1", ordinal: 0, group_kind: "native_tools" },
      { action_group_id: "ag-2", ordinal: 1, group_kind: "code" },
    ]);
    expect(await stateOf(ledger)).toEqual({
      ...unfinished("repairing", 5),
      ...CANDIDATE,
      finding: "claimed",
    });
  });

  test.for<[string, (ledger: TestLedger) => Promise<unknown>, string]>([
    [
      "a new candidate",
      (ledger) => ledger.runs.recordCandidate({ ...candidateFields, idempotencyKey: "candidate:2" }),
      "phase_active",
    ],
    [
      "a review",
      (ledger) =>
        ledger.reviews.start({
          ...reviewFields,
          reviewRunId: "review-2",
          auditId: "audit-2",
          idempotencyKey: "review:2",
        }),
      "no_candidate",
    ],
    [
      "the run's end",
      (ledger) =>
        ledger.runs.terminate({ runId: "run-1", idempotencyKey: "end", status: "cancelled", reason: "user" }),
      "phase_open",
    ],
    [
      "another run",
      (ledger) => ledger.runs.start(startFields(ROOT, { runId: "run-2", turnId: "turn-2" })),
      "branch_busy",
    ],
  ])("does not admit %s", async ([, act, code], { opened: { ledger } }) => {
    await expectRefused(ledger, () => act(ledger), conflict(code));
  });
});

describe("a repair that completed", () => {
  test("puts the run back to running without a candidate; its findings wait for a review", async ({
    opened: { ledger },
  }) => {
    await addBoundGroup(ledger, "ag-1");
    await addCall(ledger, "ag-1", { status: "ok" });

    const {
      event,
      eventId: _,
      eventCursor: __,
      ...answer
    } = await ledger.repairs.complete({
      ...completionOf("completed"),
      afterVersionIds: ["version-2"],
    });

    const request = {
      status: "completed",
      after_version_ids: ["version-2"],
      execution_group_ids: ["ag-1"],
      verification_review_run_id: null,
    };
    expect(answer).toEqual({
      ...startedRepair,
      completionIdempotencyKey: "repair-1:complete",
      completionRequestSha256: digest(request),
      afterVersionIds: ["version-2"],
      executionGroupIds: ["ag-1"],
      status: "completed",
      completedAt: NOW,
      groups: [
        expect.objectContaining({
          actionGroupId: "ag-1",
          ledgerEventCount: 2,
          ledgerSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
          sealedAt: NOW,
        }),
      ],
      created: true,
    });
    expect(event).toMatchObject({
      type: "repair_completed",
      requestSha256: digest(request),
      payload: { repair_run_id: "repair-1", ...request },
    });
    expect(await stateOf(ledger)).toEqual({
      ...unfinished("running", 6),
      ...NO_CANDIDATE,
      finding: "addressed_pending_review",
    });
    expect(await projectedRun(ledger, ROOT)).toMatchObject({
      status: "running",
      candidateId: null,
      candidateVersionIds: [],
      recoveryRequired: true,
    });
  });

  test("is settled by the review of the next candidate: the finding is resolved, the run verified", async ({
    opened: { ledger },
  }) => {
    await completeRepair(ledger);
    await recordAndReview(ledger, "candidate-2", "pass");
    expect(await findingStatus(ledger)).toBe("resolved");

    expect(
      await ledger.runs.terminate({
        runId: "run-1",
        idempotencyKey: "terminal:2",
        status: "verified",
        reason: "review_passed",
      }),
    ).toMatchObject({ status: "verified", candidateId: "candidate-2" });
    expect(await projectedRun(ledger, ROOT)).toMatchObject({
      status: "verified",
      candidateId: "candidate-2",
    });
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("is not settled by a review that is no pass: the finding still waits", async ({
    opened: { ledger },
  }) => {
    await completeRepair(ledger);
    await recordAndReview(ledger, "candidate-2", "issues");
    expect(await findingStatus(ledger)).toBe("addressed_pending_review");
    await expect(
      ledger.runs.terminate({
        runId: "run-1",
        idempotencyKey: "terminal:2",
        status: "verified",
        reason: "review_passed",
      }),
    ).rejects.toMatchObject({ code: "evidence_missing" });
  });

  test("does not by itself let the run be verified", async ({ opened: { ledger } }) => {
    await completeRepair(ledger);
    await expectRefused(
      ledger,
      () =>
        ledger.runs.terminate({
          runId: "run-1",
          idempotencyKey: "terminal:2",
          status: "verified",
          reason: "repaired",
        }),
      conflict("evidence_missing", "status"),
    );
  });
});

describe("a repair that failed", () => {
  test("without a committed effect puts the run back to its candidate, and a second repair may claim the finding", async ({
    opened: { ledger, repair },
  }) => {
    await addBoundGroup(ledger, "ag-1");
    await addCall(ledger, "ag-1", RESULTS.failed);
    expect(await ledger.repairs.complete(completionOf("failed"))).toMatchObject({
      status: "failed",
      completedAt: NOW,
    });
    expect(await stateOf(ledger)).toEqual({
      ...unfinished("candidate", 6),
      ...CANDIDATE,
      finding: "unaddressed",
    });

    const { checkpointId } = await addCheckpoint(ledger);
    const second = { ...repair, repairRunId: "repair-2", idempotencyKey: "repair-2:start", checkpointId };
    expect(await ledger.repairs.start(second)).toMatchObject({ status: "started", created: true });
    expect(await stateOf(ledger)).toEqual({
      ...unfinished("repairing", 7),
      ...CANDIDATE,
      finding: "claimed",
    });
    await addBoundGroup(ledger, "ag-2", {}, "repair-2");
    await addCall(ledger, "ag-2", RESULTS.completed);
    expect(await ledger.repairs.complete(completionOf("completed", ["ag-2"], "repair-2"))).toMatchObject({
      status: "completed",
    });
    expect(await findingStatus(ledger)).toBe("addressed_pending_review");
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("with a committed effect pauses the run in the same transaction", async ({ opened: { ledger } }) => {
    await addBoundGroup(ledger, "ag-1");
    await addCall(ledger, "ag-1", RESULTS.partial);
    const { event, completionRequestSha256 } = await ledger.repairs.complete(completionOf("failed"));
    expect(event.type).toBe("repair_completed");
    await expectPaused(ledger, "repair_partial_commit", {
      terminal_idempotency_key: `repair-terminal:repair-1:${completionRequestSha256?.slice(0, 16)}`,
      terminal_request_sha256: digest({
        status: "paused",
        reason: "repair_partial_commit",
        stop_reason: null,
      }),
    });
  });

  test("in one group, with an effect committed in another, pauses the run", async ({
    opened: { ledger },
  }) => {
    await addBoundGroup(ledger, "ag-1");
    await addBoundGroup(ledger, "ag-2");
    await addCall(ledger, "ag-1", RESULTS.completed);
    await addCall(ledger, "ag-2", RESULTS.failed);
    await ledger.repairs.complete(completionOf("failed", ["ag-1", "ag-2"]));
    expect(await projectedRun(ledger, ROOT)).toMatchObject({
      status: "paused",
      terminalReason: "repair_partial_commit",
    });
  });

  test("before it bound a group can be nothing but failed", async ({ opened: { ledger } }) => {
    for (const status of ["completed", "outcome_unknown"] as const) {
      await expectRefused(
        ledger,
        () => ledger.repairs.complete(completionOf(status, [])),
        conflict("nothing_bound", "status"),
      );
    }
    expect(await ledger.repairs.complete(completionOf("failed", []))).toMatchObject({
      status: "failed",
      executionGroupIds: [],
      groups: [],
    });
    expect(await stateOf(ledger)).toEqual({
      ...unfinished("candidate", 6),
      ...CANDIDATE,
      finding: "unaddressed",
    });
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });
});

describe("a repair of which nobody can say how it ended", () => {
  test("pauses the run in the same transaction, with the digests of the specification", async ({
    opened: { ledger },
  }) => {
    await addBoundGroup(ledger, "ag-1");
    await ledger.actions.appendEvent({ groupId: "ag-1", ...proposal });
    expect(await ledger.repairs.complete(completionOf("outcome_unknown"))).toMatchObject({
      status: "outcome_unknown",
      completionRequestSha256: SPEC.completion,
      event: { type: "repair_completed", requestSha256: SPEC.completion },
    });
    await expectPaused(ledger, "outcome_unknown", {
      terminal_idempotency_key: "repair-terminal:repair-1:6045c2d49e3d4170",
      terminal_request_sha256: SPEC.terminal,
    });
  });

  test("lets the next turn begin", async ({ opened: { ledger } }) => {
    await addBoundGroup(ledger, "ag-1");
    await ledger.actions.appendEvent({ groupId: "ag-1", ...proposal });
    await ledger.repairs.complete(completionOf("outcome_unknown"));
    await ledger.runs.start(startFields(ROOT, { runId: "run-2", turnId: "turn-2" }));
    expect(await projectedRun(ledger, ROOT)).toMatchObject({ runId: "run-2", status: "running" });
  });
});

describe("an exact replay", () => {
  test.for(["completed", "failed", "outcome_unknown", "partial"] as const)(
    "of starting and of ending as %s answers with the same event",
    async (outcome, { opened: { ledger, repair } }) => {
      const status = outcome === "partial" ? "failed" : outcome;
      await addBoundGroup(ledger, "ag-1");
      await addCall(ledger, "ag-1", RESULTS[outcome]);
      const ended = await ledger.repairs.complete(completionOf(status));
      const [started] = (await ledger.events.list({ rootFrameId: ROOT })).filter(
        ({ type }) => type === "repair_started",
      );

      expect(await ledger.repairs.complete(completionOf(status))).toEqual({ ...ended, created: false });
      expect(await ledger.repairs.start(repair)).toEqual({
        ...ended,
        event: started,
        eventId: started?.eventId,
        eventCursor: started?.eventCursor,
        created: false,
      });
    },
  );

  test("of starting and of binding answers with the same event while the repair is open", async ({
    reached: { ledger, repair },
  }) => {
    const started = await ledger.repairs.start(repair);
    expect(await ledger.repairs.start(repair)).toEqual({ ...started, created: false });
    const { repairRunId: _, ...withoutId } = repair;
    expect(await ledger.repairs.start(withoutId)).toEqual({ ...started, created: false });

    const bound = await addBoundGroup(ledger, "ag-1");
    await addCall(ledger, "ag-1", { status: "ok" });
    expect(await ledger.repairs.bindGroup(bindingOf("ag-1"))).toEqual({ ...bound, created: false });
  });

  test("of binding needs the repair to be open", async ({ opened: { ledger } }) => {
    await completeRepair(ledger);
    await expectRefused(ledger, () => ledger.repairs.bindGroup(bindingOf("ag-1")), conflict("repair_closed"));
  });

  test("works after the next run of the branch began", async ({ opened: { ledger, repair } }) => {
    await addBoundGroup(ledger, "ag-1");
    await addCall(ledger, "ag-1", RESULTS.outcome_unknown);
    const ended = await ledger.repairs.complete(completionOf("outcome_unknown"));
    await ledger.runs.start(startFields(ROOT, { runId: "run-2", turnId: "turn-2" }));
    expect(await ledger.repairs.complete(completionOf("outcome_unknown"))).toEqual({
      ...ended,
      created: false,
    });
    expect(await ledger.repairs.start(repair)).toMatchObject({ created: false, status: "outcome_unknown" });
  });
});

describe("a request under a key that was used", () => {
  const reused = conflict("idempotency_key_reused", "idempotencyKey");

  test.for<[string, object]>([
    ["the repair's id", { repairRunId: "repair-other" }],
    ["the findings", { findingIds: ["finding-1", "finding-2"] }],
    ["the versions", { beforeVersionIds: [] }],
    ["the checkpoint", { checkpointId: "checkpoint-later" }],
    ["the command, recordCandidate before", { idempotencyKey: "candidate:1" }],
  ])(
    "to start, with another value of %s, is a conflict",
    async ([, change], { opened: { ledger, repair } }) => {
      await addCheckpoint(ledger, { checkpointId: "checkpoint-later" });
      await expectRefused(ledger, () => ledger.repairs.start({ ...repair, ...change }), reused);
    },
  );

  test.for<[string, object]>([
    ["the group", { actionGroupId: "ag-2" }],
    ["the command, start before", { idempotencyKey: "repair-1:start" }],
  ])("to bind, with another value of %s, is a conflict", async ([, change], { opened: { ledger } }) => {
    await addBoundGroup(ledger, "ag-1");
    await addGroup(ledger, "ag-2");
    await expectRefused(ledger, () => ledger.repairs.bindGroup({ ...bindingOf("ag-1"), ...change }), reused);
  });

  test.for<[string, object]>([
    ["the outcome", { status: "failed" }],
    ["the versions", { afterVersionIds: ["version-2"] }],
    ["the groups", { executionGroupIds: [] }],
    ["the command, bind before", { idempotencyKey: "repair-1:bind:ag-1" }],
  ])("to complete, with another value of %s, is a conflict", async ([, change], { opened: { ledger } }) => {
    await completeRepair(ledger);
    await expectRefused(
      ledger,
      () => ledger.repairs.complete({ ...completionOf("completed"), ...change }),
      reused,
    );
  });

  test("to complete under a new key is refused: the repair is closed", async ({ opened: { ledger } }) => {
    await completeRepair(ledger);
    await expectRefused(
      ledger,
      () => ledger.repairs.complete({ ...completionOf("completed"), idempotencyKey: "another" }),
      conflict("repair_closed"),
    );
  });

  test("to complete under a new key, when the repair ended the run, is refused: the run is over", async ({
    opened: { ledger },
  }) => {
    await addBoundGroup(ledger, "ag-1");
    await addCall(ledger, "ag-1", RESULTS.partial);
    await ledger.repairs.complete(completionOf("failed"));
    await expectRefused(
      ledger,
      () => ledger.repairs.complete({ ...completionOf("failed"), idempotencyKey: "another" }),
      conflict("run_finished"),
    );
  });
});

describe("starting a repair is refused", () => {
  test("while another is open", async ({ opened: { ledger, repair } }) => {
    const second = { ...repair, repairRunId: "repair-2", idempotencyKey: "repair-2:start" };
    await expectRefused(ledger, () => ledger.repairs.start(second), conflict("no_candidate"));
  });

  test("when the run has no candidate", async ({ opened: { ledger, repair } }) => {
    await completeRepair(ledger);
    const { checkpointId } = await addCheckpoint(ledger);
    const second = { ...repair, repairRunId: "repair-2", idempotencyKey: "repair-2:start", checkpointId };
    await expectRefused(ledger, () => ledger.repairs.start(second), conflict("no_candidate"));
  });

  test("while a review is open", async ({ reached: { ledger, repair } }) => {
    await ledger.reviews.start({
      ...reviewFields,
      reviewRunId: "review-2",
      auditId: "audit-2",
      idempotencyKey: "review:2",
    });
    await expectRefused(ledger, () => ledger.repairs.start(repair), conflict("no_candidate"));
  });

  test("after the run has ended", async ({ reached: { ledger, repair } }) => {
    await ledger.runs.terminate({
      runId: "run-1",
      idempotencyKey: "end",
      status: "cancelled",
      reason: "user",
    });
    await expectRefused(ledger, () => ledger.repairs.start(repair), conflict("run_finished"));
  });

  test("under an id that another repair has", async ({ opened: { ledger, repair } }) => {
    await ledger.repairs.complete(completionOf("failed", []));
    const { checkpointId } = await addCheckpoint(ledger);
    await expectRefused(
      ledger,
      () => ledger.repairs.start({ ...repair, idempotencyKey: "again", checkpointId }),
      conflict("id_taken", "repairRunId"),
    );
  });

  test.for<[string, string[]]>([
    ["none", []],
    ["another", ["version-2"]],
    ["one more", ["version-1", "version-2"]],
  ])("with %s of the candidate's versions", async ([, beforeVersionIds], { reached: { ledger, repair } }) => {
    await expectRefused(
      ledger,
      () => ledger.repairs.start({ ...repair, beforeVersionIds }),
      conflict("versions_differ", "beforeVersionIds"),
    );
  });
});

describe("a repair can't start from a checkpoint", () => {
  const unfit = conflict("checkpoint_unfit", "checkpointId");

  test("that is not there", async ({ reached: { ledger, repair } }) => {
    await expectRefused(ledger, () => ledger.repairs.start({ ...repair, checkpointId: "checkpoint-none" }), {
      name: "NotFoundError",
      code: "checkpoint_not_found",
      field: "checkpointId",
    });
  });

  test("that is not the branch head", async ({ reached: { ledger, repair } }) => {
    await addCheckpoint(ledger);
    await expectRefused(ledger, () => ledger.repairs.start(repair), unfit);
  });

  test("of another branch", async ({ reached: { ledger, repair } }) => {
    await ledger.branches.fork({
      rootFrameId: ROOT,
      fromCheckpointId: "checkpoint-repair",
      branchId: "fork-1",
    });
    const { checkpointId } = await addCheckpoint(ledger, { branchId: "fork-1" });
    await expectRefused(ledger, () => ledger.repairs.start({ ...repair, checkpointId }), unfit);
  });

  test("of another session", async ({ reached: { ledger, repair } }) => {
    const other = await newRoot(ledger, (await ledger.projects.list())[0]?.projectId ?? "");
    const { checkpointId } = await addCheckpoint(ledger, { rootFrameId: other });
    const refusal = ledger.repairs.start({ ...repair, checkpointId });
    await expect(refusal).rejects.toMatchObject({ details: { field: "checkpointId" } });
    expect(await stateOf(ledger)).toEqual({ ...unfinished("candidate", 4), ...CANDIDATE, finding: "open" });
  });

  test("without a workspace tree", async ({ reached: { ledger, repair } }) => {
    const { checkpointId } = await addCheckpoint(ledger, { workspaceTreeId: null });
    await expectRefused(ledger, () => ledger.repairs.start({ ...repair, checkpointId }), unfit);
  });

  test("whose workspace tree the store does not have", async ({ reached: { ledger, repair } }) => {
    const { checkpointId } = await addCheckpoint(ledger, { workspaceTreeId: "e".repeat(64) });
    await expectRefused(ledger, () => ledger.repairs.start({ ...repair, checkpointId }), unfit);
  });

  test("that events of the branch followed", async ({ reached: { ledger, repair } }) => {
    const { cursor } = await ledger.events.cursor({ rootFrameId: ROOT });
    const { checkpointId } = await addCheckpoint(ledger, { autoEventCursor: cursor - 1 });
    await expectRefused(ledger, () => ledger.repairs.start({ ...repair, checkpointId }), unfit);
  });

  test("that a new review of the run followed", async ({ reached: { ledger, repair } }) => {
    await reviewAgain(ledger, "issues", []);
    await expectRefused(ledger, () => ledger.repairs.start(repair), unfit);
  });

  test("but can where only events of another branch followed", async ({ reached: { ledger, repair } }) => {
    await ledger.branches.fork({
      rootFrameId: ROOT,
      fromCheckpointId: "checkpoint-repair",
      branchId: "fork-1",
    });
    const elsewhere = { runId: "run-2", branchId: "fork-1", turnId: "turn-2", executionId: "execution-2" };
    await ledger.runs.start(startFields(ROOT, elsewhere));
    expect(await ledger.repairs.start(repair)).toMatchObject({ status: "started", created: true });
  });
});

describe("a repair can't claim a finding", () => {
  const notOpen = conflict("finding_not_open", "findingIds");

  test("that is not there", async ({ reached: { ledger, repair } }) => {
    await expectRefused(
      ledger,
      () => ledger.repairs.start({ ...repair, findingIds: ["finding-1", "finding-none"] }),
      notOpen,
    );
  });

  test("against another candidate", async ({ reached: { ledger, repair } }) => {
    await ledger.runs.recordCandidate({
      ...candidateFields,
      idempotencyKey: "candidate:2",
      candidateId: "candidate-2",
    });
    const { checkpointId } = await addCheckpoint(ledger);
    await expectRefused(ledger, () => ledger.repairs.start({ ...repair, checkpointId }), notOpen);
  });

  test("that an earlier repair addressed", async ({ opened: { ledger, repair } }) => {
    await completeRepair(ledger);
    await recordAndReview(ledger, "candidate-1", "issues");
    const { checkpointId } = await addCheckpoint(ledger);
    const second = { ...repair, repairRunId: "repair-2", idempotencyKey: "repair-2:start", checkpointId };
    await expectRefused(ledger, () => ledger.repairs.start(second), notOpen);
  });

  test("of a review that passed", async ({ reached: { ledger, repair } }) => {
    await reviewAgain(ledger, "pass", [{ ...majorFinding, findingId: "finding-2", severity: "minor" }]);
    const { checkpointId } = await addCheckpoint(ledger);
    await expectRefused(
      ledger,
      () => ledger.repairs.start({ ...repair, checkpointId, findingIds: ["finding-2"] }),
      notOpen,
    );
  });

  test("but can claim one of an earlier review, though a later one passed", async ({
    reached: { ledger, repair },
  }) => {
    await reviewAgain(ledger, "pass", []);
    const { checkpointId } = await addCheckpoint(ledger);
    expect(await ledger.repairs.start({ ...repair, checkpointId })).toMatchObject({ status: "started" });
  });
});

describe("binding is refused for a group", () => {
  const outOfScope = conflict("group_out_of_scope", "actionGroupId");
  const unfit = conflict("group_unfit", "actionGroupId");

  const cases: [string, (ledger: TestLedger) => Promise<unknown>, Refusal][] = [
    [
      "that is not there",
      async () => undefined,
      { name: "NotFoundError", code: "action_group_not_found", field: "actionGroupId" },
    ],
    ["of another turn", (ledger) => addGroup(ledger, "ag-1", { turnId: "turn-2" }), outOfScope],
    [
      "of another branch",
      async (ledger) => {
        await ledger.branches.fork({
          rootFrameId: ROOT,
          fromCheckpointId: "checkpoint-repair",
          branchId: "fork-1",
        });
        await addGroup(ledger, "ag-1", { branchId: "fork-1" });
      },
      outOfScope,
    ],
    [
      "of another session",
      async (ledger) => {
        const other = await newRoot(ledger, (await ledger.projects.list())[0]?.projectId ?? "");
        await addGroup(ledger, "ag-1", { rootFrameId: other });
      },
      outOfScope,
    ],
    [
      "that has an event",
      async (ledger) => {
        await addGroup(ledger, "ag-1");
        await ledger.actions.appendEvent({ groupId: "ag-1", type: "observation" });
      },
      unfit,
    ],
    [
      "that has an attempt",
      async (ledger) => {
        await addGroup(ledger, "ag-1", { kind: "code" });
        await ledger.attempts.allocate({ groupId: "ag-1", producingCellId: "cell-1" });
      },
      unfit,
    ],
  ];
  test.for(cases)("%s", async ([, arrange, refusal], { opened: { ledger } }) => {
    await arrange(ledger);
    await expectRefused(ledger, () => ledger.repairs.bindGroup(bindingOf("ag-1")), refusal);
  });

  test("that is bound to this repair", async ({ opened: { ledger } }) => {
    await addBoundGroup(ledger, "ag-1");
    await expectRefused(
      ledger,
      () => ledger.repairs.bindGroup({ ...bindingOf("ag-1"), idempotencyKey: "again" }),
      unfit,
    );
  });

  test("that is bound to an earlier repair", async ({ opened: { ledger, repair } }) => {
    await addBoundGroup(ledger, "ag-1");
    await addCall(ledger, "ag-1", RESULTS.failed);
    await ledger.repairs.complete(completionOf("failed"));
    const { checkpointId } = await addCheckpoint(ledger);
    await ledger.repairs.start({
      ...repair,
      repairRunId: "repair-2",
      idempotencyKey: "repair-2:start",
      checkpointId,
    });
    await expectRefused(ledger, () => ledger.repairs.bindGroup(bindingOf("ag-1", "repair-2")), unfit);
  });

  test("when the repair is closed", async ({ opened: { ledger } }) => {
    await ledger.repairs.complete(completionOf("failed", []));
    await addGroup(ledger, "ag-1");
    await expectRefused(ledger, () => ledger.repairs.bindGroup(bindingOf("ag-1")), conflict("repair_closed"));
  });
});

describe("completing is refused", () => {
  const groupsDiffer = conflict("groups_differ", "executionGroupIds");
  const unproven = conflict("outcome_unproven", "status");

  test.for<[string, string[]]>([
    ["in the wrong order", ["ag-2", "ag-1"]],
    ["without one of them", ["ag-1"]],
    ["with one that was not bound", ["ag-1", "ag-2", "ag-3"]],
    ["with none of them", []],
  ])("for the bound groups %s", async ([, groupIds], { opened: { ledger } }) => {
    await addBoundGroup(ledger, "ag-1");
    await addBoundGroup(ledger, "ag-2");
    await addGroup(ledger, "ag-3");
    await addCall(ledger, "ag-1", { status: "ok" });
    await addCall(ledger, "ag-2", { status: "ok" });
    const completion = completionOf("completed", groupIds);
    await expectRefused(ledger, () => ledger.repairs.complete(completion), groupsDiffer);
  });

  test("for a group where none was bound", async ({ opened: { ledger } }) => {
    await addGroup(ledger, "ag-1");
    await expectRefused(ledger, () => ledger.repairs.complete(completionOf("failed")), groupsDiffer);
  });

  test.for<["completed" | "failed" | "outcome_unknown", keyof typeof RESULTS, Refusal]>([
    ["completed", "failed", unproven],
    ["completed", "partial", unproven],
    ["completed", "outcome_unknown", unproven],
    ["failed", "completed", unproven],
    ["failed", "outcome_unknown", unproven],
    ["outcome_unknown", "completed", conflict("outcome_known", "status")],
    ["outcome_unknown", "failed", conflict("outcome_known", "status")],
    ["outcome_unknown", "partial", conflict("outcome_known", "status")],
  ])("as %s when the result of the work says %s", async ([status, said, refusal], { opened: { ledger } }) => {
    await addBoundGroup(ledger, "ag-1");
    await addCall(ledger, "ag-1", RESULTS[said]);
    await expectRefused(ledger, () => ledger.repairs.complete(completionOf(status)), refusal);
  });

  test("as completed when one of two groups failed", async ({ opened: { ledger } }) => {
    await addBoundGroup(ledger, "ag-1");
    await addBoundGroup(ledger, "ag-2");
    await addCall(ledger, "ag-1", RESULTS.completed);
    await addCall(ledger, "ag-2", RESULTS.failed);
    await expectRefused(
      ledger,
      () => ledger.repairs.complete(completionOf("completed", ["ag-1", "ag-2"])),
      unproven,
    );
  });

  test("as unknown when no group leaves it open; attempts that it would have ended stay as they were", async ({
    opened: { ledger },
  }) => {
    await addBoundGroup(ledger, "ag-1", { kind: "code" });
    await ledger.attempts.allocate({ groupId: "ag-1", producingCellId: "cell-1" });
    await expectRefused(
      ledger,
      () => ledger.repairs.complete(completionOf("outcome_unknown")),
      conflict("outcome_known", "status"),
    );
  });

  test("and what was refused can be said rightly under the same key", async ({ opened: { ledger } }) => {
    await addBoundGroup(ledger, "ag-1");
    await ledger.actions.appendEvent({ groupId: "ag-1", ...proposal });
    await expectRefused(ledger, () => ledger.repairs.complete(completionOf("completed")), unproven);
    await ledger.actions.appendEvent({ groupId: "ag-1", ...resultOf({ status: "ok" }) });
    expect(await ledger.repairs.complete(completionOf("completed"))).toMatchObject({ created: true });
  });
});

const startedRepair = {
  repairRunId: "repair-1",
  runId: "run-1",
  rootFrameId: ROOT,
  branchId: ROOT,
  turnId: "turn-1",
  executionId: "execution-1",
  startIdempotencyKey: "repair-1:start",
  startRequestSha256: SPEC.start,
  completionIdempotencyKey: null,
  completionRequestSha256: null,
  checkpointId: "checkpoint-repair",
  findingIds: ["finding-1"],
  beforeVersionIds: ["version-1"],
  afterVersionIds: null,
  executionGroupIds: [],
  verificationReviewRunId: null,
  status: "started",
  startedAt: NOW,
  completedAt: null,
  groups: [],
};

/** The repair of the worked example, with a call that went well. */
async function completeRepair(ledger: TestLedger): Promise<void> {
  await addBoundGroup(ledger, "ag-1");
  await addCall(ledger, "ag-1", RESULTS.completed);
  await ledger.repairs.complete(completionOf("completed"));
}

/** A candidate after the repair, and its review. */
async function recordAndReview(ledger: TestLedger, candidateId: string, verdict: "pass" | "issues") {
  await ledger.runs.recordCandidate({ ...candidateFields, candidateId, idempotencyKey: "candidate:2" });
  await reviewAgain(ledger, verdict, [], candidateId);
}

async function reviewAgain(
  ledger: TestLedger,
  verdict: "pass" | "issues",
  findings: (typeof majorFinding)[],
  candidateId = "candidate-1",
): Promise<void> {
  const second = { reviewRunId: "review-2", auditId: "audit-2", idempotencyKey: "review:2", attempt: 2 };
  await ledger.reviews.start({ ...reviewFields, ...second, candidateId });
  await ledger.reviews.complete({
    ...completionFields,
    reviewRunId: "review-2",
    idempotencyKey: "review:2:complete",
    verdict,
    findings,
  });
}

/** The columns of a run that a repair may change, and where its finding stands. */
async function stateOf(ledger: TestLedger) {
  const [run] = await ledger.testing.sql(
    `SELECT status, state_revision, terminal_reason, stop_reason, terminal_idempotency_key, terminal_request_sha256,
       finished_at, abandoned_at, ${Object.keys(CANDIDATE).join(", ")} FROM auto_mode_runs WHERE run_id = 'run-1'`,
  );
  return { ...run, finding: await findingStatus(ledger) };
}

function unfinished(status: string, stateRevision: number) {
  return {
    status,
    state_revision: stateRevision,
    terminal_reason: null,
    stop_reason: null,
    terminal_idempotency_key: null,
    terminal_request_sha256: null,
    finished_at: null,
    abandoned_at: null,
  };
}

async function findingStatus(ledger: TestLedger) {
  const [finding] = await ledger.testing.sql(
    "SELECT status FROM review_findings WHERE finding_id = 'finding-1'",
  );
  return finding?.["status"];
}

async function expectPaused(ledger: TestLedger, reason: string, terminal: object): Promise<void> {
  expect(await stateOf(ledger)).toEqual({
    ...unfinished("paused", 6),
    ...CANDIDATE,
    ...terminal,
    terminal_reason: reason,
    finished_at: NOW,
    finding: "unaddressed",
  });
  const { run, events } = await ledger.runs.project({ rootFrameId: ROOT });
  expect(run).toMatchObject({
    status: "paused",
    terminalReason: reason,
    finishedAt: NOW,
    recoveryRequired: false,
  });
  expect(events.slice(-2)).toMatchObject([
    { type: "repair_completed" },
    {
      type: "auto_run_terminal",
      payload: { status: "paused", terminal_reason: reason, stop_reason: null },
    },
  ]);
  const operations = await ledger.testing.sql(
    "SELECT DISTINCT operation_id FROM journal WHERE command IN ('repairs.complete', 'runs.terminate')",
  );
  expect(operations).toHaveLength(1);
  expect(await ledger.verify()).toMatchObject({ ok: true });
}
