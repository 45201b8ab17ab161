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

/** Something may have happened since it was looked at last. */
class News {
  #isNew = false;
  #wake = () => {};

  come(): void {
    this.#isNew = true;
    this.#wake();
  }

  /** What is read from here on has all that came before. */
  look(): void {
    this.#isNew = false;
  }

  /** Resolves when something came since the last look. */
  async next(): Promise<void> {
    if (this.#isNew) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }
}

/**
 * Follows a session, reading by reading. A notice only says that there is something to read: what comes next is read
 * after the last cursor that was given, so no event is missed or given twice, whatever becomes of the host.
 */
async function* followEvents(
  list: ListEvents,
  connection: Connection,
  { fromCursor = 0, ...session }: SubscriptionScope,
  ended: AbortSignal,
): AsyncGenerator<readonly StoredEvent[], void, undefined> {
  const news = new News();
  const stop = connection.onNotice((notice) => {
    const isOurs = notice.kind === "changed" && notice.rootFrameIds.includes(session.rootFrameId);
    // What a host that died committed last, nobody told.
    if (isOurs || notice.kind === "host") news.come();
  });
  ended.addEventListener("abort", () => news.come(), { once: true });
  try {
    let afterCursor = fromCursor;
    while (!ended.aborted) {
      news.look();
      const page = await list({ ...session, afterCursor, limit: PAGE_EVENTS });
      afterCursor = page.at(-1)?.eventCursor ?? afterCursor;
      if (page.length > 0) yield page;
      if (page.length < PAGE_EVENTS) await news.next();
    }
  } catch (error) {
    // A ledger that is closed ends its subscriptions.
    if (!(error instanceof LedgerClosedError)) throw error;
  } finally {
    stop();
  }
}

async function* oneByOne(
  pages: AsyncGenerator<readonly StoredEvent[]>,
  ended: AbortSignal,
): AsyncGenerator<StoredEvent, void, undefined> {
  for await (const page of pages) {
    for (const event of page) {
      if (ended.aborted) return;
      yield event;
    }
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
    const { pages, ended, close } = this.#follow(scope);
    const events = oneByOne(pages, ended);
    if (onEvent !== undefined) forEach(events, onEvent);
    return { close, [Symbol.dispose]: close, [Symbol.asyncIterator]: () => events };
  }

  store(scope: SubscriptionScope): EventStore {
    let snapshot: readonly StoredEvent[] = [];
    const listeners = new Set<() => void>();
    let stop = () => {};
    const publish = (page: readonly StoredEvent[]) => {
      snapshot = [...snapshot, ...page];
      for (const listener of listeners) listener();
    };
    const start = () => {
      const fromCursor = snapshot.at(-1)?.eventCursor ?? scope.fromCursor ?? 0;
      const { pages, ended, close } = this.#follow({ ...scope, fromCursor });
      forEach(pages, (page) => {
        if (!ended.aborted) publish(page);
      });
      stop = close;
    };
    return {
      getSnapshot: () => snapshot,
      subscribe: (onChange) => {
        listeners.add(onChange);
        if (listeners.size === 1) start();
        return () => {
          if (listeners.delete(onChange) && listeners.size === 0) stop();
        };
      },
    };
  }

  #follow(scope: SubscriptionScope) {
    const own = new AbortController();
    const ended = AbortSignal.any([own.signal, this.#closed.signal]);
    const pages = followEvents(this.#list, this.#connection, scope, ended);
    return { pages, ended, close: () => own.abort() };
  }
}

/** Runs through all of it in the background; an error of the callback is reported as one of an event handler is. */
async function forEach<Item>(items: AsyncIterable<Item>, work: (item: Item) => void): Promise<void> {
  try {
    for await (const item of items) work(item);
  } catch (error) {
    reportError(error);
  }
}
