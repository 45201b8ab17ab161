import type { Ledger } from "../../src/index.ts";

export async function newSession(ledger: Ledger): Promise<string> {
  const project = await ledger.projects.create({ name: "Auto Mode recovery regression" });
  return newRoot(ledger, project.projectId);
}

/** A new session of a project, by its root frame. */
export async function newRoot(ledger: Ledger, projectId: string): Promise<string> {
  const { rootFrameId } = await ledger.frames.create({ projectId, kind: "turn" });
  await ledger.branches.ensure({ rootFrameId, branchId: rootFrameId });
  return rootFrameId;
}
