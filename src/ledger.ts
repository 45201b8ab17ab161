import { CommandChannel } from "./connection/command-channel.ts";
import { Connection } from "./connection/connection.ts";
import { type Tab, takeTabLock } from "./connection/tab.ts";
import type { HostIdentity } from "./protocol/channel.ts";
import type { CommandDefinition, InputOf, ResultOf } from "./protocol/command.ts";
import { invalidInput, LedgerClosedError } from "./protocol/errors.ts";
import type { StoredEvent } from "./protocol/events.ts";
import type { RecoveryReport } from "./protocol/recovery.ts";
import type { Registry } from "./protocol/registry.ts";
import type { VerificationReport } from "./protocol/verification.ts";
import type { OpenRequest, StorageChoice, StorageReport } from "./protocol/wire.ts";
import { type EventStore, EventWatch, type Subscription, type SubscriptionScope } from "./subscription.ts";

export interface OpenOptions {
  /** Which ledger of this origin: letters, digits, `.`, `_`, `-`, at most 64, starting with a letter or digit. */
  readonly name: string;
  /**
   * `auto` (the default) and `opfs` keep the ledger in the origin-private file system; `memory` keeps it nowhere.
   * Memory is never fallen back to unless `allowMemory` is set.
   */
  readonly storage?: StorageChoice;
  /** Lets `auto` go on in memory where the browser has no durable storage. Default: false. */
  readonly allowMemory?: boolean;
  /**
   * `automatic` (the default) closes what tabs that are gone left unfinished: when the database is opened, and the
   * moment that a tab goes. `manual` leaves that to `ledger.recovery`.
   */
  readonly recovery?: "automatic" | "manual";
  /**
   * Called when a page with newer code of this application wants the ledger: close it, or reload. Until all tabs with
   * older code have, the newer page waits for `hostWaitMs` and then gives up with a HostUnavailableError.
   */
  readonly onVersionChange?: () => void;
  /** How long to wait for the tab that has the ledger open to answer, or to give it up, in milliseconds. Default: 5000. */
  readonly hostWaitMs?: number;
  /** How long a command may take, in milliseconds. Default: 30000. */
  readonly deadlineMs?: number;
  /** Makes the worker, where the bundler needs help to find it. Goes before `workerUrl`. */
  readonly worker?: () => Worker;
  readonly workerUrl?: string | URL;
  /** Where `sqlite3.wasm` lies, if not beside the worker. */
  readonly wasmUrl?: string | URL;
}

type Method<Command> = Command extends CommandDefinition
  ? Record<never, never> extends InputOf<Command>
    ? (input?: InputOf<Command>) => Promise<ResultOf<Command>>
    : (input: InputOf<Command>) => Promise<ResultOf<Command>>
  : never;

/** Every family of the registry as an object of methods. */
type Families = {
  readonly [Family in Exclude<keyof Registry, "verification">]: {
    readonly [Name in keyof Registry[Family]]: Method<Registry[Family][Name]>;
  };
};

/** What can be watched of events, besides the commands that read them. */
interface EventSubscriptions {
  /**
   * Events as they are committed, in every tab: with `onEvent` it is called with each, else loop over the answer with
   * `for await`. None is missed and none given twice, also when the host changes; begin with the last cursor that you
   * have to go on where you were. A subscription ends with `close()`, or with the ledger.
   */
  subscribe(scope: SubscriptionScope, onEvent?: (event: StoredEvent) => void): Subscription;
  /** The events of a session or branch as a store in the shape that `useSyncExternalStore` takes. */
  store(scope: SubscriptionScope): EventStore;
}

/** What the ledger closed by itself after tabs were gone. */
interface RecoveryReports {
  /** The newest report since this tab opened the ledger; null when nothing had to be closed. */
  readonly lastReport: RecoveryReport | null;
  /** Calls back with each report, in every tab, until the answer is called. */
  onReport(listener: (report: RecoveryReport) => void): () => void;
}

/** An open ledger. Every method of a family is one command; see `src/protocol` for each one's contract. */
export interface Ledger extends Omit<Families, "events" | "recovery">, AsyncDisposable {
  readonly events: Families["events"] & EventSubscriptions;
  readonly recovery: Families["recovery"] & RecoveryReports;
  readonly name: string;
  /** This tab's id: the owner of the runs that it starts. */
  readonly instanceId: string;
  /** Where the ledger lives and what that promises, as of opening. */
  readonly storage: StorageReport;
  /** The tab whose worker owns the database just now; null for a ledger in memory. */
  host(): HostIdentity | null;
  /** Checks the whole database: every journal, every row it commits to, every run. */
  verify(): Promise<VerificationReport>;
  /** Finishes what is under way, closes the database and gives the tab's locks back. Can be called again. */
  close(): Promise<void>;
}

const DEFAULT_HOST_WAIT_MS = 5_000;
const DEFAULT_DEADLINE_MS = 30_000;

/**
 * Opens the ledger of that name, making it if there is none.
 *
 * @throws ValidationError an option is malformed; `details.field` names it.
 * @throws HostUnavailableError another tab has it open, or the worker can't be loaded.
 * @throws StorageUnavailableError the browser has no durable storage here, with the reason.
 * @throws SchemaTooNewError a newer version of Countersign wrote it.
 */
