import type { StartupReport } from "../../src/protocol/recovery.ts";
import type { Context } from "../commands/command.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { abandonAttempts } from "./abandon-attempts.ts";
import { closeOrphanedRuns } from "./close-runs.ts";
import { isolated } from "./isolated.ts";
import { lastWriterOfRow, lastWriterOfRun } from "./last-writer.ts";
import { ownedMarkers } from "./revert-marker.ts";
import { selectCandidates, settleCandidates } from "./settle-candidates.ts";

/** Tells of a piece of unfinished work, by its owner and by the tab that wrote to it last, whether nobody is at it. */
export type IsOrphan = (owner: string, lastWriter: () => string | undefined) => boolean;

/** What of each kind of unfinished work is orphaned. */
export interface Orphans {
  readonly work: IsOrphan;
  /** A candidate has no owner but who wrote it. */
  readonly candidate: (lastWriter: () => string | undefined) => boolean;
}

/**
 * All of recovery, in order: a repair is judged by its attempts as they were left, and a candidate by how its run ended,
 * so runs come first (spec/session_store 7.2). Each step is isolated and reported.
 */
export function recover(orphans: Orphans, now: number, context: Context): StartupReport {
  const failures: StartupReport["failures"][number][] = [];
  const step = <Outcome>(name: StartupReport["failures"][number]["step"], work: () => Outcome[]): Outcome[] =>
    isolated(context, work, (_, text) => {
      failures.push({ step: name, error: text });
      return [];
    });
  return {
    at: now,
    ownerInstanceId: context.caller.ownerInstanceId,
    runs: step("runs", () => closeOrphanedRuns(orphans.work, now, context)),
    attempts: step("attempts", () => abandonAttempts(orphans.work, now, context)),
    candidates: step("candidates", () => settleCandidates(now, context, orphans.candidate)),
    failures,
  };
}

/** Recovery of what these tabs left, and nothing else. */
export function recoverFrom(gone: ReadonlySet<string>, now: number, context: Context): StartupReport {
  const isGone = (lastWriter: string | undefined) => lastWriter === undefined || gone.has(lastWriter);
  return recover(
    {
      // A tab that goes on with another's work, or names another owner for its own, is seen by what it wrote.
      work: (owner, lastWriter) => gone.has(owner) && isGone(lastWriter()),
      candidate: (lastWriter) => isGone(lastWriter()),
    },
    now,
    context,
  );
}

const selectRuns = `SELECT run_id, owner_instance_id FROM auto_mode_runs
  WHERE trust_state = 'local' AND finished_at IS NULL AND abandoned_at IS NULL`;
const selectAttempts =
  "SELECT attempt_id, owner_instance_id FROM execution_attempts WHERE finished_at IS NULL";

/** Every tab that owns unfinished work, or was the last to write to it. */
export function unfinishedOwners(ledger: Ledger): Set<string> {
  const { database } = ledger;
  const owners = new Set<string>();
  const add = (owner: unknown) => {
    if (typeof owner === "string") owners.add(owner);
  };
  for (const run of database.all(selectRuns)) {
    add(run["owner_instance_id"]);
    add(lastWriterOfRun(database, String(run["run_id"])));
  }
  for (const attempt of database.all(selectAttempts)) {
    add(attempt["owner_instance_id"]);
    add(lastWriterOfRow(database, "execution_attempts", String(attempt["attempt_id"])));
  }
  for (const message of database.all(selectCandidates))
    add(lastWriterOfRow(database, "messages", String(message["message_id"])));
  for (const { owner } of ownedMarkers(database)) add(owner);
  return owners;
}
