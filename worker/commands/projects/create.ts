import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { Project, projects } from "../../../src/protocol/projects.ts";
import { LEDGER_ROOT } from "../../ledger/journal.ts";
import { decodeRow } from "../../ledger/rows.ts";
import type { Handler } from "../command.ts";

const selectProject = "SELECT * FROM projects WHERE project_id = ?";

export const createProject: Handler<typeof projects.create> = (input, { ledger, caller, now, newId }) => {
  const projectId = input.projectId ?? newId("proj_");
  const description = input.description ?? null;
  const existing = ledger.database.get(selectProject, [projectId]);
  if (existing !== undefined) {
    if (existing["name"] !== input.name || existing["description"] !== description) {
      throw new LedgerConflictError(
        "project_exists",
        `project ${projectId} exists with another name or description`,
        {
          field: "projectId",
          projectId,
        },
      );
    }
    return { ...decodeRow<Project>(existing), created: false };
  }
  const at = input.createdAt ?? now();
  const row = { project_id: projectId, name: input.name, description, created_at: at, updated_at: at };
  ledger.append(caller, {
    command: "projects.create",
    rootFrameId: LEDGER_ROOT,
    at,
    writes: [{ act: "insert", table: "projects", row }],
  });
  return { ...decodeRow<Project>(row), created: true };
};
