import { describe, expect } from "vitest";
import { revertRecoverySettingKey } from "../../src/index.ts";
import type { AttemptTerminalState } from "../../src/protocol/attempts.ts";
import type { TestLedger } from "../../src/testing.ts";
import { startFields } from "../support/fields.ts";
import { proposal, reachRepair } from "../support/repair.ts";
import { projectedRun } from "../support/scenario.ts";
import {
  addBoundGroup,
  addGroup,
  completionOf,
  conflict,
  everyRow,
  expectRefused,
  NOW,
  type Refusal,
  ROOT,
  test,
} from "./arrange.ts";

/** Attempts at executing a cell (spec/session_store 4.6), and what boot makes of those that were cut off (7.2, W1). */

const STATES: readonly AttemptTerminalState[] = [
  "completed",
  "failed",
  "denied",
  "cancelled",
  "timed_out",
  "outcome_unknown",
  "abandoned",
];
const UNFINISHED = STATES.filter((state) => state !== "completed");
const BARRIER: Refusal = { name: "RecoveryRequiredError", code: "recovery_required", field: undefined };

describe("an attempt", () => {
  test("goes through its milestones in order, and each is noted", async ({ example: { ledger } }) => {
    await addGroup(ledger, "ag-1", { kind: "code" });
    expect(
      await ledger.attempts.allocate({
        attemptId: "xa-1",
        groupId: "ag-1",
        producingCellId: "cell-1",
        stateRevision: 3,
        generationId: "generation-1",
        ownerInstanceId: "tab-1",
        replayedFromCellId: "cell-0",
        at: 10,
      }),
    ).toEqual({ ...allocated, created: true });
    await ledger.attempts.record({ attemptId: "xa-1", milestone: "started", at: 20 });
    await ledger.attempts.record({ attemptId: "xa-1", milestone: "response", at: 30 });
    expect(await ledger.attempts.record({ attemptId: "xa-1", milestone: "capture", at: 40 })).toEqual({
      ...allocated,
      startedAt: 20,
      responseAt: 30,
      captureAt: 40,
    });
    const finished = {
      ...allocated,
      startedAt: 20,
      responseAt: 30,
      captureAt: 40,
      finishedAt: 50,
      terminalState: "completed",
    };
    expect(await ledger.attempts.finish({ attemptId: "xa-1", terminalState: "completed", at: 50 })).toEqual(
      finished,
    );
    expect(await ledger.attempts.list({ groupId: "ag-1" })).toEqual([finished]);
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("keeps the first time of a milestone that is repeated, and nothing is written", async ({
    example: { ledger },
  }) => {
    await addAttempt(ledger, { reached: ["started"] });
    const before = await everyRow(ledger);
    expect(
      await ledger.attempts.record({ attemptId: "xa-1", milestone: "started", at: 5_000 }),
    ).toMatchObject({
      startedAt: NOW,
    });
    expect(await everyRow(ledger)).toEqual(before);
  });

  test.for<[string, ("started" | "response" | "capture")[]]>([
    ["response", []],
    ["capture", []],
    ["capture", ["started"]],
  ])("has no %s after %j", async ([milestone, reached], { example: { ledger } }) => {
    await addAttempt(ledger, { reached });
    await expectRefused(
      ledger,
      () => ledger.attempts.record({ attemptId: "xa-1", milestone: milestone as "capture" }),
      conflict("milestone_order"),
    );
  });

  test.for<[string, number]>([
    ["started", 999],
    ["finished", 999],
  ])("is not %s before it was allocated", async ([step, at], { example: { ledger } }) => {
    await addAttempt(ledger);
    const act =
      step === "started"
        ? () => ledger.attempts.record({ attemptId: "xa-1", milestone: "started", at })
        : () => ledger.attempts.finish({ attemptId: "xa-1", terminalState: "failed", at });
    await expectRefused(ledger, act, tooEarly);
  });

  test("has no milestone before an earlier one, but may have it at the same time", async ({
    example: { ledger },
  }) => {
    await addAttempt(ledger);
    await ledger.attempts.record({ attemptId: "xa-1", milestone: "started", at: 1_020 });
    const response = (at: number) => ledger.attempts.record({ attemptId: "xa-1", milestone: "response", at });
    await expectRefused(ledger, () => response(1_019), tooEarly);
    expect(await response(1_020)).toMatchObject({ startedAt: 1_020, responseAt: 1_020 });
    await expectRefused(
      ledger,
      () => ledger.attempts.finish({ attemptId: "xa-1", terminalState: "failed", at: 1_019 }),
      tooEarly,
    );
  });

  test.for([[], ["started"], ["started", "response"]] as const)(
    "is not completed after no more than %j: what it made was not captured",
    async (reached, { example: { ledger } }) => {
      await addAttempt(ledger, { reached });
      await expectRefused(
        ledger,
        () => ledger.attempts.finish({ attemptId: "xa-1", terminalState: "completed" }),
        conflict("capture_missing"),
      );
    },
  );

  test.for(UNFINISHED)(
    "may end as %s at any time, and with an error",
    async (terminalState, { example: { ledger } }) => {
      await addAttempt(ledger);
      const error = { type: "Boom", message: "it went up" };
      expect(await ledger.attempts.finish({ attemptId: "xa-1", terminalState, error })).toMatchObject({
        terminalState,
        error,
        startedAt: null,
        finishedAt: NOW,
      });
    },
  );

  test("that has ended never changes, but answers a repetition", async ({ example: { ledger } }) => {
    await addAttempt(ledger, { reached: ["started"] });
    const end = { attemptId: "xa-1", terminalState: "failed", error: { type: "Boom" } } as const;
    const finished = await ledger.attempts.finish(end);
    const hasEnded = conflict("attempt_finished");

    for (const terminalState of UNFINISHED.filter((state) => state !== "failed"))
      await expectRefused(ledger, () => ledger.attempts.finish({ ...end, terminalState }), hasEnded);
    await expectRefused(
      ledger,
      () => ledger.attempts.finish({ ...end, terminalState: "completed" }),
      hasEnded,
    );
    await expectRefused(ledger, () => ledger.attempts.finish({ ...end, error: null }), hasEnded);
    for (const milestone of ["response", "capture"] as const)
      await expectRefused(ledger, () => ledger.attempts.record({ attemptId: "xa-1", milestone }), hasEnded);

    const before = await everyRow(ledger);
    expect(await ledger.attempts.finish(end)).toEqual(finished);
    expect(await ledger.attempts.record({ attemptId: "xa-1", milestone: "started" })).toEqual(finished);
    expect(await everyRow(ledger)).toEqual(before);
  });

  test("is numbered from 0 for each cell", async ({ example: { ledger } }) => {
    await addGroup(ledger, "ag-1", { kind: "code" });
    for (const producingCellId of ["cell-1", "cell-2", "cell-1"])
      await ledger.attempts.allocate({ groupId: "ag-1", producingCellId });
    const attempts = await ledger.attempts.list({ groupId: "ag-1" });
    expect(
      attempts.map(({ producingCellId, attemptOrdinal }) => `${producingCellId} ${attemptOrdinal}`).sort(),
    ).toEqual(["cell-1 0", "cell-1 1", "cell-2 0"]);
  });

  test.for<[string, object]>([
    ["cell", { producingCellId: "cell-2" }],
    ["group", { groupId: "ag-2" }],
    ["revision", { stateRevision: 2 }],
    ["generation", { generationId: "generation-2" }],
    ["source", { replayedFromCellId: "cell-2" }],
  ])(
    "is allocated once: its id with another %s is a conflict",
    async ([, change], { example: { ledger } }) => {
      await addAttempt(ledger);
      await addGroup(ledger, "ag-2", { kind: "code" });
      const request = { attemptId: "xa-1", groupId: "ag-1", producingCellId: "cell-1" };
      expect(await ledger.attempts.allocate(request)).toMatchObject({ created: false, attemptOrdinal: 0 });
      await expectRefused(
        ledger,
        () => ledger.attempts.allocate({ ...request, ...change }),
        conflict("id_taken", "attemptId"),
      );
    },
  );
});

/** In the group ag-1, with the attempt xa-1 allocated and xa-2 started. */
async function expectOnlyEvidenceAdmitted(ledger: TestLedger): Promise<void> {
  await expectRefused(
    ledger,
    () => ledger.attempts.allocate({ groupId: "ag-1", producingCellId: "cell-3" }),
    BARRIER,
  );
  await expectRefused(
    ledger,
    () => ledger.attempts.record({ attemptId: "xa-1", milestone: "started" }),
    BARRIER,
  );
  expect(await seeToItsEnd(ledger, "xa-2")).toMatchObject({ terminalState: "completed" });
}

describe("behind the barrier", () => {
  test("no attempt is allocated or started; one that was started is seen to its end", async ({
    example: { ledger },
  }) => {
    await addAttempt(ledger);
    await addAttempt(ledger, { attemptId: "xa-2", reached: ["started"] });
    await raiseBarrier(ledger);

    await expectOnlyEvidenceAdmitted(ledger);
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("the same holds in the group of an open repair", async ({ opened: { ledger } }) => {
    await addBoundGroup(ledger, "ag-1", { kind: "code" });
    await allocate(ledger, { attemptId: "xa-1" });
    await allocate(ledger, { attemptId: "xa-2", producingCellId: "cell-2", reached: ["started"] });
    await raiseBarrier(ledger);

    await expectOnlyEvidenceAdmitted(ledger);
    await expectRefused(ledger, () => ledger.repairs.complete(completionOf("failed")), BARRIER);
    expect(await projectedRun(ledger, ROOT)).toMatchObject({ status: "repairing" });
  });

  const admitted = [
    "result",
    "observation",
    "completed",
    "failed",
    "denied",
    "timed_out",
    "cancelled",
  ] as const;
  test.for(admitted)("evidence of type %s is admitted", async (type, { example: { ledger } }) => {
    await addGroup(ledger, "ag-1");
    await raiseBarrier(ledger);
    expect(await ledger.actions.appendEvent({ groupId: "ag-1", type })).toMatchObject({
      type,
      created: true,
    });
  });

  test.for(["denied", "timed_out", "cancelled"])(
    "a permission that was %s is admitted: it ends an action",
    async (state, { example: { ledger } }) => {
      await addGroup(ledger, "ag-1");
      await raiseBarrier(ledger);
      expect(
        await ledger.actions.appendEvent({ groupId: "ag-1", type: "permission_resolved", result: { state } }),
      ).toMatchObject({ type: "permission_resolved", created: true });
    },
  );

  test.for<["proposed" | "permission_pending" | "permission_resolved", object]>([
    ["proposed", {}],
    ["permission_pending", {}],
    ["permission_resolved", { result: { state: "allowed" } }],
  ])("work of type %s is refused", async ([type, fields], { example: { ledger } }) => {
    await addGroup(ledger, "ag-1");
    await raiseBarrier(ledger);
    await expectRefused(
      ledger,
      () => ledger.actions.appendEvent({ groupId: "ag-1", type, ...fields }),
      BARRIER,
    );
  });
});

describe("after its run was abandoned", () => {
  test("an attempt of a repair is seen to its end, and no other begins", async ({ opened: { ledger } }) => {
    await addBoundGroup(ledger, "ag-1", { kind: "code" });
    await allocate(ledger, { attemptId: "xa-1" });
    await allocate(ledger, { attemptId: "xa-2", producingCellId: "cell-2", reached: ["started"] });
    await ledger.branches.revert({
      rootFrameId: ROOT,
      checkpointId: (await ledger.checkpoints.create({ rootFrameId: ROOT, reason: "manual" })).checkpointId,
      idempotencyKey: "back",
    });

    const abandoned = conflict("run_abandoned");
    await expectRefused(
      ledger,
      () => ledger.attempts.allocate({ groupId: "ag-1", producingCellId: "cell-3" }),
      abandoned,
    );
    await expectRefused(
      ledger,
      () => ledger.attempts.record({ attemptId: "xa-1", milestone: "started" }),
      abandoned,
    );
    await expectRefused(
      ledger,
      () => ledger.actions.appendEvent({ groupId: "ag-1", ...proposal }),
      abandoned,
    );
    expect(await seeToItsEnd(ledger, "xa-2")).toMatchObject({ terminalState: "completed" });
    await ledger.actions.appendEvent({ groupId: "ag-1", type: "observation" });
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });
});

describe("boot", () => {
  test("ends a repair whose tab died while a cell ran as unknown, and pauses its run", async ({
    example: { ledger },
  }) => {
    await dieInCell(ledger, { reached: ["started"] });

    expect(await boot(ledger, 2_000)).toEqual({
      at: 2_000,
      ownerInstanceId: "daemon-NEW",
      runs: [{ runId: "run-1", status: "paused", terminalReason: "outcome_unknown" }],
      attempts: [],
      candidates: [],
      failures: [],
    });

    expect(await ledger.attempts.list({ groupId: "ag-1" })).toMatchObject([
      {
        startedAt: NOW,
        finishedAt: 2_000,
        terminalState: "outcome_unknown",
        error: { type: "outcome_unknown", message: expect.stringMatching(/./) },
      },
    ]);
    expect(await repairState(ledger)).toEqual({
      repair: "outcome_unknown",
      completion_idempotency_key: "daemon-restart:repair:repair-1",
      after_version_ids_json: "[]",
      completed_at: 2_000,
      run: "paused",
      terminal_reason: "outcome_unknown",
      finished_at: 2_000,
      abandoned_at: null,
      finding: "unaddressed",
    });
    expect(await projectedRun(ledger, ROOT)).toMatchObject({
      status: "paused",
      terminalReason: "outcome_unknown",
      finishedAt: 2_000,
    });
    expect(await ledger.verify()).toMatchObject({ ok: true });
    await ledger.runs.start(startFields(ROOT, { runId: "run-2", turnId: "turn-2" }));
  });

  test.for([["started"], ["started", "response"], ["started", "response", "capture"]] as const)(
    "says so however far the cell had come: %j",
    async (reached, { example: { ledger } }) => {
      await dieInCell(ledger, { reached });
      expect((await boot(ledger, 2_000)).runs).toEqual([
        { runId: "run-1", status: "paused", terminalReason: "outcome_unknown" },
      ]);
    },
  );

  test("ends an attempt no earlier than its last milestone, though the clock went back", async ({
    example: { ledger },
  }) => {
    await dieInCell(ledger, { reached: ["started"], startedAt: 9_000 });
    await boot(ledger, 2_000);
    expect(await ledger.attempts.list({ groupId: "ag-1" })).toMatchObject([
      { startedAt: 9_000, finishedAt: 9_000, terminalState: "outcome_unknown" },
    ]);
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("that was held up by a barrier still ends the repair as unknown once it is gone", async ({
    example: { ledger },
  }) => {
    await dieInCell(ledger, { reached: ["started"] });
    await raiseBarrier(ledger);
    expect((await boot(ledger, 2_000)).runs).toMatchObject([
      { runId: "run-1", status: "repairing", deferred: "revert_recovery_required" },
    ]);
    await ledger.settings.delete({ key: revertRecoverySettingKey(ROOT) });

    expect((await boot(ledger, 3_000)).runs).toEqual([
      { runId: "run-1", status: "paused", terminalReason: "outcome_unknown" },
    ]);
    expect(await repairState(ledger)).toMatchObject({ repair: "outcome_unknown", completed_at: 3_000 });
  });

  test("also cancels the attempt beside it that had not started", async ({ example: { ledger } }) => {
    await dieInCell(ledger, { reached: ["started"] });
    await allocate(ledger, { attemptId: "xa-2", producingCellId: "cell-2", ownerInstanceId: "daemon-DEAD" });
    await boot(ledger, 2_000);
    const attempts = await ledger.attempts.list({ groupId: "ag-1" });
    expect(attempts.map(({ attemptId, terminalState }) => [attemptId, terminalState])).toEqual([
      ["xa-1", "outcome_unknown"],
      ["xa-2", "cancelled"],
    ]);
  });

  test("releases a repair whose only attempt had not started: nothing in it is unknown", async ({
    example: { ledger },
  }) => {
    await dieInCell(ledger, { reached: [] });
    const report = await boot(ledger, 2_000);
    expect(report).toMatchObject({
      runs: [{ runId: "run-1", status: "repairing", abandonedAt: 2_000, error: expect.stringMatching(/./) }],
      attempts: [{ attemptId: "xa-1", terminalState: "abandoned" }],
      failures: [],
    });
    expect(await repairState(ledger)).toMatchObject({
      repair: "started",
      run: "repairing",
      terminal_reason: null,
      finished_at: null,
      abandoned_at: 2_000,
    });
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("leaves attempts and repairs of living tabs as they are", async ({ example: { ledger } }) => {
    await dieInCell(ledger, { reached: ["started"] });
    const before = await everyRow(ledger);
    const report = { runs: [], attempts: [], candidates: [], failures: [] };
    expect(
      await ledger.recovery.reconcileStartup({
        ownerInstanceId: "daemon-NEW",
        liveInstanceIds: ["daemon-DEAD"],
        now: 2_000,
      }),
    ).toMatchObject(report);
    expect(
      await ledger.recovery.reconcileStartup({ ownerInstanceId: "daemon-DEAD", now: 2_000 }),
    ).toMatchObject(report);
    expect(await everyRow(ledger)).toEqual(before);
  });

  test("abandons unfinished attempts of dead tabs in unbound groups, and touches no other", async ({
    example: { ledger },
  }) => {
    await addAttempt(ledger, { ownerInstanceId: "daemon-DEAD", reached: ["started"] });
    await addAttempt(ledger, { attemptId: "xa-2", ownerInstanceId: "daemon-LIVE", reached: ["started"] });
    await addAttempt(ledger, { attemptId: "xa-3", ownerInstanceId: "daemon-NEW" });
    await addAttempt(ledger, { attemptId: "xa-4", ownerInstanceId: "daemon-DEAD" });
    await ledger.attempts.finish({ attemptId: "xa-4", terminalState: "failed" });
    const kept = (await ledger.attempts.list({ groupId: "ag-1" })).slice(1);

    const recovery = { ownerInstanceId: "daemon-NEW", liveInstanceIds: ["daemon-LIVE"], now: 2_000 };
    expect(await ledger.recovery.reconcileStartup(recovery)).toEqual({
      at: 2_000,
      ownerInstanceId: "daemon-NEW",
      runs: [],
      attempts: [{ attemptId: "xa-1", terminalState: "abandoned" }],
      candidates: [],
      failures: [],
    });
    const [abandoned, ...others] = await ledger.attempts.list({ groupId: "ag-1" });
    expect(abandoned).toMatchObject({
      startedAt: NOW,
      finishedAt: 2_000,
      terminalState: "abandoned",
      error: { type: "daemon_restart", message: expect.stringContaining("exited before") },
    });
    expect(others).toEqual(kept);
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("abandons the attempt of a dead tab in the repair of a living one, which can then end as unknown", async ({
    opened: { ledger },
  }) => {
    await addBoundGroup(ledger, "ag-1", { kind: "code" });
    await allocate(ledger, { ownerInstanceId: "daemon-DEAD", reached: ["started"] });
    const living = ["daemon-regression"];
    expect(
      await ledger.recovery.reconcileStartup({
        ownerInstanceId: "daemon-NEW",
        liveInstanceIds: living,
        now: 2_000,
      }),
    ).toMatchObject({ runs: [], attempts: [{ attemptId: "xa-1", terminalState: "abandoned" }] });
    expect(await projectedRun(ledger, ROOT)).toMatchObject({ status: "repairing" });
    expect(await ledger.repairs.complete(completionOf("outcome_unknown"))).toMatchObject({
      status: "outcome_unknown",
    });
  });

  test.for(["started", "allocated"])(
    "changes nothing the second time: a cell that was %s",
    async (step, { example: { ledger } }) => {
      await dieInCell(ledger, { reached: step === "started" ? ["started"] : [] });
      await addGroup(ledger, "ag-9", { kind: "code", turnId: "turn-9" });
      await allocate(ledger, {
        attemptId: "xa-9",
        groupId: "ag-9",
        producingCellId: "cell-9",
        ownerInstanceId: "daemon-DEAD",
      });
      await boot(ledger, 2_000);
      const before = await everyRow(ledger);
      for (const now of [3_000, 4_000])
        expect(await boot(ledger, now)).toEqual({
          at: now,
          ownerInstanceId: "daemon-NEW",
          runs: [],
          attempts: [],
          candidates: [],
          failures: [],
        });
      expect(await everyRow(ledger)).toEqual(before);
    },
  );

  test("that fails at a run still sees to the attempts, and can be done again", async ({
    example: { ledger },
  }) => {
    await dieInCell(ledger, { reached: ["started"] });
    await ledger.testing.failNext("recovery.reconcileRun", "run-1");
    expect((await boot(ledger, 2_000)).runs).toMatchObject([
      { runId: "run-1", unreconciled: expect.anything() },
    ]);
    expect((await boot(ledger, 3_000)).runs).toEqual([
      { runId: "run-1", status: "paused", terminalReason: "outcome_unknown" },
    ]);
  });
});

const tooEarly: Refusal = { name: "ValidationError", code: "invalid_input", field: "at" };

const allocated = {
  attemptId: "xa-1",
  groupId: "ag-1",
  producingCellId: "cell-1",
  attemptOrdinal: 0,
  stateRevision: 3,
  generationId: "generation-1",
  ownerInstanceId: "tab-1",
  allocatedAt: 10,
  startedAt: null,
  responseAt: null,
  captureAt: null,
  finishedAt: null,
  terminalState: null,
  error: null,
  replayedFromCellId: "cell-0",
};

interface AttemptPlan {
  readonly attemptId?: string;
  readonly groupId?: string;
  readonly producingCellId?: string;
  readonly ownerInstanceId?: string;
  readonly reached?: readonly ("started" | "response" | "capture")[];
  readonly startedAt?: number;
}

/** An attempt in an existing group, with some milestones behind it. */
async function allocate(
  ledger: TestLedger,
  { attemptId = "xa-1", groupId = "ag-1", producingCellId = "cell-1", reached = [], ...plan }: AttemptPlan,
): Promise<void> {
  const owner = plan.ownerInstanceId === undefined ? {} : { ownerInstanceId: plan.ownerInstanceId };
  await ledger.attempts.allocate({ attemptId, groupId, producingCellId, ...owner });
  for (const milestone of reached) {
    const at = plan.startedAt ?? NOW;
    await ledger.attempts.record({ attemptId, milestone, at });
  }
}

/** The same in a group that is bound to no repair, which is made if it is missing; each attempt has its own cell. */
async function addAttempt(ledger: TestLedger, plan: AttemptPlan = {}): Promise<void> {
  await addGroup(ledger, "ag-1", { kind: "code" });
  const producingCellId = plan.attemptId === undefined ? "cell-1" : `cell of ${plan.attemptId}`;
  await allocate(ledger, { producingCellId, ...plan });
}

/** What a tab leaves that died in the middle of a repair, a cell of which it was running. */
async function dieInCell(ledger: TestLedger, plan: AttemptPlan): Promise<void> {
  const { repair } = await reachRepair(ledger, ROOT, "daemon-DEAD");
  await ledger.repairs.start(repair);
  await addBoundGroup(ledger, "ag-1", { kind: "code" });
  await ledger.actions.appendEvent({ groupId: "ag-1", ...proposal });
  await allocate(ledger, { ownerInstanceId: "daemon-DEAD", ...plan });
}

function boot(ledger: TestLedger, now: number) {
  return ledger.recovery.reconcileStartup({ ownerInstanceId: "daemon-NEW", now });
}

async function seeToItsEnd(ledger: TestLedger, attemptId: string) {
  for (const milestone of ["response", "capture"] as const)
    await ledger.attempts.record({ attemptId, milestone });
  return ledger.attempts.finish({ attemptId, terminalState: "completed" });
}

async function raiseBarrier(ledger: TestLedger): Promise<void> {
  await ledger.settings.set({ key: revertRecoverySettingKey(ROOT), value: "{}" });
}

async function repairState(ledger: TestLedger) {
  const [state] = await ledger.testing.sql(
    `SELECT repair.status AS repair, completion_idempotency_key, after_version_ids_json, completed_at,
       run.status AS run, terminal_reason, finished_at, abandoned_at, finding.status AS finding
     FROM repair_runs AS repair JOIN auto_mode_runs AS run USING (run_id)
     JOIN review_findings AS finding USING (run_id)`,
  );
  return state;
}
