import type { recovery } from "../../../src/protocol/recovery.ts";
import { settleMalformed } from "../../recovery/reconcile-candidate.ts";
import { settleCandidates } from "../../recovery/settle-candidates.ts";
import type { Handler } from "../command.ts";

export const reconcileCandidates: Handler<typeof recovery.reconcileCandidates> = (input, context) =>
  settleCandidates(input.now ?? context.now(), context);

/** Settles one malformed candidate because somebody asks for it. */
export const settleCandidate: Handler<typeof recovery.settleCandidate> = (input, context) =>
  settleMalformed(input.messageId, input.now ?? context.now(), context);
