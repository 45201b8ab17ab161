import { canonicalJson } from "../../../src/proof/canonical.ts";
import type { artifacts } from "../../../src/protocol/artifacts.ts";
import type { ParsedOf, ResultOf } from "../../../src/protocol/command.ts";
import { LedgerConflictError, NotFoundError } from "../../../src/protocol/errors.ts";
import type { StoredBlob } from "../../files/blob-store.ts";
import { readingSource } from "../../files/source-error.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
import { requireRow } from "../../ledger/required.ts";
import { findFrame } from "../../ledger/sessions.ts";
import type { Row } from "../../storage/database.ts";
import { differingColumn } from "../actions/rows.ts";
import type { Context, Task } from "../command.ts";
import { decodeVersion } from "./rows.ts";

type Input = ParsedOf<typeof artifacts.save>;
type Result = ResultOf<typeof artifacts.save>;

export const saveArtifact: Task<typeof artifacts.save> = async (input, { transact, conclude, files }) => {
  // What would be refused anyway is refused before a long file is read.
  await transact((context) => scopeOf(context, input));
  return files.holding(async (hold) => {
    const blob = await readingSource("artifacts.save", "bytes", () => hold.put(input.bytes));
    return conclude((context) => record(context, input, blob));
  });
};

interface Scope {
  readonly rootFrameId: string;
  readonly projectId: string;
  readonly artifact: Row | undefined;
}

function scopeOf({ ledger }: Context, input: Input): Scope {
  const frame = findFrame(ledger.database, input.frameId);
  if (frame === undefined) {
    throw new NotFoundError("frame_not_found", `there is no frame ${input.frameId}`, {
      field: "frameId",
      frameId: input.frameId,
    });
  }
  const [rootFrameId, projectId] = [String(frame["root_frame_id"]), String(frame["project_id"])];
  if (input.projectId !== undefined && input.projectId !== projectId) {
    const known = ledger.database.value("SELECT 1 FROM projects WHERE project_id = ?", [input.projectId]);
    if (known === undefined)
      throw new NotFoundError("project_not_found", `there is no project ${input.projectId}`, {
        field: "projectId",
      });
    throw outOfScope(
      "projectId",
      `frame ${input.frameId} is of project ${projectId}, not of ${input.projectId}`,
    );
  }
  ledger.assertNoBarrier(rootFrameId);
  const artifact =
    input.artifactId === undefined
      ? undefined
      : requireRow(ledger, "artifacts", input.artifactId, "artifactId");
  if (
    artifact !== undefined &&
    (artifact["root_frame_id"] !== rootFrameId || artifact["project_id"] !== projectId)
  )
    throw outOfScope("artifactId", `artifact ${input.artifactId} is of another session or project`);
  return { rootFrameId, projectId, artifact };
}

function outOfScope(field: string, message: string): LedgerConflictError {
  return new LedgerConflictError("artifact_out_of_scope", message, { field });
}

const selectVersion = "SELECT 1 FROM artifact_versions WHERE version_id = ?";
const selectNextOrdinal = "SELECT COALESCE(MAX(ordinal), 0) + 1 FROM artifact_versions WHERE artifact_id = ?";

function record(context: Context, input: Input, blob: StoredBlob): Result {
  const { ledger, caller, now, newId } = context;
  const { rootFrameId, projectId, artifact: before } = scopeOf(context, input);
  const wanted: Row = {
    ...(input.artifactId !== undefined && { artifact_id: input.artifactId }),
    filename: input.filename,
    content_type: input.contentType ?? null,
    size_bytes: blob.sizeBytes,
    checksum: blob.sha256,
    producing_cell_id: input.producingCellId ?? null,
    frame_id: input.frameId,
    source: input.source === null ? null : canonicalJson(input.source),
  };
  const isKnown =
    input.versionId !== undefined && ledger.database.value(selectVersion, [input.versionId]) !== undefined;
  const existing = isKnown
    ? requireRow(ledger, "artifact_versions", input.versionId ?? "", "versionId")
    : undefined;
  if (existing !== undefined) return sameVersion(existing, wanted);

  const at = input.createdAt ?? now();
  const artifactId = before === undefined ? newId("a-") : String(before["artifact_id"]);
  const version: Row = {
    version_id: input.versionId ?? newId("v-"),
    artifact_id: artifactId,
    ordinal: ledger.database.value(selectNextOrdinal, [artifactId]) ?? 1,
    ...wanted,
    created_at: at,
  };
  const head = { latest_version_id: version["version_id"] ?? null, updated_at: at };
  const artifact: RowWrite =
    before === undefined
      ? {
          act: "insert",
          table: "artifacts",
          row: { ...newArtifact(input, artifactId, rootFrameId, projectId, at), ...head },
        }
      : { act: "update", table: "artifacts", before, row: { ...before, ...head } };
  ledger.append(caller, {
    command: "artifacts.save",
    rootFrameId,
    at,
    writes: [artifact, { act: "insert", table: "artifact_versions", row: version }],
  });
  return { ...decodeVersion(version), created: true };
}

function newArtifact(
  input: Input,
  artifactId: string,
  rootFrameId: string,
  projectId: string,
  at: number,
): Row {
  return {
    artifact_id: artifactId,
    project_id: projectId,
    root_frame_id: rootFrameId,
    filename: input.filename,
    content_type: input.contentType ?? null,
    is_user_upload: input.isUserUpload ? 1 : 0,
    priority: input.priority,
    created_at: at,
  };
}

function sameVersion(existing: Row, wanted: Row): Result {
  const differs = differingColumn(existing, wanted);
  if (differs === undefined) return { ...decodeVersion(existing), created: false };
  const versionId = existing["version_id"];
  throw new LedgerConflictError(
    "id_taken",
    `artifact version ${String(versionId)} exists with another ${differs}`,
    {
      field: "versionId",
      versionId,
    },
  );
}
