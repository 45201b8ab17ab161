import type { Artifact, ArtifactVersion } from "../../../src/protocol/artifacts.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { requireRow } from "../../ledger/required.ts";
import { decodeRow, withParsed } from "../../ledger/rows.ts";
import type { Row } from "../../storage/database.ts";

const VERSION_DOCUMENTS = new Set(["source"]);

export function decodeVersion(row: Row): ArtifactVersion {
  return decodeRow<ArtifactVersion>(withParsed(row, VERSION_DOCUMENTS) as Row);
}

/** An artifact with its newest version. */
export function decodeArtifact(ledger: Ledger, row: Row): Artifact {
  const { is_user_upload: isUserUpload, ...columns } = row;
  const latest = decodeVersion(
    requireRow(ledger, "artifact_versions", String(row["latest_version_id"]), "versionId"),
  );
  return {
    ...decodeRow<Omit<Artifact, "isUserUpload" | "latest">>(columns),
    isUserUpload: isUserUpload === 1,
    latest,
  };
}
