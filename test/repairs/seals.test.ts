import { describe, expect } from "vitest";
import { digest } from "../../src/proof/index.ts";
import { ACTION_EVENT_TYPES } from "../../src/protocol/actions.ts";
import type { SqlRow, SqlValue, TestLedger } from "../../src/testing.ts";
import { projectedRun } from "../support/scenario.ts";
import {
  addBoundGroup,
  addCall,
  addGroup,
  completionOf,
  conflict,
  everyRow,
  expectRefused,
  NOW,
  RESULTS,
  ROOT,
  readAfresh,
  test,
} from "./arrange.ts";

/** What was done in a repair is part of its run's proof, and can't change once the repair is complete (6.6). */

const TABLES = ["action_groups", "action_events", "execution_attempts"] as const;
type Table = (typeof TABLES)[number];
const KEYS = {
  action_groups: "group_id",
  action_events: "event_id",
  execution_attempts: "attempt_id",
} as const;
/** By which column a row has its place among others. */
const PLACES = {
  action_groups: "ordinal",
  action_events: "sequence",
  execution_attempts: "attempt_ordinal",
} as const;
const TRIGGERED = ["action_events", "execution_attempts"] as const;

const STATES = [
  { state: "sealed", status: "running", seal: completeWork },
  { state: "open", status: "repairing", seal: async () => undefined },
] as const;

describe("completing a repair", () => {
  test("seals each group with the number of its events and a digest of its ledger", async ({
    opened: { ledger },
  }) => {
    await addWork(ledger);
    const { groups } = await completeWork(ledger);
    expect(
      groups.map(({ actionGroupId, ledgerEventCount, sealedAt }) => [
        actionGroupId,
        ledgerEventCount,
        sealedAt,
      ]),
    ).toEqual([
      ["ag-1", 2, NOW],
      ["ag-2", 1, NOW],
    ]);
    for (const { actionGroupId, ledgerSha256 } of groups) {
      const [group] = await rowsOf(ledger, "action_groups", actionGroupId);
      const { cost_usd: _, ...sealed } = group ?? {};
      expect(ledgerSha256).toBe(
        digest({
          version: 1,
          group: sealed,
          events: await rowsOf(ledger, "action_events", actionGroupId, "sequence"),
          attempts: await rowsOf(ledger, "execution_attempts", actionGroupId, "attempt_ordinal, attempt_id"),
        }),
      );
    }
  });

  test("leaves no seal where it is refused", async ({ opened: { ledger } }) => {
    await addWork(ledger);
    await expectRefused(
      ledger,
      () => ledger.repairs.complete(completionOf("failed", ["ag-1", "ag-2"])),
      conflict("outcome_unproven", "status"),
    );
  });

  test("seals what stands at the end: attempts that it cut off are in the seal", async ({
    opened: { ledger },
  }) => {
    await addBoundGroup(ledger, "ag-1", { kind: "code" });
    const { attemptId } = await ledger.attempts.allocate({ groupId: "ag-1", producingCellId: "cell-1" });
    await ledger.attempts.record({ attemptId, milestone: "started" });
    await ledger.repairs.complete(completionOf("outcome_unknown"));
    await readAfresh(ledger);
    expect(await projectedRun(ledger, ROOT)).toMatchObject({
      status: "paused",
      terminalReason: "outcome_unknown",
    });
  });

  test.for<[string, string[]]>([
    ["two cells", ["cell-1", "cell-2"]],
    ["a cell, then another, then the first again", ["cell-1", "cell-2", "cell-1"]],
    ["a cell twice, then another", ["cell-1", "cell-1", "cell-2"]],
  ])(
    "holds over the attempts of %s when the run is read again",
    async ([, cells], { opened: { ledger } }) => {
      await addBoundGroup(ledger, "ag-1", { kind: "code" });
      for (const [index, cell] of cells.entries()) await addAttempt(ledger, "ag-1", cell, `xa-${9 - index}`);
      await ledger.actions.appendEvent({ groupId: "ag-1", type: "observation" });
      await ledger.repairs.complete(completionOf("completed"));

      await readAfresh(ledger);
      expect(await projectedRun(ledger, ROOT)).toMatchObject({ status: "running" });
      expect(await ledger.verify()).toMatchObject({ ok: true });
    },
  );
});

