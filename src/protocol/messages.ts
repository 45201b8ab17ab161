import * as z from "zod";
import type { JsonObject } from "../proof/canonical.ts";
import type { Sha256 } from "../proof/sha256.ts";
import { defineCommand } from "./command.ts";
import {
  contentText,
  existingBranchId,
  existingFrameId,
  existingMessageId,
  existingRootFrameId,
  integer,
  jsonObject,
  millis,
  newMessageId,
  word,
} from "./fields.ts";

export interface Message {
  readonly messageId: string;
  readonly rootFrameId: string;
  readonly branchId: string;
  readonly frameId: string | null;
  /** From 0 in each session, over all its branches. */
  readonly seq: number;
  readonly role: "user" | "assistant";
  readonly content: string;
  readonly metadata: JsonObject | null;
  readonly createdAt: number;
}

/** A message as it is read: damage is reported with the message and hides no other. */
export type StoredMessage = Message & { readonly damage?: string };

/**
 * Keys of a message's metadata that only the ledger writes (spec/session_store 1.5): what became of a candidate, and
 * its delivery.
 */
export const RESERVED_METADATA = [
  "completion_delivery",
  "completion_delivery_import_pending",
  "candidate_verdict_metadata_sha256",
  "review_recovery",
] as const;

/** Keys that bind a message to its candidate: given when it is added, and changed only by what settles it. */
export const CANDIDATE_METADATA = [
  "review_status",
  "user_truth",
  "gates_completion",
  "unverified",
  "turn_id",
  "execution_id",
  "candidate_content_sha256",
  "reviewed_content_sha256",
  "review_run_id",
] as const;

/** What says that a message was judged; a candidate that carries it could never be settled. */
export const VERDICT_METADATA = [
  "review_run_id",
  "reviewed_content_sha256",
  "candidate_verdict_metadata_sha256",
] as const;

export const messages = {
  /**
   * Adds a message at the end of its session. With `metadata.review_status` it is a candidate, whose verdict comes
   * from `runs.terminate` or from recovery alone (spec/session_store 1.5).
   *
   * @throws RecoveryRequiredError a revert of the session is unresolved.
   * @throws LedgerConflictError the id stands for another message.
   * @throws ValidationError the metadata has a reserved key, or claims a verdict.
   */
  add: defineCommand<Message & { readonly created: boolean }>()(
    "write",
    z.strictObject({
      messageId: newMessageId().optional(),
      rootFrameId: existingRootFrameId(),
      branchId: existingBranchId().optional(),
      frameId: existingFrameId().nullish(),
      role: word(["user", "assistant"]),
      content: contentText(),
      metadata: jsonObject().nullish(),
      createdAt: millis(),
    }),
  ),
  /**
   * Merges entries into a message's metadata. Those that say what became of a candidate can't be changed here.
   *
   * @throws RecoveryRequiredError a revert of the session is unresolved.
   */
  updateMetadata: defineCommand<Message>()(
    "write",
    z.strictObject({ messageId: existingMessageId(), metadata: jsonObject(), at: millis() }),
  ),
  /** The messages that a branch shows (default: the main branch), oldest first. */
  list: defineCommand<StoredMessage[]>()(
    "read",
    z.strictObject({
      rootFrameId: existingRootFrameId(),
      branchId: existingBranchId().optional(),
      afterSeq: integer(-1).optional(),
      limit: integer(1).default(300),
    }),
  ),
};

/** The receipt of a message that a run's terminal settled (spec/auto_mode 2.7). */
export interface PromotionReceipt {
  readonly schema_version: 1;
  readonly message_id: string;
  readonly frame_id: string | null;
  readonly review_status: string;
  readonly candidate_content_sha256: Sha256;
  readonly content_sha256: Sha256;
  readonly message_metadata_sha256: Sha256;
  readonly delivery_id?: string;
  readonly manifest_sha256?: Sha256;
  readonly published_at?: number;
}
