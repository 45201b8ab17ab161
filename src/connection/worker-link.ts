import { type Remote, wrap } from "comlink";
import { fromWireError, HostUnavailableError, LedgerClosedError } from "../protocol/errors.ts";
import { type Greeting, type Reply, WIRE_VERSION, type WorkerApi } from "../protocol/wire.ts";
import { Outbox } from "./outbox.ts";

/** How long a worker may take to load and say hello, in milliseconds. */
const GREETING_LIMIT_MS = 30_000;

/**
 * The page's end of its worker. Comlink alone would wait for ever on a worker that is dead, blocked or hung: here
 * every call has a deadline, and a worker that fails rejects all that is pending, with the cause.
 */
export class WorkerLink {
  readonly #worker: Worker;
  /** The worker's functions. Call them only inside `call`. */
  readonly remote: Remote<WorkerApi>;
  /** Where commands to it are posted. Post them only inside `call`. */
  readonly outbox = new Outbox((envelopes) => this.remote.execute(envelopes));
  readonly #pending = new Set<(reason: Error) => void>();
  #failure: Error | undefined;
  #greeted = false;

  constructor(spawn: () => Worker) {
    try {
      this.#worker = spawn();
    } catch (error) {
      throw new HostUnavailableError(
        "worker_failed",
        `the ledger's worker can't be started: ${String(error)}`,
        {
          reason: String(error),
        },
      );
    }
    this.remote = wrap<WorkerApi>(this.#worker);
    this.#worker.addEventListener("error", (event) => {
      // After the greeting an error event is an exception in the worker, and its call gets an answer of its own.
      if (!this.#greeted) this.fail(loadFailure(event));
    });
    this.#worker.addEventListener("messageerror", () => {
      this.fail(
        new HostUnavailableError("message_lost", "a message of the ledger's worker could not be read"),
      );
    });
  }

  /** @throws HostUnavailableError the worker does not load, or is of another version than this page. */
  async greet(): Promise<Greeting> {
    const greeting = await this.#settle(
      this.remote.greet(),
      GREETING_LIMIT_MS,
      "the ledger's worker did not load",
    );
    this.#greeted = true;
    if (greeting.wireVersion === WIRE_VERSION) return greeting;
    throw new HostUnavailableError(
      "wire_version",
      `page and worker are of different versions (${WIRE_VERSION} and ${greeting.wireVersion}); reload the page`,
      { page: WIRE_VERSION, worker: greeting.wireVersion },
    );
  }

  /** Calls the worker and gives its value, or throws its error as the class that it was. */
  async call<Value>(invoke: () => Promise<Reply<Value>>, what: string, deadlineMs: number): Promise<Value> {
    const late = `${what} was not answered; it may still take effect, so repeat it with the same keys`;
    const reply = await this.#settle(invoke(), deadlineMs, late);
    if (reply.ok) return reply.value;
    throw fromWireError(reply.error);
  }

  /** Ends the worker. What is still pending is rejected. */
  terminate(reason: Error = new LedgerClosedError("ledger_closed", "the ledger is closed")): void {
    this.fail(reason);
    this.end();
  }

  /** Ends the worker and says nothing to those who wait for it. */
  end(): void {
    this.#worker.terminate();
  }

  /** Rejects all that is pending, and all that is called from now on, with the same reason. */
  fail(reason: Error): void {
    this.#failure ??= reason;
    for (const reject of this.#pending) reject(this.#failure);
    this.#pending.clear();
  }

  #settle<Value>(answer: Promise<Value>, limitMs: number, late: string): Promise<Value> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) {
        reject(this.#failure);
        return;
      }
      const timer = setTimeout(() => {
        settle(() =>
          reject(new HostUnavailableError("host_timeout", `${late} (${limitMs} ms)`, { limitMs })),
        );
      }, limitMs);
      const settle = (act: () => void) => {
        clearTimeout(timer);
        this.#pending.delete(reject);
        act();
      };
      this.#pending.add(reject);
      answer.then(
        (value) => settle(() => resolve(value)),
        (error: unknown) => settle(() => reject(error)),
      );
    });
  }
}

function loadFailure(event: ErrorEvent): HostUnavailableError {
  const reason =
    event.message || "it was not found, has a wrong MIME type, or a Content-Security-Policy blocks it";
  return new HostUnavailableError("worker_failed", `the ledger's worker failed to load: ${reason}`, {
    reason,
    file: event.filename || null,
    line: event.lineno || null,
  });
}
