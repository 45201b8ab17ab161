import type { Artifact, ArtifactVersion } from "../../../src/protocol/artifacts.ts";
import { IntegrityError, NotFoundError } from "../../../src/protocol/errors.ts";
import { DamageFound, findDamage } from "../../ledger/damage.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { decodeRow, withParsed } from "../../ledger/rows.ts";
import type { Row } from "../../storage/database.ts";

const VERSION_DOCUMENTS = new Set(["source"]);

export function decodeVersion(row: Row): ArtifactVersion {
  return decodeRow<ArtifactVersion>(withParsed(row, VERSION_DOCUMENTS) as Row);
}

/** An artifact with its newest version. */
export function decodeArtifact(ledger: Ledger, row: Row): Artifact {
  const { is_user_upload: isUserUpload, ...columns } = row;
  const latest = decodeVersion(requireVersion(ledger, String(row["latest_version_id"])));
  return {
    ...decodeRow<Omit<Artifact, "isUserUpload" | "latest">>(columns),
    isUserUpload: isUserUpload === 1,
    latest,
  };
}

/** @throws NotFoundError @throws IntegrityError */
export function requireArtifact(ledger: Ledger, artifactId: string, field = "artifactId"): Row {
  return required(ledger, "artifacts", "artifact", artifactId, field);
}

/** @throws NotFoundError @throws IntegrityError */
export function requireVersion(ledger: Ledger, versionId: string, field = "versionId"): Row {
  return required(ledger, "artifact_versions", "version", versionId, field);
}

function required(
  ledger: Ledger,
  table: "artifacts" | "artifact_versions",
  kind: string,
  id: string,
  field: string,
): Row {
  const row = findDamage(() => ledger.row(table, id));
  if (row instanceof DamageFound) {
    throw new IntegrityError(`${kind}_damaged`, `${kind} ${id} is damaged: ${row.message}`, {
      field,
      ...row.damage,
    });
  }
  if (row !== undefined) return row;
  throw new NotFoundError(`${kind}_not_found`, `there is no ${kind} ${id}`, { field, [`${kind}Id`]: id });
}
