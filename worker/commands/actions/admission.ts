import type { Json, JsonObject } from "../../../src/proof/canonical.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
import { requireRow } from "../../ledger/required.ts";
import type { SoundRun } from "../../ledger/run-proof.ts";
import type { Row } from "../../storage/database.ts";
import type { Context } from "../command.ts";
import { assertSound, requireMutable } from "../runs/guards.ts";

/** Who may still write into an action group (spec/auto_mode 6.2). */

const TERMINAL_EVIDENCE = new Set([
  "result",
  "observation",
  "completed",
  "failed",
  "denied",
  "timed_out",
  "cancelled",
]);

const REFUSED_PERMISSION = new Set<unknown>(["denied", "timed_out", "cancelled"]);

/** Whether an event only tells how work ended that was admitted before. */
export function isTerminalEvidence({ type, result }: { type: string; result: Json }): boolean {
  if (TERMINAL_EVIDENCE.has(type)) return true;
  const isDocument = typeof result === "object" && result !== null && !Array.isArray(result);
  return (
    type === "permission_resolved" && isDocument && REFUSED_PERMISSION.has((result as JsonObject)["state"])
  );
}

/** A group that takes what is about to be written; bound to a repair, it carries the run that must vouch for it. */
export interface Admission {
  readonly group: Row;
  readonly run: SoundRun | undefined;
}

const selectBinding = "SELECT * FROM repair_execution_groups WHERE action_group_id = ?";

/**
 * Admits a write to a group. `evidence` is work's end, which is admitted also where no new work is.
 *
 * @throws NotFoundError the group is unknown.
 * @throws RecoveryRequiredError a revert of the session is unresolved.
 * @throws LedgerConflictError the group is sealed, or its repair can't go on.
 */
export function admit(context: Context, groupId: string, kind: "work" | "evidence"): Admission {
  const { ledger } = context;
  const group = requireRow(ledger, "action_groups", groupId, "groupId");
  if (kind === "work") ledger.assertNoBarrier(String(group["root_frame_id"]));
  const binding = ledger.database.get(selectBinding, [groupId]);
  if (binding === undefined) return { group, run: undefined };

  const runId = String(binding["run_id"]);
  const proof = ledger.run(runId);
  assertSound(proof, runId);
  if (binding["sealed_at"] !== null) {
    throw new LedgerConflictError(
      "group_sealed",
      `action group ${groupId} is sealed: its repair is complete`,
      {
        groupId,
        repairRunId: binding["repair_run_id"],
      },
    );
  }
  if (kind === "evidence") return { group, run: proof };
  const run = requireMutable(context, proof, runId);
  const repair = run.repairs.find((each) => each["repair_run_id"] === binding["repair_run_id"]);
  if (run.run.status !== "repairing" || repair?.["status"] !== "started") {
    throw new LedgerConflictError("repair_closed", `the repair of action group ${groupId} is not open`, {
      groupId,
      runId,
    });
  }
  return { group, run };
}

/** Writes into an admitted group: into its run's proof if it is bound, else into its session's journal. */
export function writeToGroup(
  { ledger, caller }: Context,
  { group, run }: Admission,
  command: string,
  at: number,
  writes: readonly RowWrite[],
): void {
  if (run !== undefined) {
    ledger.appendToRun(caller, run, { command, at, writes });
    return;
  }
  const [rootFrameId, branchId] = [String(group["root_frame_id"]), String(group["branch_id"])];
  ledger.append(caller, { command, rootFrameId, branchId, at, writes });
}
