/** The arguments of the seed's scenarios, with the seed's values. */

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
  reviewer: {
    profile_id: "scientific-reviewer",
    profile_revision: 1,
    model_fingerprint: "reviewer-model-v1",
  },
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
