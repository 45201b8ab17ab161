import type { Projection } from "countersign";
import { openTestLedger, type TestLedger } from "countersign/testing";
import { analyse, type Candidate, type Mistake } from "./analyst.ts";
import type { Row } from "./data.ts";
import { findDocument, keepDocument } from "./documents.ts";
import { claimOf, type ReviewReport, review } from "./reviewer.ts";

// Chosen by us, so that a reload finds what the first visit made.
const PROJECT = "quickstart";
const SESSION = "quickstart-session";

/** Long enough to close the tab in the middle of it. */
const SLOW_REVIEW_MS = 20_000;

/** What the reviewer gets to see, frozen in the ledger. */
type Evidence = { readonly dataset: string; readonly rows: readonly Row[] };

/** All that the page shows of the session's newest run. */
export interface Snapshot {
  readonly projection: Projection;
  /** Undefined where there is no candidate, or where its document is not to be found under the ledger's digest. */
  readonly candidate: Candidate | undefined;
  /** Undefined also where no review came to its end. */
  readonly report: ReviewReport | undefined;
}

/**
 * Opens the ledger and makes the project and its session on the first visit.
 *
 * This page has a button that tampers with the database, which takes the testing worker. An application writes
 * `openLedger` from "countersign" instead; all else stays the same.
 */
export async function openSession(): Promise<TestLedger> {
  const ledger = await openTestLedger({ name: "quickstart" });
  try {
    await ledger.projects.create({ projectId: PROJECT, name: "Quickstart" });
    await ledger.frames.create({ frameId: SESSION, projectId: PROJECT });
    return ledger;
  } catch (error) {
    await ledger.close();
    throw error;
  }
}

/** One whole run: the analyst's candidate, an independent review, and the end that the review allows. */
export async function recordRun(
  ledger: TestLedger,
  rows: readonly Row[],
  mistake: Mistake,
  reviewer: "quick" | "slow",
): Promise<void> {
  const turnId = `turn-${crypto.randomUUID()}`;
  const { runId } = await ledger.runs.start({
    idempotencyKey: `${turnId}:start`,
    rootFrameId: SESSION,
    turnId,
    executionId: `execution-${crypto.randomUUID()}`,
    mode: "review_only",
  });

  const candidate = analyse(rows, mistake);
  const evidence: Evidence = { dataset: "NIST StRD Norris", rows };
  const subject = {
    candidateId: `candidate-${crypto.randomUUID()}`,
    candidateSnapshotSha256: keepDocument(candidate),
    evidenceSnapshotSha256: keepDocument(evidence),
  };
  await ledger.runs.recordCandidate({ runId, idempotencyKey: "candidate", ...subject });

  const { reviewRunId } = await ledger.reviews.start({
    runId,
    idempotencyKey: "review",
    ...subject,
    evidenceSnapshot: evidence,
    roundIndex: 0,
    attempt: 1,
    reviewer: { profile_id: "householder-qr", profile_revision: 1, model_fingerprint: "reviewer.ts" },
  });
  if (reviewer === "slow") await new Promise((resolve) => setTimeout(resolve, SLOW_REVIEW_MS));
  const { verdict, summary, checks } = review(candidate, evidence.rows);
  await ledger.reviews.complete({
    reviewRunId,
    idempotencyKey: "review:complete",
    status: "completed",
    verdict,
    assessment: { public_summary: summary, checks },
    findings: checks
      .filter((check) => !check.ok)
      .map((check) => ({
        fingerprint: check.id,
        severity: "material",
        category: "recomputation",
        claim: claimOf(check),
      })),
  });
  // The ledger refuses `verified` unless the review above earned it.
  await ledger.runs.terminate({
    runId,
    idempotencyKey: "end",
    ...(verdict === "pass"
      ? { status: "verified", reason: "review_passed" }
      : { status: "completed_with_issues", reason: "review_found_issues" }),
  });
}

/** Calls back after each change of the session, by whichever tab. */
export function watchSession(ledger: TestLedger, onChange: () => void): void {
  ledger.events.subscribe({ rootFrameId: SESSION }, onChange);
}

/** Reads what the ledger shows of the session now, and the documents that its digests stand for. */
export async function readSnapshot(ledger: TestLedger): Promise<Snapshot> {
  const projection = await ledger.runs.project({ rootFrameId: SESSION });
  const candidate = findDocument<Candidate>(projection.run?.candidateSnapshotSha256);
  const evidence = findDocument<Evidence>(projection.run?.evidenceSnapshotSha256);
  const completed = projection.events.findLast((event) => event.type === "auto_audit_completed");
  const wasReviewed = completed?.payload?.["status"] === "completed";
  // The review is a pure function of two documents, both held to their digests: it need not be kept, only repeated.
  const report = wasReviewed && candidate && evidence ? review(candidate, evidence.rows) : undefined;
  return { projection, candidate, report };
}
