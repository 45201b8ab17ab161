import { test as base } from "vitest";
import type { OpenOptions } from "../../src/index.ts";
import { openTestLedger, type TestLedger } from "../../src/testing.ts";
import { newRoot, newSession } from "./roots.ts";

export { newRoot, newSession };

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

/** Removes a closed ledger's files. */
export async function removeLedger(name: string): Promise<void> {
  const root = await navigator.storage.getDirectory();
  const ledgers = await root.getDirectoryHandle("countersign", { create: true });
  await ledgers.removeEntry(name, { recursive: true });
}
