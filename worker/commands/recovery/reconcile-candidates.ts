import type { CandidateOutcome, recovery } from "../../../src/protocol/recovery.ts";
import { LEDGER_ROOT } from "../../ledger/journal.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
import {
  MalformedCandidate,
  reconcileCandidate,
  settleMalformed,
} from "../../recovery/reconcile-candidate.ts";
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
    const outcome = {
      messageId,
      unreconciled: error instanceof Error ? error.name : "Error",
      error: shortText(error),
    };
    const isNews =
      !(error instanceof MalformedCandidate) || reportOnce(messageId, outcome.error, now, context);
    return isNews ? outcome : undefined;
  }
}

/** Notes that a malformed candidate was reported; false if it was before, for the same reason. */
function reportOnce(messageId: string, error: string, now: number, { ledger, caller }: Context): boolean {
  const key = `recovery:malformed-candidate:${messageId}`;
  const before = ledger.database.get("SELECT * FROM settings WHERE key = ?", [key]);
  if (before?.["value"] === error) return false;
  const row = { key, value: error, updated_at: now };
  const write: RowWrite =
    before === undefined
      ? { act: "insert", table: "settings", row }
      : { act: "update", table: "settings", before, row };
  ledger.append(caller, {
    command: "recovery.reportCandidate",
    rootFrameId: LEDGER_ROOT,
    at: now,
    writes: [write],
  });
  return true;
}

/** Settles one malformed candidate because somebody asks for it. */
export const settleCandidate: Handler<typeof recovery.settleCandidate> = (input, context) =>
  settleMalformed(input.messageId, input.now ?? context.now(), context);
