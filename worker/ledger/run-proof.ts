import { canonicalJson, NotCanonicalError } from "../../src/proof/canonical.ts";
import { rowDigest } from "../../src/proof/journal.ts";
import type { LedgerEvent } from "../../src/protocol/events.ts";
import type { Damage, ReducedRun, Run } from "../../src/protocol/runs.ts";
import { isActive } from "../../src/protocol/runs.ts";
import type { ProofTable } from "../schema/tables.ts";
import { runTables } from "../schema/tables.ts";
import type { Database, Row } from "../storage/database.ts";
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
  const result = findDamage(() => check(journal, runId, String(rootFrameId), rows));
  if (!(result instanceof DamageFound)) return result;
  return { sound: false, row: rows.row, eventRows: table(rows, "auto_mode_events"), damage: result.damage };
}

const selectByRun = new Map(
  runTables.map((each) => [each.name, `SELECT * FROM ${each.name} WHERE run_id = ?`]),
);
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

function check(journal: Journal, runId: string, rootFrameId: string, rows: RunRows): SoundRun {
  const { row } = rows;
  if (row === undefined) throw new DamageFound("auto_mode_runs", runId, "is missing");
  const entries = journal.entriesOfRun(runId, rootFrameId);
  checkCommitments(entries, rows);
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
    ordinal: entries.length,
  };
  checkRowAgainstState(sound);
  checkReviewsAgainstEvents(sound);
  const last = entries.at(-1);
  if (last !== undefined && isOpen(sound.run)) journal.assertNothingAfter(runId, rootFrameId, last.position);
  if (sound.run.status === "verified") {
    const missing = missingForVerified(sound);
    if (missing !== undefined)
      throw new DamageFound("auto_mode_runs", runId, `claims verified, but ${missing}`);
  }
  return sound;
}

/** A run that may still change. */
function isOpen(run: Run): boolean {
  return run.finishedAt === null && run.abandonedAt === null;
}

function checkCommitments(entries: readonly JournalEntry[], rows: RunRows): void {
  for (const proofTable of runTables) {
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
