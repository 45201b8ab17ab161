import { IntegrityError, NotFoundError } from "../../../src/protocol/errors.ts";
import type { Repair, RepairGroup } from "../../../src/protocol/repairs.ts";
import { decodeRow } from "../../ledger/rows.ts";
import type { SoundRun } from "../../ledger/run-proof.ts";
import type { Row } from "../../storage/database.ts";
import type { Context } from "../command.ts";

const selectRunOfRepair = "SELECT run_id FROM repair_runs WHERE repair_run_id = ?";

/** @throws NotFoundError */
export function runOfRepair({ ledger }: Context, repairRunId: string): string {
  const runId = ledger.database.value(selectRunOfRepair, [repairRunId]);
  if (typeof runId === "string") return runId;
  throw new NotFoundError("repair_not_found", `there is no repair ${repairRunId}`, {
    field: "repairRunId",
    repairRunId,
  });
}

/** The repair's row in its sound run. */
export function repairRow({ repairs, run }: SoundRun, repairRunId: string): Row {
  const repair = repairs.find((each) => each["repair_run_id"] === repairRunId);
  if (repair !== undefined) return repair;
  throw new IntegrityError("repair_missing", `run ${run.runId} has no repair ${repairRunId}`, {
    repairRunId,
  });
}

/** The groups bound to a repair, in the order in which they were bound. */
export function bindingsOf({ bindings }: SoundRun, repairRunId: string): Row[] {
  return bindings.filter((each) => each["repair_run_id"] === repairRunId);
}

export function decodeRepair(run: SoundRun, repairRunId: string): Repair {
  return {
    ...decodeRow<Omit<Repair, "groups">>(repairRow(run, repairRunId)),
    groups: bindingsOf(run, repairRunId).map((row) => decodeRow<RepairGroup>(row)),
  };
}

/** The columns by which a row says to which run it belongs. */
export function identityOf({ row }: SoundRun): Row {
  const column = (name: string) => row[name] ?? null;
  return {
    run_id: column("run_id"),
    root_frame_id: column("root_frame_id"),
    branch_id: column("branch_id"),
    turn_id: column("turn_id"),
    execution_id: column("execution_id"),
  };
}
