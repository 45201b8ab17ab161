import type { Epoch } from "./hosting/epoch.ts";
import type { Receipt, Receipts } from "./hosting/receipts.ts";
import type { Ledger } from "./ledger/ledger.ts";
import type { Database } from "./storage/database.ts";

/** More commands than this wait for the next commit, so that the first of a flood is not answered last. */
const MAX_BATCH = 256;

interface Job {
  readonly work: () => unknown;
  /** Whether the work is a command of the ledger; other work goes round it, as a stranger's would. */
  readonly isCommand: boolean;
  /** Where its answer is kept, if it takes effect. */
  readonly receipt: Receipt | undefined;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Group commit: all commands that wait run in one transaction, the failure of one undoing that one alone, and are
 * answered only after that transaction was flushed. Nothing awaits between BEGIN and COMMIT.
 */
export class CommandQueue {
  readonly #database: Database;
  readonly #ledger: Ledger;
  readonly #receipts: Receipts;
  readonly #epoch: Epoch;
  readonly #onCommitted: () => void;
  readonly #wakeUp = new MessageChannel();
  #waiting: Job[] = [];
  #scheduled = false;
  #onDrained: (() => void)[] = [];

  /** @param onCommitted called after each commit, before its commands are answered */
  constructor(ledger: Ledger, receipts: Receipts, epoch: Epoch, onCommitted: () => void) {
    this.#database = ledger.database;
    this.#ledger = ledger;
    this.#receipts = receipts;
    this.#epoch = epoch;
    this.#onCommitted = onCommitted;
    this.#wakeUp.port1.onmessage = () => this.#drain();
  }

  /**
   * Runs a command in the next batch; settles after its commit. With a receipt the answer is kept if the work wrote
   * anything, and a command that was sent again is answered from there.
   */
  run<Result>(work: () => Result, receipt?: Receipt): Promise<Result> {
    return this.#enqueue(work, true, receipt);
  }

  /** Runs work between batches, in no transaction. */
  runOutside<Result>(work: () => Result): Promise<Result> {
    return this.#enqueue(work, false, undefined);
  }

  /** Resolves when nothing waits any more. */
  drained(): Promise<void> {
    if (this.#waiting.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onDrained.push(resolve));
  }

  #enqueue<Result>(work: () => Result, isCommand: boolean, receipt: Receipt | undefined): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ work, isCommand, receipt, resolve, reject });
      this.#schedule();
    });
  }

  /** In a task of its own, so that all messages that have arrived join the batch first. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    this.#wakeUp.port2.postMessage(null);
  }

  #drain(): void {
    this.#scheduled = false;
    const [first] = this.#waiting;
    if (first?.isCommand === false) {
      this.#waiting.shift();
      settle(first, first.work);
    } else {
      const stranger = this.#waiting.findIndex((job) => !job.isCommand);
      this.#runBatch(this.#waiting.splice(0, Math.min(MAX_BATCH, stranger === -1 ? MAX_BATCH : stranger)));
    }
    if (this.#waiting.length > 0) this.#schedule();
    else for (const resolve of this.#onDrained.splice(0)) resolve();
  }

  /**
   * Runs the jobs in one transaction. First without savepoints: a command that is refused has, as a rule, written
   * nothing. If one did write before it failed, all is undone and the batch runs again with a savepoint for each.
   */
  #runBatch(jobs: readonly Job[]): void {
    const outcome = this.#runInTransaction(jobs, (job) => this.#runPlain(job));
    if (outcome === "spoiled") this.#runInTransaction(jobs, (job) => this.#runInSavepoint(job));
  }

  #runInTransaction(jobs: readonly Job[], run: (job: Job) => () => void): "done" | "spoiled" {
    const settlements: (() => void)[] = [];
    try {
      this.#database.run("BEGIN IMMEDIATE");
      this.#epoch.assertCurrent();
      for (const job of jobs) settlements.push(run(job));
      this.#database.run("COMMIT");
    } catch (error) {
      this.#undo();
      if (error instanceof BatchSpoiled) return "spoiled";
      for (const job of jobs) job.reject(error);
      return "done";
    }
    this.#onCommitted();
    for (const settle of settlements) settle();
    return "done";
  }

  #carryOut({ work, receipt }: Job): unknown {
    if (receipt === undefined) return work();
    const answered = this.#receipts.find(receipt);
    if (answered !== undefined) return answered.value;
    const changesBefore = this.#database.totalChanges();
    const value = work();
    if (this.#database.totalChanges() !== changesBefore) this.#receipts.keep(receipt, value);
    return value;
  }

  /** Runs one command. Its refusal concerns only itself, unless it had written already. */
  #runPlain(job: Job): () => void {
    this.#ledger.enter();
    const changesBefore = this.#database.totalChanges();
    try {
      const value = this.#carryOut(job);
      this.#ledger.leave();
      return () => job.resolve(value as never);
    } catch (error) {
      if (!this.#database.inTransaction()) throw error;
      if (this.#database.totalChanges() !== changesBefore) throw new BatchSpoiled();
      return () => job.reject(error);
    }
  }

  /** Runs one command. Its refusal undoes only itself; if SQLite undid the whole transaction, that is thrown. */
  #runInSavepoint(job: Job): () => void {
    this.#ledger.enter();
    try {
      const value = this.#ledger.atomically(() => this.#carryOut(job));
      this.#ledger.leave();
      return () => job.resolve(value as never);
    } catch (error) {
      if (!this.#database.inTransaction()) throw error;
      return () => job.reject(error);
    }
  }

  #undo(): void {
    try {
      if (this.#database.inTransaction()) this.#database.run("ROLLBACK");
    } finally {
      this.#ledger.forget();
    }
  }
}

/** A command failed after it had written: the transaction holds what must not be committed. */
class BatchSpoiled extends Error {}

function settle(job: Job, work: () => unknown): void {
  try {
    job.resolve(work() as never);
  } catch (error) {
    job.reject(error);
  }
}
