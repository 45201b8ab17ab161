import type { checkpoints } from "../../../src/protocol/checkpoints.ts";
import { requireRow } from "../../ledger/required.ts";
import { decodeCheckpoint } from "../../ledger/rows.ts";
import type { Handler } from "../command.ts";

export const getCheckpoint: Handler<typeof checkpoints.get> = ({ checkpointId }, { ledger }) =>
  decodeCheckpoint(requireRow(ledger, "session_checkpoints", checkpointId, "checkpointId"));
