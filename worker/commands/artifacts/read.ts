import type { Sha256 } from "../../../src/proof/sha256.ts";
import type { artifacts } from "../../../src/protocol/artifacts.ts";
import { IntegrityError } from "../../../src/protocol/errors.ts";
import { requireSession } from "../../ledger/sessions.ts";
import type { Handler, Task } from "../command.ts";
import { decodeArtifact, decodeVersion, requireArtifact, requireVersion } from "./rows.ts";

const MAX_ARTIFACTS = 10_000;

const selectOfSession = `SELECT artifact_id FROM artifacts WHERE root_frame_id = ?
  ORDER BY created_at DESC, artifact_id DESC LIMIT ?`;
const selectVersions = "SELECT version_id FROM artifact_versions WHERE artifact_id = ? ORDER BY ordinal DESC";

export const getArtifact: Handler<typeof artifacts.get> = ({ artifactId }, { ledger }) =>
  decodeArtifact(ledger, requireArtifact(ledger, artifactId));

export const listArtifacts: Handler<typeof artifacts.list> = ({ rootFrameId, limit }, { ledger }) => {
  requireSession(ledger.database, rootFrameId);
  return ledger.database
    .all(selectOfSession, [rootFrameId, Math.min(limit, MAX_ARTIFACTS)])
    .map((row) => decodeArtifact(ledger, requireArtifact(ledger, String(row["artifact_id"]))));
};

export const listVersions: Handler<typeof artifacts.versions> = ({ artifactId }, { ledger }) => {
  requireArtifact(ledger, artifactId);
  return ledger.database
    .all(selectVersions, [artifactId])
    .map((row) => decodeVersion(requireVersion(ledger, String(row["version_id"]))));
};

export const openVersion: Task<typeof artifacts.open> = async ({ versionId }, { transact, files }) => {
  const version = await transact(({ ledger }) => decodeVersion(requireVersion(ledger, versionId)));
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
