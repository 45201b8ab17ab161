import type { CandidateOutcome } from "../../src/protocol/recovery.ts";
import type { Context } from "../commands/command.ts";
import { LEDGER_ROOT } from "../ledger/journal.ts";
import type { RowWrite } from "../ledger/ledger.ts";
import { isolated } from "./isolated.ts";
import { lastWriterOfRow } from "./last-writer.ts";
import { MalformedCandidate, reconcileCandidate } from "./reconcile-candidate.ts";
import type { Orphans } from "./recover.ts";

// As the partial index has it, so that settled messages cost nothing.
export const selectCandidates = `SELECT message_id FROM messages
  WHERE role = 'assistant' AND json_valid(metadata) AND metadata ->> 'review_status' = 'candidate'
  ORDER BY created_at, message_id`;

/** Settles the candidates that nobody waits for; without `isOrphan` all that no live run answers for. */
export function settleCandidates(
  now: number,
  context: Context,
  isOrphan: Orphans["candidate"] = () => true,
): CandidateOutcome[] {
  const { database } = context.ledger;
  return database.all(selectCandidates).flatMap((row) => {
    const messageId = String(row["message_id"]);
    if (!isOrphan(() => lastWriterOfRow(database, "messages", messageId))) return [];
    const outcome = isolated(
      context,
      () => reconcileCandidate(messageId, now, context),
      (error, text): CandidateOutcome | undefined => {
        const name = error instanceof Error ? error.name : "Error";
        const isNews = !(error instanceof MalformedCandidate) || reportOnce(messageId, text, now, context);
        return isNews ? { messageId, unreconciled: name, error: text } : undefined;
      },
    );
    return outcome === undefined ? [] : [outcome];
  });
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
