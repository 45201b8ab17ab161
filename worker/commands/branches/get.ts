import type { branches } from "../../../src/protocol/branches.ts";
import { decodeBranch } from "../../ledger/rows.ts";
import { requireSoundBranch } from "../../ledger/sessions.ts";
import type { Handler } from "../command.ts";

export const getBranch: Handler<typeof branches.get> = ({ branchId }, { ledger }) =>
  decodeBranch(requireSoundBranch(ledger, branchId));
