import type { HostIdentity } from "../protocol/channel.ts";
import {
  HostUnavailableError,
  invalidInput,
  LedgerClosedError,
  type ValidationError,
} from "../protocol/errors.ts";
import { toPort } from "../protocol/stream-port.ts";
import type { Envelope } from "../protocol/wire.ts";
import { type Connection, WorkerDiedError } from "./connection.ts";
import { Outbox, portsIn } from "./outbox.ts";
import type { WorkerLink } from "./worker-link.ts";

/** The way of a tab's commands to the worker and back. */
export class CommandChannel {
  readonly #connection: Connection;
  readonly #ownerInstanceId: string;
  readonly #deadlineMs: number;
  readonly #host: () => HostIdentity | null;
  readonly #outboxes = new WeakMap<WorkerLink, Outbox>();
  /** Commands without an answer yet, by their numbers, lowest first. */
  readonly #underWay = new Map<number, Promise<unknown>>();
  #lastSequence = 0;
  #closed = false;

  /** @param host the tab that is the host, as far as it is known */
  constructor(
    connection: Connection,
    ownerInstanceId: string,
    deadlineMs: number,
    host: () => HostIdentity | null,
  ) {
    this.#connection = connection;
    this.#ownerInstanceId = ownerInstanceId;
    this.#deadlineMs = deadlineMs;
    this.#host = host;
  }

  /** Has a command carried out, once; gives its result or throws its refusal. */
  async execute(command: string, input: unknown): Promise<unknown> {
    if (this.#closed) throw new LedgerClosedError("ledger_closed", `${command}: the ledger is closed`);
    const sequence = ++this.#lastSequence;
    const sent = snapshot(command, input);
    const answer = this.#send({
      operationId: crypto.randomUUID(),
      command,
      input: sent,
      ownerInstanceId: this.#ownerInstanceId,
      sequence,
      settledBelow: this.#underWay.keys().next().value ?? sequence,
    });
    this.#underWay.set(sequence, answer);
    try {
      return await answer;
    } finally {
      this.#underWay.delete(sequence);
    }
  }

  /** Takes no more commands; resolves when those that were issued before have been answered. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#underWay.values());
  }

  /** Sends a command, and again to the next worker if one dies before it answered. */
  async #send(envelope: Envelope): Promise<unknown> {
    for (let resent = false; ; resent = true) {
      const link = await this.#connection.link();
      const outbox = this.#outboxOf(link);
      try {
        const letter = { ...envelope, resent };
        return await link.call(() => outbox.post(letter), envelope.command, this.#deadlineMs);
      } catch (error) {
        if (!(error instanceof WorkerDiedError)) throw this.#withHost(error);
        if (portsIn(envelope.input).length > 0)
          throw new HostUnavailableError(
            "stream_lost",
            `${envelope.command}: the ledger's worker ended while it read the stream; give it again`,
          );
      }
    }
  }

  #outboxOf(link: WorkerLink): Outbox {
    const outbox = this.#outboxes.get(link) ?? new Outbox((envelopes) => link.remote.execute(envelopes));
    this.#outboxes.set(link, outbox);
    return outbox;
  }

  /** A host that does not answer is named, so that its tab can be found. */
  #withHost(error: unknown): unknown {
    const host = this.#host();
    if (!(error instanceof HostUnavailableError) || host === null) return error;
    const { instanceId, epoch } = host;
    const where = instanceId === this.#ownerInstanceId ? "this tab" : `tab ${instanceId}`;
    const details = { ...error.details, hostInstanceId: instanceId, hostEpoch: epoch };
    return new HostUnavailableError(error.code, `${error.message}; the host is ${where}`, details);
  }
}

/** The input as it is now: what its owner changes before it is sent stays out. */
function snapshot(command: string, input: unknown): unknown {
  const fields = typeof input === "object" && input !== null ? Object.entries(input) : undefined;
  if (!(fields?.every(([, value]) => isCloneable(value)) ?? isCloneable(input)))
    throw uncloneableInput(command, input);
  if (!fields?.some(([, value]) => isStream(value))) return structuredClone(input);
  const streams = fields.filter((field): field is [string, ReadableStream] => isStream(field[1]));
  const rest = fields.filter(([, value]) => !isStream(value));
  const ports = streams.map(([name, stream]) => [name, toPort(stream)]);
  return { ...structuredClone(Object.fromEntries(rest)), ...Object.fromEntries(ports) };
}

function isStream(value: unknown): value is ReadableStream {
  return value instanceof ReadableStream;
}

/** The refusal of an input that can't be sent, naming its first field that can't. */
function uncloneableInput(command: string, input: unknown): ValidationError {
  const fields = typeof input === "object" && input !== null ? Object.entries(input) : [];
  const field = fields.find(([, value]) => !isCloneable(value))?.[0] ?? "input";
  const expected = "a value that can be sent to a worker (no functions, symbols or DOM nodes)";
  return invalidInput(command, field, expected);
}

function isCloneable(value: unknown): boolean {
  if (isStream(value)) return !value.locked;
  try {
    structuredClone(value);
    return true;
  } catch {
    return false;
  }
}
