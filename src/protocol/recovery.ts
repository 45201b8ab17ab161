import * as z from "zod";
import type { Sha256 } from "../proof/sha256.ts";
import { defineCommand } from "./command.ts";
import {
  anyText,
  existingBranchId,
  existingCheckpointId,
  existingMessageId,
  existingRootFrameId,
  millis,
  newId,
  text,
} from "./fields.ts";
import type { Message } from "./messages.ts";
import { directory } from "./workspace.ts";

/** What reconciliation did about one run whose owner is gone. */
export type ReconcileOutcome =
  | { readonly runId: string; readonly status: string; readonly terminalReason: string }
  | { readonly runId: string; readonly status: string; readonly abandonedAt: number; readonly error: string }
  | { readonly runId: string; readonly status: string; readonly deferred: string; readonly error: string }
  | { readonly runId: string; readonly unreconciled: string };

/** What recovery did about one candidate message that nobody will judge any more. */
export type CandidateOutcome =
  | {
      readonly schemaVersion: 1;
      readonly messageId: string;
      readonly rootFrameId: string;
      readonly projectId: string;
      readonly branchId: string;
      readonly turnId: string;
      readonly executionId: string;
      readonly reviewStatus: "review_unavailable";
      readonly reason: CandidateRecoveryReason;
      readonly contentSha256: Sha256;
      readonly reconciledAt: number;
      readonly runId?: string;
      readonly deliveryId?: string;
      readonly deliveryStatus?: "published";
    }
  | { readonly messageId: string; readonly unreconciled: string; readonly error: string };

export type CandidateRecoveryReason =
  | "daemon_restart_before_auto_run"
  | "daemon_restart_before_candidate_promotion";

/** What recovery did about the unresolved revert of one session. */
export type RevertOutcome =
  | {
      readonly rootFrameId: string;
      readonly resolved: true;
      readonly state: "none" | "cancelled" | "compensated" | "committed";
    }
  | {
      readonly rootFrameId: string;
      readonly resolved: false;
      readonly state: "owner_alive" | "recovery_required" | "marker_corrupt";
      readonly error: string;
      /** The barrier's text and the branch head: what `releaseBarrier` must be given. */
      readonly markerText: string;
      readonly headCheckpointId: string | null;
    };

/** What one step of start-up recovery did, or why it could not be done. */
export interface StartupReport {
  readonly at: number;
  readonly ownerInstanceId: string;
  readonly runs: readonly ReconcileOutcome[];
  readonly attempts: readonly { readonly attemptId: string; readonly terminalState: string }[];
  readonly candidates: readonly CandidateOutcome[];
  /** Steps that failed as a whole: the others were done all the same. */
  readonly failures: readonly { readonly step: "runs" | "attempts" | "candidates"; readonly error: string }[];
}

/** What the ledger closed by itself after tabs were gone, and what to tell its user of it. */
export interface RecoveryReport extends StartupReport {
  /** Interrupted reverts: resolved, or why they wait for `recovery.reconcileReverts` with the session's folder. */
  readonly reverts: readonly RevertOutcome[];
  /** Each thing that was closed, in a sentence. */
  readonly messages: readonly string[];
}

const owners = {
  ownerInstanceId: newId().optional(),
  liveInstanceIds: z.array(text(), "a list of owner instance ids").max(10_000).default([]),
  now: millis(),
};

export const recovery = {
  /**
   * Closes the unfinished runs of owners that are gone, oldest first, each on its own: open reviews end
   * `unavailable` without a verdict or finding of their own, the run ends `review_unavailable` /
   * `daemon_restart`. A run that can't be closed truthfully is released (abandoned); one behind a revert
   * barrier is deferred (spec/auto_mode 7).
   *
   * Alive are `ownerInstanceId` (default: this tab) and `liveInstanceIds`; every other owner counts as gone.
   */
  reconcileRuns: defineCommand<ReconcileOutcome[]>()("write", z.strictObject(owners)),
  /**
   * Settles candidate messages that no run will judge any more as `review_unavailable`, and publishes their
   * deliveries; content never changes (spec/session_store 7.3). Each on its own; a candidate of a live run is left.
   * One that is malformed is reported once, and left for `settleCandidate`.
   *
   * @throws ValidationError `now` is malformed.
   */
  reconcileCandidates: defineCommand<CandidateOutcome[]>()("write", z.strictObject({ now: millis() })),
  /**
   * Settles a malformed candidate as it is, as `review_unavailable`: for a person who has looked at it.
   *
   * @throws LedgerConflictError the message is no candidate, or not malformed.
   */
  settleCandidate: defineCommand<Message>()(
    "write",
    z.strictObject({ messageId: existingMessageId(), now: millis() }),
  ),
  /**
   * Resolves a revert that a tab which is gone left unresolved (spec/session_store 2.9.5): where the revert checkpoint
   * is the branch head its files are finished, else they are taken back to the state before, and the barrier is
   * removed. Where that can't be done nothing is changed and the outcome says why; it can be tried again.
   *
   * A marker whose owner is alive is left alone; `liveInstanceIds` says who is, besides this tab.
   */
  reconcileReverts: defineCommand<RevertOutcome>()(
    "write",
    z.strictObject({
      rootFrameId: existingRootFrameId(),
      directory: directory().optional(),
      liveInstanceIds: z.array(text(), "a list of owner instance ids").max(10_000).default([]),
      now: millis(),
    }),
  ),
  /**
   * Removes a barrier by hand, when `reconcileReverts` can't: a person has looked at the workspace and confirms what
   * the barrier says and where the branch head is.
   *
   * @throws LedgerConflictError the barrier says something else, or the head is another checkpoint.
   */
  releaseBarrier: defineCommand<{ readonly released: true }>()(
    "write",
    z.strictObject({
      rootFrameId: existingRootFrameId(),
      branchId: existingBranchId().optional(),
      markerText: anyText(1_048_576),
      headCheckpointId: existingCheckpointId().nullable(),
      now: millis(),
    }),
  ),
  /**
   * All of recovery, in order: runs of owners that are gone, then their unfinished attempts, then candidates
   * (spec/session_store 7.2). Each step is isolated and reported. A second call finds nothing left to do.
   */
  reconcileStartup: defineCommand<StartupReport>()("write", z.strictObject(owners)),
};
