import { canonicalJson, type JsonObject } from "../../../src/proof/canonical.ts";
import { digest, sha256 } from "../../../src/proof/sha256.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { PromotionReceipt } from "../../../src/protocol/messages.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
import type { Row } from "../../storage/database.ts";
import { metadataOf } from "./rows.ts";

/** How a candidate message is settled, on every route (spec/session_store 6.7): by a run's terminal, and by recovery. */
export interface Settlement {
  readonly content: string;
  /** What becomes of the message, without what only the ledger writes. */
  readonly verdict: JsonObject;
  readonly at: number;
}

export interface Settled {
  readonly writes: readonly RowWrite[];
  readonly receipt: PromotionReceipt;
}

/** The rows that settle a candidate, and its delivery with it, which is published at that moment. */
export function settleCandidate(message: Row, delivery: Row | undefined, settlement: Settlement): Settled {
  const { content, verdict, at } = settlement;
  const metadata: JsonObject = {
    ...metadataOf(message),
    ...verdict,
    candidate_verdict_metadata_sha256: digest(verdict),
    ...(delivery !== undefined && {
      completion_delivery: {
        delivery_id: String(delivery["delivery_id"]),
        manifest_sha256: String(delivery["manifest_sha256"]),
        status: "published",
        published_at: at,
      },
    }),
  };
  const settled = { ...message, content, metadata: canonicalJson(metadata) };
  const writes: RowWrite[] = [{ act: "update", table: "messages", before: message, row: settled }];
  if (delivery !== undefined) {
    const row = { ...delivery, content_sha256: sha256(content), status: "published", published_at: at };
    writes.push({ act: "update", table: "completion_deliveries", before: delivery, row });
  }
  return { writes, receipt: receiptOf(message, delivery, metadata, settlement) };
}

function receiptOf(
  message: Row,
  delivery: Row | undefined,
  metadata: JsonObject,
  { content, verdict, at }: Settlement,
): PromotionReceipt {
  return {
    schema_version: 1,
    message_id: String(message["message_id"]),
    frame_id: message["frame_id"] === null ? null : String(message["frame_id"]),
    review_status: String(verdict["review_status"]),
    candidate_content_sha256: sha256(String(message["content"])),
    content_sha256: sha256(content),
    message_metadata_sha256: digest(metadata),
    ...(delivery !== undefined && {
      delivery_id: String(delivery["delivery_id"]),
      manifest_sha256: String(delivery["manifest_sha256"]) as PromotionReceipt["content_sha256"],
      published_at: at,
    }),
  };
}

/** Whether a message's metadata says that it is a candidate that waits for its verdict. */
export function isOpenCandidate(metadata: JsonObject): boolean {
  return (
    metadata["review_status"] === "candidate" &&
    metadata["gates_completion"] === true &&
    metadata["unverified"] === true
  );
}

/** @throws LedgerConflictError a message has a delivery and its metadata names none, or the other way round. */
export function assertEnvelope(message: Row, delivery: Row | undefined): void {
  const envelope = metadataOf(message)["completion_delivery"] as JsonObject | undefined;
  const named = envelope?.["delivery_id"];
  if (named === delivery?.["delivery_id"]) return;
  throw new LedgerConflictError(
    "delivery_differs",
    `message ${String(message["message_id"])} and its delivery do not name each other`,
    { messageId: message["message_id"], deliveryId: delivery?.["delivery_id"] ?? null },
  );
}
