import type { Project, projects } from "../../../src/protocol/projects.ts";
import { decodeRow } from "../../ledger/rows.ts";
import type { Handler } from "../command.ts";

const selectProjects = "SELECT * FROM projects ORDER BY updated_at DESC, project_id";

export const listProjects: Handler<typeof projects.list> = (_input, { ledger }) =>
  ledger.database.all(selectProjects).map((row) => decodeRow<Project>(row));
