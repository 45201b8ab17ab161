import { invalidInput, LedgerClosedError, type ValidationError } from "../protocol/errors.ts";
import { toPort } from "../protocol/stream-port.ts";
import type { Envelope } from "../protocol/wire.ts";
import { Outbox } from "./outbox.ts";
import type { WorkerLink } from "./worker-link.ts";

/** The way of a tab's commands to the worker and back. */
export class CommandChannel {
  readonly #link: WorkerLink;
  readonly #ownerInstanceId: string;
  readonly #deadlineMs: number;
  readonly #outbox: Outbox;
  readonly #underWay = new Set<Promise<unknown>>();
  #closed = false;

  constructor(link: WorkerLink, ownerInstanceId: string, deadlineMs: number) {
    this.#link = link;
    this.#ownerInstanceId = ownerInstanceId;
    this.#deadlineMs = deadlineMs;
    this.#outbox = new Outbox((envelopes) => link.remote.execute(envelopes));
  }

  /** Has a command carried out; gives its result or throws its refusal. */
  async execute(command: string, input: unknown): Promise<unknown> {
    if (this.#closed) throw new LedgerClosedError("ledger_closed", `${command}: the ledger is closed`);
    const envelope: Envelope = {
      operationId: crypto.randomUUID(),
      command,
      input: snapshot(command, input),
      ownerInstanceId: this.#ownerInstanceId,
    };
    const answer = this.#link.call(() => this.#outbox.post(envelope), command, this.#deadlineMs);
    this.#underWay.add(answer);
    try {
      return await answer;
    } finally {
      this.#underWay.delete(answer);
    }
  }

  /** Takes no more commands; resolves when those that were issued before have been answered. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#underWay);
  }
}

/** The input as it is now: what its owner changes before it is sent stays out. */
function snapshot(command: string, input: unknown): unknown {
  const fields = typeof input === "object" && input !== null ? Object.entries(input) : undefined;
  if (!(fields?.every(([, value]) => isCloneable(value)) ?? isCloneable(input)))
    throw uncloneableInput(command, input);
  if (fields === undefined) return input;
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
