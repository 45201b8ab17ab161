import { canonicalJson } from "../../../src/proof/canonical.ts";
import { MILESTONES } from "../../../src/protocol/attempts.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
import type { Row } from "../../storage/database.ts";

const TIMES = ["allocated", ...MILESTONES].map((milestone) => `${milestone}_at`);

/** When the attempt last got on; it can't end before. */
export function lastMilestone(attempt: Row): number {
  return Math.max(...TIMES.map((column) => Number(attempt[column] ?? 0)));
}

/** Ends an attempt for the tab that can't tell its end any more. */
export function cutOff(
  before: Row,
  terminalState: "cancelled" | "outcome_unknown" | "abandoned",
  error: { readonly type: string; readonly message: string },
  at: number,
): RowWrite {
  const row = {
    ...before,
    finished_at: Math.max(at, lastMilestone(before)),
    terminal_state: terminalState,
    error: canonicalJson(error),
  };
  return { act: "update", table: "execution_attempts", before, row };
}
