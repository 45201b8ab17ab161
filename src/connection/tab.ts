import { StorageUnavailableError } from "../protocol/errors.ts";
import { holdLock, isHeld, locks } from "../protocol/locks.ts";

/** One open ledger in one tab: the owner of all that it starts. */
export interface Tab {
  /** A new id for every `openLedger()`, never used again. */
  readonly instanceId: string;
  /** Resolves when the lock was lost: others take this tab for dead then, and it must write no more. */
  readonly lost: Promise<void>;
  /** Gives the tab's lock back; once it resolves, the tab counts as gone. */
  release(): Promise<void>;
}

/**
 * Takes the lock that tells other tabs that this one is alive. The page holds it, not the worker: the page drives
 * the agent, and a worker that restarts must not make its runs look dead.
 */
export async function takeTabLock(ledgerName: string): Promise<Tab> {
  if (navigator.locks === undefined) {
    throw new StorageUnavailableError(
      "locks_unavailable",
      "this page has no Web Locks; serve it over HTTPS or from localhost",
      { reason: "navigator.locks is missing" },
    );
  }
  const instanceId = crypto.randomUUID();
  const lock = locks.tab(ledgerName, instanceId);
  const held = await holdLock(lock);
  const comeBack = new AbortController();
  const release = () => {
    comeBack.abort();
    return held.release();
  };
  return { instanceId, lost: Promise.race([held.stolen, lostInCache(lock, comeBack.signal)]), release };
}

/** Resolves when the page is shown again, after the browser had put it aside, and has lost its lock meanwhile. */
function lostInCache(lock: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const check = async ({ persisted }: PageTransitionEvent) => {
      if (persisted && !(await isHeld(lock))) resolve();
    };
    addEventListener("pageshow", check, { signal });
  });
}
