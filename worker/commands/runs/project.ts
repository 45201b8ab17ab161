import type { runs } from "../../../src/protocol/runs.ts";
import { projectBranch } from "../../ledger/project.ts";
import type { Handler } from "../command.ts";

export const projectRun: Handler<typeof runs.project> = (
  { rootFrameId, branchId, uptoEventCursor },
  { ledger },
) => projectBranch(ledger, rootFrameId, branchId ?? rootFrameId, uptoEventCursor ?? null);
