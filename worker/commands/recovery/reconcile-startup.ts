import type { recovery, StartupReport } from "../../../src/protocol/recovery.ts";
import { isolated } from "../../recovery/isolated.ts";
import { admit, writeToGroup } from "../actions/admission.ts";
import { cutOff } from "../attempts/milestones.ts";
import type { Context, Handler } from "../command.ts";
import { settleCandidates } from "./reconcile-candidates.ts";
import { closeOrphanedRuns } from "./reconcile-runs.ts";

export const reconcileStartup: Handler<typeof recovery.reconcileStartup> = (input, context) => {
  const now = input.now ?? context.now();
  const ownerInstanceId = input.ownerInstanceId ?? context.caller.ownerInstanceId;
  const alive = new Set([ownerInstanceId, ...input.liveInstanceIds]);
  const failures: StartupReport["failures"][number][] = [];
  const step = <Outcome>(
    name: StartupReport["failures"][number]["step"],
    work: () => Outcome[],
  ): Outcome[] => {
    return isolated(context, work, (_, text) => {
      failures.push({ step: name, error: text });
      return [];
    });
  };
  // Runs first: a repair is judged by its attempts as they were left, and a candidate by how its run ended.
  return {
    at: now,
    ownerInstanceId,
    runs: step("runs", () => closeOrphanedRuns(alive, now, context)),
    attempts: step("attempts", () => abandonAttempts(alive, now, context)),
    candidates: step("candidates", () => settleCandidates(now, context)),
    failures,
  };
};

const selectUnfinished =
  "SELECT * FROM execution_attempts WHERE finished_at IS NULL ORDER BY allocated_at, attempt_id";

/** Attempts of owners that are gone, in groups that are not sealed, end `abandoned` (spec/session_store 7.2). */
function abandonAttempts(alive: ReadonlySet<string>, now: number, context: Context) {
  const orphans = context.ledger.database
    .all(selectUnfinished)
    .filter((attempt) => !alive.has(String(attempt["owner_instance_id"])));
  return orphans.map((before) => {
    const attemptId = String(before["attempt_id"]);
    return isolated(
      context,
      () => {
        const admission = admit(context, String(before["group_id"]), "evidence");
        writeToGroup(context, admission, "attempts.abandon", now, [
          cutOff(before, "abandoned", TAB_GONE, now),
        ]);
        return { attemptId, terminalState: "abandoned" };
      },
      (_, text) => ({ attemptId, terminalState: `unreconciled: ${text}` }),
    );
  });
}

const TAB_GONE = {
  type: "daemon_restart",
  message: "The tab that ran this attempt exited before it ended.",
};