describe("the database itself refuses, on a sealed group,", () => {
  for (const table of TRIGGERED) {
    const key = KEYS[table];

    test(`every insert, update and delete of ${table}`, async ({ opened: { ledger } }) => {
      await addWork(ledger);
      await completeWork(ledger);
      const [sealed] = await boundRows(ledger, table);
      const id = sealed?.[key] ?? null;
      const before = await everyRow(ledger);

      for (const act of [
        () => ledger.testing.sql(`UPDATE ${table} SET group_id = group_id WHERE ${key} = ?`, [id]),
        () => ledger.testing.sql(`UPDATE ${table} SET group_id = 'ag-free' WHERE ${key} = ?`, [id]),
        () => ledger.testing.sql(`DELETE FROM ${table} WHERE ${key} = ?`, [id]),
        () => ledger.testing.sql(`DELETE FROM ${table}`),
        () => insertRow(ledger, table, forged(table, sealed ?? {})),
      ])
        await expect(act()).rejects.toThrow("sealed");
      expect(await everyRow(ledger)).toEqual(before);
    });

    test(`that a row of ${table} is moved into it`, async ({ opened: { ledger } }) => {
      await addWork(ledger);
      await completeWork(ledger);
      const free = await addFreeRow(ledger, table);
      const move = `UPDATE ${table} SET group_id = 'ag-1', ${PLACES[table]} = 99 WHERE ${key} = ?`;
      await expect(ledger.testing.sql(move, [free])).rejects.toThrow("sealed");
      await expectSound(ledger, "running");
    });

    test(`and lets ${table} of an open one be written`, async ({ opened: { ledger } }) => {
      await addWork(ledger);
      const [row] = await boundRows(ledger, table);
      await ledger.testing.sql(`UPDATE ${table} SET group_id = group_id`);
      await insertRow(ledger, table, forged(table, row ?? {}));
      await ledger.testing.sql(`DELETE FROM ${table}`);
      expect(await boundRows(ledger, table)).toEqual([]);
    });
  }
});

describe("on a sealed group", () => {
  test("no event can be appended, be it work or evidence", async ({ opened: { ledger } }) => {
    await addWork(ledger);
    await completeWork(ledger);
    for (const type of ACTION_EVENT_TYPES)
      await expectRefused(
        ledger,
        () => ledger.actions.appendEvent({ groupId: "ag-1", type }),
        conflict("group_sealed"),
      );
  });

  test("no attempt can be allocated", async ({ opened: { ledger } }) => {
    await addWork(ledger);
    await completeWork(ledger);
    await expectRefused(
      ledger,
      () => ledger.attempts.allocate({ groupId: "ag-2", producingCellId: "cell-1" }),
      conflict("group_sealed"),
    );
  });

  test("an event that is repeated by its id is answered as before", async ({ opened: { ledger } }) => {
    await addBoundGroup(ledger, "ag-1", { kind: "system" });
    const event = { groupId: "ag-1", eventId: "ae-1", type: "completed" } as const;
    const first = await ledger.actions.appendEvent(event);
    await ledger.repairs.complete(completionOf("completed"));
    expect(await ledger.actions.appendEvent(event)).toEqual({ ...first, created: false });
  });

  test("boot finds nothing to do", async ({ opened: { ledger } }) => {
    await addWork(ledger);
    await completeWork(ledger);
    const before = await everyRow(ledger);
    expect(
      await ledger.recovery.reconcileStartup({
        ownerInstanceId: "daemon-NEW",
        liveInstanceIds: ["daemon-regression"],
      }),
    ).toMatchObject({ runs: [], attempts: [], failures: [] });
    expect(await everyRow(ledger)).toEqual(before);
  });
});

