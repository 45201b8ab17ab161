import { canonicalJson, NotCanonicalError } from "../../src/proof/canonical.ts";
import { rowDigest } from "../../src/proof/journal.ts";
import type { LedgerEvent } from "../../src/protocol/events.ts";
import type { Damage, ReducedRun, Run } from "../../src/protocol/runs.ts";
import { isActive } from "../../src/protocol/runs.ts";
import type { ProofTable, ProofTableName } from "../schema/tables.ts";
import { boundTables, proofTables, runTables } from "../schema/tables.ts";
import type { Database, Row } from "../storage/database.ts";
import { type ActionLedger, ledgerOfGroup, sealOf } from "./action-ledger.ts";
import { DamageFound, findDamage } from "./damage.ts";
import type { Journal, JournalEntry } from "./journal.ts";
import { illegalStep, reduceEvent } from "./reduce.ts";
import { decodeRun, rowKey, soundEvent } from "./rows.ts";
import { missingForVerified } from "./verified.ts";

/** A run whose every row the journal vouches for. */
export interface SoundRun {
  readonly sound: true;
  readonly row: Row;
  readonly run: Run;
  readonly events: readonly LedgerEvent[];
  readonly state: ReducedRun;
  /** Rows of `review_runs` in the order in which they were opened. */
  readonly reviews: readonly Row[];
  /** Rows of `review_findings` by review and ordinal. */
  readonly findings: readonly Row[];
  /** Rows of `repair_runs` in the order in which they were started. */
  readonly repairs: readonly Row[];
  /** Rows of `repair_execution_groups` by repair and ordinal. */
  readonly bindings: readonly Row[];
  /** The bound groups with all that was done in them. */
  readonly ledger: ActionLedger;
  /** The tab that may change the run: the one that started it, or took it over last. */
  readonly controllerId: string;
  /** Number of journal entries of the run. */
  readonly ordinal: number;
}

/** A run that fails its check: what is left of it, and where it is damaged. */
export interface DamagedRun {
  readonly sound: false;
  readonly row: Row | undefined;
  readonly eventRows: readonly Row[];
  readonly damage: Damage;
}

export type RunProof = SoundRun | DamagedRun;

/** The reason under which a damaged run is closed. It stays damaged for ever, however sound its rows look later. */
export const CLOSED_AS_DAMAGED = "damaged";

interface RunRows {
  readonly tables: ReadonlyMap<string, readonly Row[]>;
  readonly row: Row | undefined;
}

/**
 * Reads every row of a run and checks it whole (ARCHITECTURE.md, The proof): each row has a commitment and matches it, no
 * commitment is without its row, the entries hang in the chain, the events are legal, they add up to the run's
 * row, and a `verified` was earned. Undefined when neither rows nor journal know the run.
 */
export function proveRun(database: Database, journal: Journal, runId: string): RunProof | undefined {
  const rows = readRows(database, runId);
  const known = [...rows.tables.values()].some((each) => each.length > 0);
  const rootFrameId = rows.row?.["root_frame_id"] ?? rootOfEntries(database, runId);
  if (!known && rootFrameId === undefined) return undefined;
  const result = findDamage(() => check(database, journal, runId, String(rootFrameId), rows));
  if (!(result instanceof DamageFound)) return result;
  return { sound: false, row: rows.row, eventRows: table(rows, "auto_mode_events"), damage: result.damage };
}

const selectByRun = new Map([
  ...runTables.map((each) => [each.name, `SELECT * FROM ${each.name} WHERE run_id = ?`] as const),
  ...boundTables.map(
    (each) =>
      [
        each.name,
        `SELECT each.* FROM repair_execution_groups AS bound JOIN ${each.name} AS each
         ON each.group_id = bound.action_group_id WHERE bound.run_id = ?`,
      ] as const,
  ),
]);
const selectRootOfEntries = "SELECT root_frame_id FROM journal WHERE run_id = ? LIMIT 1";

function readRows(database: Database, runId: string): RunRows {
  const tables = new Map<string, readonly Row[]>();
  for (const [name, sql] of selectByRun) tables.set(name, database.all(sql, [runId]));
  return { tables, row: tables.get("auto_mode_runs")?.[0] };
}

function rootOfEntries(database: Database, runId: string): Row[string] | undefined {
  return database.value(selectRootOfEntries, [runId]);
}

function table(rows: RunRows, name: string): readonly Row[] {
  return rows.tables.get(name) ?? [];
}

