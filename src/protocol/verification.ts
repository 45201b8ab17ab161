import * as z from "zod";
import { defineCommand } from "./command.ts";
import type { Damage } from "./runs.ts";

export interface RunReport {
  readonly runId: string;
  readonly rootFrameId: string;
  readonly branchId: string;
  /** What the run's row claims. */
  readonly claimedStatus: string;
  readonly damage: Damage | null;
}

export interface SessionReport {
  readonly rootFrameId: string;
  /** Entries in the session's journal. */
  readonly entries: number;
  /** The digest that stands for everything above: keep it elsewhere to prove later that nothing was rolled back. */
  readonly headSha256: string | null;
  /** Damage outside of runs: of the journal, and of rows that belong to no run. That of a run stands with the run. */
  readonly damage: readonly Damage[];
  readonly runs: readonly RunReport[];
}

/** Whether the whole database agrees with its journals. */
export interface VerificationReport {
  readonly ok: boolean;
  readonly verifiedAt: number;
  readonly sessions: readonly SessionReport[];
}

export const verification = {
  /**
   * Checks every journal from its first entry to its head, every row that it commits to, and every run.
   *
   * It proves that nothing was changed apart from the journal. It can't prove that nobody rewrote everything,
   * journal included, or put an older copy of the whole database back: compare `headSha256` with one kept elsewhere.
   */
  verify: defineCommand<VerificationReport>()("read", z.strictObject({})),
};
