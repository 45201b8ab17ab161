import { transfer } from "comlink";
import type { HostIdentity, Notice } from "../protocol/channel.ts";
import { HostUnavailableError } from "../protocol/errors.ts";
import { endOf, locks } from "../protocol/locks.ts";
import type { RecoveryReport } from "../protocol/recovery.ts";
import type { OpenRequest, StorageReport } from "../protocol/wire.ts";
import { WorkerLink } from "./worker-link.ts";

/** The worker ended by itself: it crashed, or somebody ended it. What was on its way is sent again to the next one. */
export class WorkerDiedError extends HostUnavailableError {
  constructor() {
    super("worker_died", "the ledger's worker ended unexpectedly");
  }
}

/** Starting SQLite and waiting for files to drain may take this much longer than the wait for the host. */
const OPENING_LIMIT_MS = 45_000;

/** How often the start of another worker is tried. */
const MAX_STARTS = 3;

/**
 * A page's worker, whichever it is at the time. It is seen to die by its Web Lock, and another is started in its place:
 * the tab goes on under its own id.
 */
export class Connection {
  readonly #request: Omit<OpenRequest, "workerId">;
  readonly #spawn: () => Worker;
  readonly #listeners = new Set<(notice: Notice) => void>();
  #link: Promise<WorkerLink>;
  #current: WorkerLink | undefined;
  readonly #closing = new AbortController();
  storage!: StorageReport;
  commands: readonly string[] = [];
  /** The tab whose worker has the database open, as far as it is known; null for a ledger in memory. */
  host: HostIdentity | null = null;
  /** The newest report of what was closed for tabs that are gone. */
  lastReport: RecoveryReport | null = null;

  /** @throws what opening the ledger throws */
  static async open(
    request: Omit<OpenRequest, "workerId">,
    spawn: () => Worker,
    onNotice: (notice: Notice) => void,
  ): Promise<Connection> {
    const connection = new Connection(request, spawn, onNotice);
    await connection.#link;
    return connection;
  }

  private constructor(
    request: Omit<OpenRequest, "workerId">,
    spawn: () => Worker,
    onNotice: (notice: Notice) => void,
  ) {
    this.#listeners.add(onNotice);
    this.#request = request;
    this.#spawn = spawn;
    this.#link = this.#start();
  }

  /** The link to the worker; waits while another is started. */
  link(): Promise<WorkerLink> {
    return this.#link;
  }

  /** Calls back with each notice until the answer is called. */
  onNotice(listener: (notice: Notice) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Whether the worker was ended for good, or is about to be. */
  get isEnding(): boolean {
    return this.#closing.signal.aborted;
  }

  /** From here on the end of the worker is what is wanted. */
  expectEnd(): void {
    this.#closing.abort();
  }

  /** Ends the worker for good; what is pending and what comes is rejected with the reason, by default that it was closed. */
  terminate(reason?: Error): void {
    this.expectEnd();
    this.#current?.terminate(reason);
  }

  /** Ends the worker as a crash would. For tests. */
  crash(): void {
    this.#current?.end();
  }

  async #start(): Promise<WorkerLink> {
    const link = new WorkerLink(this.#spawn);
    this.#current = link;
    try {
      const { commands } = await link.greet();
      const request: OpenRequest = { ...this.#request, workerId: crypto.randomUUID() };
      const notices = new MessageChannel();
      notices.port1.onmessage = ({ data }: MessageEvent<Notice>) => {
        this.#hear(data);
      };
      const limitMs = request.hostWaitMs + OPENING_LIMIT_MS;
      const joined = await link.call(
        () => link.remote.open(request, transfer(notices.port2, [notices.port2])),
        `opening ledger "${request.name}"`,
        limitMs,
      );
      this.commands = commands;
      this.storage = joined.storage;
      // The answer is the later word: notices come by a way of their own.
      this.host = joined.host;
      this.lastReport = joined.recovered ?? this.lastReport;
      if (request.storage !== "memory")
        this.#restartAfter(link, locks.worker(request.name, request.workerId));
      return link;
    } catch (error) {
      link.terminate();
      throw error;
    }
  }

  async #restartAfter(link: WorkerLink, signOfLife: string): Promise<void> {
    const { signal } = this.#closing;
    await endOf(signOfLife, signal).catch(() => {});
    if (signal.aborted) return;
    this.#link = this.#startAgain();
    // Whoever waits for it hears of its failure; so does the next command.
    this.#link.catch(() => {});
    link.fail(new WorkerDiedError());
  }

  #hear(notice: Notice): void {
    if (notice.kind === "host") this.host = { instanceId: notice.instanceId, epoch: notice.epoch };
    if (notice.kind === "recovered") this.lastReport = notice.report;
    for (const listener of this.#listeners) listener(notice);
  }

  async #startAgain(): Promise<WorkerLink> {
    for (let start = 1; ; start++) {
      try {
        return await this.#start();
      } catch (error) {
        if (this.#closing.signal.aborted || start === MAX_STARTS) throw error;
      }
    }
  }
}
