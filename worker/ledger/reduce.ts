import type { LedgerEvent } from "../../src/protocol/events.ts";
import { isActive, type ReducedRun, type RunStatus } from "../../src/protocol/runs.ts";

/** What a run's events add up to (spec/auto_mode 4.4): pure, event by event. */
export function reduceRun(events: readonly LedgerEvent[]): ReducedRun | undefined {
  let state: ReducedRun | undefined;
  for (const event of events) state = reduceEvent(state, event);
  return state;
}

/** The state after one more event. The first event must be the start. */
export function reduceEvent(before: ReducedRun | undefined, event: LedgerEvent): ReducedRun {
  const changed = before === undefined ? startState(event) : { ...before, ...effect(event) };
  const { recoveryState: _, ...state } = changed;
  const recoveryRequired = isActive(state.status);
  return {
    ...state,
    lastEventId: event.eventId,
    lastEventOrdinal: event.eventCursor,
    updatedAt: event.createdAt,
    recoveryRequired,
    ...(recoveryRequired && { recoveryState: "committed_phase_requires_reconciliation" }),
  };
}

function startState(event: LedgerEvent): ReducedRun {
  if (event.type !== "auto_run_started")
    throw new TypeError(`a run starts with auto_run_started, not ${event.type}`);
  return {
    runId: event.runId,
    rootFrameId: event.rootFrameId,
    branchId: event.branchId,
    turnId: event.turnId,
    executionId: event.executionId,
    mode: event.payload.mode,
    selection: event.payload.selection,
    budgets: event.payload.budgets,
    status: "running",
    startedAt: event.createdAt,
    createdAt: event.createdAt,
    startEventOrdinal: event.eventCursor,
    lastEventId: event.eventId,
    lastEventOrdinal: event.eventCursor,
    updatedAt: event.createdAt,
    recoveryRequired: true,
  };
}

const NO_CANDIDATE = {
  candidateId: null,
  candidateSnapshotSha256: null,
  evidenceSnapshotSha256: null,
  artifactSetSha256: null,
  candidateArtifactIds: [],
  candidateVersionIds: [],
} as const;

function effect(event: LedgerEvent): Partial<ReducedRun> {
  switch (event.type) {
    case "auto_run_started":
      return {};
    case "candidate_ready":
      return {
        status: "candidate",
        candidateId: event.payload.candidate_id,
        candidateSnapshotSha256: event.payload.candidate_snapshot_sha256,
        evidenceSnapshotSha256: event.payload.evidence_snapshot_sha256,
        artifactSetSha256: event.payload.artifact_set_sha256,
        candidateArtifactIds: event.payload.candidate_artifact_ids,
        candidateVersionIds: event.payload.candidate_version_ids,
      };
    case "auto_audit_started":
      return event.payload.subject_kind === "result_review" ? { status: "reviewing" } : {};
    case "auto_audit_completed":
      return event.payload.subject_kind === "result_review" ? { status: "candidate" } : {};
    case "repair_started":
      return { status: "repairing" };
    case "repair_completed":
      return afterRepair(event.payload.status);
    case "auto_run_terminal":
      return {
        status: event.payload.status as RunStatus,
        terminalReason: event.payload.terminal_reason,
        stopReason: event.payload.stop_reason,
        terminalAt: event.createdAt,
        finishedAt: event.createdAt,
      };
    default:
      return unreachable(event);
  }
}

function afterRepair(status: string): Partial<ReducedRun> {
  if (status === "completed") return { status: "running", ...NO_CANDIDATE };
  return { status: status === "failed" ? "candidate" : "repairing" };
}

/** Why this event may not follow that state, or undefined (the transition table of spec/auto_mode 3.11). */
export function illegalStep(before: ReducedRun | undefined, event: LedgerEvent): string | undefined {
  if (before === undefined)
    return event.type === "auto_run_started" ? undefined : "the first event is not the start";
  const allowed = allowedIn(event);
  return allowed.includes(before.status)
    ? undefined
    : `${event.type} may not follow the state ${before.status}`;
}

function allowedIn(event: LedgerEvent): readonly RunStatus[] {
  switch (event.type) {
    case "auto_run_started":
      return [];
    case "candidate_ready":
      return ["running", "candidate"];
    case "auto_audit_started":
      return event.payload.subject_kind === "result_review" ? ["candidate"] : PERMISSION_REVIEW;
    case "auto_audit_completed":
      return event.payload.subject_kind === "result_review" ? ["reviewing"] : PERMISSION_REVIEW;
    case "repair_started":
      return event.payload.phase === "execution_group_bound" ? ["repairing"] : ["candidate"];
    case "repair_completed":
      return ["repairing"];
    case "auto_run_terminal":
      // A repair with an unknown outcome ends the run on its own, out of `repairing`.
      return ["running", "candidate", "repairing"];
    default:
      return unreachable(event);
  }
}

/** A permission review may run beside any active phase. */
const PERMISSION_REVIEW: readonly RunStatus[] = ["running", "candidate", "reviewing", "repairing"];

function unreachable(event: never): never {
  throw new TypeError(`unknown event ${JSON.stringify(event)}`);
}
