import { describe, expect } from "vitest";
import type { SqlRow, SqlValue, TestLedger } from "../../src/testing.ts";
import { proofTables } from "../../worker/schema/tables.ts";
import { buildEverything } from "../support/everything.ts";
import { buildVerified, projectedRun } from "../support/scenario.ts";
import { test } from "../support/session.ts";

/** Tables that hold the proof of a run besides those that the journal commits to. */
const JOURNAL_TABLES = ["journal", "commitment_index"];
/** What of the database a run's own proof rests on; a change elsewhere is found by verifying the whole. */
const TABLES_OF_RUN = new Set([
  "auto_mode_runs",
  "auto_mode_events",
  "review_runs",
  "review_findings",
  "repair_runs",
  "repair_execution_groups",
  "action_groups",
  "action_events",
  "execution_attempts",
  "completion_deliveries",
]);
/** Triggers that would refuse what somebody with the file can do anyway. */
const SEALS = ["action_events", "execution_attempts"].flatMap((table) =>
  ["insert", "update", "delete"].map((act) => `${table}_sealed_${act}`),
);

describe("one changed cell is found wherever it is", () => {
  for (const table of [...Object.keys(proofTables), ...JOURNAL_TABLES]) {
    test(table, async ({ session: { ledger, root } }) => {
      await buildEverything(ledger, root);
      await openForTampering(ledger);
      const keys = await primaryKey(ledger, table);

      const missed: string[] = [];
      const rows = await ledger.testing.sql(`SELECT * FROM ${table}`);
      expect(rows).not.toEqual([]);
      for (const row of rows) {
        for (const [column, value] of Object.entries(row)) {
          const changed = otherValue(value);
          if (!(await writeCell(ledger, table, column, changed, keys, row))) continue;
          const cell = `${column} of ${JSON.stringify(keys.map((key) => row[key]))}`;
          if ((await ledger.verify()).ok) missed.push(`${cell}: verify`);
          const ofRun = TABLES_OF_RUN.has(table) || (table === "journal" && row["run_id"] === "run-1");
          if (ofRun && (await projectedRun(ledger, root))?.status === "verified")
            missed.push(`${cell}: projection`);
          await writeCell(ledger, table, column, value, keys, { ...row, [column]: changed });
        }
      }
      expect(missed).toEqual([]);
      expect(await ledger.verify()).toMatchObject({ ok: true });
      expect((await projectedRun(ledger, root))?.status).toBe("verified");
    });
  }
});

describe("a row that is removed, or added, is found", () => {
  for (const table of TABLES_OF_RUN) {
    test(table, async ({ session: { ledger, root } }) => {
      await buildEverything(ledger, root);
      await openForTampering(ledger);
      for (const row of await ledger.testing.sql(`SELECT * FROM ${table}`)) {
        const key = proofTables[table as keyof typeof proofTables].key;
        await ledger.testing.sql(`DELETE FROM ${table} WHERE ${key} = ?`, [row[key] ?? null]);
        expect(await projectedRun(ledger, root)).toMatchObject(SAFETY_BOUNDARY);
        expect(await ledger.verify()).toMatchObject({ ok: false });
        await insertRow(ledger, table, row);
      }
      expect((await projectedRun(ledger, root))?.status).toBe("verified");
    });
  }

  test("an event that no command wrote", async ({ session: { ledger, root } }) => {
    await buildVerified(ledger, root);
    const [event] = await ledger.testing.sql("SELECT * FROM auto_mode_events WHERE event_cursor = 5");
    await insertRow(ledger, "auto_mode_events", {
      ...event,
      type: "auto_audit_completed",
      event_id: "forged",
      event_cursor: 6,
      sequence: 6,
      idempotency_key: "forged",
    });
    expect(await projectedRun(ledger, root)).toMatchObject(SAFETY_BOUNDARY);
  });

  test("a start event that was retyped does not make the run before it current", async ({
    session: { ledger, root },
  }) => {
    await buildVerified(ledger, root);
    await ledger.runs.start({
      runId: "run-2",
      idempotencyKey: "turn-2",
      rootFrameId: root,
      turnId: "turn-2",
      executionId: "execution-2",
      mode: "off",
    });
    await ledger.testing.sql("UPDATE auto_mode_events SET type = 'candidate_ready' WHERE run_id = 'run-2'");
    expect(await projectedRun(ledger, root)).toMatchObject({ ...SAFETY_BOUNDARY, runId: "run-2" });
  });

  test("a whole run that was removed, its journal entries kept, is not forgotten", async ({
    session: { ledger, root },
  }) => {
    await buildVerified(ledger, root);
    await ledger.testing.sql("PRAGMA foreign_keys = OFF");
    for (const table of ["review_runs", "auto_mode_events", "auto_mode_runs"])
      await ledger.testing.sql(`DELETE FROM ${table}`);
    expect(await projectedRun(ledger, root)).toMatchObject({
      status: "failed",
      terminalReason: "safety_boundary",
      runId: "run-1",
    });
    expect(await ledger.verify()).toMatchObject({ ok: false });
  });
});

