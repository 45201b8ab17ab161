import type { recovery } from "../../../src/protocol/recovery.ts";
import { closeOrphanedRuns } from "../../recovery/close-runs.ts";
import type { Handler } from "../command.ts";

export const reconcileRuns: Handler<typeof recovery.reconcileRuns> = (input, context) => {
  const alive = new Set([input.ownerInstanceId ?? context.caller.ownerInstanceId, ...input.liveInstanceIds]);
  return closeOrphanedRuns((owner) => !alive.has(owner), input.now ?? context.now(), context);
};
