import * as z from "zod";
import type { JsonObject } from "../proof/canonical.ts";
import type { Sha256 } from "../proof/sha256.ts";
import { defineCommand } from "./command.ts";
import {
  existingReviewRunId,
  existingRunId,
  idempotencyKey,
  integer,
  jsonObject,
  jsonObjectWith,
  LONG_TEXT,
  millis,
  newId,
  newReviewRunId,
  sha256,
  text,
  textList,
  word,
  wordAnyCase,
} from "./fields.ts";
import type { Committed } from "./runs.ts";

const VERDICTS = [
  "pass",
  "completed_with_issues",
  "issues",
  "fail",
  "failed",
  "incomplete",
  "needs_repair",
  "review_unavailable",
  "unavailable",
] as const;
export type Verdict = (typeof VERDICTS)[number];

const SEVERITIES = ["info", "minor", "major", "material", "high", "critical"] as const;
export type Severity = (typeof SEVERITIES)[number];

/** A candidate with a finding of such a severity can't be verified. */
export function isMaterial(severity: string): boolean {
  return ["material", "major", "high", "critical"].includes(severity);
}

const REVIEW_OUTCOMES = ["completed", "unavailable", "failed"] as const;
export type ReviewOutcome = (typeof REVIEW_OUTCOMES)[number];

export interface Finding {
  readonly findingId: string;
  readonly reviewRunId: string;
  readonly runId: string;
  readonly candidateId: string;
  readonly findingOrdinal: number;
  readonly fingerprint: string;
  readonly severity: Severity;
  readonly category: string;
  readonly claim: string;
  readonly evidenceRefs: readonly string[];
  readonly artifactIds: readonly string[];
  readonly versionIds: readonly string[];
  readonly cellIds: readonly string[];
  readonly status: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

interface ReviewBase {
  readonly reviewRunId: string;
  readonly auditId: string;
  readonly runId: string;
  readonly rootFrameId: string;
  readonly branchId: string;
  readonly turnId: string;
  readonly executionId: string;
  readonly startIdempotencyKey: string;
  readonly startRequestSha256: Sha256;
  readonly candidateId: string;
  readonly candidateSnapshotSha256: Sha256;
  readonly evidenceSnapshot: JsonObject;
  readonly evidenceSnapshotSha256: Sha256;
  readonly roundIndex: number;
  readonly round: number;
  readonly attempt: number;
  readonly reviewer: JsonObject;
  readonly modelProfileId: string;
  readonly modelProfileRevision: number;
  readonly modelFingerprint: string;
  readonly auditRequestDigest: Sha256;
  readonly usage: JsonObject;
  readonly findings: readonly Finding[];
  readonly startedAt: number;
  readonly createdAt: number;
}

export type Review =
  | (ReviewBase & {
      readonly status: "started";
      readonly verdict: null;
      readonly assessment: null;
      readonly assessmentDigest: null;
      readonly publicSummary: null;
      readonly completedAt: null;
      readonly finishedAt: null;
    })
  | (ReviewBase & {
      readonly status: ReviewOutcome;
      readonly verdict: Verdict;
      readonly assessment: JsonObject;
      readonly assessmentDigest: Sha256;
      readonly publicSummary: string | null;
      readonly completedAt: number;
      readonly finishedAt: number;
    });

const reviewer = () =>
  jsonObjectWith({
    profile_id: text(),
    profile_revision: integer(1),
    model_fingerprint: text(LONG_TEXT),
  });

const finding = () =>
  z.strictObject({
    findingId: newId().optional(),
    fingerprint: text(),
    severity: wordAnyCase(SEVERITIES),
    category: text(256),
    claim: text(20_000),
    evidenceRefs: textList(),
    artifactIds: textList(),
    versionIds: textList(),
    cellIds: textList(),
  });

export type FindingInput = z.output<ReturnType<typeof finding>>;

export const reviews = {
  /**
   * Opens the review of the run's current candidate (spec/auto_mode 3.3). The evidence is frozen in it;
   * `reviewer` needs `profile_id`, `profile_revision` and `model_fingerprint` and is kept as given.
   *
   * @throws LedgerConflictError the evidence does not have the given digest, candidate or evidence are not the run's, or a phase is open.
   */
  start: defineCommand<Committed<Review>>()(
    "write",
    z.strictObject({
      runId: existingRunId(),
      reviewRunId: newReviewRunId().optional(),
      auditId: newId().optional(),
      idempotencyKey: idempotencyKey(),
      candidateId: newId(),
      candidateSnapshotSha256: sha256(),
      evidenceSnapshot: jsonObject().meta({ examples: [{}] }),
      evidenceSnapshotSha256: sha256().meta({
        examples: ["44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"],
      }),
      roundIndex: integer(0),
      attempt: integer(1),
      reviewer: reviewer(),
      startedAt: millis(),
    }),
  ),
  /**
   * Closes a review with its verdict and findings (spec/auto_mode 3.4). A `pass` needs status `completed` and
   * no material finding.
   *
   * @throws LedgerConflictError the review is closed already with another request, or its run can't change any more.
   */
  complete: defineCommand<Committed<Review>>()(
    "write",
    z
      .strictObject({
        reviewRunId: existingReviewRunId(),
        idempotencyKey: idempotencyKey(),
        status: word(REVIEW_OUTCOMES),
        verdict: wordAnyCase(VERDICTS),
        assessment: jsonObject(),
        findings: z.array(finding()).max(10_000, "at most 10000 findings").default([]),
        usage: jsonObject()
          .nullish()
          .transform((usage) => usage ?? {}),
        completedAt: millis(),
      })
      .superRefine((input, context) => {
        if (input.verdict !== "pass") return;
        const refuse = (path: string[], message: string) =>
          context.addIssue({ code: "custom", path, message });
        if (input.status !== "completed")
          refuse(["verdict"], "another verdict than pass: the review was not completed");
        if (input.findings.some((item) => isMaterial(item.severity))) {
          refuse(["findings"], "no major, material, high or critical finding beside the verdict pass");
        }
      }),
  ),
};
