import { canonicalJson } from "../../../src/proof/canonical.ts";
import { digest } from "../../../src/proof/sha256.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { repairs } from "../../../src/protocol/repairs.ts";
import { requireRow } from "../../ledger/required.ts";
import type { Row } from "../../storage/database.ts";
import type { Context, Handler } from "../command.ts";
import { committed, keyReused, lastEvent, replayedEvent, requireMutable } from "../runs/guards.ts";
import { bindingsOf, decodeRepair, identityOf, repairRow, runOfRepair } from "./rows.ts";

export const bindGroup: Handler<typeof repairs.bindGroup> = (input, context) => {
  const { ledger, caller, now } = context;
  const { repairRunId, actionGroupId, idempotencyKey } = input;
  const runId = runOfRepair(context, repairRunId);
  // A binding can be repeated only while its repair is under way (spec/auto_mode 3.6).
  const run = requireMutable(context, ledger.run(runId), runId);
  const repair = repairRow(run, repairRunId);
  if (repair["status"] !== "started" || run.run.status !== "repairing")
    throw refuse("repair_closed", `repair ${repairRunId} is not open`, { repairRunId });
  const group = requireRow(context.ledger, "action_groups", actionGroupId, "actionGroupId");
  const scope = {
    root_frame_id: group["root_frame_id"],
    branch_id: group["branch_id"],
    turn_id: group["turn_id"],
    kind: group["kind"],
  };
  const requestSha256 = digest({ action_group_id: actionGroupId, action_group_scope: scope });
  const replayed = replayedEvent(run, runId, { idempotencyKey, type: "repair_started", requestSha256 });
  if (replayed?.type === "repair_started") {
    if (replayed.payload.repair_run_id !== repairRunId)
      throw keyReused(runId, idempotencyKey, "repairs.bindGroup");
    return committed(decodeRepair(run, repairRunId), replayed, false);
  }
  assertSameScope(run.row, group, actionGroupId);
  assertEmptyAndFree(context, actionGroupId);

  const at = input.boundAt ?? now();
  const earlier = bindingsOf(run, repairRunId);
  const binding: Row = {
    action_group_id: actionGroupId,
    repair_run_id: repairRunId,
    ...identityOf(run),
    ordinal: earlier.length,
    group_kind: group["kind"] ?? null,
    idempotency_key: idempotencyKey,
    request_sha256: requestSha256,
    bound_at: at,
    ledger_event_count: null,
    ledger_sha256: null,
    sealed_at: null,
  };
  const groupIds = [...earlier.map((each) => String(each["action_group_id"])), actionGroupId];
  const after = ledger.appendToRun(caller, run, {
    command: "repairs.bindGroup",
    at,
    writes: [
      { act: "insert", table: "repair_execution_groups", row: binding },
      { act: "vouch", table: "action_groups", row: group },
      {
        act: "update",
        table: "repair_runs",
        before: repair,
        row: { ...repair, execution_group_ids_json: canonicalJson(groupIds) },
      },
    ],
    event: {
      type: "repair_started",
      idempotencyKey,
      requestSha256,
      payload: {
        repair_run_id: repairRunId,
        phase: "execution_group_bound",
        action_group_id: actionGroupId,
        status: "started",
      },
    },
  });
  return committed(decodeRepair(after, repairRunId), lastEvent(after), true);
};

function refuse(code: string, message: string, details: Row): LedgerConflictError {
  return new LedgerConflictError(code, message, details);
}

function assertSameScope(run: Row, group: Row, actionGroupId: string): void {
  for (const column of ["root_frame_id", "branch_id", "turn_id"]) {
    if (run[column] === group[column]) continue;
    throw refuse(
      "group_out_of_scope",
      `action group ${actionGroupId} has another ${column} than the repair`,
      {
        field: "actionGroupId",
        actionGroupId,
      },
    );
  }
}

const selectContent = `SELECT
  EXISTS (SELECT 1 FROM action_events WHERE group_id = ?1) AS events,
  EXISTS (SELECT 1 FROM execution_attempts WHERE group_id = ?1) AS attempts,
  EXISTS (SELECT 1 FROM repair_execution_groups WHERE action_group_id = ?1) AS bound`;

function assertEmptyAndFree({ ledger }: Context, actionGroupId: string): void {
  const { events, attempts, bound } = ledger.database.get(selectContent, [actionGroupId]) ?? {};
  const reason = bound ? "is bound to a repair" : events || attempts ? "is not empty" : undefined;
  if (reason === undefined) return;
  throw refuse("group_unfit", `action group ${actionGroupId} can't be bound: it ${reason}`, {
    field: "actionGroupId",
    actionGroupId,
  });
}
