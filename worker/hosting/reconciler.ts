import { fromWireError } from "../../src/protocol/errors.ts";
import { endOf, livingIds, locks } from "../../src/protocol/locks.ts";
import type { RecoveryReport, RevertOutcome } from "../../src/protocol/recovery.ts";
import type { Host } from "../host.ts";
import { describeRecovery } from "../recovery/describe.ts";
import { recoverFrom, unfinishedOwners } from "../recovery/recover.ts";
import { ownedMarkers } from "../recovery/revert-marker.ts";
import { emptyInbox } from "./inbox.ts";

/**
 * Closes what tabs that are gone left unfinished: when the host starts, and as soon as the lock of a tab that it has
 * heard of is released. Who is alive is asked after it was read who owns work: a tab takes its lock before it owns
 * anything, so an owner that holds no lock by then is gone, and ids are never used again.
 */
export class Reconciler {
  readonly #ledgerName: string;
  readonly #instanceId: string;
  readonly #host: Host;
  readonly #now: () => number;
  readonly #onReport: (report: RecoveryReport) => void;
  readonly #watched = new Set<string>();
  #closed = false;

  constructor(
    ledgerName: string,
    instanceId: string,
    host: Host,
    now: () => number,
    onReport: (report: RecoveryReport) => void,
  ) {
    this.#ledgerName = ledgerName;
    this.#instanceId = instanceId;
    this.#host = host;
    this.#now = now;
    this.#onReport = onReport;
  }

  /** Reconciles the moment that a tab is gone; waits for that on the tab's own lock. */
  watch(instanceId: string): void {
    if (instanceId === this.#instanceId || this.#watched.has(instanceId)) return;
    this.#watched.add(instanceId);
    endOf(locks.tab(this.#ledgerName, instanceId)).then(() => this.reconcile(), reportFailure);
  }

  /** Takes no part any more. */
  close(): void {
    this.#closed = true;
  }

  /** Never rejects: what can't be done is in the report, or in the console. */
  async reconcile(): Promise<void> {
    try {
      await navigator.locks.request(locks.reconcile(this.#ledgerName), () => this.#reconcile());
    } catch (error) {
      reportFailure(error);
    }
  }

  async #reconcile(): Promise<void> {
    if (this.#closed) return;
    const { queue, ledger, receipts } = this.#host;
    const owners = await queue.run(() => new Set([...unfinishedOwners(ledger), ...receipts.owners()]));
    const living = await livingIds((id) => locks.tab(this.#ledgerName, id));
    for (const owner of owners) if (living.has(owner)) this.watch(owner);
    const gone = new Set([...owners].filter((owner) => !living.has(owner)));
    if (gone.size === 0) return;
    // Reverts first: behind their barriers runs can't be closed.
    const reverts = await this.#resolveReverts(gone);
    const operation = { operationId: crypto.randomUUID(), ownerInstanceId: this.#instanceId };
    const report = await queue.run(() => {
      for (const owner of gone) receipts.dropOwner(owner);
      return { ...recoverFrom(gone, this.#now(), this.#host.contextOf(operation)), reverts };
    });
    const messages = describeRecovery(report);
    if (messages.length > 0) this.#onReport({ ...report, messages });
  }

  /** Removes what workers that are gone left on its way to the host. */
  async tidy(): Promise<void> {
    try {
      const workers = await livingIds((id) => locks.worker(this.#ledgerName, id));
      await emptyInbox(this.#ledgerName, (workerId) => workers.has(workerId));
    } catch (error) {
      reportFailure(error);
    }
  }

  /** Those that touched a folder wait for a caller who can give it. */
  async #resolveReverts(gone: ReadonlySet<string>): Promise<RevertOutcome[]> {
    const { queue, ledger } = this.#host;
    const markers = await queue.run(() => ownedMarkers(ledger.database));
    const outcomes: RevertOutcome[] = [];
    for (const { rootFrameId, owner } of markers) {
      if (!gone.has(owner)) continue;
      const answer = await this.#host.execute({
        operationId: crypto.randomUUID(),
        command: "recovery.reconcileReverts",
        input: { rootFrameId, now: this.#now() },
        ownerInstanceId: this.#instanceId,
        sequence: 0,
        settledBelow: 0,
      });
      if (answer.ok) outcomes.push(answer.value as RevertOutcome);
      else reportFailure(fromWireError(answer.error));
    }
    return outcomes;
  }
}

function reportFailure(error: unknown): void {
  console.error("countersign: recovery failed:", error);
}
