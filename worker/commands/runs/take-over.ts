import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { runs } from "../../../src/protocol/runs.ts";
import type { Context, Handler } from "../command.ts";
import { assertSound, requireMutable } from "./guards.ts";

export const takeOverRun: Handler<typeof runs.takeOver> = (input, context) => {
  const { ledger, caller, now } = context;
  const { runId, fromInstanceId } = input;
  // The check of who may change the run is the one thing that is set aside here.
  const asOwner: Context = { ...context, caller: { ...caller, ownerInstanceId: fromInstanceId } };
  const proof = ledger.run(runId);
  if (
    proof.sound &&
    proof.controllerId === caller.ownerInstanceId &&
    proof.run.ownerInstanceId === proof.controllerId
  )
    return proof.run;
  assertSound(proof, runId);
  if (proof.run.ownerInstanceId !== fromInstanceId) {
    throw new LedgerConflictError(
      "owner_differs",
      `run ${runId} is owned by ${proof.run.ownerInstanceId}, not by ${fromInstanceId}`,
      { field: "fromInstanceId", runId, ownerInstanceId: proof.run.ownerInstanceId },
    );
  }
  const run = requireMutable(asOwner, proof, runId);
  return ledger.appendToRun(caller, run, {
    command: "runs.takeOver",
    at: input.at ?? now(),
    run: { owner_instance_id: caller.ownerInstanceId },
    details: { from: fromInstanceId },
  }).run;
};
