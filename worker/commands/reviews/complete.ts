import { canonicalJson, type JsonObject } from "../../../src/proof/canonical.ts";
import { digest, type Sha256 } from "../../../src/proof/sha256.ts";
import type { ParsedOf } from "../../../src/protocol/command.ts";
import { LedgerConflictError, NotFoundError } from "../../../src/protocol/errors.ts";
import type { FindingInput, reviews } from "../../../src/protocol/reviews.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
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

type Input = ParsedOf<typeof reviews.complete>;

const selectRunOfReview = "SELECT run_id FROM review_runs WHERE review_run_id = ?";
const selectTakenFinding = "SELECT finding_id FROM review_findings WHERE finding_id = ?";

const MAX_SUMMARY = 20_000;

export const completeReview: Handler<typeof reviews.complete> = (input, context) => {
  const { ledger, caller, now } = context;
  const { reviewRunId, idempotencyKey } = input;
  const findings = input.findings.map((finding, ordinal) => findingRecord(finding, reviewRunId, ordinal));
  const request = {
    status: input.status,
    verdict: input.verdict,
    assessment: input.assessment,
    findings: findings.map((finding) => ({ ...finding, status: "open" })),
    usage: input.usage,
  };
  const requestSha256 = digest(request);
  const runId = runOfReview(context, reviewRunId);
  const proof = ledger.run(runId);
  const replayed = replayedEvent(proof, runId, {
    idempotencyKey,
    type: "auto_audit_completed",
    requestSha256,
  });
  if (replayed !== undefined) {
    assertReplayable(ledger, proof, runId);
    const review = reviewOf(proof, reviewRunId);
    if (review["completion_idempotency_key"] !== idempotencyKey)
      throw keyReused(runId, idempotencyKey, "reviews.complete");
    return committed(decodeReview(review, findingsOf(proof, reviewRunId)), replayed, false);
  }
  const run = requireMutable(context, proof, runId);
  const review = openReview(run, reviewRunId);
  assertFindingsFree(context, findings);

  const at = input.completedAt ?? now();
  const envelope = assessmentEnvelope(review, request);
  const summary = publicSummary(input.assessment);
  const completed: Row = {
    ...review,
    completion_idempotency_key: idempotencyKey,
    completion_request_sha256: requestSha256,
    status: input.status,
    verdict: input.verdict,
    assessment_json: canonicalJson(input.assessment),
    assessment_envelope_json: canonicalJson(envelope),
    assessment_digest: digest(envelope),
    usage_json: canonicalJson(input.usage),
    public_summary: summary,
    completed_at: at,
  };
  const after = ledger.appendToRun(caller, run, {
    command: "reviews.complete",
    at,
    run: { status: "candidate" },
    writes: [
      { act: "update", table: "review_runs", before: review, row: completed },
      ...findings.map((finding, ordinal) => findingWrite(review, finding, ordinal, at)),
      ...(isPass(input) ? resolvedFindings(run, at) : []),
    ],
    event: {
      type: "auto_audit_completed",
      idempotencyKey,
      requestSha256,
      payload: {
        audit_id: String(review["audit_id"]),
        review_run_id: reviewRunId,
        subject_kind: "result_review",
        subject_entity_kind: "candidate_evidence_snapshot",
        subject_entity_id: String(review["candidate_id"]),
        candidate_id: String(review["candidate_id"]),
        audit_request_digest: digestIn(review, "audit_request_digest"),
        assessment_digest: digest(envelope),
        verdict: input.verdict,
        status: input.status,
        finding_count: findings.length,
        public_summary: summary,
        attempt: Number(review["attempt"]),
      },
    },
  });
  return committed(decodeReview(completed, findingsOf(after, reviewRunId)), lastEvent(after), true);
};

/** A finding in the exact form that is hashed (spec/auto_mode 2.6), without its lifecycle status. */
type FindingRecord = ReturnType<typeof findingRecord>;

function findingRecord(finding: FindingInput, reviewRunId: string, ordinal: number) {
  return {
    finding_id: finding.findingId ?? derivedFindingId(reviewRunId, ordinal, finding.fingerprint),
    fingerprint: finding.fingerprint,
    severity: finding.severity,
    category: finding.category,
    claim: finding.claim,
    evidence_refs: finding.evidenceRefs,
    artifact_ids: finding.artifactIds,
    version_ids: finding.versionIds,
    cell_ids: finding.cellIds,
  };
}

/** The same for the same finding, so that a replay without ids has the same digest. */
function derivedFindingId(reviewRunId: string, ordinal: number, fingerprint: string): string {
  return `finding-${digest([reviewRunId, ordinal, fingerprint]).slice(0, 24)}`;
}

