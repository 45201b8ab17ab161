import { expect } from "vitest";
import type { LedgerError } from "../../src/index.ts";
import type { SqlRow, TestLedger } from "../../src/testing.ts";
import { proofTables } from "../../worker/schema/tables.ts";
import { proposal, reachRepair } from "../support/repair.ts";
import { test as base } from "../support/session.ts";

/** The session of the specification's worked digests; its root frame is also its main branch. */
export const ROOT = "root-1";
/** Where the ledger's clock stands in all tests here. */
export const NOW = 1_000;

export interface RootFixture {
  readonly ledger: TestLedger;
}

export interface ReachedFixture extends RootFixture {
  /** What `repairs.start` is given in the worked example. */
  readonly repair: Awaited<ReturnType<typeof reachRepair>>["repair"];
}

/**
 * `session`: the session of the worked digests, its clock held. `reached`: with a run whose review found an issue, at
 * a checkpoint from which it can be repaired. `opened`: with that repair open.
 */
export const test = base.extend<{ example: RootFixture; reached: ReachedFixture; opened: ReachedFixture }>({
  example: async ({ fresh: ledger }, use) => {
    await ledger.testing.setClock(NOW);
    const { projectId } = await ledger.projects.create({ name: "Worked example" });
    await ledger.frames.create({ frameId: ROOT, projectId, kind: "turn" });
    await ledger.branches.ensure({ rootFrameId: ROOT, branchId: ROOT });
    await use({ ledger });
    await ledger.testing.setClock(null);
  },
  reached: async ({ example: { ledger } }, use) => {
    const { repair } = await reachRepair(ledger, ROOT);
    await use({ ledger, repair });
  },
  opened: async ({ reached: { ledger, repair } }, use) => {
    await ledger.repairs.start(repair);
    await use({ ledger, repair });
  },
});

type GroupInput = Partial<Parameters<TestLedger["actions"]["appendGroup"]>[0]>;

/** An action group in the run's turn. */
export function addGroup(ledger: TestLedger, groupId: string, changes: GroupInput = {}) {
  return ledger.actions.appendGroup({
    groupId,
    rootFrameId: ROOT,
    turnId: "turn-1",
    kind: "native_tools",
    ...changes,
  });
}

export function bindingOf(groupId: string, repairRunId = "repair-1") {
  return { repairRunId, actionGroupId: groupId, idempotencyKey: `${repairRunId}:bind:${groupId}` };
}

/** An empty action group in the run's turn, bound to a repair. */
export async function addBoundGroup(
  ledger: TestLedger,
  groupId: string,
  changes: GroupInput = {},
  repairRunId?: string,
) {
  await addGroup(ledger, groupId, changes);
  return ledger.repairs.bindGroup(bindingOf(groupId, repairRunId));
}

type EventInput = Omit<Parameters<TestLedger["actions"]["appendEvent"]>[0], "groupId">;

/** A tool call with its result, in a group. */
export async function addCall(ledger: TestLedger, groupId: string, result: EventInput["result"]) {
  await ledger.actions.appendEvent({ groupId, ...proposal });
  await ledger.actions.appendEvent({ groupId, ...resultOf(result) });
}

/** The result of the proposed call, with the side effect of the proposal. */
export function resultOf(result: EventInput["result"]): EventInput {
  const { actionId, toolCallId, sideEffectClass, resourceKeys } = proposal;
  return { type: "result", actionId, toolCallId, sideEffectClass, resourceKeys, result };
}

export function completionOf(
  status: "completed" | "failed" | "outcome_unknown",
  executionGroupIds: readonly string[] = ["ag-1"],
  repairRunId = "repair-1",
) {
  return {
    repairRunId,
    idempotencyKey: `${repairRunId}:complete`,
    status,
    afterVersionIds: [],
    executionGroupIds,
  } as const;
}

/** What the results of the tests' calls say, by how the repair then ended. */
export const RESULTS = {
  completed: { status: "ok", output_committed: true },
  failed: { status: "error", output_committed: false },
  outcome_unknown: { status: "unknown" },
  partial: { status: "error", output_committed: true },
} as const;

/** A checkpoint at the branch head with the workspace tree of an earlier one. */
export async function addCheckpoint(
  ledger: TestLedger,
  changes: Partial<Parameters<TestLedger["checkpoints"]["create"]>[0]> = {},
) {
  const { workspaceTreeId } = await ledger.checkpoints.get({ checkpointId: "checkpoint-repair" });
  return ledger.checkpoints.create({
    rootFrameId: ROOT,
    reason: "pre_repair",
    workspaceTreeId,
    ...changes,
  });
}

/** Every row of every table that the journal commits to, and of the journal. */
export async function everyRow(ledger: TestLedger): Promise<Record<string, SqlRow[]>> {
  const names = [...Object.keys(proofTables), "journal", "commitment_index"];
  const rows: Record<string, SqlRow[]> = {};
  for (const name of names) rows[name] = await ledger.testing.sql(`SELECT * FROM ${name} ORDER BY 1, 2`);
  return rows;
}

export interface Refusal {
  readonly name: "LedgerConflictError" | "ValidationError" | "NotFoundError" | "RecoveryRequiredError";
  readonly code: string;
  readonly field: string | undefined;
}

export function conflict(code: string, field?: string): Refusal {
  return { name: "LedgerConflictError", code, field };
}

/** A call is refused exactly so, and leaves every row as it was. */
export async function expectRefused(
  ledger: TestLedger,
  call: () => Promise<unknown>,
  expected: Refusal,
): Promise<void> {
  const before = await everyRow(ledger);
  const refusal = await call().then(
    (answer) => ({ answer }),
    ({ name, code, details }: LedgerError) => ({ name, code, field: details["field"] }),
  );
  expect(refusal).toEqual(expected);
  expect(await everyRow(ledger)).toEqual(before);
}

/** Makes the ledger forget what it has proved, as after a reload. */
export async function readAfresh(ledger: TestLedger): Promise<void> {
  await ledger.testing.sql("UPDATE auto_mode_runs SET status = status");
}
