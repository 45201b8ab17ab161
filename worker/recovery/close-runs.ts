import type { ReconcileOutcome } from "../../src/protocol/recovery.ts";
import type { Context } from "../commands/command.ts";
import { isolated } from "./isolated.ts";
import { lastWriterOfRun } from "./last-writer.ts";
import { reconcileRun } from "./reconcile-run.ts";
import type { IsOrphan } from "./recover.ts";

const selectUnfinished = `SELECT run_id, owner_instance_id FROM auto_mode_runs
  WHERE trust_state = 'local' AND finished_at IS NULL AND abandoned_at IS NULL ORDER BY created_at, run_id`;

/** Closes the unfinished runs that are orphaned, oldest first. One that can't be closed denies no other its recovery. */
export function closeOrphanedRuns(isOrphan: IsOrphan, now: number, context: Context): ReconcileOutcome[] {
  const { database } = context.ledger;
  return database
    .all(selectUnfinished)
    .map((row) => ({ runId: String(row["run_id"]), owner: String(row["owner_instance_id"]) }))
    .filter(({ runId, owner }) => isOrphan(owner, () => lastWriterOfRun(database, runId)))
    .map(({ runId }) =>
      isolated(
        context,
        () => {
          context.faults.reach("recovery.reconcileRun", runId);
          return reconcileRun(runId, now, context);
        },
        (_, text): ReconcileOutcome => ({ runId, unreconciled: text }),
      ),
    );
}
