import type { JsonObject } from "../../src/proof/canonical.ts";
import { canonicalJson } from "../../src/proof/canonical.ts";
import { type Commitment, rowDigest } from "../../src/proof/journal.ts";
import { type Sha256, sha256 } from "../../src/proof/sha256.ts";
import { revertRecoverySettingKey } from "../../src/protocol/barrier.ts";
import { IntegrityError, NotFoundError, RecoveryRequiredError } from "../../src/protocol/errors.ts";
import type { EventPayloads, EventType, LedgerEvent } from "../../src/protocol/events.ts";
import { type ProofTableName, proofTables } from "../schema/tables.ts";
import type { Database, Row } from "../storage/database.ts";
import { EMPTY_LEDGER } from "./action-ledger.ts";
import { DamageFound, findDamage } from "./damage.ts";
import { Journal } from "./journal.ts";
import { illegalStep, reduceEvent } from "./reduce.ts";
import { deleteRow, insertRow, updateRow } from "./row-sql.ts";
import { decodeRun, newEvent, rowKey } from "./rows.ts";
import { CLOSED_AS_DAMAGED, proveRun, type RunProof, type SoundRun, storedDigest } from "./run-proof.ts";

/** On whose behalf a command runs. */
export interface Caller {
  readonly operationId: string;
  readonly ownerInstanceId: string;
  /** A tab acts for itself; recovery closes what the owner of a run left, because that owner is gone. */
  readonly acts: "for itself" | "for the dead";
}

/**
 * One row written: `row` is the whole row as it stands afterwards (for a delete: before). `vouch` writes nothing and
 * commits to the row again, so that it joins the proof of a run.
 */
export type RowWrite =
  | { readonly act: "insert" | "delete" | "vouch"; readonly table: ProofTableName; readonly row: Row }
  | { readonly act: "update"; readonly table: ProofTableName; readonly before: Row; readonly row: Row };

/** A change outside of runs: of projects, frames, branches, settings. */
export interface Change {
  readonly command: string;
  readonly rootFrameId: string;
  readonly branchId?: string;
  readonly at: number;
  readonly writes: readonly RowWrite[];
}

type EventDraft = {
  readonly [Type in EventType]: {
    readonly type: Type;
    readonly idempotencyKey: string;
    readonly requestSha256: Sha256;
    readonly payload: EventPayloads[Type];
  };
}[EventType];

/** A change of one run: what becomes of its row, the rows around it, and the event that tells of it. */
export interface RunChange {
  readonly command: string;
  readonly at: number;
  /** Columns of the run's row that change; its revision and time follow. */
  readonly run?: Row;
  readonly writes?: readonly RowWrite[];
  readonly event?: EventDraft;
  readonly details?: JsonObject;
}

const selectLastCursor = "SELECT MAX(event_cursor) FROM auto_mode_events WHERE root_frame_id = ?";
const selectLastOrdinal = "SELECT MAX(run_ordinal) FROM journal WHERE run_id = ?";
const markAbandoned = `UPDATE auto_mode_runs
  SET abandoned_at = ?, state_revision = state_revision + 1, updated_at = ? WHERE run_id = ?`;

/**
 * What is written in a session while its barrier is up: the steps of the revert, the run that it abandons, the ends of
 * work that was admitted before, and recovery of candidates, which a revert does not touch. Whether an action event is
 * such an end is decided where it is admitted.
 */
const ADMITTED_BEHIND_BARRIER = new Set([
  "branches.revert.prepare",
  "branches.revert.commit",
  "runs.abandon",
  "actions.appendEvent",
  "attempts.record",
  "attempts.finish",
  "attempts.abandon",
  "attempts.cutOff",
  "recovery.settleCandidate",
]);

/** How many proven runs are kept in memory between commands. */
const REMEMBERED_RUNS = 128;

/**
 * The rows that proofs rest on: reads them only after they were checked, and writes them only together with the
 * journal entry that commits to them.
 *
 * What was checked is remembered until a write went round this class, which SQLite's change counter tells.
 */
export class Ledger {
  readonly database: Database;
  readonly journal: Journal;
  readonly #newId: () => string;
  readonly #runs = new Map<string, SoundRun>();
  readonly #rows = new Map<string, Row | undefined>();
  readonly #answers = new Map<string, unknown>();
  readonly #lastCursors = new Map<string, number>();
  readonly #touched = new Set<string>();
  #knownChanges: number;

  constructor(database: Database, newId: () => string) {
    this.database = database;
    this.journal = new Journal(database);
    this.#newId = newId;
    this.#knownChanges = database.totalChanges();
  }

