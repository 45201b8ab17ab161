import type {
  CandidateOutcome,
  ReconcileOutcome,
  RecoveryReport,
  RevertOutcome,
} from "../../src/protocol/recovery.ts";

/** What recovery did, one sentence for each thing, to be shown to a user. */
export function describeRecovery({
  reverts,
  runs,
  attempts,
  candidates,
  failures,
}: Omit<RecoveryReport, "messages">): string[] {
  return [
    ...reverts.map(describeRevert),
    ...runs.map(describeRun),
    ...attempts.map(({ attemptId, terminalState }) =>
      terminalState === "abandoned"
        ? `Attempt ${attemptId} was given up: the tab that ran it is gone.`
        : `Attempt ${attemptId} of a tab that is gone could not be closed (${terminalState}).`,
    ),
    ...candidates.map(describeCandidate),
    ...failures.map(({ step, error }) => `Recovery of ${step} failed and will be tried again: ${error}.`),
  ];
}

function describeRevert({ rootFrameId, ...outcome }: RevertOutcome): string {
  if (!outcome.resolved)
    return `The revert that a tab left unfinished in session ${rootFrameId} needs the session's folder to be set right: ${outcome.error}.`;
  const words = outcome.state === "committed" ? "finished" : "taken back";
  return `The revert that a tab left unfinished in session ${rootFrameId} was ${words}.`;
}

function describeRun(outcome: ReconcileOutcome): string {
  const { runId } = outcome;
  if ("terminalReason" in outcome)
    return `Run ${runId} was closed as “${outcome.status.replaceAll("_", " ")}”: the tab that drove it is gone.`;
  if ("abandonedAt" in outcome) return `Run ${runId} of a tab that is gone was released: ${outcome.error}.`;
  if ("deferred" in outcome)
    return `Run ${runId} of a tab that is gone stays open for now: ${outcome.error}.`;
  return `Run ${runId} of a tab that is gone could not be closed: ${outcome.unreconciled}.`;
}

function describeCandidate(outcome: CandidateOutcome): string {
  if ("unreconciled" in outcome)
    return `Message ${outcome.messageId} waits for a verdict that will not come, and could not be settled: ${outcome.error}.`;
  return `Message ${outcome.messageId} is marked as not reviewed: the tab that waited for its verdict is gone.`;
}