function check(
  database: Database,
  journal: Journal,
  runId: string,
  rootFrameId: string,
  rows: RunRows,
): SoundRun {
  const { row } = rows;
  if (row === undefined) throw new DamageFound("auto_mode_runs", runId, "is missing");
  const entries = journal.entriesOfRun(runId, rootFrameId);
  checkCommitments(entries, rows);
  checkOtherCommitments(database, entries);
  const closed = entries.find((entry) => entry.details?.["reason"] === CLOSED_AS_DAMAGED);
  if (closed !== undefined)
    throw new DamageFound("auto_mode_runs", runId, "was closed because it was damaged");

  const events = orderedEvents(table(rows, "auto_mode_events"), row);
  const sound: SoundRun = {
    sound: true,
    row,
    run: decodeRun(row),
    events,
    state: legalState(events),
    reviews: [...table(rows, "review_runs")].sort(by("started_at", "review_run_id")),
    findings: [...table(rows, "review_findings")].sort(by("review_run_id", "finding_ordinal")),
    repairs: [...table(rows, "repair_runs")].sort(by("started_at", "repair_run_id")),
    bindings: [...table(rows, "repair_execution_groups")].sort(by("repair_run_id", "ordinal")),
    ledger: {
      groups: table(rows, "action_groups"),
      events: [...table(rows, "action_events")].sort(by("group_id", "sequence")),
      attempts: [...table(rows, "execution_attempts")].sort(by("group_id", "attempt_ordinal", "attempt_id")),
    },
    controllerId: controllerOf(entries),
    ordinal: entries.length,
  };
  checkRowAgainstState(sound);
  checkReviewsAgainstEvents(sound);
  checkRepairsAgainstEvents(sound);
  checkSeals(sound);
  const last = entries.at(-1);
  if (last !== undefined && isOpen(sound.run)) journal.assertNothingAfter(runId, rootFrameId, last.position);
  if (sound.run.status === "verified") {
    const missing = missingForVerified(sound);
    if (missing !== undefined)
      throw new DamageFound("auto_mode_runs", runId, `claims verified, but ${missing}`);
  }
  return sound;
}

/** Commands that say who drives a run. */
const CONTROL = new Set(["runs.start", "runs.takeOver"]);

function controllerOf(entries: readonly JournalEntry[]): string {
  return entries.findLast((entry) => CONTROL.has(entry.command))?.ownerInstanceId ?? "";
}

/** A run that may still change. */
function isOpen(run: Run): boolean {
  return run.finishedAt === null && run.abandonedAt === null;
}

function checkCommitments(entries: readonly JournalEntry[], rows: RunRows): void {
  for (const proofTable of [...runTables, ...boundTables]) {
    const expected = committedRows(entries, proofTable);
    for (const row of table(rows, proofTable.name)) {
      const key = rowKey(row[proofTable.key] ?? null);
      const sha256 = expected.get(key);
      if (sha256 === undefined) throw new DamageFound(proofTable.name, key, "is a row that no command wrote");
      if (storedDigest(row, proofTable, key) !== sha256) {
        throw new DamageFound(proofTable.name, key, "was changed after it was written");
      }
      expected.delete(key);
    }
    for (const key of expected.keys()) throw new DamageFound(proofTable.name, key, "is missing");
  }
}

const tablesOfRun = new Set<string>([...runTables, ...boundTables].map(({ name }) => name));

/** Rows of other tables that the run wrote, as its settled message: they are what the run left. */
function checkOtherCommitments(database: Database, entries: readonly JournalEntry[]): void {
  const others = new Set<string>();
  for (const { commitments } of entries) {
    for (const { table: name } of commitments) if (!tablesOfRun.has(name)) others.add(name);
  }
  for (const name of others) {
    const proofTable: ProofTable = proofTables[name as ProofTableName];
    for (const [key, sha256] of committedRows(entries, proofTable)) {
      const [id] = JSON.parse(key) as [string];
      const row = database.get(`SELECT * FROM ${proofTable.name} WHERE ${proofTable.key} = ?`, [id]);
      if (row === undefined) throw new DamageFound(name, key, "is missing");
      if (storedDigest(row, proofTable, key) !== sha256)
        throw new DamageFound(name, key, "was changed after the run had settled it");
    }
  }
}

/** The rows of one table as the entries leave them: key to digest. */
function committedRows(entries: readonly JournalEntry[], proofTable: ProofTable): Map<string, string> {
  const expected = new Map<string, string>();
  for (const { commitments } of entries) {
    for (const { table: name, key, sha256 } of commitments) {
      if (name !== proofTable.name) continue;
      if (sha256 === null) expected.delete(key);
      else expected.set(key, sha256);
    }
  }
  return expected;
}

/** The digest of a row as it was read; a value that no command could have written is damage. */
export function storedDigest(row: Row, proofTable: ProofTable, key: string): string {
  try {
    return rowDigest(row);
  } catch (error) {
    if (error instanceof NotCanonicalError)
      throw new DamageFound(proofTable.name, key, `holds a value that ${error.reason}`);
    throw error;
  }
}

const IDENTITY_COLUMNS = ["root_frame_id", "branch_id", "turn_id", "execution_id"] as const;

function orderedEvents(rows: readonly Row[], run: Row): LedgerEvent[] {
  let lastCursor = 0;
  return [...rows].sort(by("sequence")).map((row, index) => {
    const event = soundEvent(row);
    const complain = (reason: string) => new DamageFound("auto_mode_events", event.eventId, reason);
    if (event.sequence !== index + 1) throw complain("breaks the order of its run's events");
    if (event.eventCursor <= lastCursor) throw complain("breaks the order of its session's events");
    if (IDENTITY_COLUMNS.some((column) => row[column] !== run[column]))
      throw complain("belongs to another run");
    lastCursor = event.eventCursor;
    return event;
  });
}

