import { digest, sha256 } from "../../../src/proof/sha256.ts";
import type { Delivery, Manifest } from "../../../src/protocol/deliveries.ts";
import { IntegrityError } from "../../../src/protocol/errors.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { requireRow } from "../../ledger/required.ts";
import { decodeRow } from "../../ledger/rows.ts";
import type { Row } from "../../storage/database.ts";
import { metadataOf } from "../messages/rows.ts";

const selectOfMessage = "SELECT delivery_id FROM completion_deliveries WHERE message_id = ?";
const selectRelations = `SELECT artifact_id, version_id, size_bytes, sha256 FROM completion_delivery_artifacts
  WHERE delivery_id = ? ORDER BY ordinal`;

/** The delivery of a message, proven, if it has one. */
export function deliveryOfMessage(ledger: Ledger, messageId: string): Row | undefined {
  const deliveryId = ledger.database.value(selectOfMessage, [messageId]);
  return typeof deliveryId === "string"
    ? requireRow(ledger, "completion_deliveries", deliveryId, "deliveryId")
    : undefined;
}

/**
 * A delivery as the API shows it, after its message, its manifest and its relations were held against it
 * (spec/session_store 6.5).
 *
 * @throws IntegrityError
 */
export function readDelivery(ledger: Ledger, row: Row): Delivery {
  const deliveryId = String(row["delivery_id"]);
  const message = requireRow(ledger, "messages", String(row["message_id"]), "messageId");
  const delivery = decodeRow<Delivery>(row);
  const metadata = metadataOf(message);
  const envelope = metadata["completion_delivery"] as Record<string, unknown> | undefined;
  const disagreement = [
    [message["role"] === "assistant", "its message is not the assistant's"],
    [
      ["root_frame_id", "branch_id", "frame_id"].every((column) => message[column] === row[column]),
      "its message is of another scope",
    ],
    [digest(delivery.manifest) === row["manifest_sha256"], "its manifest does not match its digest"],
    [sha256(String(message["content"])) === row["content_sha256"], "its message has other content"],
    [
      envelope?.["delivery_id"] === deliveryId &&
        envelope["manifest_sha256"] === row["manifest_sha256"] &&
        envelope["status"] === row["status"] &&
        (envelope["published_at"] ?? null) === row["published_at"],
      "its message does not name it",
    ],
    [relationsAgree(ledger, deliveryId, delivery.manifest), "its artifacts are not those of its manifest"],
  ].find(([holds]) => !holds);
  if (disagreement !== undefined) throw damaged(deliveryId, String(disagreement[1]));
  return {
    ...delivery,
    messageSeq: Number(message["seq"]),
    messageRole: "assistant",
    messageContent: String(message["content"]),
    messageMetadata: metadata,
  };
}

function relationsAgree(ledger: Ledger, deliveryId: string, manifest: Manifest): boolean {
  const relations = ledger.database.all(selectRelations, [deliveryId]);
  const entries = manifest.artifacts.map((each) => [
    each.artifact_id,
    each.version_id,
    each.size_bytes,
    each.sha256,
  ]);
  return JSON.stringify(relations.map((row) => Object.values(row))) === JSON.stringify(entries);
}

function damaged(deliveryId: string, reason: string): IntegrityError {
  return new IntegrityError("delivery_damaged", `delivery ${deliveryId} is damaged: ${reason}`, {
    field: "deliveryId",
    deliveryId,
    reason,
  });
}
