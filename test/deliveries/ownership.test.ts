import { describe, expect } from "vitest";
import type { TestLedger } from "../../src/testing.ts";
import {
  candidateFields,
  completionFields,
  reviewFields,
  startFields,
  terminalFields,
} from "../support/fields.ts";
import { bindNewGroup, proposal, reachRepair } from "../support/repair.ts";
import { projectedRun } from "../support/scenario.ts";
import { newSession, openBuilt, test } from "../support/session.ts";
import { conflict, everyRow, expectRefused, refusalOf } from "./fixtures.ts";

const OF_OTHER = conflict("run_of_other_owner");

type Step = (ledger: TestLedger, root: string) => Promise<unknown>;

const start: Step = (ledger, root) =>
  ledger.runs.start(startFields(root, { ownerInstanceId: ledger.instanceId }));
const recordCandidate: Step = (ledger) => ledger.runs.recordCandidate(candidateFields);
const startReview: Step = (ledger) => ledger.reviews.start(reviewFields);
const completeReview: Step = (ledger) => ledger.reviews.complete(completionFields);
const cancel: Step = (ledger) =>
  ledger.runs.terminate({ ...terminalFields, idempotencyKey: "cancel", status: "cancelled" });
const verify: Step = (ledger) => ledger.runs.terminate(terminalFields);

describe("another tab's run is refused", () => {
  for (const [name, before, mutation] of [
    ["runs.recordCandidate", [start], recordCandidate],
    ["runs.terminate of a running run", [start], cancel],
    ["reviews.start", [start, recordCandidate], startReview],
    ["reviews.complete", [start, recordCandidate, startReview], completeReview],
    ["runs.terminate of a reviewed run", [start, recordCandidate, startReview, completeReview], verify],
  ] as [string, Step[], Step][]) {
    test(`by ${name} until it is taken over`, async ({ fresh: first }) => {
      const root = await newSession(first);
      for (const step of before) await step(first, root);
      await first.close();

      await using second = await openBuilt(first.name);
      await expectRefused(second, () => mutation(second, root), OF_OTHER);
      await second.runs.takeOver({ runId: "run-1", fromInstanceId: first.instanceId });
      expect(await mutation(second, root)).toMatchObject({ created: true });
      expect(await second.verify()).toMatchObject({ ok: true });
    });
  }

  test("by repairs.start until it is taken over", async ({ fresh: first }) => {
    const root = await newSession(first);
    const { repair } = await reachRepair(first, root, first.instanceId);
    await first.close();

    await using second = await openBuilt(first.name);
    await expectRefused(second, () => second.repairs.start(repair), OF_OTHER);
    await second.runs.takeOver({ runId: "run-1", fromInstanceId: first.instanceId });
    expect(await second.repairs.start(repair)).toMatchObject({ created: true, status: "started" });
  });

  test("by all that a repair is made of", async ({ fresh: first }) => {
    const root = await newSession(first);
    const { repair } = await reachRepair(first, root, first.instanceId);
    await first.repairs.start(repair);
    const group = await bindNewGroup(first, root);
    const { groupId } = await first.actions.appendGroup({
      rootFrameId: root,
      turnId: "turn-1",
      kind: "native_tools",
    });
    await first.close();

    await using second = await openBuilt(first.name);
    for (const mutation of [
      () =>
        second.repairs.bindGroup({ repairRunId: "repair-1", actionGroupId: groupId, idempotencyKey: "b" }),
      () => second.actions.appendEvent({ groupId: group.groupId, ...proposal }),
      () => second.repairs.complete({ repairRunId: "repair-1", idempotencyKey: "c", status: "failed" }),
      () => cancel(second, root),
    ])
      await expectRefused(second, mutation, OF_OTHER);
  });

  test("also where the run has an owner of another name than the tab that started it", async ({
    fresh: first,
  }) => {
    const root = await newSession(first);
    await first.runs.start(startFields(root, { ownerInstanceId: "agent-7" }));
    await recordCandidate(first, root);
    await first.close();

    await using second = await openBuilt(first.name);
    await expectRefused(second, () => startReview(second, root), OF_OTHER);
    await expectRefused(
      second,
      () => second.runs.takeOver({ runId: "run-1", fromInstanceId: first.instanceId }),
      conflict("owner_differs", "fromInstanceId"),
    );
    await second.runs.takeOver({ runId: "run-1", fromInstanceId: "agent-7" });
    expect(await startReview(second, root)).toMatchObject({ created: true });
  });
});

