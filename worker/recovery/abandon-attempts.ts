import type { StartupReport } from "../../src/protocol/recovery.ts";
import { admit, writeToGroup } from "../commands/actions/admission.ts";
import { cutOff } from "../commands/attempts/milestones.ts";
import type { Context } from "../commands/command.ts";
import { isolated } from "./isolated.ts";
import { lastWriterOfRow } from "./last-writer.ts";
import type { IsOrphan } from "./recover.ts";

const selectUnfinished =
  "SELECT * FROM execution_attempts WHERE finished_at IS NULL ORDER BY allocated_at, attempt_id";

const TAB_GONE = {
  type: "daemon_restart",
  message: "The tab that ran this attempt exited before it ended.",
};

/** Orphaned attempts, in groups that are not sealed, end `abandoned` (spec/session_store 7.2). */
export function abandonAttempts(
  isOrphan: IsOrphan,
  now: number,
  context: Context,
): StartupReport["attempts"][number][] {
  const { database } = context.ledger;
  return database
    .all(selectUnfinished)
    .filter((attempt) => {
      const attemptId = String(attempt["attempt_id"]);
      const lastWriter = () => lastWriterOfRow(database, "execution_attempts", attemptId);
      return isOrphan(String(attempt["owner_instance_id"]), lastWriter);
    })
    .map((before) => {
      const attemptId = String(before["attempt_id"]);
      return isolated(
        context,
        () => {
          const admission = admit(context, String(before["group_id"]), "evidence");
          const end = cutOff(before, "abandoned", TAB_GONE, now);
          writeToGroup(context, admission, "attempts.abandon", now, [end]);
          return { attemptId, terminalState: "abandoned" };
        },
        (_, text) => ({ attemptId, terminalState: `unreconciled: ${text}` }),
      );
    });
}