function runOfReview({ ledger }: Context, reviewRunId: string): string {
  const runId = ledger.database.value(selectRunOfReview, [reviewRunId]);
  if (typeof runId === "string") return runId;
  throw new NotFoundError("review_not_found", `there is no review ${reviewRunId}`, {
    field: "reviewRunId",
    reviewRunId,
  });
}

function reviewOf({ reviews, run }: SoundRun, reviewRunId: string): Row {
  const review = reviews.find((each) => each["review_run_id"] === reviewRunId);
  if (review === undefined) throw new TypeError(`run ${run.runId} has no review ${reviewRunId}`);
  return review;
}

function findingsOf({ findings }: SoundRun, reviewRunId: string): Row[] {
  return findings.filter((finding) => finding["review_run_id"] === reviewRunId);
}

function openReview(run: SoundRun, reviewRunId: string): Row {
  const review = reviewOf(run, reviewRunId);
  if (review["status"] === "started") return review;
  throw new LedgerConflictError(
    "review_closed",
    `review ${reviewRunId} was closed as ${String(review["status"])}`,
    {
      reviewRunId,
      status: review["status"],
    },
  );
}

function assertFindingsFree({ ledger }: Context, findings: readonly FindingRecord[]): void {
  const ids = new Set<string>();
  const fingerprints = new Set<string>();
  findings.forEach((finding, index) => {
    if (fingerprints.has(finding.fingerprint)) throw duplicate("fingerprint", finding.fingerprint, index);
    const isTaken = ledger.database.value(selectTakenFinding, [finding.finding_id]) !== undefined;
    if (ids.has(finding.finding_id) || isTaken) throw duplicate("findingId", finding.finding_id, index);
    ids.add(finding.finding_id);
    fingerprints.add(finding.fingerprint);
  });
}

function duplicate(field: string, value: string, index: number): LedgerConflictError {
  return new LedgerConflictError("id_taken", `the ${field} ${value} of finding ${index} is taken`, {
    field: `findings[${index}].${field}`,
    value,
  });
}

function assessmentEnvelope(review: Row, request: JsonObject): JsonObject {
  return {
    audit_request_digest: digestIn(review, "audit_request_digest"),
    subject_kind: "result_review",
    subject_entity_kind: "candidate_evidence_snapshot",
    attempt: Number(review["attempt"]),
    ...request,
    durable: true,
    retry_state: "terminal",
  };
}

/** What the reviewer says to the user: `public_summary`, else `summary`, cut at 20,000 characters. */
function publicSummary(assessment: Input["assessment"]): string | null {
  const summary = assessment["public_summary"] || assessment["summary"];
  if (typeof summary !== "string") return null;
  return summary.length <= MAX_SUMMARY ? summary : [...summary].slice(0, MAX_SUMMARY).join("");
}

function findingWrite(review: Row, finding: FindingRecord, ordinal: number, at: number): RowWrite {
  const column = (name: string) => review[name] ?? null;
  return {
    act: "insert",
    table: "review_findings",
    row: {
      finding_id: finding.finding_id,
      review_run_id: column("review_run_id"),
      run_id: column("run_id"),
      root_frame_id: column("root_frame_id"),
      branch_id: column("branch_id"),
      turn_id: column("turn_id"),
      execution_id: column("execution_id"),
      candidate_id: column("candidate_id"),
      finding_ordinal: ordinal,
      fingerprint: finding.fingerprint,
      severity: finding.severity,
      category: finding.category,
      claim: finding.claim,
      evidence_refs_json: canonicalJson(finding.evidence_refs),
      artifact_ids_json: canonicalJson(finding.artifact_ids),
      version_ids_json: canonicalJson(finding.version_ids),
      cell_ids_json: canonicalJson(finding.cell_ids),
      status: "open",
      created_at: at,
      updated_at: at,
    },
  };
}

function isPass({ status, verdict }: Input): boolean {
  return status === "completed" && verdict === "pass";
}

/** A pass of the repaired candidate settles the findings that its repair addressed. */
function resolvedFindings({ findings }: SoundRun, at: number): RowWrite[] {
  return findings
    .filter((finding) => finding["status"] === "addressed_pending_review")
    .map((before) => ({
      act: "update",
      table: "review_findings",
      before,
      row: { ...before, status: "resolved", updated_at: at },
    }));
}

function digestIn(row: Row, column: string): Sha256 {
  return String(row[column]) as Sha256;
}