export async function openLedger(options: OpenOptions): Promise<Ledger> {
  const { ledger } = await connect(
    options,
    () => new Worker(new URL("../worker/index.ts", import.meta.url), { type: "module" }),
  );
  return ledger;
}

/** Opens a ledger in the worker that `spawn` makes. The connection serves what a special worker answers besides. */
export async function connect(
  options: OpenOptions,
  spawn: () => Worker,
): Promise<{
  readonly ledger: Ledger;
  readonly connection: Connection;
  readonly channel: CommandChannel;
  readonly tab: Tab;
  readonly deadlineMs: number;
}> {
  const checked = openRequest(options);
  const deadlineMs = options.deadlineMs ?? DEFAULT_DEADLINE_MS;
  const tab = await takeTabLock(checked.name);
  try {
    const request = { ...checked, instanceId: tab.instanceId };
    const { onVersionChange } = options;
    const made = await makeLedger(request, tab, chooseWorker(options, spawn), deadlineMs, onVersionChange);
    tab.lost.then(() =>
      made.connection.terminate(
        new LedgerClosedError(
          "tab_lost",
          "this tab lost its place: the browser had put the page aside, or its lock was stolen. Open the ledger again",
          { instanceId: tab.instanceId },
        ),
      ),
    );
    return { ...made, tab, deadlineMs };
  } catch (error) {
    await tab.release();
    throw error;
  }
}

function chooseWorker({ worker, workerUrl }: OpenOptions, spawn: () => Worker): () => Worker {
  if (worker !== undefined) return worker;
  if (workerUrl !== undefined) return () => new Worker(workerUrl, { type: "module" });
  return spawn;
}

const LEDGER_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const STORAGE_CHOICES: readonly StorageChoice[] = ["auto", "opfs", "memory"];

function openRequest(options: OpenOptions): Omit<OpenRequest, "instanceId" | "workerId"> {
  const { name, storage = "auto", allowMemory = false, hostWaitMs = DEFAULT_HOST_WAIT_MS, wasmUrl } = options;
  const { recovery = "automatic" } = options;
  if (typeof name !== "string" || !LEDGER_NAME.test(name)) {
    throw invalidInput(
      "openLedger",
      "name",
      "1 to 64 letters, digits, dots, underscores or hyphens, starting with a letter or digit",
    );
  }
  if (!STORAGE_CHOICES.includes(storage))
    throw invalidInput("openLedger", "storage", `one of ${STORAGE_CHOICES.join(", ")}`);
  if (recovery !== "automatic" && recovery !== "manual")
    throw invalidInput("openLedger", "recovery", "automatic or manual");
  for (const [field, limit] of [
    ["hostWaitMs", hostWaitMs],
    ["deadlineMs", options.deadlineMs ?? 1],
  ] as const) {
    if (!Number.isSafeInteger(limit) || limit < 0)
      throw invalidInput("openLedger", field, "milliseconds as an integer from 0");
  }
  return {
    name,
    recovery,
    storage,
    allowMemory,
    hostWaitMs,
    wasmUrl: wasmUrl === undefined ? null : new URL(wasmUrl, globalThis.location.href).href,
  };
}

type AnyMethod = (input?: unknown) => Promise<unknown>;

/** The methods follow from the commands that the worker says it has: the page carries no list of its own. */
async function makeLedger(
  request: Omit<OpenRequest, "workerId">,
  tab: Tab,
  spawn: () => Worker,
  deadlineMs: number,
  onVersionChange: (() => void) | undefined,
): Promise<{ ledger: Ledger; connection: Connection; channel: CommandChannel }> {
  const connection = await Connection.open(request, spawn, ({ kind }) => {
    if (kind === "version-change") onVersionChange?.();
  });
  const channel = new CommandChannel(connection, tab.instanceId, deadlineMs);
  const families: Record<string, Record<string, AnyMethod>> = {};
  for (const command of connection.commands) {
    const [family = "", method = ""] = command.split(".");
    families[family] = { ...families[family], [method]: (input) => channel.execute(command, input) };
  }
  const { verification, recovery, events, ...others } = families;
  const watch = new EventWatch(
    (input) => channel.execute("events.list", input) as Promise<StoredEvent[]>,
    connection,
  );
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    watch.close();
    closing ??= shutDown(channel, connection, tab, deadlineMs);
    return closing;
  };
  const ledger = {
    ...others,
    events: {
      ...events,
      subscribe: watch.subscribe.bind(watch),
      store: watch.store.bind(watch),
    },
    recovery: {
      ...recovery,
      get lastReport() {
        return connection.lastReport;
      },
      onReport: (listener: (report: RecoveryReport) => void) =>
        connection.onNotice((notice) => {
          if (notice.kind === "recovered") listener(notice.report);
        }),
    },
    verify: verification?.["verify"],
    name: request.name,
    instanceId: tab.instanceId,
    storage: connection.storage,
    host: () => connection.host,
    close,
    [Symbol.asyncDispose]: close,
  };
  return { ledger: ledger as unknown as Ledger, connection, channel };
}

async function shutDown(
  channel: CommandChannel,
  connection: Connection,
  tab: Tab,
  deadlineMs: number,
): Promise<void> {
  try {
    await channel.close();
    if (connection.isEnding) return;
    const link = await connection.link();
    connection.expectEnd();
    await link.call(() => link.remote.close(), "closing the ledger", deadlineMs);
  } finally {
    connection.terminate();
    await tab.release();
  }
}
