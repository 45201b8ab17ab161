import type { Sha256 } from "../../../src/proof/sha256.ts";
import type { artifacts } from "../../../src/protocol/artifacts.ts";
import { IntegrityError } from "../../../src/protocol/errors.ts";
import { requireRow } from "../../ledger/required.ts";
import { requireSession } from "../../ledger/sessions.ts";
import type { Handler, Task } from "../command.ts";
import { decodeArtifact, decodeVersion } from "./rows.ts";

const MAX_ARTIFACTS = 10_000;

const selectOfSession = `SELECT artifact_id FROM artifacts WHERE root_frame_id = ?
  ORDER BY created_at DESC, artifact_id DESC LIMIT ?`;
const selectVersions = "SELECT version_id FROM artifact_versions WHERE artifact_id = ? ORDER BY ordinal DESC";

export const getArtifact: Handler<typeof artifacts.get> = ({ artifactId }, { ledger }) =>
  decodeArtifact(ledger, requireRow(ledger, "artifacts", artifactId, "artifactId"));

export const listArtifacts: Handler<typeof artifacts.list> = ({ rootFrameId, limit }, { ledger }) => {
  requireSession(ledger.database, rootFrameId);
  return ledger.database
    .all(selectOfSession, [rootFrameId, Math.min(limit, MAX_ARTIFACTS)])
    .map((row) =>
      decodeArtifact(ledger, requireRow(ledger, "artifacts", String(row["artifact_id"]), "artifactId")),
    );
};

export const listVersions: Handler<typeof artifacts.versions> = ({ artifactId }, { ledger }) => {
  requireRow(ledger, "artifacts", artifactId, "artifactId");
  return ledger.database
    .all(selectVersions, [artifactId])
    .map((row) =>
      decodeVersion(requireRow(ledger, "artifact_versions", String(row["version_id"]), "versionId")),
    );
};

export const openVersion: Task<typeof artifacts.open> = async ({ versionId }, { transact, files }) => {
  const version = await transact(({ ledger }) =>
    decodeVersion(requireRow(ledger, "artifact_versions", versionId, "versionId")),
  );
  const sha256 = version.checksum as Sha256;
  if ((await files.check(sha256, version.sizeBytes)) === "damaged") {
    throw new IntegrityError("blob_damaged", `the bytes of artifact version ${versionId} are damaged`, {
      versionId,
      sha256,
    });
  }
  const file = await files.open(sha256);
  return new File([file], version.filename, { type: version.contentType ?? "" });
};