function legalState(events: readonly LedgerEvent[]): ReducedRun {
  let state: ReducedRun | undefined;
  for (const event of events) {
    const reason = illegalStep(state, event);
    if (reason !== undefined) throw new DamageFound("auto_mode_events", event.eventId, reason);
    state = reduceEvent(state, event);
  }
  if (state === undefined) throw new DamageFound("auto_mode_events", null, "holds no event of the run");
  return state;
}

/** The reduced state and the row say the same (spec/auto_mode 4.6, V15). */
function checkRowAgainstState({ run, state }: SoundRun): void {
  const claimed = [
    run.rootFrameId,
    run.branchId,
    run.turnId,
    run.executionId,
    run.mode,
    run.selection,
    run.budgets,
    run.status,
    run.candidateId,
    run.candidateSnapshotSha256,
    run.evidenceSnapshotSha256,
    run.artifactSetSha256,
    run.candidateArtifactIds,
    run.candidateVersionIds,
    run.terminalReason,
    run.stopReason,
    run.createdAt,
    run.finishedAt,
  ];
  const reduced = [
    state.rootFrameId,
    state.branchId,
    state.turnId,
    state.executionId,
    state.mode,
    state.selection,
    state.budgets,
    state.status,
    state.candidateId ?? null,
    state.candidateSnapshotSha256 ?? null,
    state.evidenceSnapshotSha256 ?? null,
    state.artifactSetSha256 ?? null,
    state.candidateArtifactIds ?? [],
    state.candidateVersionIds ?? [],
    state.terminalReason ?? null,
    state.stopReason ?? null,
    state.createdAt,
    state.finishedAt ?? null,
  ];
  if (canonicalJson(claimed) !== canonicalJson(reduced)) {
    throw new DamageFound("auto_mode_runs", run.runId, "does not say what its events add up to");
  }
  if (isActive(run.status) !== (run.finishedAt === null)) {
    throw new DamageFound("auto_mode_runs", run.runId, "is neither active nor finished");
  }
}

/** Each review has its start event, and its completion event exactly when it is closed. */
function checkReviewsAgainstEvents({ events, reviews }: SoundRun): void {
  const started = new Set<string>();
  const completed = new Set<string>();
  for (const event of events) {
    if (event.type === "auto_audit_started") started.add(event.payload.review_run_id);
    if (event.type === "auto_audit_completed") completed.add(event.payload.review_run_id);
  }
  for (const review of reviews) {
    const id = String(review["review_run_id"]);
    const isClosed = review["status"] !== "started";
    if (!started.delete(id) || completed.delete(id) !== isClosed) {
      throw new DamageFound("review_runs", id, "does not agree with its events");
    }
  }
  const orphan = [...started, ...completed][0];
  if (orphan !== undefined) throw new DamageFound("review_runs", orphan, "is missing");
}

/** Each repair has its start event, its bindings theirs, and a closed one its completion. */
function checkRepairsAgainstEvents({ events, repairs, bindings }: SoundRun): void {
  const told = { started: new Set<string>(), completed: new Set<string>(), bound: new Set<string>() };
  for (const event of events) {
    if (event.type === "repair_completed") told.completed.add(event.payload.repair_run_id);
    if (event.type !== "repair_started") continue;
    if (event.payload.phase === "execution_group_bound") told.bound.add(event.payload.action_group_id);
    else told.started.add(event.payload.repair_run_id);
  }
  for (const repair of repairs) {
    const id = String(repair["repair_run_id"]);
    const isClosed = repair["status"] !== "started";
    if (!told.started.delete(id) || told.completed.delete(id) !== isClosed)
      throw new DamageFound("repair_runs", id, "does not agree with its events");
  }
  for (const binding of bindings) {
    const id = String(binding["action_group_id"]);
    if (!told.bound.delete(id))
      throw new DamageFound("repair_execution_groups", id, "does not agree with its events");
  }
  const orphan = [...told.started, ...told.completed, ...told.bound][0];
  if (orphan !== undefined) throw new DamageFound("repair_runs", orphan, "is missing");
}

/** The sealed ledgers are those that were sealed (spec/auto_mode 6.6). */
function checkSeals({ bindings, ledger }: SoundRun): void {
  for (const binding of bindings) {
    if (binding["sealed_at"] === null) continue;
    const groupId = String(binding["action_group_id"]);
    const { eventCount, sha256 } = sealOf(ledgerOfGroup(ledger, groupId));
    if (binding["ledger_event_count"] !== eventCount || binding["ledger_sha256"] !== sha256)
      throw new DamageFound("repair_execution_groups", groupId, "is sealed over another ledger");
  }
}

function by(...columns: string[]): (a: Row, b: Row) => number {
  return (a, b) => {
    for (const column of columns) {
      const [left, right] = [a[column] ?? 0, b[column] ?? 0];
      if (left < right) return -1;
      if (left > right) return 1;
    }
    return 0;
  };
}
