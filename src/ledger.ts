import { CommandChannel } from "./connection/command-channel.ts";
import { type Tab, takeTabLock } from "./connection/tab.ts";
import { WorkerLink } from "./connection/worker-link.ts";
import type { CommandDefinition, InputOf, ResultOf } from "./protocol/command.ts";
import { invalidInput } from "./protocol/errors.ts";
import type { Registry } from "./protocol/registry.ts";
import type { VerificationReport } from "./protocol/verification.ts";
import type { OpenRequest, StorageChoice, StorageReport } from "./protocol/wire.ts";

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
  /** How long to wait for a tab that is closing to give the ledger up, in milliseconds. Default: 5000. */
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

/** An open ledger. Every method of a family is one command; see `src/protocol` for each one's contract. */
export interface Ledger extends Families, AsyncDisposable {
  readonly name: string;
  /** This tab's id: the owner of the runs that it starts. */
  readonly instanceId: string;
  /** Where the ledger lives and what that promises, as of opening. */
  readonly storage: StorageReport;
  /** Checks the whole database: every journal, every row it commits to, every run. */
  verify(): Promise<VerificationReport>;
  /** Finishes what is under way, closes the database and gives the tab's locks back. Can be called again. */
  close(): Promise<void>;
}

const DEFAULT_HOST_WAIT_MS = 5_000;
const DEFAULT_DEADLINE_MS = 30_000;

/** Starting SQLite and waiting for files to drain may take this much longer than the wait for the lock. */
const OPENING_LIMIT_MS = 45_000;

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

/** Opens a ledger in the worker that `spawn` makes. The link serves what a special worker answers besides. */
export async function connect(
  options: OpenOptions,
  spawn: () => Worker,
): Promise<{
  readonly ledger: Ledger;
  readonly link: WorkerLink;
  readonly tab: Tab;
  readonly deadlineMs: number;
}> {
  const request = openRequest(options);
  const deadlineMs = options.deadlineMs ?? DEFAULT_DEADLINE_MS;
  const tab = await takeTabLock(request.name);
  let link: WorkerLink | undefined;
  try {
    const started = new WorkerLink(chooseWorker(options, spawn));
    link = started;
    const { commands } = await started.greet();
    const opening = `opening ledger "${request.name}"`;
    const storage = await started.call(
      () => started.remote.open(request),
      opening,
      request.hostWaitMs + OPENING_LIMIT_MS,
    );
    return {
      ledger: makeLedger({ name: request.name, tab, link: started, storage, commands, deadlineMs }),
      link,
      tab,
      deadlineMs,
    };
  } catch (error) {
    link?.terminate();
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

function openRequest(options: OpenOptions): OpenRequest {
  const { name, storage = "auto", allowMemory = false, hostWaitMs = DEFAULT_HOST_WAIT_MS, wasmUrl } = options;
  if (typeof name !== "string" || !LEDGER_NAME.test(name)) {
    throw invalidInput(
      "openLedger",
      "name",
      "1 to 64 letters, digits, dots, underscores or hyphens, starting with a letter or digit",
    );
  }
  if (!STORAGE_CHOICES.includes(storage))
    throw invalidInput("openLedger", "storage", `one of ${STORAGE_CHOICES.join(", ")}`);
  for (const [field, limit] of [
    ["hostWaitMs", hostWaitMs],
    ["deadlineMs", options.deadlineMs ?? 1],
  ] as const) {
    if (!Number.isSafeInteger(limit) || limit < 0)
      throw invalidInput("openLedger", field, "milliseconds as an integer from 0");
  }
  return {
    name,
    storage,
    allowMemory,
    hostWaitMs,
    wasmUrl: wasmUrl === undefined ? null : new URL(wasmUrl, globalThis.location.href).href,
  };
}

interface Parts {
  readonly name: string;
  readonly tab: Tab;
  readonly link: WorkerLink;
  readonly storage: StorageReport;
  readonly commands: readonly string[];
  readonly deadlineMs: number;
}

type AnyMethod = (input?: unknown) => Promise<unknown>;

/** The methods follow from the commands that the worker says it has: the page carries no list of its own. */
function makeLedger({ name, tab, link, storage, commands, deadlineMs }: Parts): Ledger {
  const channel = new CommandChannel(link, tab.instanceId, deadlineMs);
  const families: Record<string, Record<string, AnyMethod>> = {};
  for (const command of commands) {
    const [family = "", method = ""] = command.split(".");
    families[family] = { ...families[family], [method]: (input) => channel.execute(command, input) };
  }
  const { verification, ...others } = families;
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= shutDown(channel, link, tab, deadlineMs);
    return closing;
  };
  const own = { name, instanceId: tab.instanceId, storage, close, [Symbol.asyncDispose]: close };
  return { ...others, verify: verification?.["verify"], ...own } as unknown as Ledger;
}

async function shutDown(
  channel: CommandChannel,
  link: WorkerLink,
  tab: Tab,
  deadlineMs: number,
): Promise<void> {
  try {
    await channel.close();
    await link.call(() => link.remote.close(), "closing the ledger", deadlineMs);
  } finally {
    link.terminate();
    await tab.release();
  }
}