test("a damaged run leaves its session usable, other sessions untouched, and is never laundered", async ({
  session: { ledger, root },
}) => {
  await buildVerified(ledger, root);
  const other = await ledger.frames.create({ projectId: (await ledger.projects.list())[0]?.projectId ?? "" });
  await ledger.testing.sql("UPDATE auto_mode_runs SET candidate_id = 'forged' WHERE run_id = 'run-1'");
  const next = {
    idempotencyKey: "turn-2",
    turnId: "turn-2",
    executionId: "execution-2",
    mode: "off",
  } as const;

  expect(await ledger.runs.start({ ...next, runId: "run-2", rootFrameId: root })).toMatchObject({
    created: true,
  });
  expect(await ledger.runs.start({ ...next, runId: "run-3", rootFrameId: other.rootFrameId })).toMatchObject({
    created: true,
  });
  await expect(
    ledger.runs.terminate({ runId: "run-1", idempotencyKey: "again", status: "verified", reason: "r" }),
  ).rejects.toMatchObject({ name: "LedgerConflictError", code: "run_damaged" });

  expect((await projectedRun(ledger, root))?.runId).toBe("run-2");
  const { sessions } = await ledger.verify();
  expect(sessions.find(({ rootFrameId }) => rootFrameId === root)?.runs).toMatchObject([
    { runId: "run-1", damage: { table: "auto_mode_runs" } },
    { runId: "run-2", damage: null },
  ]);
});

const SAFETY_BOUNDARY = {
  status: "failed",
  terminalReason: "safety_boundary",
};

/** A value of the same type that differs as little as may be; null becomes a text. */
function otherValue(value: SqlValue): SqlValue {
  if (typeof value === "number") return value + 1;
  if (typeof value !== "string") return "x";
  const last = value.at(-1);
  return last === undefined ? "x" : `${value.slice(0, -1)}${last === "0" ? "1" : "0"}`;
}

async function openForTampering(ledger: TestLedger): Promise<void> {
  await ledger.testing.sql("PRAGMA foreign_keys = OFF");
  for (const seal of SEALS) await ledger.testing.sql(`DROP TRIGGER ${seal}`);
}

/** Writes one cell past all rules; false if the schema's constraints refuse it. */
async function writeCell(
  ledger: TestLedger,
  table: string,
  column: string,
  value: SqlValue,
  keys: readonly string[],
  row: SqlRow,
): Promise<boolean> {
  const place = keys.map((key) => `${key} = ?`).join(" AND ");
  const parameters = [value, ...keys.map((key) => row[key] ?? null)];
  return ledger.testing.sql(`UPDATE ${table} SET ${column} = ? WHERE ${place}`, parameters).then(
    () => true,
    () => false,
  );
}

async function primaryKey(ledger: TestLedger, table: string): Promise<string[]> {
  const columns = await ledger.testing.sql("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", [
    table,
  ]);
  return columns.map(({ name }) => String(name));
}

async function insertRow(ledger: TestLedger, table: string, row: SqlRow): Promise<void> {
  const columns = Object.keys(row);
  const values = columns.map(() => "?").join(", ");
  await ledger.testing.sql(
    `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${values})`,
    Object.values(row),
  );
}
