import type { CandidateOutcome, recovery } from "../../../src/protocol/recovery.ts";
import { reconcileCandidate } from "../../recovery/reconcile-candidate.ts";
import { shortText } from "../../recovery/reconcile-run.ts";
import type { Context, Handler } from "../command.ts";

// As the partial index has it, so that settled messages cost nothing.
const selectCandidates = `SELECT message_id FROM messages
  WHERE role = 'assistant' AND json_valid(metadata) AND metadata ->> 'review_status' = 'candidate'
  ORDER BY created_at, message_id`;

export const reconcileCandidates: Handler<typeof recovery.reconcileCandidates> = (input, context) =>
  settleCandidates(input.now ?? context.now(), context);

export function settleCandidates(now: number, context: Context): CandidateOutcome[] {
  return context.ledger.database.all(selectCandidates).flatMap((row) => {
    const outcome = isolated(String(row["message_id"]), now, context);
    return outcome === undefined ? [] : [outcome];
  });
}

/** A candidate that can't be settled denies no other: what was done to it is undone, and it is reported. */
function isolated(messageId: string, now: number, context: Context): CandidateOutcome | undefined {
  try {
    return context.ledger.atomically(() => reconcileCandidate(messageId, now, context));
  } catch (error) {
    if (!context.ledger.database.inTransaction()) throw error;
    return {
      messageId,
      unreconciled: error instanceof Error ? error.name : "Error",
      error: shortText(error),
    };
  }
}