describe.each(STATES)("in a bound group that is $state", ({ status, seal }) => {
  for (const table of TABLES) {
    test(`every changed cell of ${table} is found, and undoing it makes the run sound`, async ({
      opened: { ledger },
    }) => {
      await addWork(ledger);
      await seal(ledger);
      await disarm(ledger);
      const types = await columnTypes(ledger, table);

      const missed: string[] = [];
      for (const { rowid, ...row } of await boundRows(ledger, table)) {
        for (const [column, value] of Object.entries(row)) {
          const set = (to: SqlValue) =>
            ledger.testing.sql(`UPDATE ${table} SET ${column} = ? WHERE rowid = ?`, [to, rowid ?? null]);
          await set(otherValue(value, types.get(column)));
          if (!(await isAtSafetyBoundary(ledger, status)))
            missed.push(`${column} of ${row[KEYS[table]]}: changed`);
          await set(value);
          if ((await projectedRun(ledger, ROOT))?.status !== status)
            missed.push(`${column} of ${row[KEYS[table]]}: restored`);
        }
      }
      expect(missed).toEqual([]);
      expect(await ledger.verify()).toMatchObject({ ok: true });
    });

    test(`a row of ${table} that is removed or added is found`, async ({ opened: { ledger } }) => {
      await addWork(ledger);
      await seal(ledger);
      await disarm(ledger);
      for (const row of await boundRows(ledger, table)) {
        await ledger.testing.sql(`DELETE FROM ${table} WHERE rowid = ?`, [row["rowid"] ?? null]);
        await expectSafetyBoundary(ledger, status);
        await insertRow(ledger, table, row);
        await expectSound(ledger, status);

        const extra = forged(table, row);
        await insertRow(ledger, table, extra);
        if (table === "action_groups") await forgeBinding(ledger, extra);
        await expectSafetyBoundary(ledger, status);
        if (table === "action_groups")
          await ledger.testing.sql("DELETE FROM repair_execution_groups WHERE action_group_id = 'forged'");
        await ledger.testing.sql(`DELETE FROM ${table} WHERE ${KEYS[table]} = 'forged'`);
        await expectSound(ledger, status);
      }
    });
  }

  test("a damaged row bars the run from every change and replay", async ({ opened: { ledger, repair } }) => {
    await addWork(ledger);
    await seal(ledger);
    await disarm(ledger);
    await ledger.testing.sql("UPDATE action_events SET result = '{}' WHERE type = 'result'");
    const damaged = conflict("run_damaged");
    for (const act of [
      () => ledger.repairs.start(repair),
      () => ledger.repairs.complete(completionOf("completed", ["ag-1", "ag-2"])),
      () => ledger.actions.appendEvent({ groupId: "ag-1", type: "result" }),
      () => ledger.attempts.allocate({ groupId: "ag-2", producingCellId: "cell-1" }),
      () =>
        ledger.runs.terminate({ runId: "run-1", idempotencyKey: "end", status: "cancelled", reason: "user" }),
    ])
      await expectRefused(ledger, act, damaged);
  });
});

describe("a repetition is not answered from a row that was changed:", () => {
  const repeats = {
    action_events: (ledger: TestLedger, groupId: string) =>
      ledger.actions.appendEvent({ groupId, eventId: "twice", type: "observation" }),
    execution_attempts: (ledger: TestLedger, groupId: string) =>
      ledger.attempts.allocate({ groupId, attemptId: "twice", producingCellId: "cell-1" }),
  };
  const times = { action_events: "created_at", execution_attempts: "allocated_at" };

  for (const table of TRIGGERED) {
    for (const kind of ["bound", "unbound"] as const) {
      test(`${table} of a group that is ${kind}`, async ({ opened: { ledger } }) => {
        await (kind === "bound" ? addBoundGroup : addGroup)(ledger, "ag-1");
        await repeats[table](ledger, "ag-1");
        await ledger.testing.sql(`UPDATE ${table} SET ${times[table]} = 1`);
        await expect(repeats[table](ledger, "ag-1")).rejects.toMatchObject({
          code: expect.stringMatching(/damaged/),
        });
      });
    }
  }
});

