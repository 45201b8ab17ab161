import * as z from "zod";
import { defineCommand } from "./command.ts";
import { millis, newId, text } from "./fields.ts";

/** What reconciliation did about one run whose owner is gone. */
export type ReconcileOutcome =
  | { readonly runId: string; readonly status: string; readonly terminalReason: string }
  | { readonly runId: string; readonly status: string; readonly abandonedAt: number; readonly error: string }
  | { readonly runId: string; readonly status: string; readonly deferred: string; readonly error: string }
  | { readonly runId: string; readonly unreconciled: string };

export const recovery = {
  /**
   * Closes the unfinished runs of owners that are gone, oldest first, each on its own: open reviews end
   * `unavailable` without a verdict or finding of their own, the run ends `review_unavailable` /
   * `daemon_restart`. A run that can't be closed truthfully is released (abandoned); one behind a revert
   * barrier is deferred (spec/auto_mode 7).
   *
   * Alive are `ownerInstanceId` (default: this tab) and `liveInstanceIds`; every other owner counts as gone.
   */
  reconcileRuns: defineCommand<ReconcileOutcome[]>()(
    "write",
    z.strictObject({
      ownerInstanceId: newId().optional(),
      liveInstanceIds: z.array(text(), "a list of owner instance ids").max(10_000).default([]),
      now: millis(),
    }),
  ),
};
