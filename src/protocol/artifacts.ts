import * as z from "zod";
import type { Json } from "../proof/canonical.ts";
import type { Sha256 } from "../proof/sha256.ts";
import { defineCommand } from "./command.ts";
import {
  existingArtifactId,
  existingFrameId,
  existingProjectId,
  existingRootFrameId,
  existingVersionId,
  integer,
  jsonValue,
  millis,
  newId,
  text,
} from "./fields.ts";

export interface ArtifactVersion {
  readonly versionId: string;
  readonly artifactId: string;
  /** From 1 in each artifact. */
  readonly ordinal: number;
  readonly filename: string;
  readonly contentType: string | null;
  readonly sizeBytes: number;
  /** SHA-256 of the bytes: where they lie in the store. */
  readonly checksum: Sha256;
  readonly producingCellId: string | null;
  readonly frameId: string;
  readonly source: Json;
  readonly createdAt: number;
}

export interface Artifact {
  readonly artifactId: string;
  readonly projectId: string;
  readonly rootFrameId: string;
  readonly filename: string;
  readonly contentType: string | null;
  readonly isUserUpload: boolean;
  readonly priority: number;
  readonly latestVersionId: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly latest: ArtifactVersion;
}

/** What can be saved: bytes, a Blob or File, or a stream of bytes, which is never held in memory whole. */
export type ArtifactBytes = Uint8Array<ArrayBuffer> | Blob | ReadableStream<Uint8Array<ArrayBuffer>>;

const artifactBytes = () =>
  z
    .custom<ArtifactBytes>(
      (value) => value instanceof Uint8Array || value instanceof Blob || value instanceof ReadableStream,
      "a Uint8Array, a Blob or a ReadableStream of bytes",
    )
    .meta({ holds: "bytes" });

export const artifacts = {
  /**
   * Stores bytes under their SHA-256 and records them as a new artifact, or as the next version of `artifactId`
   * (spec/session_store 5.2). Equal bytes are kept once.
   *
   * @throws LedgerConflictError the artifact is of another session or project, or an id is taken.
   * @throws StorageFullError no space is left; nothing was recorded.
   */
  save: defineCommand<ArtifactVersion & { readonly created: boolean }>()(
    "write",
    z.strictObject({
      filename: text(1024),
      contentType: text(256).nullish(),
      bytes: artifactBytes(),
      frameId: existingFrameId(),
      projectId: existingProjectId().optional(),
      artifactId: existingArtifactId().optional(),
      versionId: newId().optional(),
      producingCellId: text().nullish(),
      isUserUpload: z.boolean("true or false").default(false),
      priority: integer(0).default(0),
      source: jsonValue(),
      createdAt: millis(),
    }),
  ),
  /** @throws NotFoundError */
  get: defineCommand<Artifact>()("read", z.strictObject({ artifactId: existingArtifactId() })),
  /**
   * The bytes of a version, as a File that reads from disk when it is read.
   *
   * @throws NotFoundError the version is unknown, or its bytes are missing (`blob_missing`).
   * @throws IntegrityError the bytes are not those that were saved.
   */
  open: defineCommand<File>()("read", z.strictObject({ versionId: existingVersionId() })),
  /** The artifacts of a session, newest first. */
  list: defineCommand<Artifact[]>()(
    "read",
    z.strictObject({ rootFrameId: existingRootFrameId(), limit: integer(1).default(1_000) }),
  ),
  /** The versions of an artifact, newest first. */
  versions: defineCommand<ArtifactVersion[]>()("read", z.strictObject({ artifactId: existingArtifactId() })),
};
