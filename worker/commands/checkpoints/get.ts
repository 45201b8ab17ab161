import type { checkpoints } from "../../../src/protocol/checkpoints.ts";
import { decodeCheckpoint } from "../../ledger/rows.ts";
import { requireSoundCheckpoint } from "../../ledger/sessions.ts";
import type { Handler } from "../command.ts";

export const getCheckpoint: Handler<typeof checkpoints.get> = ({ checkpointId }, { ledger }) =>
  decodeCheckpoint(requireSoundCheckpoint(ledger, checkpointId));