describe("the cost of a group", () => {
  test("is no part of its seal, and yet of the run's proof", async ({ opened: { ledger } }) => {
    await addWork(ledger);
    const { groups } = await completeWork(ledger);
    await ledger.testing.sql("UPDATE action_groups SET cost_usd = 0.25 WHERE group_id = 'ag-1'");
    const [group] = await rowsOf(ledger, "action_groups", "ag-1");
    const { cost_usd: _, ...sealed } = group ?? {};
    expect(
      digest({
        version: 1,
        group: sealed,
        events: await rowsOf(ledger, "action_events", "ag-1", "sequence"),
        attempts: [],
      }),
    ).toBe(groups[0]?.ledgerSha256);
    expect((await projectedRun(ledger, ROOT))?.damage).toEqual({
      table: "action_groups",
      key: '["ag-1"]',
      reason: "was changed after it was written",
    });
  });
});

test("an unbound group of the same turn is no part of the run's proof", async ({ opened: { ledger } }) => {
  await addWork(ledger);
  await addGroup(ledger, "ag-free");
  await ledger.actions.appendEvent({ groupId: "ag-free", type: "observation" });
  await ledger.testing.sql("UPDATE action_events SET result = '{}' WHERE group_id = 'ag-free'");
  await expectSound(ledger, "repairing");
  expect(await ledger.verify()).toMatchObject({ ok: false });
});

test("an event that is moved from an unbound group into a bound one is found", async ({
  opened: { ledger },
}) => {
  await addWork(ledger);
  await addGroup(ledger, "ag-free");
  await ledger.actions.appendEvent({ groupId: "ag-free", eventId: "ae-free", type: "failed" });
  await ledger.testing.sql(
    "UPDATE action_events SET group_id = 'ag-1', sequence = 9 WHERE event_id = 'ae-free'",
  );
  await expectSafetyBoundary(ledger, "repairing");
});

/** Work that completes a repair: a batch of tool calls, and a cell with its attempt. */
async function addWork(ledger: TestLedger): Promise<void> {
  const provider = { provider: "provider-1", model: "model-1", usage: { tokens: 7 }, costUsd: 0.125 };
  const message = {
    assistantContent: "repair",
    assistantMessage: { role: "assistant" },
    wireState: ["state"],
  };
  await addBoundGroup(ledger, "ag-1", { ...provider, ...message });
  await addBoundGroup(ledger, "ag-2", { kind: "code" });
  await addCall(ledger, "ag-1", RESULTS.completed);
  await addAttempt(ledger, "ag-2", "cell-1", "xa-1");
  await ledger.actions.appendEvent({
    groupId: "ag-2",
    type: "observation",
    wireId: "w-1",
    rawArguments: "raw",
  });
}

/** A row in a group that is bound to no repair; gives its key. */
async function addFreeRow(ledger: TestLedger, table: (typeof TRIGGERED)[number]): Promise<string> {
  await addGroup(ledger, "ag-free");
  if (table === "action_events")
    await ledger.actions.appendEvent({ groupId: "ag-free", eventId: "free", type: "observation" });
  else await ledger.attempts.allocate({ groupId: "ag-free", attemptId: "free", producingCellId: "free" });
  return "free";
}

