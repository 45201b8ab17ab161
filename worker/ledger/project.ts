import { canonicalJson } from "../../src/proof/canonical.ts";
import { digest } from "../../src/proof/sha256.ts";
import type { LedgerEvent, StoredEvent } from "../../src/protocol/events.ts";
import { isMaterial } from "../../src/protocol/reviews.ts";
import {
  type Damage,
  isActive,
  type ProjectedRun,
  type Projection,
  type ReducedRun,
  RUN_MODES,
  type RunMode,
  type RunStatus,
} from "../../src/protocol/runs.ts";
import type { Row } from "../storage/database.ts";
import { DamageFound, findDamage } from "./damage.ts";
import type { Ledger } from "./ledger.ts";
import { clipRanges, isVisible, type Range } from "./lineage.ts";
import { reduceRun } from "./reduce.ts";
import { decodeEvent } from "./rows.ts";
import type { DamagedRun, RunProof, SoundRun } from "./run-proof.ts";
import { historyOf, requireSession } from "./sessions.ts";

const NOTHING: Projection = { run: null, lastEventId: null, lastEventOrdinal: 0, events: [] };

/** The run that a branch shows, whole: what of it is visible, and its proof. */
export interface CurrentRun {
  readonly runId: string;
  readonly proof: RunProof;
  readonly ranges: readonly Range[];
}

const selectNewestStart = `SELECT run_id, event_cursor FROM auto_mode_events
  WHERE root_frame_id = ? AND branch_id = ? AND type = 'auto_run_started' AND event_cursor > ? AND event_cursor <= ?
  ORDER BY event_cursor DESC LIMIT 1`;
const selectNewestEvent = `SELECT run_id, event_cursor FROM auto_mode_events
  WHERE root_frame_id = ? AND branch_id = ? AND event_cursor > ? AND event_cursor <= ?
  ORDER BY event_cursor DESC LIMIT 1`;
const selectNewestRow = `SELECT run_id FROM auto_mode_runs
  WHERE root_frame_id = ? AND branch_id = ? ORDER BY rowid DESC LIMIT 1`;

/** The projection of a branch (spec/auto_mode 4.3), with the fail-closed view of 4.7 where a check fails. */
export function projectBranch(
  ledger: Ledger,
  rootFrameId: string,
  branchId: string,
  uptoCursor: number | null,
): Projection {
  requireSession(ledger.database, rootFrameId);
  const current = findDamage(() => currentRun(ledger, rootFrameId, branchId, uptoCursor));
  if (current instanceof DamageFound)
    return projectDamagedHistory(ledger, rootFrameId, branchId, current.damage);
  if (current === undefined) return NOTHING;
  return current.proof.sound
    ? projectSound(current.proof, current.ranges)
    : projectDamaged(current.runId, current.proof, visibleEvents(current.proof, current.ranges));
}

/**
 * The current run of a branch: that of the newest visible start. Where the newest visible event or the journal
 * name another run, somebody hid or forged a start; the damaged one of them is shown, so that it can't vanish.
 *
 * @throws NotFoundError
 * @throws DamageFound the branch's own rows are damaged.
 */
export function currentRun(
  ledger: Ledger,
  rootFrameId: string,
  branchId: string,
  uptoCursor: number | null = null,
): CurrentRun | undefined {
  const find = () => findCurrentRun(ledger, rootFrameId, branchId, uptoCursor);
  const found =
    uptoCursor === null
      ? ledger.remembered(`current run of ${canonicalJson([rootFrameId, branchId])}`, find)
      : find();
  if (found === undefined) return undefined;
  const proof = ledger.findRun(found.runId);
  return proof === undefined ? undefined : { ...found, proof };
}

