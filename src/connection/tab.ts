import { locks } from "../protocol/channel.ts";
import { StorageUnavailableError } from "../protocol/errors.ts";

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
  return new Promise((taken, refused) => {
    let letGo = () => {};
    const untilReleased = new Promise<void>((done) => {
      letGo = done;
    });
    const released: Promise<void> = navigator.locks.request(lock, () => {
      const comeBack = new AbortController();
      const lost = new Promise<void>((resolve) => {
        // Rejects when somebody steals the lock.
        Promise.resolve().then(() => released.catch(() => resolve()));
        // A page that the browser had put aside and shows again may have come back without it.
        const check = async ({ persisted }: PageTransitionEvent) => {
          if (persisted && !(await isHeld(lock))) resolve();
        };
        addEventListener("pageshow", check, { signal: comeBack.signal });
      });
      const release = async () => {
        comeBack.abort();
        letGo();
        await released.catch(() => {});
      };
      taken({ instanceId, lost, release });
      return untilReleased;
    });
    released.catch(refused);
  });
}

async function isHeld(lock: string): Promise<boolean> {
  const { held = [] } = await navigator.locks.query();
  return held.some(({ name }) => name === lock);
}