  /** The sessions that were written to since this was asked last. After a rollback some may have nothing new. */
  takeTouched(): string[] {
    const touched = [...this.#touched];
    this.#touched.clear();
    return touched;
  }

  /** Before each command: drops all that is remembered if somebody else wrote in the meantime. */
  enter(): void {
    if (this.database.totalChanges() !== this.#knownChanges) this.forget();
  }

  /** After each command: what was written up to here was written by us. */
  leave(): void {
    this.#knownChanges = this.database.totalChanges();
  }

  /** Drops all that is remembered, as after a rollback. */
  forget(): void {
    this.#runs.clear();
    this.#rows.clear();
    this.#answers.clear();
    this.#lastCursors.clear();
    this.journal.forget();
    this.#knownChanges = this.database.totalChanges();
  }

  /** Runs work in a savepoint: if it throws, the database and what is remembered are as before. */
  atomically<Result>(work: () => Result): Result {
    this.database.run("SAVEPOINT step");
    try {
      const result = work();
      this.database.run("RELEASE step");
      return result;
    } catch (error) {
      if (this.database.inTransaction()) {
        this.database.run("ROLLBACK TO step");
        this.database.run("RELEASE step");
      }
      this.forget();
      throw error;
    }
  }

  /** A run with its proof; undefined when neither rows nor journal know it. */
  findRun(runId: string): RunProof | undefined {
    const remembered = this.#runs.get(runId);
    if (remembered !== undefined) return remembered;
    const proof = proveRun(this.database, this.journal, runId);
    if (proof?.sound) this.#rememberRun(proof);
    return proof;
  }

  /** @throws NotFoundError */
  run(runId: string): RunProof {
    const proof = this.findRun(runId);
    if (proof === undefined)
      throw new NotFoundError("run_not_found", `there is no run ${runId}`, { field: "runId", runId });
    return proof;
  }

  /**
   * A row outside of runs, checked against the journal's newest commitment to it; undefined when there is none.
   *
   * @throws DamageFound the row was changed, removed or put there by somebody else.
   */
  row(table: ProofTableName, id: string): Row | undefined {
    const cacheKey = `${table} ${id}`;
    if (this.#rows.has(cacheKey)) return this.#rows.get(cacheKey);
    const row = this.#checkedRow(table, id);
    this.#rows.set(cacheKey, row);
    return row;
  }

  #checkedRow(table: ProofTableName, id: string): Row | undefined {
    const proofTable = proofTables[table];
    const row = this.database.get(`SELECT * FROM ${table} WHERE ${proofTable.key} = ?`, [id]);
    const key = rowKey(id);
    const committed = this.journal.indexedCommitment(table, key)?.sha256 ?? null;
    if (row === undefined) {
      if (committed !== null) throw new DamageFound(table, key, "is missing");
      return undefined;
    }
    if (committed === null) throw new DamageFound(table, key, "is a row that no command wrote");
    if (storedDigest(row, proofTable, key) !== committed)
      throw new DamageFound(table, key, "was changed after it was written");
    return row;
  }

  /** An answer about branches and their newest runs, remembered until one of those may have changed. */
  remembered<Answer>(question: string, find: () => Answer): Answer {
    if (this.#answers.has(question)) return this.#answers.get(question) as Answer;
    const answer = find();
    this.#answers.set(question, answer);
    return answer;
  }

  /** Whether an unresolved revert blocks the session. A damaged barrier counts as one that is up. */
  isBarrierUp(rootFrameId: string): boolean {
    const found = findDamage(() => this.row("settings", revertRecoverySettingKey(rootFrameId)));
    return found !== undefined;
  }

  /**
   * The one gate of the barrier: while a revert of a session is unresolved, nothing is written in it but what the
   * revert itself writes, and evidence of how earlier work ended.
   *
   * @throws RecoveryRequiredError
   */
  assertAdmitted(rootFrameId: string, command: string): void {
    if (!ADMITTED_BEHIND_BARRIER.has(command)) this.assertNoBarrier(rootFrameId);
  }

  /** @throws RecoveryRequiredError an unresolved revert blocks the session. */
  assertNoBarrier(rootFrameId: string): void {
    if (!this.isBarrierUp(rootFrameId)) return;
    throw new RecoveryRequiredError(
      "recovery_required",
      `session ${rootFrameId} requires recovery: a workspace revert is unresolved`,
      { rootFrameId },
    );
  }

  /** Writes rows outside of runs, and the journal entry that commits to them. */
  append(caller: Caller, change: Change): void {
    this.assertAdmitted(change.rootFrameId, change.command);
    this.#touched.add(change.rootFrameId);
    this.#answers.clear();
    const commitments = change.writes.map((write) => {
      if (write.act === "update" || write.act === "delete") this.#assertUntouched(write);
      return this.#write(write);
    });
    this.journal.append({
      rootFrameId: change.rootFrameId,
      operationId: caller.operationId,
      command: change.command,
      branchId: change.branchId ?? null,
      runId: null,
      runOrdinal: null,
      ownerInstanceId: caller.ownerInstanceId,
      at: change.at,
      details: null,
      commitments,
    });
    this.#index(commitments, change.writes, change.rootFrameId);
  }

  /** Notes where rows that are looked up one by one were committed to last, and remembers them. */
  #index(commitments: readonly Commitment[], writes: readonly RowWrite[], rootFrameId: string): void {
    writes.forEach(({ act, table, row }, position) => {
      const commitment = commitments[position];
      if (commitment === undefined || proofTables[table].scope !== "index") return;
      this.journal.index(table, commitment.key, rootFrameId);
      this.#rows.set(`${table} ${String(row[proofTables[table].key])}`, act === "delete" ? undefined : row);
    });
  }

  /** Starts a run: its row, its first event and its first journal entry. */
  appendStart(caller: Caller, row: Row, event: EventDraft): SoundRun {
    this.#answers.clear();
    const run = decodeRun(row);
    const [eventRow, started] = this.#newEvent(row, 1, event, run.createdAt);
    const writes: RowWrite[] = [
      { act: "insert", table: "auto_mode_runs", row },
      { act: "insert", table: "auto_mode_events", row: eventRow },
    ];
    const state = reduceEvent(undefined, started);
    const sound: SoundRun = {
      sound: true,
      row,
      run,
      events: [started],
      state,
      reviews: [],
      findings: [],
      repairs: [],
      bindings: [],
      ledger: EMPTY_LEDGER,
      controllerId: caller.ownerInstanceId,
      ordinal: 1,
    };
    this.#commitRun(caller, sound, { command: "runs.start", at: run.createdAt }, writes);
    return sound;
  }

  /** Changes a proven run: its row, the rows around it, its event, and the journal entry that commits to them all. */
  appendToRun(caller: Caller, before: SoundRun, change: RunChange): SoundRun {
    const row = change.run === undefined ? before.row : this.#nextRunRow(before, change.run, change.at);
    const others = change.writes ?? [];
    const [eventRow, event] =
      change.event === undefined
        ? []
        : this.#newEvent(before.row, before.events.length + 1, change.event, change.at);
    const writes: RowWrite[] = [
      ...(change.run === undefined
        ? []
        : [{ act: "update", table: "auto_mode_runs", before: before.row, row } as const]),
      ...others,
      ...(eventRow === undefined
        ? []
        : [{ act: "insert", table: "auto_mode_events", row: eventRow } as const]),
    ];
    const after: SoundRun = {
      ...before,
      row,
      run: decodeRun(row),
      events: event === undefined ? before.events : [...before.events, event],
      state: event === undefined ? before.state : this.#nextState(before, event),
      reviews: withWrites(before.reviews, others, "review_runs"),
      findings: withWrites(before.findings, others, "review_findings"),
      repairs: withWrites(before.repairs, others, "repair_runs"),
      bindings: withWrites(before.bindings, others, "repair_execution_groups"),
      ledger: {
        groups: withWrites(before.ledger.groups, others, "action_groups"),
        events: withWrites(before.ledger.events, others, "action_events"),
        attempts: withWrites(before.ledger.attempts, others, "execution_attempts"),
      },
      controllerId: change.command === "runs.takeOver" ? caller.ownerInstanceId : before.controllerId,
      ordinal: before.ordinal + 1,
    };
    this.#commitRun(caller, after, change, writes);
    return after;
  }

  /**
   * Records that a damaged run was closed. Nothing commits to its row as it stands, so the run stays damaged for
   * ever, however sound its rows may look later.
   */
  closeDamagedRun(caller: Caller, runId: string, row: Row, at: number, details: JsonObject): void {
    this.database.run(markAbandoned, [at, at, runId]);
    this.journal.append({
      rootFrameId: String(row["root_frame_id"]),
      operationId: caller.operationId,
      command: "runs.abandon",
      branchId: String(row["branch_id"]),
      runId,
      runOrdinal: Number(this.database.value(selectLastOrdinal, [runId]) ?? 0) + 1,
      ownerInstanceId: caller.ownerInstanceId,
      at,
      details: { ...details, reason: CLOSED_AS_DAMAGED },
      commitments: [],
    });
    this.#runs.delete(runId);
  }

  #nextState(before: SoundRun, event: LedgerEvent): SoundRun["state"] {
    const reason = illegalStep(before.state, event);
    if (reason !== undefined)
      throw new IntegrityError("illegal_transition", `run ${before.run.runId}: ${reason}`);
    return reduceEvent(before.state, event);
  }

  #nextRunRow(before: SoundRun, columns: Row, at: number): Row {
    return { ...before.row, ...columns, state_revision: before.run.stateRevision + 1, updated_at: at };
  }

