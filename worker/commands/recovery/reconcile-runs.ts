import type { ReconcileOutcome, recovery } from "../../../src/protocol/recovery.ts";
import { isolated } from "../../recovery/isolated.ts";
import { reconcileRun } from "../../recovery/reconcile-run.ts";
import type { Context, Handler } from "../command.ts";

const selectUnfinished = `SELECT run_id, owner_instance_id FROM auto_mode_runs
  WHERE trust_state = 'local' AND finished_at IS NULL AND abandoned_at IS NULL ORDER BY created_at, run_id`;

export const reconcileRuns: Handler<typeof recovery.reconcileRuns> = (input, context) => {
  const alive = new Set([input.ownerInstanceId ?? context.caller.ownerInstanceId, ...input.liveInstanceIds]);
  return closeOrphanedRuns(alive, input.now ?? context.now(), context);
};

/** Closes the unfinished runs of owners that are not alive, oldest first. */
export function closeOrphanedRuns(
  alive: ReadonlySet<string>,
  now: number,
  context: Context,
): ReconcileOutcome[] {
  return context.ledger.database
    .all(selectUnfinished)
    .filter((row) => !alive.has(String(row["owner_instance_id"])))
    .map((row) => {
      const runId = String(row["run_id"]);
      return isolated(
        context,
        () => {
          context.faults.reach("recovery.reconcileRun", runId);
          return reconcileRun(runId, now, context);
        },
        (_, text): ReconcileOutcome => ({ runId, unreconciled: text }),
      );
    });
}
