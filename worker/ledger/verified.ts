import { isMaterial } from "../../src/protocol/reviews.ts";
import type { SoundRun } from "./run-proof.ts";

type Evidence = Pick<SoundRun, "run" | "events" | "reviews" | "findings">;

/**
 * What a run lacks to be `verified`, in words, or undefined when nothing (spec/auto_mode 5.2): a candidate, no
 * open review, at least one completed review of exactly this candidate, the newest of them a pass, and no
 * material finding against it from any review.
 */
export function missingForVerified({ run, events, reviews, findings }: Evidence): string | undefined {
  const { candidateId } = run;
  if (candidateId === null) return "it has no candidate";
  if (reviews.some((review) => review["status"] === "started")) return "a review is open";

  const ofCandidate = reviews.filter((review) => review["candidate_id"] === candidateId);
  for (const review of ofCandidate) {
    if (
      review["candidate_snapshot_sha256"] !== run.candidateSnapshotSha256 ||
      review["evidence_snapshot_sha256"] !== run.evidenceSnapshotSha256
    ) {
      return "a review looked at other content under the candidate's id";
    }
  }
  const newest = newestCompleted(events, candidateId);
  if (newest === undefined) return "no review of the candidate was completed";
  if (newest.status !== "completed" || newest.verdict !== "pass")
    return "the newest review of the candidate is not a pass";
  const blocking = findings.find(
    (finding) => finding["candidate_id"] === candidateId && isMaterial(String(finding["severity"])),
  );
  if (blocking !== undefined)
    return `finding ${String(blocking["finding_id"])} against the candidate is material`;
  return undefined;
}

/** What a run lacks to end with issues: a review of the current candidate that came to its end. */
export function missingForCompletedWithIssues({ run, events }: Evidence): string | undefined {
  const newest = run.candidateId === null ? undefined : newestCompleted(events, run.candidateId);
  return newest?.status === "completed" ? undefined : "no review of its candidate was completed";
}

function newestCompleted(
  events: Evidence["events"],
  candidateId: string,
): { status: string; verdict: string } | undefined {
  const completion = events.findLast(
    (event) => event.type === "auto_audit_completed" && event.payload.candidate_id === candidateId,
  );
  return completion?.type === "auto_audit_completed" ? completion.payload : undefined;
}
