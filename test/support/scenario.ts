import { expect } from "vitest";
import { canonicalJson, digest } from "../../src/proof/index.ts";
import type { TestLedger } from "../../src/testing.ts";

/** The building blocks of the seed's scenarios, with the seed's values. */

export function startFields(root: string, changes: Partial<ReturnType<typeof defaultStart>> = {}) {
  const fields = { ...defaultStart(root), ...changes };
  return { ...fields, idempotencyKey: changes.idempotencyKey ?? `${fields.turnId}:auto-run` };
}

function defaultStart(root: string) {
  return {
    runId: "run-1",
    idempotencyKey: "turn-1:auto-run",
    rootFrameId: root,
    branchId: root,
    turnId: "turn-1",
    executionId: "execution-1",
    mode: "auto_fix" as const,
    selection: {
      preset: "autonomous",
      result_review_mode: "auto_fix",
      approvals_reviewer: "auto_review",
      source: "frame",
    },
    budgets: { max_review_attempts: 2, max_repair_rounds: 2 },
    ownerInstanceId: "daemon-regression",
    createdAt: 100,
  };
}

export const evidence = { candidate_id: "candidate-1", complete: true };

/** From spec/auto_mode 2.4, not computed by the code under test. */
export const EVIDENCE_SHA256 = "fc5556057ccb55ca77da1104160f32640ef6bbe4767d30a89d378009804122ab";

export const candidateFields = {
  runId: "run-1",
  idempotencyKey: "candidate:1",
  candidateId: "candidate-1",
  candidateSnapshotSha256: "a".repeat(64),
  evidenceSnapshotSha256: EVIDENCE_SHA256,
  artifactSetSha256: "b".repeat(64),
  candidateArtifactIds: ["artifact-1"],
  candidateVersionIds: ["version-1"],
  createdAt: 110,
};

export const reviewFields = {
  runId: "run-1",
  reviewRunId: "review-1",
  auditId: "audit-1",
  idempotencyKey: "review:start",
  candidateId: "candidate-1",
  candidateSnapshotSha256: "a".repeat(64),
  evidenceSnapshot: evidence,
  evidenceSnapshotSha256: EVIDENCE_SHA256,
  roundIndex: 0,
  attempt: 1,
  reviewer: { profile_id: "scientific-reviewer", profile_revision: 1, model_fingerprint: "reviewer-model-v1" },
  startedAt: 120,
};

export const completionFields = {
  reviewRunId: "review-1",
  idempotencyKey: "review:complete",
  status: "completed" as const,
  verdict: "pass",
  assessment: { public_summary: "Independent review passed." },
  usage: { input_tokens: 10, output_tokens: 5 },
  completedAt: 130,
};

export const terminalFields = {
  runId: "run-1",
  idempotencyKey: "terminal:1",
  status: "verified" as const,
  reason: "review_passed",
  finishedAt: 140,
};

export const minorFinding = {
  findingId: "finding-1",
  fingerprint: "minor-finding-1",
  severity: "minor",
  category: "clarity",
  claim: "Clarify one supporting note.",
  evidenceRefs: ["cell-1"],
  artifactIds: ["artifact-1"],
  versionIds: ["version-1"],
  cellIds: ["cell-1"],
};

/** A run that went the whole way, with the calls that made it. */
export async function buildVerified(ledger: TestLedger, root: string, findings: (typeof minorFinding)[] = []) {
  const start = startFields(root);
  await ledger.runs.start(start);
  await ledger.runs.recordCandidate(candidateFields);
  await ledger.reviews.start(reviewFields);
  await ledger.reviews.complete({ ...completionFields, findings });
  await ledger.runs.terminate(terminalFields);
  return { start, candidate: candidateFields, terminal: terminalFields };
}

/** Exactly what a tab killed during its review leaves behind. */
export async function crashMidReview(ledger: TestLedger, root: string): Promise<void> {
  await ledger.runs.start(startFields(root, { ownerInstanceId: "daemon-DEAD" }));
  await ledger.runs.recordCandidate(candidateFields);
  await ledger.reviews.start(reviewFields);
}

/** Starts the turn that follows the crash; gives the status that the branch then shows. */
export async function nextTurn(ledger: TestLedger, root: string, ownerInstanceId: string): Promise<string | undefined> {
  const next = { runId: "run-2", turnId: "turn-2", executionId: "execution-2", ownerInstanceId };
  await ledger.runs.start(startFields(root, next));
  const { run } = await ledger.runs.project({ rootFrameId: root, branchId: root });
  expect(run?.runId).toBe("run-2");
  return run?.status;
}

/** The run of the branch, as a reader sees it. */
export async function projectedRun(ledger: TestLedger, root: string, branchId = root) {
  return (await ledger.runs.project({ rootFrameId: root, branchId })).run;
}

export async function expectSafetyBoundary(ledger: TestLedger, root: string, claimed = "verified"): Promise<void> {
  expect(await projectedRun(ledger, root)).toMatchObject({
    sourceClaimedStatus: claimed,
    status: "failed",
    terminalReason: "safety_boundary",
  });
}

/** Rewrites an event's payload with a digest that fits, as somebody who knows the format would. */
export async function rehashPayload(
  ledger: TestLedger,
  where: string,
  change: Record<string, string>,
): Promise<void> {
  const [row] = await ledger.testing.sql(`SELECT event_id, payload_json FROM auto_mode_events WHERE ${where}`);
  const payload = { ...JSON.parse(String(row?.["payload_json"])), ...change };
  await ledger.testing.sql("UPDATE auto_mode_events SET payload_json = ?, payload_sha256 = ? WHERE event_id = ?", [
    canonicalJson(payload),
    digest(payload),
    String(row?.["event_id"]),
  ]);
}
