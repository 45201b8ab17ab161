import { HostUnavailableError } from "../../src/protocol/errors.ts";
import type { Database } from "../storage/database.ts";

const selectEpoch = "SELECT epoch FROM host_epoch";
const updateEpoch = "UPDATE host_epoch SET epoch = epoch + 1, instance_id = ?, since = ? RETURNING epoch";

/** The right to write: each host takes a new epoch, and one that was followed by another writes no more. */
export class Epoch {
  readonly #database: Database;
  readonly number: number;

  constructor(database: Database, instanceId: string, now: number) {
    this.#database = database;
    this.number = Number(database.value(updateEpoch, [instanceId, now]));
  }

  /** To be called in each transaction. @throws HostUnavailableError another host has taken over. */
  assertCurrent(): void {
    const current = this.#database.value(selectEpoch);
    if (current === this.number) return;
    throw new HostUnavailableError(
      "host_replaced",
      `another host has taken the ledger over (epoch ${String(current)} after ${this.number})`,
      { epoch: this.number, current },
    );
  }
}
