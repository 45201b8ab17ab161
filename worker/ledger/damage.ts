import type { Damage } from "../../src/protocol/runs.ts";

/** Thrown inside a check when stored rows contradict the journal. Callers turn it into the fail-closed view. */
export class DamageFound extends Error {
  override readonly name = "DamageFound";
  readonly damage: Damage;

  constructor(table: string, key: string | null, reason: string) {
    super(`${table}${key === null ? "" : ` ${key}`}: ${reason}`);
    this.damage = { table, key, reason };
  }
}

/** Runs a check: its result, or the damage that it found. Other errors (a failing disk) are not damage and pass. */
export function findDamage<Result>(check: () => Result): Result | DamageFound {
  try {
    return check();
  } catch (error) {
    if (error instanceof DamageFound) return error;
    throw error;
  }
}