function findCurrentRun(
  ledger: Ledger,
  rootFrameId: string,
  branchId: string,
  uptoCursor: number | null,
): Omit<CurrentRun, "proof"> | undefined {
  const all = historyOf(ledger, rootFrameId, branchId);
  const ranges = uptoCursor === null ? all : clipRanges(all, uptoCursor);
  const started = newestInRanges(ledger, selectNewestStart, rootFrameId, ranges);
  const rivals = [
    newestInRanges(ledger, selectNewestEvent, rootFrameId, ranges),
    uptoCursor === null ? vanishedRun(ledger, rootFrameId, branchId, started) : undefined,
  ];
  for (const runId of rivals) {
    if (runId === undefined || runId === started) continue;
    const proof = ledger.findRun(runId);
    if (proof !== undefined && !proof.sound) return { runId, ranges };
  }
  return started === undefined ? undefined : { runId: started, ranges };
}

/** The newest run by the journal, if its start is nowhere to be found among the events. */
function vanishedRun(
  ledger: Ledger,
  rootFrameId: string,
  branchId: string,
  started: string | undefined,
): string | undefined {
  const journaled = ledger.journal.newestRun(rootFrameId, branchId);
  if (journaled === undefined || journaled === started) return undefined;
  const everything: Range = { branchId, after: 0, upto: null };
  return newestInRanges(ledger, selectNewestStart, rootFrameId, [everything]) === journaled
    ? undefined
    : journaled;
}

function newestInRanges(
  ledger: Ledger,
  sql: string,
  rootFrameId: string,
  ranges: readonly Range[],
): string | undefined {
  for (const range of ranges.toReversed()) {
    const upto = range.upto ?? Number.MAX_SAFE_INTEGER;
    const runId = ledger.database.value(sql, [rootFrameId, range.branchId, range.after, upto]);
    if (typeof runId === "string") return runId;
  }
  return undefined;
}

/** Whether all that happened in the run is visible: only then it may change. */
export function showsWholeRun(run: SoundRun, ranges: readonly Range[]): boolean {
  const last = run.events.at(-1);
  return last !== undefined && isVisible(ranges, last);
}

function projectSound(proof: SoundRun, ranges: readonly Range[]): Projection {
  const whole = showsWholeRun(proof, ranges);
  const events = whole ? proof.events : proof.events.filter((event) => isVisible(ranges, event));
  const state = whole ? proof.state : reduceRun(events);
  if (state === undefined) return NOTHING;
  return {
    run: { ...state, ...progressFacts(proof, state, events) },
    lastEventId: state.lastEventId,
    lastEventOrdinal: state.lastEventOrdinal,
    events,
  };
}

/** What a reader wants to know of a sound run beyond its state (spec/auto_mode 4.9). */
function progressFacts(
  proof: SoundRun,
  state: ReducedRun,
  events: readonly LedgerEvent[],
): Partial<ProjectedRun> {
  const { result_review_mode: reviewMode = null, approvals_reviewer: approver } = state.selection;
  const isMode = (RUN_MODES as readonly string[]).includes(state.mode);
  const started = events.findLast((event) => event.type === "auto_audit_started");
  return {
    ...(isMode &&
      (reviewMode === null || reviewMode === state.mode) && { resultReviewMode: state.mode as RunMode }),
    ...((approver === "user" || approver === "auto_review") && { approvalsReviewer: approver }),
    ...(started !== undefined && { reviewRound: started.payload.round }),
    ...unresolvedFindings(proof, state, events),
  };
}

function unresolvedFindings(
  proof: SoundRun,
  state: ReducedRun,
  events: readonly LedgerEvent[],
): { unresolvedFindingCount?: number } {
  if (state.status !== "completed_with_issues") return {};
  const newest = events.findLast(
    (event) => event.type === "auto_audit_completed" && event.payload.candidate_id === state.candidateId,
  );
  if (newest?.type !== "auto_audit_completed") return {};
  if (newest.payload.status !== "completed" || newest.payload.verdict === "pass") return {};
  const findings = proof.findings.filter((row) => row["review_run_id"] === newest.payload.review_run_id);
  const material = findings.filter((row) => isMaterial(String(row["severity"])));
  const count = material.length > 0 ? material.length : findings.length;
  return count > 0 ? { unresolvedFindingCount: count } : {};
}

