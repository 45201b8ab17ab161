import { test as base } from "vitest";
import type { OpenOptions } from "../../src/index.ts";
import { openTestLedger, type TestLedger } from "../../src/testing.ts";

/** A ledger with one session in it: what most tests start from. */
export interface SessionFixture {
  readonly ledger: TestLedger;
  /** The session's root frame, which is also its main branch. */
  readonly root: string;
}

/** A test with a fresh ledger on OPFS, closed and removed afterwards. */
export const test = base.extend<{ fresh: TestLedger; session: SessionFixture }>({
  fresh: async ({ task: _ }, use) => {
    const name = freshName();
    const ledger = await openBuilt(name);
    await use(ledger);
    await ledger.close();
    await removeLedger(name);
  },
  session: async ({ fresh: ledger }, use) => {
    await use({ ledger, root: await newSession(ledger) });
  },
});

/** A ledger name that no other test uses: all tests of a run share one origin. */
export function freshName(): string {
  return `test-${crypto.randomUUID()}`;
}

/** Opens a ledger in the built testing worker. */
export function openBuilt(name: string, options: Partial<OpenOptions> = {}): Promise<TestLedger> {
  return openTestLedger({ name, workerUrl: "/testing-worker.js", recovery: "manual", ...options });
}

export async function newSession(ledger: TestLedger): Promise<string> {
  const project = await ledger.projects.create({ name: "Auto Mode recovery regression" });
  return newRoot(ledger, project.projectId);
}

/** A new session of a project, by its root frame. */
export async function newRoot(ledger: TestLedger, projectId: string): Promise<string> {
  const { rootFrameId } = await ledger.frames.create({ projectId, kind: "turn" });
  await ledger.branches.ensure({ rootFrameId, branchId: rootFrameId });
  return rootFrameId;
}

/** Removes a closed ledger's files. */
export async function removeLedger(name: string): Promise<void> {
  const root = await navigator.storage.getDirectory();
  const ledgers = await root.getDirectoryHandle("countersign", { create: true });
  await ledgers.removeEntry(name, { recursive: true });
}
