import { StorageUnavailableError } from "../protocol/errors.ts";

/** One open ledger in one tab: the owner of all that it starts. */
export interface Tab {
  /** A new id for every `openLedger()`, never used again. */
  readonly instanceId: string;
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
  return new Promise((taken, refused) => {
    let letGo = () => {};
    const untilReleased = new Promise<void>((done) => {
      letGo = done;
    });
    const released = navigator.locks.request(`countersign:${ledgerName}:tab:${instanceId}`, () => {
      const release = () => {
        letGo();
        return released;
      };
      taken({ instanceId, release });
      return untilReleased;
    });
    released.catch(refused);
  });
}
