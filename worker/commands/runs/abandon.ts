import type { JsonObject } from "../../../src/proof/canonical.ts";
import type { Context } from "../command.ts";

const selectActive = `SELECT run_id FROM auto_mode_runs
  WHERE root_frame_id = ? AND branch_id = ? AND trust_state = 'local' AND finished_at IS NULL AND abandoned_at IS NULL`;

/**
 * Abandons the unfinished run of a branch, if it has one: the row says since when and by which checkpoint, the
 * journal says why. A damaged run is closed as damaged.
 */
function abandonActiveRun(
  { ledger, caller }: Context,
  rootFrameId: string,
  branchId: string,
  checkpointId: string | null,
  at: number,
  details: JsonObject,
): void {
  const runId = ledger.database.value(selectActive, [rootFrameId, branchId]);
  if (typeof runId !== "string") return;
  const proof = ledger.run(runId);
  if (proof.sound) {
    const run = { abandoned_at: at, abandoned_by_checkpoint_id: checkpointId };
    ledger.appendToRun(caller, proof, { command: "runs.abandon", at, run, details });
  } else if (proof.row !== undefined) {
    ledger.closeDamagedRun(caller, runId, proof.row, at, { damage: { ...proof.damage } });
  }
}

/** An unfinished run that its branch no longer shows, or that is damaged, gives way to a new one. */
export function abandonHiddenRun(
  context: Context,
  rootFrameId: string,
  branchId: string,
  headCheckpointId: string | null,
  at: number,
): void {
  abandonActiveRun(context, rootFrameId, branchId, headCheckpointId, at, { reason: "hidden_from_branch" });
}

/** The revert hook (spec/auto_mode 4.5): a revert leaves no unfinished run on its branch. */
export function abandonForRevert(
  context: Context,
  rootFrameId: string,
  branchId: string,
  revertCheckpointId: string,
  at: number,
): void {
  abandonActiveRun(context, rootFrameId, branchId, revertCheckpointId, at, { reason: "reverted" });
}
