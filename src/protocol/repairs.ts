import * as z from "zod";
import type { Sha256 } from "../proof/sha256.ts";
import { defineCommand } from "./command.ts";
import {
  existingActionGroupId,
  existingCheckpointId,
  existingRepairRunId,
  existingRunId,
  idempotencyKey,
  millis,
  newRepairRunId,
  someTexts,
  textList,
  word,
} from "./fields.ts";
import type { Committed } from "./runs.ts";

const REPAIR_OUTCOMES = ["completed", "failed", "outcome_unknown"] as const;
export type RepairOutcome = (typeof REPAIR_OUTCOMES)[number];

export interface RepairGroup {
  readonly actionGroupId: string;
  /** From 0 in each repair. */
  readonly ordinal: number;
  readonly groupKind: string;
  readonly idempotencyKey: string;
  readonly requestSha256: Sha256;
  readonly boundAt: number;
  /** Set when the repair is complete: from then on the group's ledger can't change. */
  readonly ledgerEventCount: number | null;
  readonly ledgerSha256: Sha256 | null;
  readonly sealedAt: number | null;
}

export interface Repair {
  readonly repairRunId: string;
  readonly runId: string;
  readonly rootFrameId: string;
  readonly branchId: string;
  readonly turnId: string;
  readonly executionId: string;
  readonly startIdempotencyKey: string;
  readonly startRequestSha256: Sha256;
  readonly completionIdempotencyKey: string | null;
  readonly completionRequestSha256: Sha256 | null;
  readonly checkpointId: string;
  readonly findingIds: readonly string[];
  readonly beforeVersionIds: readonly string[];
  readonly afterVersionIds: readonly string[] | null;
  readonly executionGroupIds: readonly string[];
  readonly verificationReviewRunId: null;
  readonly status: "started" | RepairOutcome;
  readonly startedAt: number;
  readonly completedAt: number | null;
  readonly groups: readonly RepairGroup[];
}

export const repairs = {
  /**
   * Opens a repair of open findings against the run's candidate (spec/auto_mode 3.5). The checkpoint must be the
   * branch head, taken after the run's last event, with a workspace tree that can be restored.
   *
   * @throws LedgerConflictError the run has no candidate, a finding is not open, or the checkpoint will not do.
   */
  start: defineCommand<Committed<Repair>>()(
    "write",
    z.strictObject({
      runId: existingRunId(),
      repairRunId: newRepairRunId().optional(),
      idempotencyKey: idempotencyKey(),
      findingIds: someTexts(),
      beforeVersionIds: textList(),
      checkpointId: existingCheckpointId(),
      startedAt: millis(),
    }),
  ),
  /**
   * Binds an action group that is still empty to an open repair; what is then done in it is part of the run's proof
   * (spec/auto_mode 3.6).
   *
   * @throws LedgerConflictError the group is not empty, is bound, or is of another session, branch or turn.
   */
  bindGroup: defineCommand<Committed<Repair>>()(
    "write",
    z.strictObject({
      repairRunId: existingRepairRunId(),
      actionGroupId: existingActionGroupId(),
      idempotencyKey: idempotencyKey(),
      boundAt: millis(),
    }),
  ),
  /**
   * Ends a repair and seals its groups (spec/auto_mode 3.7). `completed` puts the run back to `running`, without a
   * candidate; `failed` without an effect puts it back to its candidate; `failed` after a committed effect, and
   * `outcome_unknown`, end the run as `paused`. A repair that never bound a group can only be `failed`.
   *
   * @throws LedgerConflictError the ledgers of the groups do not bear the outcome out.
   */
  complete: defineCommand<Committed<Repair>>()(
    "write",
    z.strictObject({
      repairRunId: existingRepairRunId(),
      idempotencyKey: idempotencyKey(),
      status: word(REPAIR_OUTCOMES),
      afterVersionIds: textList(),
      executionGroupIds: textList(),
      completedAt: millis(),
    }),
  ),
};
