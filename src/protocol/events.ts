import * as z from "zod";
import type { JsonObject } from "../proof/canonical.ts";
import type { Sha256 } from "../proof/sha256.ts";
import { defineCommand } from "./command.ts";
import { existingBranchId, existingRootFrameId, integer } from "./fields.ts";
import type { PromotionReceipt } from "./messages.ts";

/** What each type of event says. Payloads are kept exactly as they are hashed, in the specification's spelling. */
export interface EventPayloads {
  readonly auto_run_started: {
    readonly mode: string;
    readonly status: "running";
    readonly selection: JsonObject;
    readonly budgets: JsonObject;
  };
  readonly candidate_ready: CandidateFields & { readonly status: "candidate" };
  readonly auto_audit_started: ReviewSubject & {
    readonly candidate_snapshot_sha256: Sha256;
    readonly evidence_snapshot_sha256: Sha256;
    readonly model_profile_id: string;
    readonly model_profile_revision: number;
    readonly model_fingerprint: string;
    readonly round: number;
    readonly status: "started";
  };
  readonly auto_audit_completed: ReviewSubject & {
    readonly assessment_digest: Sha256;
    readonly verdict: string;
    readonly status: string;
    readonly finding_count: number;
    readonly public_summary: string | null;
  };
  readonly repair_started:
    | {
        readonly repair_run_id: string;
        readonly finding_ids: readonly string[];
        readonly before_version_ids: readonly string[];
        readonly checkpoint_id: string;
        readonly status: "started";
        readonly phase?: never;
      }
    | {
        readonly repair_run_id: string;
        readonly phase: "execution_group_bound";
        readonly action_group_id: string;
        readonly status: "started";
      };
  readonly repair_completed: {
    readonly repair_run_id: string;
    readonly status: string;
    readonly after_version_ids: readonly string[];
    readonly execution_group_ids: readonly string[];
    readonly verification_review_run_id: null;
  };
  readonly auto_run_terminal: {
    readonly status: string;
    readonly terminal_reason: string;
    readonly stop_reason: string | null;
    readonly message_promotion_sha256?: Sha256;
    readonly message_promotion_receipt?: PromotionReceipt;
  };
}

export interface CandidateFields {
  readonly candidate_id: string;
  readonly candidate_snapshot_sha256: Sha256;
  readonly evidence_snapshot_sha256: Sha256;
  readonly artifact_set_sha256: Sha256 | null;
  readonly candidate_artifact_ids: readonly string[];
  readonly candidate_version_ids: readonly string[];
}

interface ReviewSubject {
  readonly audit_id: string;
  readonly review_run_id: string;
  readonly subject_kind: "result_review";
  readonly subject_entity_kind: "candidate_evidence_snapshot";
  readonly subject_entity_id: string;
  readonly candidate_id: string;
  readonly audit_request_digest: Sha256;
  readonly attempt: number;
}

export type EventType = keyof EventPayloads;

interface EventFrame {
  readonly eventId: string;
  readonly rootFrameId: string;
  /** Position in the session, from 1. */
  readonly eventCursor: number;
  readonly runId: string;
  readonly branchId: string;
  readonly turnId: string;
  readonly executionId: string;
  /** Position in the run, from 1. */
  readonly sequence: number;
  readonly idempotencyKey: string;
  readonly requestSha256: Sha256;
  readonly payloadSha256: Sha256;
  readonly createdAt: number;
  readonly eventOrdinal: number;
  readonly occurredAt: number;
}

/** A sound event, told apart by its type. */
export type LedgerEvent = {
  readonly [Type in EventType]: EventFrame & { readonly type: Type; readonly payload: EventPayloads[Type] };
}[EventType];

/** An event as it is stored: `damage` says what is wrong with it, and then its payload may be missing. */
export type StoredEvent =
  | (LedgerEvent & { readonly damage?: undefined })
  | (EventFrame & { readonly type: string; readonly payload: JsonObject | null; readonly damage: string });

export const events = {
  /** The newest event cursor of a session, or the newest visible on one of its branches; 0 when there is none. */
  cursor: defineCommand<{ readonly cursor: number }>()(
    "read",
    z.strictObject({ rootFrameId: existingRootFrameId(), branchId: existingBranchId().optional() }),
  ),
  /**
   * The events of a session, or those visible on a branch, in order: `afterCursor` exclusive, `uptoCursor`
   * inclusive, the first `limit` (at most 100,000; read on from the last cursor for more).
   *
   * A damaged event is listed with its `damage`; it never hides the others.
   *
   * @throws NotFoundError the session or the branch is unknown.
   */
  list: defineCommand<StoredEvent[]>()(
    "read",
    z.strictObject({
      rootFrameId: existingRootFrameId(),
      branchId: existingBranchId().optional(),
      afterCursor: integer(0).optional(),
      uptoCursor: integer(0).optional(),
      limit: integer(1).default(100_000),
    }),
  ),
};
