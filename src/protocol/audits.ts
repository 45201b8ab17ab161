import * as z from "zod";
import { defineCommand } from "./command.ts";
import { existingBranchId, existingRootFrameId, integer, text, word } from "./fields.ts";

/** One audit as the branch's visible events tell it. Absent fields are not known (yet). */
export interface Audit {
  readonly auditId: string;
  readonly runId: string;
  readonly rootFrameId: string;
  readonly branchId: string;
  readonly turnId: string;
  readonly executionId: string;
  readonly subjectKind: string;
  readonly subjectEntityKind: string;
  readonly subjectEntityId?: string;
  readonly auditRequestDigest: string;
  readonly status: string;
  readonly assessmentDigest?: string;
  readonly candidateId?: string;
  readonly verdict?: string;
  readonly risk?: string;
  readonly publicSummary?: string;
  readonly createdAt: number;
  readonly completedAt?: number;
  readonly eventOrdinal: number;
  /** `integrity_failure`: the run failed its check, and what it claims is withheld. */
  readonly errorKind?: "integrity_failure";
}

export const audits = {
  /**
   * The audits visible on a branch, newest first, at most `limit` (up to 501). `before` continues a list: an
   * event ordinal in digits, or the audit id of the last row seen.
   *
   * @throws NotFoundError the session or the branch is unknown.
   * @throws ValidationError `before` is an audit id that is not on the branch.
   */
  list: defineCommand<Audit[]>()(
    "read",
    z.strictObject({
      rootFrameId: existingRootFrameId(),
      branchId: existingBranchId().optional(),
      subjectKind: word(["result_review", "permission_review"]).nullish(),
      before: text(128).nullish(),
      limit: integer(1).default(100),
    }),
  ),
};
