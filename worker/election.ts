import { locks } from "../src/protocol/channel.ts";
import { StorageUnavailableError } from "../src/protocol/errors.ts";

/** A Web Lock that is held until it is let go. */
export interface HeldLock {
  readonly release: () => void;
}

/** A place in the queue for the right to be the host. */
export interface Candidacy {
  /** Resolves when it is our turn; never, if it is withdrawn before. */
  readonly elected: Promise<HeldLock>;
  readonly withdraw: () => void;
}

/**
 * Queues for the exclusive right to a ledger's database. It must be held before the files are touched: a second
 * installation of the pool can destroy the first one's database.
 *
 * `elected` rejects with a StorageUnavailableError where the browser refuses Web Locks.
 */
export function standForHost(ledgerName: string): Candidacy {
  const queued = new AbortController();
  const elected = new Promise<HeldLock>((resolve, reject) => {
    const hold = (): Promise<void> | undefined => {
      // A request that is aborted while it is on its way can still be granted.
      if (queued.signal.aborted) return undefined;
      return new Promise((release) => resolve({ release }));
    };
    navigator.locks
      .request(locks.host(ledgerName), { signal: queued.signal }, hold)
      .catch((error: unknown) => {
        if (queued.signal.aborted) return;
        const message = `the browser refuses Web Locks: ${String(error)}`;
        reject(new StorageUnavailableError("locks_unavailable", message, { reason: String(error) }));
      });
  });
  return { elected, withdraw: () => queued.abort() };
}

/** Takes a lock that nobody else wants while its holder lives, as the sign of life. */
export function holdSignOfLife(lock: string): Promise<HeldLock> {
  return new Promise((resolve, reject) => {
    navigator.locks.request(lock, () => new Promise<void>((release) => resolve({ release }))).catch(reject);
  });
}

/** Resolves when whoever holds the lock is gone. */
export async function endOf(lock: string): Promise<void> {
  await navigator.locks.request(lock, () => {});
}

/** The ids of those whose locks of this kind are held. */
export async function livingIds(lockOf: (id: string) => string): Promise<Set<string>> {
  const prefix = lockOf("");
  const { held = [] } = await navigator.locks.query();
  const names = held.map(({ name }) => name ?? "").filter((name) => name.startsWith(prefix));
  return new Set(names.map((name) => name.slice(prefix.length)));
}
