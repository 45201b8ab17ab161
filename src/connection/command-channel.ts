import {
  HostUnavailableError,
  invalidInput,
  LedgerClosedError,
  type ValidationError,
} from "../protocol/errors.ts";
import { fieldsOf, portsIn, toPort } from "../protocol/stream-port.ts";
import type { Envelope } from "../protocol/wire.ts";
import { type Connection, WorkerDiedError } from "./connection.ts";

/** The way of a tab's commands to the worker and back. */
export class CommandChannel {
  readonly #connection: Connection;
  readonly #ownerInstanceId: string;
  readonly #deadlineMs: number;
  /** Commands without an answer yet, by their numbers, lowest first. */
  readonly #underWay = new Map<number, Promise<unknown>>();
  #lastSequence = 0;
  #closed = false;

  constructor(connection: Connection, ownerInstanceId: string, deadlineMs: number) {
    this.#connection = connection;
    this.#ownerInstanceId = ownerInstanceId;
    this.#deadlineMs = deadlineMs;
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
      try {
        const letter = { ...envelope, resent };
        return await link.call(() => link.outbox.post(letter), envelope.command, this.#deadlineMs);
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

  /** A host that does not answer is named, so that its tab can be found. */
  #withHost(error: unknown): unknown {
    const { host } = this.#connection;
    if (!(error instanceof HostUnavailableError) || host === null) return error;
    const { instanceId, epoch } = host;
    const where = instanceId === this.#ownerInstanceId ? "this tab" : `tab ${instanceId}`;
    const details = { ...error.details, hostInstanceId: instanceId, hostEpoch: epoch };
    return new HostUnavailableError(error.code, `${error.message}; the host is ${where}`, details);
  }
}

/** The input as it is now: what its owner changes before it is sent stays out. */
function snapshot(command: string, input: unknown): unknown {
  const streams = fieldsOf(input).filter((field): field is [string, ReadableStream] => isStream(field[1]));
  if (streams.some(([, stream]) => stream.locked)) throw uncloneableInput(command, input);
  const names = new Set(streams.map(([name]) => name));
  const rest =
    streams.length === 0 ? input : Object.fromEntries(fieldsOf(input).filter(([name]) => !names.has(name)));
  const copy = cloneOf(rest);
  if (copy === undefined) throw uncloneableInput(command, input);
  if (streams.length === 0) return copy.value;
  return {
    ...(copy.value as object),
    ...Object.fromEntries(streams.map(([name, stream]) => [name, toPort(stream)])),
  };
}

function cloneOf(value: unknown): { readonly value: unknown } | undefined {
  try {
    return { value: structuredClone(value) };
  } catch {
    return undefined;
  }
}

function isStream(value: unknown): value is ReadableStream {
  return value instanceof ReadableStream;
}

/** The refusal of an input that can't be sent, naming its first field that can't. */
function uncloneableInput(command: string, input: unknown): ValidationError {
  const field = fieldsOf(input).find(([, value]) => !isCloneable(value))?.[0] ?? "input";
  const expected = "a value that can be sent to a worker (no functions, symbols or DOM nodes)";
  return invalidInput(command, field, expected);
}

function isCloneable(value: unknown): boolean {
  return isStream(value) ? !value.locked : cloneOf(value) !== undefined;
}
