import { digest } from "../../../src/proof/sha256.ts";
import type { deliveries, Manifest, ManifestEntry } from "../../../src/protocol/deliveries.ts";
import { IntegrityError, invalidInput, LedgerConflictError } from "../../../src/protocol/errors.ts";
import { requireRow } from "../../ledger/required.ts";
import type { Row } from "../../storage/database.ts";
import type { Context, Task } from "../command.ts";

export const buildManifest: Task<typeof deliveries.buildManifest> = async (input, { transact, files }) => {
  const { rootFrameId, projectId } = input;
  const artifacts = await transact((context) =>
    [...new Set(input.versions)].map((versionId) =>
      manifestEntry(context, rootFrameId, projectId, versionId, "versions"),
    ),
  );
  for (const { version_id: versionId, sha256, size_bytes: sizeBytes } of artifacts) {
    const state = await files.check(sha256, sizeBytes);
    if (state === "ok") continue;
    throw new IntegrityError(`blob_${state}`, `the bytes of artifact version ${versionId} are ${state}`, {
      field: "versions",
      versionId,
      sha256,
    });
  }
  const value: Manifest = { schema_version: 1, root_frame_id: rootFrameId, project_id: projectId, artifacts };
  return { value, sha256: digest(value) };
};

/** @throws NotFoundError @throws LedgerConflictError the version is of another session or project. */
export function manifestEntry(
  context: Context,
  rootFrameId: string,
  projectId: string,
  versionId: string,
  field: string,
): ManifestEntry {
  const version = requireRow(context.ledger, "artifact_versions", versionId, field);
  const artifact = requireRow(context.ledger, "artifacts", String(version["artifact_id"]), field);
  if (artifact["root_frame_id"] !== rootFrameId || artifact["project_id"] !== projectId) {
    throw new LedgerConflictError(
      "version_out_of_scope",
      `artifact version ${versionId} is of another session or project`,
      { field, versionId },
    );
  }
  return entryOf(artifact, version);
}

function entryOf(artifact: Row, version: Row): ManifestEntry {
  const versionId = String(version["version_id"]);
  return {
    artifact_id: String(artifact["artifact_id"]),
    version_id: versionId,
    filename: String(version["filename"]),
    content_type: String(version["content_type"] ?? ""),
    size_bytes: Number(version["size_bytes"]),
    sha256: String(version["checksum"]) as ManifestEntry["sha256"],
    url: `/api/v1/artifacts/versions/${encodeEverything(versionId)}`,
  };
}

/** Percent-encodes all that RFC 3986 reserves, also what `encodeURIComponent` leaves. */
function encodeEverything(id: string): string {
  if (id === "." || id === "..") {
    throw invalidInput("deliveries.commit", "versions", `version ids that can stand in a URL, unlike ${id}`);
  }
  return encodeURIComponent(id).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
