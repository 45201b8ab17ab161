import { canonicalJson, type JsonObject } from "../../../src/proof/canonical.ts";
import { digest, sha256 } from "../../../src/proof/sha256.ts";
import type { ParsedOf } from "../../../src/protocol/command.ts";
import type { deliveries, Manifest } from "../../../src/protocol/deliveries.ts";
import { invalidInput, LedgerConflictError } from "../../../src/protocol/errors.ts";
import { requireRow } from "../../ledger/required.ts";
import { requireSession, requireSoundBranch } from "../../ledger/sessions.ts";
import type { Row } from "../../storage/database.ts";
import type { Context, Handler } from "../command.ts";
import { checkedMetadata, requireFrameOfSession } from "../messages/add.ts";
import { nextSeq } from "../messages/rows.ts";
import { manifestEntry } from "./manifest.ts";
import { readDelivery } from "./rows.ts";

type Input = ParsedOf<typeof deliveries.commit>;

const selectByKey = `SELECT delivery_id FROM completion_deliveries
  WHERE root_frame_id = ? AND branch_id = ? AND idempotency_key = ?`;
const insertRelation = `INSERT INTO completion_delivery_artifacts
  (delivery_id, ordinal, artifact_id, version_id, size_bytes, sha256) VALUES (?, ?, ?, ?, ?, ?)`;

export const commitDelivery: Handler<typeof deliveries.commit> = (input, context) => {
  const { ledger, caller, now, newId } = context;
  const { rootFrameId, content, idempotencyKey } = input;
  const branchId = input.branchId ?? rootFrameId;
  const manifest: Manifest = input.manifest;
  const manifestSha256 = checkedDigest(input, manifest);
  const metadata = candidateMetadata(input);
  requireSession(ledger.database, rootFrameId);
  requireSoundBranch(ledger, branchId, rootFrameId);
  requireFrameOfSession(context, input.frameId ?? null, rootFrameId);
  const requestSha256 = digest({
    frame_id: input.frameId ?? null,
    content_sha256: sha256(content),
    manifest_sha256: manifestSha256,
    message_metadata: metadata,
  });
  const earlier = ledger.database.value(selectByKey, [rootFrameId, branchId, idempotencyKey]);
  if (typeof earlier === "string") return replay(context, earlier, idempotencyKey, requestSha256);

  ledger.assertNoBarrier(rootFrameId);
  assertManifestHolds(context, rootFrameId, manifest);
  const at = input.createdAt ?? now();
  const deliveryId = newId("delivery-");
  const envelope = { delivery_id: deliveryId, manifest_sha256: manifestSha256, status: "committed" };
  const message: Row = {
    message_id: newId("m-"),
    root_frame_id: rootFrameId,
    branch_id: branchId,
    frame_id: input.frameId ?? null,
    seq: nextSeq(ledger, rootFrameId),
    role: "assistant",
    content,
    metadata: canonicalJson({ ...metadata, completion_delivery: envelope }),
    created_at: at,
  };
  const delivery: Row = {
    delivery_id: deliveryId,
    idempotency_key: idempotencyKey,
    root_frame_id: rootFrameId,
    branch_id: branchId,
    frame_id: input.frameId ?? null,
    message_id: message["message_id"] ?? null,
    request_sha256: requestSha256,
    manifest_json: canonicalJson(manifest),
    manifest_sha256: manifestSha256,
    content_sha256: sha256(content),
    status: "committed",
    created_at: at,
    published_at: null,
  };
  ledger.append(caller, {
    command: "deliveries.commit",
    rootFrameId,
    branchId,
    at,
    writes: [
      { act: "insert", table: "messages", row: message },
      { act: "insert", table: "completion_deliveries", row: delivery },
    ],
  });
  // Relations repeat the manifest, so that the database keeps its artifacts from being deleted.
  manifest.artifacts.forEach((entry, ordinal) => {
    const { artifact_id, version_id, size_bytes, sha256: checksum } = entry;
    ledger.database.run(insertRelation, [deliveryId, ordinal, artifact_id, version_id, size_bytes, checksum]);
  });
  return { ...readDelivery(ledger, delivery), created: true };
};

function replay({ ledger }: Context, deliveryId: string, idempotencyKey: string, requestSha256: string) {
  const row = requireRow(ledger, "completion_deliveries", deliveryId, "deliveryId");
  // The digest of the request is compared, so that it can be repeated also after the candidate was settled.
  if (row["request_sha256"] === requestSha256) return { ...readDelivery(ledger, row), created: false };
  throw new LedgerConflictError(
    "idempotency_key_reused",
    `the idempotency key ${idempotencyKey} was used for another delivery`,
    { field: "idempotencyKey", idempotencyKey, deliveryId },
  );
}

function checkedDigest({ rootFrameId, expectedManifestSha256 }: Input, manifest: Manifest) {
  if (manifest.root_frame_id !== rootFrameId)
    throw invalidInput("deliveries.commit", "manifest.root_frame_id", "the session's root frame id");
  const computed = digest(manifest);
  if (expectedManifestSha256 !== undefined && expectedManifestSha256 !== computed)
    throw invalidInput("deliveries.commit", "expectedManifestSha256", "the digest of the manifest");
  return computed;
}

function candidateMetadata({ messageMetadata, content }: Input): JsonObject {
  const metadata = checkedMetadata("deliveries.commit", "messageMetadata", messageMetadata ?? {}, content);
  return metadata["review_status"] === "candidate"
    ? { ...metadata, candidate_content_sha256: sha256(content) }
    : metadata;
}

/** Each entry of the manifest is what the ledger itself would write of that version. */
function assertManifestHolds(context: Context, rootFrameId: string, manifest: Manifest): void {
  const seen = new Set<string>();
  manifest.artifacts.forEach((entry, index) => {
    const field = `manifest.artifacts[${index}]`;
    if (seen.has(entry.version_id))
      throw invalidInput("deliveries.commit", `${field}.version_id`, "a version that is not in the list yet");
    seen.add(entry.version_id);
    const actual = manifestEntry(
      context,
      rootFrameId,
      manifest.project_id,
      entry.version_id,
      `${field}.version_id`,
    );
    if (canonicalJson(actual) === canonicalJson(entry)) return;
    throw new LedgerConflictError(
      "manifest_differs",
      `artifact version ${entry.version_id} is not what the manifest says`,
      { field, versionId: entry.version_id },
    );
  });
}