describe("taking a run over", () => {
  test("makes this tab its owner, once; whoever had it before is refused", async ({ fresh: first }) => {
    const root = await newSession(first);
    await start(first, root);
    await first.close();

    const second = await openBuilt(first.name);
    const fromInstanceId = first.instanceId;
    const taken = await second.runs.takeOver({ runId: "run-1", fromInstanceId, at: 105 });
    expect(taken).toMatchObject({
      runId: "run-1",
      ownerInstanceId: second.instanceId,
      status: "running",
      stateRevision: 2,
      updatedAt: 105,
    });
    const rows = await everyRow(second);
    expect(await second.runs.takeOver({ runId: "run-1", fromInstanceId, at: 999 })).toEqual(taken);
    expect(await everyRow(second)).toEqual(rows);
    await recordCandidate(second, root);
    await second.close();

    await using third = await openBuilt(first.name);
    await expectRefused(third, () => startReview(third, root), OF_OTHER);
    const fromFormerOwner = await refusalOf(third.runs.takeOver({ runId: "run-1", fromInstanceId }));
    expect(fromFormerOwner.name).toBe("LedgerConflictError");
    await third.runs.takeOver({ runId: "run-1", fromInstanceId: second.instanceId });
    for (const step of [startReview, completeReview, verify]) await step(third, root);
    expect((await projectedRun(third, root))?.status).toBe("verified");
    expect(await third.verify()).toMatchObject({ ok: true });
  });

  test("from somebody who does not own it is a conflict", async ({ fresh: first }) => {
    const root = await newSession(first);
    await start(first, root);
    await first.close();

    await using second = await openBuilt(first.name);
    for (const fromInstanceId of ["somebody-else", second.instanceId])
      await expectRefused(
        second,
        () => second.runs.takeOver({ runId: "run-1", fromInstanceId }),
        conflict("owner_differs", "fromInstanceId"),
        fromInstanceId,
      );
  });

  test("is refused for a run that has ended", async ({ fresh: first }) => {
    const root = await newSession(first);
    await start(first, root);
    await cancel(first, root);
    await first.close();

    await using second = await openBuilt(first.name);
    await expectRefused(
      second,
      () => second.runs.takeOver({ runId: "run-1", fromInstanceId: first.instanceId }),
      conflict("run_finished"),
    );
  });

  test("is refused for a damaged run", async ({ fresh: first }) => {
    const root = await newSession(first);
    await start(first, root);
    await first.close();

    await using second = await openBuilt(first.name);
    await second.testing.sql("UPDATE auto_mode_runs SET owner_instance_id = ?", [second.instanceId]);
    await expectRefused(
      second,
      () => second.runs.takeOver({ runId: "run-1", fromInstanceId: first.instanceId }),
      conflict("run_damaged"),
    );
    await expectRefused(second, () => recordCandidate(second, root), conflict("run_damaged"));
  });
});

test("exact repetitions are answered to every tab, and write nothing", async ({ fresh: first }) => {
  const root = await newSession(first);
  const ownerInstanceId = first.instanceId;
  const steps: Step[] = [
    (ledger) => ledger.runs.start(startFields(root, { ownerInstanceId })),
    recordCandidate,
    startReview,
    completeReview,
    verify,
  ];
  const answers: unknown[] = [];
  let ledger = first;
  for (const [n, step] of steps.entries()) {
    answers.push(await step(ledger, root));
    if (n !== 2 && n !== 4) continue;
    // While the review is open, and after the end of the run.
    await ledger.close();
    const other = await openBuilt(first.name);
    const rows = await everyRow(other);
    for (const [k, done] of steps.slice(0, n + 1).entries()) {
      const repeated = (await done(other, root)) as { event: unknown; created: boolean };
      expect({ k, event: repeated.event, created: repeated.created }).toEqual({
        k,
        event: (answers[k] as { event: unknown }).event,
        created: false,
      });
    }
    expect(await everyRow(other)).toEqual(rows);
    if (n === 2) await other.runs.takeOver({ runId: "run-1", fromInstanceId: ownerInstanceId });
    ledger = other;
  }
  await ledger.close();
});

describe("reconciliation", () => {
  test("leaves the run of a tab that lives alone, and closes it once that tab is gone", async ({
    fresh: first,
  }) => {
    const root = await newSession(first);
    for (const step of [start, recordCandidate, startReview]) await step(first, root);
    await first.close();

    await using second = await openBuilt(first.name);
    const rows = await everyRow(second);
    expect(await second.recovery.reconcileRuns({ liveInstanceIds: [first.instanceId] })).toEqual([]);
    const startup = await second.recovery.reconcileStartup({
      liveInstanceIds: ["another", first.instanceId],
      now: 500,
    });
    expect(startup).toEqual({
      at: 500,
      ownerInstanceId: second.instanceId,
      runs: [],
      attempts: [],
      candidates: [],
      failures: [],
    });
    expect(await everyRow(second)).toEqual(rows);

    expect(await second.recovery.reconcileRuns({ now: 500 })).toEqual([
      { runId: "run-1", status: "review_unavailable", terminalReason: "daemon_restart" },
    ]);
    expect(await projectedRun(second, root)).toMatchObject({
      status: "review_unavailable",
      finishedAt: 500,
    });
    expect(await second.verify()).toMatchObject({ ok: true });
  });

  test("goes by who has the run now: its former owner may be gone", async ({ fresh: first }) => {
    const root = await newSession(first);
    for (const step of [start, recordCandidate]) await step(first, root);
    await first.close();

    const second = await openBuilt(first.name);
    await second.runs.takeOver({ runId: "run-1", fromInstanceId: first.instanceId });
    expect(await second.recovery.reconcileRuns()).toEqual([]);
    await second.close();

    await using third = await openBuilt(first.name);
    const rows = await everyRow(third);
    expect(await third.recovery.reconcileRuns({ liveInstanceIds: [second.instanceId] })).toEqual([]);
    expect(await everyRow(third)).toEqual(rows);
    expect(await third.recovery.reconcileRuns({ liveInstanceIds: [first.instanceId], now: 500 })).toEqual([
      { runId: "run-1", status: "review_unavailable", terminalReason: "daemon_restart" },
    ]);
  });

  test("leaves nothing for the tab that comes back: its run has ended", async ({ fresh: first }) => {
    const root = await newSession(first);
    for (const step of [start, recordCandidate, startReview]) await step(first, root);
    await first.recovery.reconcileRuns({ ownerInstanceId: "a-tab-that-took-it-for-dead", now: 500 });
    await expectRefused(first, () => completeReview(first, root), conflict("run_finished"));
  });
});
