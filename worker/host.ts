import type * as z from "zod";
import {
  HostUnavailableError,
  LedgerClosedError,
  StorageUnavailableError,
  ValidationError,
} from "../src/protocol/errors.ts";
import { commandNames, findCommand } from "../src/protocol/registry.ts";
import { fromPort } from "../src/protocol/stream-port.ts";
import {
  type Envelope,
  type Greeting,
  type HostApi,
  type OpenRequest,
  type Reply,
  type StorageReport,
  WIRE_VERSION,
} from "../src/protocol/wire.ts";
import type { Context, FaultPoints } from "./commands/command.ts";
import { findHandler, type ParsedHandler } from "./commands/index.ts";
import { assertReferences, assertTrees } from "./commands/references.ts";
import { Files } from "./files/files.ts";
import { Ledger } from "./ledger/ledger.ts";
import { CommandQueue } from "./queue.ts";
import { reply } from "./reply.ts";
import type { Database } from "./storage/database.ts";
import { type OpenedStorage, openStorage } from "./storage/open.ts";

/** What a host takes from outside, so that tests can replay time and break things on purpose. */
export interface HostSurroundings {
  readonly now: () => number;
  readonly faults: FaultPoints;
}

/** The host's side of one ledger: boot, the way of a command, shutdown. */
export class Host implements HostApi {
  readonly #surroundings: HostSurroundings;
  #open: OpenHost | undefined;
  #closed = false;

  constructor(surroundings: HostSurroundings) {
    this.#surroundings = surroundings;
  }

  greet(): Greeting {
    return { wireVersion: WIRE_VERSION, commands: commandNames };
  }

  open(request: OpenRequest): Promise<Reply<StorageReport>> {
    return reply(async () => {
      if (this.#open !== undefined || this.#closed)
        throw new LedgerClosedError("worker_used", "this worker was opened before");
      const releaseLock = request.storage === "memory" ? () => {} : await takeHostLock(request);
      try {
        const storage = await openStorage(request);
        const ledger = new Ledger(storage.database, randomHex);
        const files = new Files(storage.filesDirectory);
        this.#open = {
          storage,
          ledger,
          files,
          queue: new CommandQueue(storage.database, ledger),
          releaseLock,
        };
        return storage.report;
      } catch (error) {
        releaseLock();
        throw error;
      }
    });
  }

