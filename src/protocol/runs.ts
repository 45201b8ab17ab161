import * as z from "zod";
import type { JsonObject } from "../proof/canonical.ts";
import type { Sha256 } from "../proof/sha256.ts";
import { defineCommand } from "./command.ts";
import type { LedgerEvent, StoredEvent } from "./events.ts";
import {
  contentText,
  existingBranchId,
  existingDeliveryId,
  existingMessageId,
  existingRootFrameId,
  existingRunId,
  idempotencyKey,
  integer,
  jsonObject,
  LONG_TEXT,
  millis,
  newId,
  newRunId,
  sha256,
  text,
  textList,
  word,
} from "./fields.ts";

export const RUN_MODES = ["off", "review_only", "auto_fix"] as const;
export type RunMode = (typeof RUN_MODES)[number];

const ACTIVE_STATUSES = ["running", "candidate", "reviewing", "repairing"] as const;
export type ActiveStatus = (typeof ACTIVE_STATUSES)[number];

/** What a run may be ended as. `verified` must be earned (spec/auto_mode 5.2). */
const TERMINAL_STATUSES = [
  "verified",
  "completed_with_issues",
  "review_unavailable",
  "blocked_by_guardian",
  "cancelled",
  "failed",
  "paused",
] as const;
export type TerminalStatus = (typeof TERMINAL_STATUSES)[number];

export type RunStatus = ActiveStatus | TerminalStatus | "unverified_import";

export function isActive(status: string): status is ActiveStatus {
  return (ACTIVE_STATUSES as readonly string[]).includes(status);
}

/** The row of a run, decoded. */
export interface Run {
  readonly runId: string;
  readonly idempotencyKey: string;
  readonly rootFrameId: string;
  readonly branchId: string;
  readonly turnId: string;
  readonly executionId: string;
  readonly mode: RunMode;
  readonly selection: JsonObject;
  readonly budgets: JsonObject;
  readonly requestSha256: Sha256;
  /** The tab that started the run; reconciliation closes the runs of tabs that are gone. */
  readonly ownerInstanceId: string;
  readonly trustState: "local" | "quarantined_import";
  readonly status: RunStatus;
  readonly stateRevision: number;
  readonly candidateId: string | null;
  readonly candidateSnapshotSha256: Sha256 | null;
  readonly evidenceSnapshotSha256: Sha256 | null;
  readonly artifactSetSha256: Sha256 | null;
  readonly candidateArtifactIds: readonly string[];
  readonly candidateVersionIds: readonly string[];
  readonly terminalReason: string | null;
  readonly stopReason: string | null;
  readonly terminalIdempotencyKey: string | null;
  readonly terminalRequestSha256: Sha256 | null;
  readonly sourceClaimedStatus: string | null;
  readonly sourceTerminalReason: string | null;
  readonly abandonedAt: number | null;
  readonly abandonedByCheckpointId: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly finishedAt: number | null;
}

/** The answer to a command: the entity, its event, and whether this call made it (false: an exact replay). */
export type Committed<Entity> = Entity & {
  readonly event: LedgerEvent;
  readonly eventId: string;
  readonly eventCursor: number;
  readonly created: boolean;
};

/** What a run's visible events add up to. Fields that no event has set yet are absent. */
export interface ReducedRun {
  readonly runId: string;
  readonly rootFrameId: string;
  readonly branchId: string;
  readonly turnId: string;
  readonly executionId: string;
  readonly mode: string;
  readonly selection: JsonObject;
  readonly budgets: JsonObject;
  readonly status: RunStatus;
  readonly startedAt: number;
  readonly createdAt: number;
  readonly startEventOrdinal: number;
  readonly candidateId?: string | null;
  readonly candidateSnapshotSha256?: Sha256 | null;
  readonly evidenceSnapshotSha256?: Sha256 | null;
  readonly artifactSetSha256?: Sha256 | null;
  readonly candidateArtifactIds?: readonly string[];
  readonly candidateVersionIds?: readonly string[];
  readonly terminalReason?: string;
  readonly stopReason?: string | null;
  readonly terminalAt?: number;
  readonly finishedAt?: number;
  readonly lastEventId: string;
  readonly lastEventOrdinal: number;
  readonly updatedAt: number;
  readonly recoveryRequired: boolean;
  readonly recoveryState?: "committed_phase_requires_reconciliation";
}

/** Where the rows of a run stop agreeing with the journal. */
export interface Damage {
  readonly table: string;
  /** The row's primary key as a canonical JSON array, e.g. `["review-1"]`; for the journal its position. */
  readonly key: string | null;
  readonly reason: string;
}

