/** The Web Locks of a ledger: who owns the database, who reconciles, and which tabs and workers are alive. */
export const locks = {
  host: (ledgerName: string) => `countersign:${ledgerName}:host`,
  reconcile: (ledgerName: string) => `countersign:${ledgerName}:reconcile`,
  tab: (ledgerName: string, instanceId: string) => `countersign:${ledgerName}:tab:${instanceId}`,
  worker: (ledgerName: string, workerId: string) => `countersign:${ledgerName}:worker:${workerId}`,
} as const;

/** A Web Lock that is held until it is let go. */
export interface HeldLock {
  /** Resolves when others can have it. */
  release(): Promise<void>;
  /** Resolves when it was taken from us. */
  readonly stolen: Promise<void>;
}

/**
 * Queues for a lock, and holds it.
 *
 * @param signal gives the place in the queue up: then the promise rejects, or never settles
 * @throws DOMException the browser refuses Web Locks, or the signal was aborted.
 */
export function holdLock(name: string, signal?: AbortSignal): Promise<HeldLock> {
  return new Promise((granted, refused) => {
    let letGo = () => {};
    const request = navigator.locks.request(name, signal === undefined ? {} : { signal }, () => {
      // A request that is aborted while it is on its way can still be granted.
      if (signal?.aborted) return undefined;
      return new Promise<void>((resolve) => {
        letGo = resolve;
        granted({ release, stolen });
      });
    });
    const ended = request.then(
      () => {},
      () => {},
    );
    const stolen = new Promise<void>((resolve) => request.catch(() => resolve()));
    const release = () => {
      letGo();
      return ended;
    };
    request.catch(refused);
  });
}

/**
 * Resolves when whoever holds the lock is gone.
 *
 * @throws DOMException the signal was aborted.
 */
export async function endOf(lock: string, signal?: AbortSignal): Promise<void> {
  await navigator.locks.request(lock, signal === undefined ? {} : { signal }, () => {});
}

/** Whether anybody holds the lock. */
export async function isHeld(lock: string): Promise<boolean> {
  return (await heldNames()).includes(lock);
}

/** The ids of those whose locks of this kind are held. */
export async function livingIds(lockOf: (id: string) => string): Promise<Set<string>> {
  const prefix = lockOf("");
  const names = (await heldNames()).filter((name) => name.startsWith(prefix));
  return new Set(names.map((name) => name.slice(prefix.length)));
}

async function heldNames(): Promise<string[]> {
  const { held = [] } = await navigator.locks.query();
  return held.map(({ name }) => name ?? "");
}
