import { canonicalJson } from "../../../src/proof/canonical.ts";
import { digest } from "../../../src/proof/sha256.ts";
import type { ParsedOf } from "../../../src/protocol/command.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { reviews } from "../../../src/protocol/reviews.ts";
import { decodeReview } from "../../ledger/rows.ts";
import type { SoundRun } from "../../ledger/run-proof.ts";
import type { Row } from "../../storage/database.ts";
import type { Context, Handler } from "../command.ts";
import {
  assertReplayable,
  committed,
  keyReused,
  lastEvent,
  replayedEvent,
  requireMutable,
} from "../runs/guards.ts";

type Input = ParsedOf<typeof reviews.start>;

const selectTaken = "SELECT review_run_id FROM review_runs WHERE review_run_id = ? OR audit_id = ?";

const SUBJECT = {
  subject_kind: "result_review",
  subject_entity_kind: "candidate_evidence_snapshot",
} as const;

export const startReview: Handler<typeof reviews.start> = (input, context) => {
  const { ledger, caller, now, newId } = context;
  const { runId, idempotencyKey } = input;
  assertEvidenceDigest(input);
  const request = {
    candidate_id: input.candidateId,
    candidate_snapshot_sha256: input.candidateSnapshotSha256,
    evidence_snapshot_sha256: input.evidenceSnapshotSha256,
    round_index: input.roundIndex,
    attempt: input.attempt,
    reviewer: input.reviewer,
  };
  const requestSha256 = digest(request);
  const proof = ledger.run(runId);
  const replayed = replayedEvent(proof, runId, { idempotencyKey, type: "auto_audit_started", requestSha256 });
  if (replayed !== undefined) {
    assertReplayable(ledger, proof, runId);
    return committed(startedBefore(proof, input), replayed, false);
  }
  const run = requireMutable(context, proof, runId);
  assertCandidateIsBound(run, input);
  const reviewRunId = input.reviewRunId ?? newId("review-");
  const auditId = input.auditId ?? newId("audit-");
  assertIdsFree(context, reviewRunId, auditId);

  const at = input.startedAt ?? now();
  const auditRequestDigest = digest({ ...SUBJECT, ...request });
  const row = reviewRow(run, input, { reviewRunId, auditId, requestSha256, auditRequestDigest, at });
  const after = ledger.appendToRun(caller, run, {
    command: "reviews.start",
    at,
    run: { status: "reviewing" },
    writes: [{ act: "insert", table: "review_runs", row }],
    event: {
      type: "auto_audit_started",
      idempotencyKey,
      requestSha256,
      payload: {
        audit_id: auditId,
        review_run_id: reviewRunId,
        ...SUBJECT,
        subject_entity_id: input.candidateId,
        candidate_id: input.candidateId,
        candidate_snapshot_sha256: input.candidateSnapshotSha256,
        evidence_snapshot_sha256: input.evidenceSnapshotSha256,
        model_profile_id: input.reviewer.profile_id,
        model_profile_revision: input.reviewer.profile_revision,
        model_fingerprint: input.reviewer.model_fingerprint,
        audit_request_digest: auditRequestDigest,
        round: input.roundIndex,
        attempt: input.attempt,
        status: "started",
      },
    },
  });
  return committed(decodeReview(row, []), lastEvent(after), true);
};

/** spec/auto_mode 3.3: the evidence is checked against its digest before anything is looked up. */
function assertEvidenceDigest(input: Input): void {
  const actual = digest(input.evidenceSnapshot);
  if (actual === input.evidenceSnapshotSha256) return;
  throw new LedgerConflictError(
    "evidence_digest",
    `the evidence has the digest ${actual}, not ${input.evidenceSnapshotSha256}`,
    {
      field: "evidenceSnapshotSha256",
      expected: actual,
      actual: input.evidenceSnapshotSha256,
    },
  );
}

function startedBefore({ run, reviews, findings }: SoundRun, input: Input) {
  const row = reviews.find((review) => review["start_idempotency_key"] === input.idempotencyKey);
  const isSame =
    row !== undefined &&
    (input.reviewRunId === undefined || row["review_run_id"] === input.reviewRunId) &&
    (input.auditId === undefined || row["audit_id"] === input.auditId);
  if (!isSame) throw keyReused(run.runId, input.idempotencyKey, "reviews.start");
  return decodeReview(
    row,
    findings.filter((finding) => finding["review_run_id"] === row["review_run_id"]),
  );
}

function assertCandidateIsBound({ run }: SoundRun, input: Input): void {
  if (run.status !== "candidate") {
    throw new LedgerConflictError(
      "no_candidate",
      `run ${run.runId} is ${run.status}; a review needs a recorded candidate`,
      {
        runId: run.runId,
        status: run.status,
      },
    );
  }
  const differing = (["candidateId", "candidateSnapshotSha256", "evidenceSnapshotSha256"] as const).find(
    (field) => run[field] !== input[field],
  );
  if (differing === undefined) return;
  throw new LedgerConflictError(
    "candidate_mismatch",
    `${differing} is ${input[differing]}, but the run's is ${run[differing]}`,
    {
      field: differing,
      runId: run.runId,
      expected: run[differing],
      actual: input[differing],
    },
  );
}

function assertIdsFree({ ledger }: Context, reviewRunId: string, auditId: string): void {
  const taken = ledger.database.value(selectTaken, [reviewRunId, auditId]);
  if (taken === undefined) return;
  const field = taken === reviewRunId ? "reviewRunId" : "auditId";
  throw new LedgerConflictError(
    "id_taken",
    `the ${field} ${field === "auditId" ? auditId : reviewRunId} is taken`,
    {
      field,
      reviewRunId: taken,
    },
  );
}

function reviewRow(
  { run }: SoundRun,
  input: Input,
  made: {
    reviewRunId: string;
    auditId: string;
    requestSha256: string;
    auditRequestDigest: string;
    at: number;
  },
): Row {
  return {
    review_run_id: made.reviewRunId,
    audit_id: made.auditId,
    run_id: run.runId,
    root_frame_id: run.rootFrameId,
    branch_id: run.branchId,
    turn_id: run.turnId,
    execution_id: run.executionId,
    start_idempotency_key: input.idempotencyKey,
    start_request_sha256: made.requestSha256,
    completion_idempotency_key: null,
    completion_request_sha256: null,
    candidate_id: input.candidateId,
    candidate_snapshot_sha256: input.candidateSnapshotSha256,
    evidence_snapshot_json: canonicalJson(input.evidenceSnapshot),
    evidence_snapshot_sha256: input.evidenceSnapshotSha256,
    round_index: input.roundIndex,
    attempt: input.attempt,
    reviewer_json: canonicalJson(input.reviewer),
    audit_request_digest: made.auditRequestDigest,
    status: "started",
    verdict: null,
    assessment_json: null,
    assessment_envelope_json: null,
    assessment_digest: null,
    usage_json: null,
    public_summary: null,
    started_at: made.at,
    completed_at: null,
  };
}