  #lastCursor(rootFrameId: string): number {
    return (
      this.#lastCursors.get(rootFrameId) ?? Number(this.database.value(selectLastCursor, [rootFrameId]) ?? 0)
    );
  }

  #newEvent(run: Row, sequence: number, event: EventDraft, at: number): [Row, LedgerEvent] {
    const rootFrameId = String(run["root_frame_id"]);
    const payload = canonicalJson(event.payload);
    const row = {
      event_id: `auto-event-${this.#newId()}`,
      root_frame_id: rootFrameId,
      event_cursor: this.#lastCursor(rootFrameId) + 1,
      run_id: run["run_id"] ?? null,
      branch_id: run["branch_id"] ?? null,
      turn_id: run["turn_id"] ?? null,
      execution_id: run["execution_id"] ?? null,
      sequence,
      idempotency_key: event.idempotencyKey,
      type: event.type,
      request_sha256: event.requestSha256,
      payload_json: payload,
      payload_sha256: sha256(payload),
      created_at: at,
    };
    return [row, newEvent(row, event.payload)];
  }

  #commitRun(caller: Caller, after: SoundRun, change: RunChange, writes: readonly RowWrite[]): void {
    this.assertAdmitted(after.run.rootFrameId, change.command);
    this.#touched.add(after.run.rootFrameId);
    const commitments = writes.map((write) => this.#write(write));
    this.journal.append({
      rootFrameId: after.run.rootFrameId,
      operationId: caller.operationId,
      command: change.command,
      branchId: after.run.branchId,
      runId: after.run.runId,
      runOrdinal: after.ordinal,
      ownerInstanceId: caller.ownerInstanceId,
      at: change.at,
      details: change.details ?? null,
      commitments,
    });
    this.#index(commitments, writes, after.run.rootFrameId);
    this.#lastCursors.set(
      after.run.rootFrameId,
      Math.max(this.#lastCursor(after.run.rootFrameId), after.state.lastEventOrdinal),
    );
    this.#rememberRun(after);
  }

  #rememberRun(run: SoundRun): void {
    this.#runs.delete(run.run.runId);
    this.#runs.set(run.run.runId, run);
    if (this.#runs.size <= REMEMBERED_RUNS) return;
    const [oldest] = this.#runs.keys();
    if (oldest !== undefined) this.#runs.delete(oldest);
  }

  #assertUntouched({ table, row }: RowWrite): void {
    const found = findDamage(() => this.row(table, String(row[proofTables[table].key])));
    if (found instanceof DamageFound) {
      throw new IntegrityError("row_damaged", `${found.message}; it can't be written over`, {
        ...found.damage,
      });
    }
  }

  #write(write: RowWrite): Commitment {
    const { table, row } = write;
    const proofTable = proofTables[table];
    const key = rowKey(row[proofTable.key] ?? null);
    switch (write.act) {
      case "insert":
        insertRow(this.database, proofTable, row);
        return { table, key, sha256: rowDigest(row) };
      case "update":
        updateRow(this.database, proofTable, write.before, row);
        return { table, key, sha256: rowDigest(row) };
      case "vouch":
        return { table, key, sha256: rowDigest(row) };
      case "delete":
        deleteRow(this.database, proofTable, row);
        return { table, key, sha256: null };
    }
  }
}

/** Rows of one table after a change wrote some of them. */
function withWrites(
  rows: readonly Row[],
  writes: readonly RowWrite[],
  table: ProofTableName,
): readonly Row[] {
  const key = proofTables[table].key;
  const ofTable = writes.filter((write) => write.table === table);
  if (ofTable.length === 0) return rows;
  const updated = new Map(
    ofTable.filter((write) => write.act === "update").map(({ row }) => [row[key], row]),
  );
  const inserted = ofTable
    .filter((write) => write.act === "insert" || write.act === "vouch")
    .map(({ row }) => row);
  return [...rows.map((row) => updated.get(row[key]) ?? row), ...inserted];
}
