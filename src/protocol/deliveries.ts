import * as z from "zod";
import type { JsonObject } from "../proof/canonical.ts";
import type { Sha256 } from "../proof/sha256.ts";
import { defineCommand } from "./command.ts";
import {
  anyText,
  contentText,
  existingBranchId,
  existingDeliveryId,
  existingFrameId,
  existingProjectId,
  existingRootFrameId,
  existingVersionId,
  idempotencyKey,
  integer,
  jsonObject,
  millis,
  sha256,
  text,
} from "./fields.ts";

/** What is handed over, by digest. In the spelling in which it is hashed (spec/session_store 6.2). */
export type Manifest = {
  readonly schema_version: 1;
  readonly root_frame_id: string;
  readonly project_id: string;
  readonly artifacts: readonly ManifestEntry[];
};

export interface ManifestEntry {
  readonly artifact_id: string;
  readonly version_id: string;
  readonly filename: string;
  readonly content_type: string;
  readonly size_bytes: number;
  readonly sha256: Sha256;
  readonly url: string;
}

export interface Delivery {
  readonly deliveryId: string;
  readonly idempotencyKey: string;
  readonly rootFrameId: string;
  readonly branchId: string;
  readonly frameId: string | null;
  readonly messageId: string;
  readonly requestSha256: Sha256;
  readonly manifest: Manifest;
  readonly manifestSha256: Sha256;
  readonly contentSha256: Sha256;
  readonly status: "committed" | "published";
  readonly createdAt: number;
  readonly publishedAt: number | null;
  readonly messageSeq: number;
  readonly messageRole: "assistant";
  readonly messageContent: string;
  readonly messageMetadata: JsonObject;
}

const manifest = () =>
  z.strictObject({
    schema_version: z.literal(1, "1"),
    root_frame_id: text(),
    project_id: text(),
    artifacts: z
      .array(
        z.strictObject({
          artifact_id: text(),
          version_id: text(),
          filename: text(1024),
          content_type: anyText(256),
          size_bytes: integer(0),
          sha256: sha256(),
          url: text(4096),
        }),
        "a list of manifest entries",
      )
      .min(1, "at least one artifact")
      .max(1_000, "at most 1,000 artifacts"),
  });

export const deliveries = {
  /**
   * The manifest of some artifact versions, with sizes and digests measured from the stored bytes
   * (spec/session_store 6.2). Repeated versions count once.
   *
   * @throws LedgerConflictError a version is of another session or project.
   * @throws IntegrityError the bytes of a version are missing or damaged.
   */
  buildManifest: defineCommand<{ readonly value: Manifest; readonly sha256: Sha256 }>()(
    "read",
    z.strictObject({
      rootFrameId: existingRootFrameId(),
      projectId: existingProjectId(),
      versions: z
        .array(existingVersionId(), "a list of version ids")
        .min(1, "at least one version")
        .max(1_000),
    }),
  ),
  /**
   * Commits a message together with the delivery of a manifest, both or none (spec/session_store 6.3). A candidate's
   * `candidate_content_sha256` is set here.
   *
   * @throws RecoveryRequiredError a revert of the session is unresolved.
   * @throws LedgerConflictError the key stands for another delivery, or the versions are not those of the manifest.
   */
  commit: defineCommand<Delivery & { readonly created: boolean }>()(
    "write",
    z.strictObject({
      idempotencyKey: idempotencyKey(),
      rootFrameId: existingRootFrameId(),
      branchId: existingBranchId().optional(),
      frameId: existingFrameId().nullish(),
      content: contentText(),
      manifest: manifest(),
      expectedManifestSha256: sha256().optional(),
      messageMetadata: jsonObject().nullish(),
      createdAt: millis(),
    }),
  ),
  /**
   * Publishes a committed delivery; a published one is answered as it is. That of a candidate is published by what
   * settles the candidate.
   *
   * @throws LedgerConflictError the delivery's message is a candidate that nobody has judged.
   */
  publish: defineCommand<Delivery>()(
    "write",
    z.strictObject({ deliveryId: existingDeliveryId(), at: millis() }),
  ),
  /**
   * The delivery with its message, checked against each other.
   *
   * @throws IntegrityError they do not agree.
   */
  get: defineCommand<Delivery>()("read", z.strictObject({ deliveryId: existingDeliveryId() })),
};