async function addAttempt(ledger: TestLedger, groupId: string, producingCellId: string, attemptId: string) {
  await ledger.attempts.allocate({
    attemptId,
    groupId,
    producingCellId,
    stateRevision: 1,
    generationId: "g-1",
  });
  for (const milestone of ["started", "response", "capture"] as const)
    await ledger.attempts.record({ attemptId, milestone });
  await ledger.attempts.finish({ attemptId, terminalState: "completed" });
}

function completeWork(ledger: TestLedger) {
  return ledger.repairs.complete(completionOf("completed", ["ag-1", "ag-2"]));
}

function rowsOf(ledger: TestLedger, table: Table, groupId: string, order = "group_id"): Promise<SqlRow[]> {
  return ledger.testing.sql(`SELECT * FROM ${table} WHERE group_id = ? ORDER BY ${order}`, [groupId]);
}

/** The rows of the bound groups, each with its rowid. */
function boundRows(ledger: TestLedger, table: Table): Promise<SqlRow[]> {
  return ledger.testing.sql(
    `SELECT rowid, * FROM ${table} WHERE group_id IN ('ag-1', 'ag-2') ORDER BY rowid`,
  );
}

/** Takes away all that stands in the way of somebody who may write to the file. */
async function disarm(ledger: TestLedger): Promise<void> {
  for (const pragma of ["foreign_keys = OFF", "ignore_check_constraints = ON"])
    await ledger.testing.sql(`PRAGMA ${pragma}`);
  const triggers = await ledger.testing.sql("SELECT name FROM sqlite_schema WHERE type = 'trigger'");
  for (const { name } of triggers) await ledger.testing.sql(`DROP TRIGGER ${name}`);
}

async function columnTypes(ledger: TestLedger, table: Table): Promise<Map<string, SqlValue>> {
  const columns = await ledger.testing.sql("SELECT name, type FROM pragma_table_info(?)", [table]);
  return new Map(columns.map(({ name, type }) => [String(name), type ?? null]));
}

/** A value that the column takes and that no unique index objects to. */
function otherValue(value: SqlValue, type: SqlValue | undefined): SqlValue {
  if (typeof value === "number") return value + 1_000;
  if (typeof value === "string") return `${value}x`;
  return type === "TEXT" ? "x" : 1;
}

/** Another row like this one, under its own key. */
function forged(table: Table, row: SqlRow): SqlRow {
  const { rowid: _, ...columns } = row;
  return { ...columns, [KEYS[table]]: "forged", [PLACES[table]]: 99 };
}

async function forgeBinding(ledger: TestLedger, group: SqlRow): Promise<void> {
  const [binding] = await ledger.testing.sql("SELECT * FROM repair_execution_groups WHERE ordinal = 0");
  await insertRow(ledger, "repair_execution_groups", {
    ...binding,
    action_group_id: group["group_id"] ?? null,
    ordinal: 99,
    idempotency_key: "forged",
  });
}

async function insertRow(ledger: TestLedger, table: string, row: SqlRow): Promise<void> {
  const columns = Object.keys(row);
  const values = columns.map(() => "?").join(", ");
  await ledger.testing.sql(
    `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${values})`,
    Object.values(row),
  );
}

async function isAtSafetyBoundary(ledger: TestLedger, claimed: string): Promise<boolean> {
  const run = await projectedRun(ledger, ROOT);
  return (
    run?.status === "failed" &&
    run.terminalReason === "safety_boundary" &&
    run.sourceClaimedStatus === claimed &&
    !run.recoveryRequired
  );
}

async function expectSafetyBoundary(ledger: TestLedger, claimed: string): Promise<void> {
  expect(await projectedRun(ledger, ROOT)).toMatchObject({
    status: "failed",
    terminalReason: "safety_boundary",
    sourceClaimedStatus: claimed,
  });
}

async function expectSound(ledger: TestLedger, status: string): Promise<void> {
  const run = await projectedRun(ledger, ROOT);
  expect([run?.status, run?.damage]).toEqual([status, undefined]);
}
