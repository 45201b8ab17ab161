import type * as z from "zod";
import { sha256 } from "../src/proof/sha256.ts";
import { LedgerClosedError, ValidationError } from "../src/protocol/errors.ts";
import { findCommand } from "../src/protocol/registry.ts";
import type { Envelope, OpenRequest, Reply, StorageReport } from "../src/protocol/wire.ts";
import type { Context, FaultPoints } from "./commands/command.ts";
import { findHandler, type ParsedHandler } from "./commands/index.ts";
import { assertReferences, assertTrees } from "./commands/references.ts";
import { Files } from "./files/files.ts";
import { Epoch } from "./hosting/epoch.ts";
import { Receipts } from "./hosting/receipts.ts";
import { Ledger } from "./ledger/ledger.ts";
import { CommandQueue } from "./queue.ts";
import { reply } from "./reply.ts";
import type { Database } from "./storage/database.ts";
import { type OpenedStorage, openStorage } from "./storage/open.ts";

/** What a host takes from outside, so that tests can replay time and break things on purpose. */
export interface HostSurroundings {
  readonly now: () => number;
  readonly faults: FaultPoints;
  /** Commands that only tests have: they work on the connection as a stranger to the ledger would. */
  readonly strangers?: Readonly<Record<string, (database: Database, input: unknown) => unknown>>;
}

/** The one owner of a ledger's database: carries commands out, from whichever tab they come. */
export class Host {
  readonly storage: StorageReport;
  readonly epoch: number;
  readonly ledger: Ledger;
  readonly receipts: Receipts;
  readonly queue: CommandQueue;
  readonly #opened: OpenedStorage;
  readonly #files: Files;
  readonly #surroundings: HostSurroundings;
  /** Commands that are being carried out: one that is sent again meanwhile gets the same answer. */
  readonly #underWay = new Map<string, Promise<Reply<unknown>>>();
  #closed = false;

  /**
   * Opens the database. For a ledger that is kept the caller must hold the host's Web Lock.
   *
   * @param onChanged told after each commit, with the sessions that were written to
   * @throws what `openStorage` throws
   */
  static async open(
    request: OpenRequest,
    surroundings: HostSurroundings,
    onChanged: (rootFrameIds: readonly string[]) => void,
  ): Promise<Host> {
    return new Host(request, await openStorage(request), surroundings, onChanged);
  }

  private constructor(
    { instanceId }: OpenRequest,
    opened: OpenedStorage,
    surroundings: HostSurroundings,
    onChanged: (rootFrameIds: readonly string[]) => void,
  ) {
    const { database, report, filesDirectory } = opened;
    const epoch = new Epoch(database, instanceId, surroundings.now());
    this.#opened = opened;
    this.#surroundings = surroundings;
    this.storage = report;
    this.epoch = epoch.number;
    this.ledger = new Ledger(database, randomHex);
    this.receipts = new Receipts(database);
    this.queue = new CommandQueue(this.ledger, this.receipts, epoch, () => {
      const touched = this.ledger.takeTouched();
      if (touched.length > 0) onChanged(touched);
    });
    this.#files = new Files(filesDirectory);
  }

  /** Carries a command out, once, however often it is sent. Never rejects. */
  execute(envelope: Envelope): Promise<Reply<unknown>> {
    const { operationId } = envelope;
    const underWay = this.#underWay.get(operationId);
    if (underWay !== undefined) return underWay;
    const answer = reply(async () => {
      const value = await this.#execute(envelope);
      await this.#surroundings.faults.hold("host.answer");
      return value;
    });
    this.#underWay.set(operationId, answer);
    return answer.finally(() => this.#underWay.delete(operationId));
  }

  /** Finishes what is queued, closes the database and gives its files back. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.queue.drained();
    this.#opened.close();
  }

  /** What a command works with; its ids follow from its operation, so that a second try makes the same. */
  contextOf({ operationId, ownerInstanceId }: Pick<Envelope, "operationId" | "ownerInstanceId">): Context {
    let made = 0;
    return {
      ledger: this.ledger,
      caller: { operationId, ownerInstanceId, acts: "for itself" },
      now: this.#surroundings.now,
      newId: (prefix) => prefix + sha256(`${operationId}:${made++}`).slice(0, 20),
      faults: this.#surroundings.faults,
    };
  }

  async #execute(envelope: Envelope): Promise<unknown> {
    if (this.#closed) throw new LedgerClosedError("ledger_closed", "the ledger is closed");
    const stranger = this.#surroundings.strangers?.[envelope.command];
    if (stranger !== undefined)
      return this.queue.runOutside(() => stranger(this.#opened.database, envelope.input));
    const { handler, input } = parse(envelope);
    const { ledger, queue } = this;
    const check = () => assertReferences(ledger.database, envelope.command, input);
    if (typeof handler === "function") {
      const work = () => {
        check();
        return handler(input, this.contextOf(envelope));
      };
      return queue.run(work, envelope);
    }
    const context = this.contextOf(envelope);
    const answered = await queue.run(() => {
      const found = this.receipts.find(envelope);
      if (found === undefined) check();
      return found;
    });
    if (answered !== undefined) return answered.value;
    await assertTrees(this.#files, envelope.command, input);
    return handler.task(input, {
      transact: (work) => queue.run(() => work(context)),
      conclude: (work) => queue.run(() => work(context), envelope),
      files: this.#files,
      faults: this.#surroundings.faults,
    });
  }
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
