import { LedgerConflictError, NotFoundError } from "../../../src/protocol/errors.ts";
import type { Frame, frames } from "../../../src/protocol/frames.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
import { decodeRow } from "../../ledger/rows.ts";
import { findFrame, newBranchRow } from "../../ledger/sessions.ts";
import type { Row } from "../../storage/database.ts";
import type { Context, Handler } from "../command.ts";

const selectProjectId = "SELECT project_id FROM projects WHERE project_id = ?";

export const createFrame: Handler<typeof frames.create> = (input, context) => {
  const { ledger, caller, now, newId } = context;
  const parent = input.parentId == null ? undefined : requireParent(context, input.parentId);
  requireProject(context, input.projectId);
  const frameId = input.frameId ?? newId("f-");
  const wanted = {
    parent_id: input.parentId ?? null,
    project_id: parent?.["project_id"] ?? input.projectId,
    kind: input.kind,
    name: input.name ?? null,
  };
  const existing = findFrame(ledger.database, frameId);
  if (existing !== undefined) return sameFrame(existing, wanted);
  const at = input.createdAt ?? now();
  const rootFrameId = String(parent?.["root_frame_id"] ?? frameId);
  const row: Row = {
    frame_id: frameId,
    root_frame_id: rootFrameId,
    ...wanted,
    status: "processing",
    depth: parent === undefined ? 0 : Number(parent["depth"]) + 1,
    created_at: at,
    updated_at: at,
  };
  const frame: RowWrite = { act: "insert", table: "frames", row };
  ledger.append(caller, {
    command: "frames.create",
    rootFrameId,
    at,
    writes:
      parent === undefined
        ? [frame, { act: "insert", table: "session_branches", row: newBranchRow(frameId, frameId, null, at) }]
        : [frame],
  });
  return { ...toFrame(row), created: true };
};

function requireParent({ ledger }: Context, parentId: string): Row {
  const parent = findFrame(ledger.database, parentId);
  if (parent !== undefined) return parent;
  throw new NotFoundError("frame_not_found", `there is no frame ${parentId}`, {
    field: "parentId",
    parentId,
  });
}

function requireProject({ ledger }: Context, projectId: string): void {
  if (ledger.database.value(selectProjectId, [projectId]) !== undefined) return;
  throw new NotFoundError("project_not_found", `there is no project ${projectId}`, {
    field: "projectId",
    projectId,
  });
}

function sameFrame(existing: Row, wanted: Row): Frame & { created: boolean } {
  const differing = Object.keys(wanted).find((column) => existing[column] !== wanted[column]);
  if (differing === undefined) return { ...toFrame(existing), created: false };
  throw new LedgerConflictError(
    "frame_exists",
    `frame ${String(existing["frame_id"])} exists with another ${differing}`,
    {
      field: "frameId",
      frameId: existing["frame_id"],
    },
  );
}

function toFrame({ status: _, ...row }: Row): Frame {
  return decodeRow<Frame>(row);
}