export interface ProjectedRun extends ReducedRun {
  /** Set only when the run failed its integrity check: what it claims to be. Its status then reads `failed`. */
  readonly sourceClaimedStatus?: string;
  readonly damage?: Damage;
  readonly resultReviewMode?: RunMode;
  readonly approvalsReviewer?: "user" | "auto_review";
  readonly reviewRound?: number;
  readonly unresolvedFindingCount?: number;
}

export interface Projection {
  readonly run: ProjectedRun | null;
  readonly lastEventId: string | null;
  readonly lastEventOrdinal: number;
  readonly events: readonly StoredEvent[];
}

/** A candidate message that the terminal settles, and what it becomes (spec/auto_mode 3.8.1). */
const messagePromotion = () =>
  z.strictObject({
    messageId: existingMessageId(),
    deliveryId: existingDeliveryId().nullish(),
    expectedContent: contentText(),
    /** What the content becomes; left out, it stays. */
    content: contentText().optional(),
    metadata: jsonObject(),
  });

export const runs = {
  /**
   * Starts a run on a branch (default: the main branch) before any of its work is done (spec/auto_mode 3.1).
   *
   * @throws LedgerConflictError the branch has an active run, the key belongs to another request, the run was abandoned, or an id is taken.
   * @throws RecoveryRequiredError a revert of the session is unresolved.
   * @throws NotFoundError the session or the branch is unknown.
   */
  start: defineCommand<Committed<Run>>()(
    "write",
    z.strictObject({
      runId: newRunId().optional(),
      idempotencyKey: idempotencyKey(),
      rootFrameId: existingRootFrameId(),
      branchId: existingBranchId().optional(),
      turnId: newId(),
      executionId: newId(),
      mode: word(RUN_MODES),
      selection: jsonObject().default({}),
      budgets: jsonObject().default({}),
      ownerInstanceId: newId().optional(),
      createdAt: millis(),
    }),
  ),
  /**
   * Makes this tab the owner of an active run, in place of the one that it names as its owner so far: after a
   * reload, or when a person moves the work to another tab. Every later change by the former owner is refused.
   *
   * @throws LedgerConflictError the run's owner is another than `fromInstanceId`, or the run can't change any more.
   */
  takeOver: defineCommand<Run>()(
    "write",
    z.strictObject({ runId: existingRunId(), fromInstanceId: newId(), at: millis() }),
  ),
  /**
   * Records what the run produced, by digest (spec/auto_mode 3.2). Another candidate replaces it until a review starts.
   *
   * @throws LedgerConflictError a phase is open, the candidate id stands for other content, or the run can't change any more.
   */
  recordCandidate: defineCommand<Committed<Run>>()(
    "write",
    z.strictObject({
      runId: existingRunId(),
      idempotencyKey: idempotencyKey(),
      candidateId: newId(),
      candidateSnapshotSha256: sha256(),
      evidenceSnapshotSha256: sha256(),
      artifactSetSha256: sha256().nullish(),
      candidateArtifactIds: textList(),
      candidateVersionIds: textList(),
      createdAt: millis(),
    }),
  ),
  /**
   * Ends the run (spec/auto_mode 3.8). `verified` needs a completed, passing review as the newest one of the
   * current candidate and no material finding; `completed_with_issues` needs a completed review. With
   * `messagePromotion` the candidate message, and its delivery, are settled in the same transaction.
   *
   * @throws LedgerConflictError a phase is open, the evidence is missing, or the run can't change any more.
   */
  terminate: defineCommand<Committed<Run>>()(
    "write",
    z.strictObject({
      runId: existingRunId(),
      idempotencyKey: idempotencyKey(),
      status: word(TERMINAL_STATUSES),
      reason: text(LONG_TEXT),
      stopReason: text(LONG_TEXT).nullish(),
      messagePromotion: messagePromotion().nullish(),
      finishedAt: millis(),
    }),
  ),
  /**
   * The current run of a branch, now or as of `uptoEventCursor` (inclusive), checked whole before it is shown
   * (spec/auto_mode 4). A run that fails its check reads `failed` / `safety_boundary`, with what it claims in
   * `sourceClaimedStatus` and where it is damaged in `damage`. `run` is null when none is visible.
   *
   * @throws NotFoundError the session or the branch is unknown.
   */
  project: defineCommand<Projection>()(
    "read",
    z.strictObject({
      rootFrameId: existingRootFrameId(),
      branchId: existingBranchId().optional(),
      uptoEventCursor: integer(0).optional(),
    }),
  ),
};
