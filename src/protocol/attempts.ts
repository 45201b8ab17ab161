import * as z from "zod";
import type { Json } from "../proof/canonical.ts";
import { defineCommand } from "./command.ts";
import {
  existingActionGroupId,
  existingAttemptId,
  integer,
  jsonValue,
  millis,
  newAttemptId,
  newId,
  text,
  word,
} from "./fields.ts";

/** One try at executing a cell. Milestones are set once, in order; a finished attempt never changes. */
export interface Attempt {
  readonly attemptId: string;
  readonly groupId: string;
  readonly producingCellId: string;
  /** From 0 for each cell. */
  readonly attemptOrdinal: number;
  readonly stateRevision: number | null;
  readonly generationId: string | null;
  readonly ownerInstanceId: string;
  readonly allocatedAt: number;
  readonly startedAt: number | null;
  readonly responseAt: number | null;
  readonly captureAt: number | null;
  readonly finishedAt: number | null;
  readonly terminalState: AttemptTerminalState | null;
  readonly error: Json;
  readonly replayedFromCellId: string | null;
}

export const MILESTONES = ["started", "response", "capture"] as const;

const TERMINAL_STATES = [
  "completed",
  "failed",
  "denied",
  "cancelled",
  "timed_out",
  "outcome_unknown",
  "abandoned",
] as const;
export type AttemptTerminalState = (typeof TERMINAL_STATES)[number];

/** Each command answers a repetition with the attempt as it is (spec/session_store 4.6). */
export const attempts = {
  /** @throws RecoveryRequiredError a revert is unresolved. @throws LedgerConflictError the group takes no more work. */
  allocate: defineCommand<Attempt & { readonly created: boolean }>()(
    "write",
    z.strictObject({
      attemptId: newAttemptId().optional(),
      groupId: existingActionGroupId(),
      producingCellId: newId(),
      stateRevision: integer(1).nullish(),
      generationId: text().nullish(),
      ownerInstanceId: newId().optional(),
      replayedFromCellId: text().nullish(),
      at: millis(),
    }),
  ),
  /** Notes that the attempt reached a milestone: `started`, then `response`, then `capture`. */
  record: defineCommand<Attempt>()(
    "write",
    z.strictObject({ attemptId: existingAttemptId(), milestone: word(MILESTONES), at: millis() }),
  ),
  /** Ends the attempt. `completed` needs the capture. */
  finish: defineCommand<Attempt>()(
    "write",
    z.strictObject({
      attemptId: existingAttemptId(),
      terminalState: word(TERMINAL_STATES),
      error: jsonValue(),
      at: millis(),
    }),
  ),
  /** The attempts of a group, in the order in which they were allocated. */
  list: defineCommand<Attempt[]>()("read", z.strictObject({ groupId: existingActionGroupId() })),
};