function visibleEvents(proof: DamagedRun, ranges: readonly Range[]): StoredEvent[] {
  return proof.eventRows
    .map(decodeEvent)
    .filter((event) => isVisible(ranges, event))
    .sort((a, b) => a.eventCursor - b.eventCursor);
}

/** When the branch or its checkpoints are damaged, nothing says what is visible: its newest run reads as damaged. */
function projectDamagedHistory(
  ledger: Ledger,
  rootFrameId: string,
  branchId: string,
  damage: Damage,
): Projection {
  const stored = ledger.database.value(selectNewestRow, [rootFrameId, branchId]);
  const runId =
    ledger.journal.newestRun(rootFrameId, branchId) ?? (typeof stored === "string" ? stored : undefined);
  if (runId === undefined) return NOTHING;
  const eventRows = ledger.database.all(selectEventsOfRun, [runId]);
  const left: DamagedRun = { sound: false, row: ledger.findRun(runId)?.row, eventRows, damage };
  return projectDamaged(runId, left, eventRows.map(decodeEvent));
}

const selectEventsOfRun = "SELECT * FROM auto_mode_events WHERE run_id = ? ORDER BY event_cursor";

const SAFETY_BOUNDARY = { status: "failed", terminal_reason: "safety_boundary" } as const;

/**
 * The fail-closed view (spec/auto_mode 4.7): the run reads `failed` / `safety_boundary`, what it claims is kept
 * apart, and nothing in it promises that it could go on.
 */
function projectDamaged(runId: string, proof: DamagedRun, events: readonly StoredEvent[]): Projection {
  const reduced = reduceWhatIsLeft(runId, proof, events);
  const { recoveryState: _, ...claims } = reduced;
  return {
    run: {
      ...claims,
      status: SAFETY_BOUNDARY.status,
      terminalReason: SAFETY_BOUNDARY.terminal_reason,
      recoveryRequired: false,
      sourceClaimedStatus: claimedStatus(reduced.status, proof.row),
      damage: proof.damage,
    },
    lastEventId: events.at(-1)?.eventId ?? null,
    lastEventOrdinal: events.at(-1)?.eventCursor ?? 0,
    events: events.map(failClosed),
  };
}

function claimedStatus(reduced: RunStatus | undefined, row: Row | undefined): string {
  const stored = row?.["status"];
  if (reduced === "verified" || stored === "verified") return "verified";
  return reduced ?? (typeof stored === "string" ? stored : "failed");
}

function failClosed(event: StoredEvent): StoredEvent {
  if (event.type !== "auto_run_terminal") return event;
  const payload = { ...(event.payload ?? {}), ...SAFETY_BOUNDARY };
  return { ...event, payload, payloadSha256: digest(payload) } as StoredEvent;
}

/** The state that damaged events still add up to; where they add up to none, what the row says. */
function reduceWhatIsLeft(runId: string, proof: DamagedRun, events: readonly StoredEvent[]): ReducedRun {
  try {
    const state = reduceRun(events as readonly LedgerEvent[]);
    if (state !== undefined && (isActive(state.status) || state.finishedAt !== undefined)) return state;
  } catch {
    // The events are damaged beyond reading; the view falls back to the row.
  }
  const text = (column: string) => String(proof.row?.[column] ?? "");
  const number = (column: string) => Number(proof.row?.[column] ?? 0);
  const finishedAt = proof.row?.["finished_at"];
  return {
    runId,
    rootFrameId: text("root_frame_id"),
    branchId: text("branch_id"),
    turnId: text("turn_id"),
    executionId: text("execution_id"),
    mode: text("mode"),
    selection: {},
    budgets: {},
    status: (proof.row?.["status"] ?? "failed") as RunStatus,
    startedAt: number("created_at"),
    createdAt: number("created_at"),
    startEventOrdinal: 0,
    ...(typeof finishedAt === "number" && { finishedAt }),
    lastEventId: events.at(-1)?.eventId ?? "",
    lastEventOrdinal: events.at(-1)?.eventCursor ?? 0,
    updatedAt: number("updated_at"),
    recoveryRequired: false,
  };
}
