import { canonicalJson } from "../../../src/proof/canonical.ts";
import type { deliveries } from "../../../src/protocol/deliveries.ts";
import { invalidInput, LedgerConflictError } from "../../../src/protocol/errors.ts";
import { requireRow } from "../../ledger/required.ts";
import type { Handler } from "../command.ts";
import { metadataOf } from "../messages/rows.ts";
import { readDelivery } from "./rows.ts";

export const publishDelivery: Handler<typeof deliveries.publish> = (input, { ledger, caller, now }) => {
  const { deliveryId } = input;
  const before = requireRow(ledger, "completion_deliveries", deliveryId, "deliveryId");
  if (before["status"] === "published") return readDelivery(ledger, before);
  const rootFrameId = String(before["root_frame_id"]);
  ledger.assertNoBarrier(rootFrameId);
  readDelivery(ledger, before);
  const message = requireRow(ledger, "messages", String(before["message_id"]), "messageId");
  const metadata = metadataOf(message);
  if (metadata["review_status"] === "candidate") {
    throw new LedgerConflictError(
      "not_judged",
      `the message of delivery ${deliveryId} is a candidate without a verdict`,
      {
        deliveryId,
        messageId: before["message_id"],
      },
    );
  }
  const at = input.at ?? Math.max(now(), Number(before["created_at"]));
  if (at < Number(before["created_at"])) {
    const expected = `a time from ${String(before["created_at"])}, when it was committed`;
    throw invalidInput("deliveries.publish", "at", expected);
  }
  const envelope = {
    delivery_id: deliveryId,
    manifest_sha256: String(before["manifest_sha256"]),
    status: "published",
    published_at: at,
  };
  const row = { ...before, status: "published", published_at: at };
  const published = { ...message, metadata: canonicalJson({ ...metadata, completion_delivery: envelope }) };
  ledger.append(caller, {
    command: "deliveries.publish",
    rootFrameId,
    branchId: String(before["branch_id"]),
    at,
    writes: [
      { act: "update", table: "completion_deliveries", before, row },
      { act: "update", table: "messages", before: message, row: published },
    ],
  });
  return readDelivery(ledger, row);
};
