import type { Connection } from "./connection/connection.ts";
import { LedgerClosedError } from "./protocol/errors.ts";
import type { StoredEvent } from "./protocol/events.ts";

/** Which events, and from where on. */
export interface SubscriptionScope {
  readonly rootFrameId: string;
  /** Only what is visible on this branch. Default: all of the session. */
  readonly branchId?: string;
  /** The last cursor that was seen before; events after it follow. Default: 0, from the beginning. */
  readonly fromCursor?: number;
}

/** Events as they are committed, by whichever tab. */
export interface Subscription extends AsyncIterable<StoredEvent>, Disposable {
  /** Ends it; a loop over it ends too. */
  close(): void;
}

/** What React's `useSyncExternalStore` takes, and other frameworks can use as well. */
export interface EventStore {
  /** Calls back after each change until the answer is called. */
  readonly subscribe: (onChange: () => void) => () => void;
  /** All events of the scope so far; the same list until there are more. */
  readonly getSnapshot: () => readonly StoredEvent[];
}

type ListEvents = (input: {
  readonly rootFrameId: string;
  readonly branchId?: string;
  readonly afterCursor: number;
  readonly limit: number;
}) => Promise<StoredEvent[]>;

/** How many events are read at a time. */
const PAGE_EVENTS = 1_000;

/**
 * Follows a session. A notice only says that there is something to read: what comes next is read after the last cursor
 * that was given, so no event is missed or given twice, whatever becomes of the host.
 */
async function* followEvents(
  list: ListEvents,
  connection: Connection,
  { rootFrameId, branchId, fromCursor = 0 }: SubscriptionScope,
  ended: AbortSignal,
): AsyncGenerator<StoredEvent, void, undefined> {
  let isNews = true;
  let wake = () => {};
  const stop = connection.onNotice((notice) => {
    if (
      notice.kind === "recovered" ||
      (notice.kind === "changed" && !notice.rootFrameIds.includes(rootFrameId))
    )
      return;
    isNews = true;
    wake();
  });
  ended.addEventListener("abort", () => wake(), { once: true });
  try {
    let afterCursor = fromCursor;
    while (!ended.aborted) {
      if (!isNews) {
        await new Promise<void>((resolve) => {
          wake = resolve;
          if (isNews || ended.aborted) resolve();
        });
        continue;
      }
      isNews = false;
      for (let page: StoredEvent[]; !ended.aborted; ) {
        page = await list({
          rootFrameId,
          ...(branchId !== undefined && { branchId }),
          afterCursor,
          limit: PAGE_EVENTS,
        });
        for (const event of page) {
          if (ended.aborted) return;
          afterCursor = event.eventCursor;
          yield event;
        }
        if (page.length < PAGE_EVENTS) break;
      }
    }
  } catch (error) {
    // A ledger that is closed ends its subscriptions.
    if (!(error instanceof LedgerClosedError)) throw error;
  } finally {
    stop();
  }
}

/** The means to watch events, for one ledger. */
export class EventWatch {
  readonly #list: ListEvents;
  readonly #connection: Connection;
  readonly #closed = new AbortController();

  constructor(list: ListEvents, connection: Connection) {
    this.#list = list;
    this.#connection = connection;
  }

  /** Ends all subscriptions. */
  close(): void {
    this.#closed.abort();
  }

  subscribe(scope: SubscriptionScope, onEvent?: (event: StoredEvent) => void): Subscription {
    const own = new AbortController();
    const ended = AbortSignal.any([own.signal, this.#closed.signal]);
    const events = followEvents(this.#list, this.#connection, scope, ended);
    const close = () => own.abort();
    if (onEvent !== undefined) {
      (async () => {
        for await (const event of events) onEvent(event);
      })().catch(reportError);
    }
    return { close, [Symbol.dispose]: close, [Symbol.asyncIterator]: () => events };
  }

  store(scope: SubscriptionScope): EventStore {
    let snapshot: readonly StoredEvent[] = [];
    const listeners = new Set<() => void>();
    let subscription: Subscription | undefined;
    let waiting: StoredEvent[] = [];
    const publish = () => {
      snapshot = [...snapshot, ...waiting];
      waiting = [];
      for (const listener of listeners) listener();
    };
    const collect = (event: StoredEvent) => {
      // Those of one reading become one change.
      if (waiting.length === 0) queueMicrotask(() => queueMicrotask(publish));
      waiting.push(event);
    };
    return {
      getSnapshot: () => snapshot,
      subscribe: (onChange) => {
        listeners.add(onChange);
        const fromCursor = snapshot.at(-1)?.eventCursor ?? scope.fromCursor ?? 0;
        subscription ??= this.subscribe({ ...scope, fromCursor }, collect);
        return () => {
          listeners.delete(onChange);
          if (listeners.size > 0) return;
          subscription?.close();
          subscription = undefined;
        };
      },
    };
  }
}
