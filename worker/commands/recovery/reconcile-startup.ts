import type { recovery } from "../../../src/protocol/recovery.ts";
import { recover } from "../../recovery/recover.ts";
import type { Handler } from "../command.ts";

export const reconcileStartup: Handler<typeof recovery.reconcileStartup> = (input, context) => {
  const ownerInstanceId = input.ownerInstanceId ?? context.caller.ownerInstanceId;
  const alive = new Set([ownerInstanceId, ...input.liveInstanceIds]);
  const named = new Set<string | undefined>(input.liveInstanceIds);
  const report = recover(
    { work: (owner) => !alive.has(owner), candidate: (lastWriter) => !named.has(lastWriter()) },
    input.now ?? context.now(),
    context,
  );
  return { ...report, ownerInstanceId };
};
