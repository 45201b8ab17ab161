import type { Envelope } from "../../src/protocol/wire.ts";
import type { Database } from "../storage/database.ts";

/** What identifies a command when it is sent again. */
export type Receipt = Pick<
  Envelope,
  "operationId" | "ownerInstanceId" | "sequence" | "settledBelow" | "resent"
>;

const selectReceipt = "SELECT value FROM receipts WHERE operation_id = ?";
const insertReceipt =
  "INSERT INTO receipts (operation_id, owner_instance_id, sequence, value) VALUES (?, ?, ?, ?)";
const deleteSettled = "DELETE FROM receipts WHERE owner_instance_id = ? AND sequence < ?";
const deleteOfOwner = "DELETE FROM receipts WHERE owner_instance_id = ?";
const selectOwners = "SELECT DISTINCT owner_instance_id AS id FROM receipts";

/**
 * The answers of commands that took effect, written in the transaction of the effect: one that is sent again, because
 * its host died before it could answer, is answered from here and not carried out twice.
 */
export class Receipts {
  readonly #database: Database;
  readonly #settledBelow = new Map<string, number>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** The answer that a command was given before. */
  find({ operationId, resent }: Receipt): { readonly value: unknown } | undefined {
    if (resent !== true) return undefined;
    const value = this.#database.value(selectReceipt, [operationId]);
    return typeof value === "string" ? { value: JSON.parse(value) as unknown } : undefined;
  }

  /** Keeps an answer, and drops those that the tab has had. */
  keep({ operationId, ownerInstanceId, sequence, settledBelow }: Receipt, value: unknown): void {
    if ((this.#settledBelow.get(ownerInstanceId) ?? 0) < settledBelow) {
      this.#database.run(deleteSettled, [ownerInstanceId, settledBelow]);
      this.#settledBelow.set(ownerInstanceId, settledBelow);
    }
    this.#database.run(insertReceipt, [
      operationId,
      ownerInstanceId,
      sequence,
      JSON.stringify(value ?? null),
    ]);
  }

  owners(): string[] {
    return this.#database.all(selectOwners).map(({ id }) => String(id));
  }

  /** Drops the answers of a tab that is gone: nobody asks for them again. */
  dropOwner(ownerInstanceId: string): void {
    this.#database.run(deleteOfOwner, [ownerInstanceId]);
  }
}