  execute(envelopes: readonly Envelope[]): Promise<readonly Reply<unknown>[]> {
    return Promise.all(envelopes.map((envelope) => reply(() => this.#withStreams(envelope))));
  }

  async #withStreams(envelope: Envelope): Promise<unknown> {
    const { input, streams } = openPorts(envelope.input);
    try {
      return await this.#execute({ ...envelope, input });
    } finally {
      // A stream that nobody began to read is given up, so that its source is let go; one that failed has ended.
      for (const stream of streams) if (!stream.locked) await stream.cancel().catch(() => {});
    }
  }

  close(): Promise<Reply<null>> {
    return reply(async () => {
      this.#closed = true;
      const open = this.#open;
      if (open === undefined) return null;
      await open.queue.drained();
      this.#open = undefined;
      open.storage.close();
      open.releaseLock();
      return null;
    });
  }

  /** Runs work on the connection between commands, as a stranger to the ledger would. For tests. */
  onConnection<Result>(work: (database: Database) => Result): Promise<Result> {
    const { queue, storage } = this.#requireOpen();
    return queue.runOutside(() => work(storage.database));
  }

  async #execute(envelope: Envelope): Promise<unknown> {
    const { ledger, queue, files } = this.#requireOpen();
    const { handler, input } = parse(envelope);
    const { operationId, ownerInstanceId } = envelope;
    const context: Context = {
      ledger,
      caller: { operationId, ownerInstanceId, acts: "for itself" },
      now: this.#surroundings.now,
      newId: (prefix) => prefix + randomHex(),
      faults: this.#surroundings.faults,
    };
    const check = () => assertReferences(ledger.database, envelope.command, input);
    if (typeof handler === "function") {
      return queue.run(() => {
        check();
        return handler(input, context);
      });
    }
    await queue.run(check);
    await assertTrees(files, envelope.command, input);
    return handler.task(input, {
      transact: (work) => queue.run(() => work(context)),
      files,
      faults: this.#surroundings.faults,
    });
  }

  #requireOpen(): OpenHost {
    if (this.#open !== undefined && !this.#closed) return this.#open;
    throw new LedgerClosedError("ledger_closed", "the ledger is closed");
  }
}

/** The input with streams in place of the ports that stand for them. */
function openPorts(input: unknown): { input: unknown; streams: ReadableStream[] } {
  const fields = typeof input === "object" && input !== null ? Object.entries(input) : [];
  const opened = fields
    .filter((field): field is [string, MessagePort] => field[1] instanceof MessagePort)
    .map(([name, port]) => [name, fromPort(port)] as const);
  if (opened.length === 0) return { input, streams: [] };
  return {
    input: { ...(input as object), ...Object.fromEntries(opened) },
    streams: opened.map(([, stream]) => stream),
  };
}

interface OpenHost {
  readonly storage: OpenedStorage;
  readonly ledger: Ledger;
  readonly queue: CommandQueue;
  readonly files: Files;
  readonly releaseLock: () => void;
}

/**
 * The exclusive right to the ledger's files, held until released. It must be held before the files are touched:
 * a second installation of the pool can destroy the first one's database.
 */
function takeHostLock({ name, hostWaitMs }: OpenRequest): Promise<() => void> {
  const lock = `countersign:${name}:host`;
  return new Promise((resolve, reject) => {
    const waiting = new AbortController();
    // Chromium may never answer a request that is aborted while it is on its way, so the wait ends here as well.
    const timer = setTimeout(() => {
      reject(
        new HostUnavailableError(
          "ledger_open_elsewhere",
          `ledger "${name}" is open in another tab or worker; close it there and try again`,
          { name, lock, waitedMs: hostWaitMs },
        ),
      );
      waiting.abort();
    }, hostWaitMs);
    const hold = (): Promise<void> | undefined => {
      if (waiting.signal.aborted) return undefined;
      clearTimeout(timer);
      return new Promise((release) => resolve(release));
    };
    navigator.locks.request(lock, { signal: waiting.signal }, hold).catch((error: unknown) => {
      clearTimeout(timer);
      const message = `the browser refuses Web Locks: ${String(error)}`;
      reject(new StorageUnavailableError("locks_unavailable", message, { reason: String(error) }));
    });
  });
}

function parse({ command, input }: Envelope): { handler: ParsedHandler; input: unknown } {
  const definition = findCommand(command);
  const handler = findHandler(command);
  if (definition === undefined || handler === undefined) {
    throw new ValidationError("unknown_command", `there is no command ${command}`, {
      field: "command",
      command,
    });
  }
  const parsed = definition.input.safeParse(input ?? {});
  if (parsed.success) return { handler, input: parsed.data };
  const issues = parsed.error.issues.map(toFieldIssue);
  const [first] = issues;
  throw new ValidationError(
    "invalid_input",
    `${command}: ${first?.field || "input"}: expected ${first?.expected}`,
    {
      field: first?.field ?? "",
      issues,
      command,
    },
  );
}

function toFieldIssue(issue: z.core.$ZodIssue): { field: string; expected: string } {
  if (issue.code === "unrecognized_keys") {
    return { field: fieldName([...issue.path, issue.keys[0] ?? ""]), expected: "no such field" };
  }
  return { field: fieldName(issue.path), expected: issue.message };
}

function fieldName(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (name, step) =>
      typeof step === "number" ? `${name}[${step}]` : name === "" ? String(step) : `${name}.${String(step)}`,
    "",
  );
}

/** 20 random hex digits. */
function randomHex(): string {
  return crypto.randomUUID().replaceAll("-", "").slice(-20);
}
