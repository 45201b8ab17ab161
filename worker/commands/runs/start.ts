import { canonicalJson } from "../../../src/proof/canonical.ts";
import { digest } from "../../../src/proof/sha256.ts";
import type { ParsedOf } from "../../../src/protocol/command.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import { isActive, type runs } from "../../../src/protocol/runs.ts";
import { DamageFound, findDamage } from "../../ledger/damage.ts";
import { currentRun, showsWholeRun } from "../../ledger/project.ts";
import type { RunProof } from "../../ledger/run-proof.ts";
import { requireSession, requireSoundBranch } from "../../ledger/sessions.ts";
import type { Row } from "../../storage/database.ts";
import type { Context, Handler } from "../command.ts";
import { abandonHiddenRun } from "./abandon.ts";
import { assertReplayable, committed, keyReused, lastEvent } from "./guards.ts";

type Input = ParsedOf<typeof runs.start>;

const selectByKey = "SELECT run_id FROM auto_mode_runs WHERE root_frame_id = ? AND idempotency_key = ?";
const selectTaken = `SELECT run_id FROM auto_mode_runs
  WHERE run_id = ? OR (root_frame_id = ? AND branch_id = ? AND turn_id = ? AND execution_id = ?)`;
export const startRun: Handler<typeof runs.start> = (input, context) => {
  const { ledger, caller, now, newId } = context;
  const { rootFrameId } = input;
  const branchId = input.branchId ?? rootFrameId;
  const requestSha256 = startDigest(input, branchId);
  requireSession(ledger.database, rootFrameId);
  ledger.assertNoBarrier(rootFrameId);
  const branch = requireSoundBranch(ledger, branchId, rootFrameId);

  const earlier = ledger.database.value(selectByKey, [rootFrameId, input.idempotencyKey]);
  if (typeof earlier === "string") return replay(context, ledger.run(earlier), earlier, input, requestSha256);

  const at = input.createdAt ?? now();
  assertBranchFree(context, rootFrameId, branchId);
  const head = branch["head_checkpoint_id"];
  abandonHiddenRun(context, rootFrameId, branchId, typeof head === "string" ? head : null, at);
  const runId = input.runId ?? newId("run-");
  assertIdsFree(context, input, runId, branchId);

  const started = ledger.appendStart(
    caller,
    {
      ...NEW_RUN,
      run_id: runId,
      idempotency_key: input.idempotencyKey,
      root_frame_id: rootFrameId,
      branch_id: branchId,
      turn_id: input.turnId,
      execution_id: input.executionId,
      mode: input.mode,
      selection_json: canonicalJson(input.selection),
      budgets_json: canonicalJson(input.budgets),
      request_sha256: requestSha256,
      owner_instance_id: input.ownerInstanceId ?? caller.ownerInstanceId,
      created_at: at,
      updated_at: at,
    },
    {
      type: "auto_run_started",
      idempotencyKey: input.idempotencyKey,
      requestSha256,
      payload: { mode: input.mode, status: "running", selection: input.selection, budgets: input.budgets },
    },
  );
  return committed(started.run, lastEvent(started), true);
};

const NEW_RUN: Row = {
  trust_state: "local",
  status: "running",
  state_revision: 1,
  candidate_id: null,
  candidate_snapshot_sha256: null,
  evidence_snapshot_sha256: null,
  artifact_set_sha256: null,
  candidate_artifact_ids_json: "[]",
  candidate_version_ids_json: "[]",
  terminal_reason: null,
  stop_reason: null,
  terminal_idempotency_key: null,
  terminal_request_sha256: null,
  source_claimed_status: null,
  source_terminal_reason: null,
  abandoned_at: null,
  abandoned_by_checkpoint_id: null,
  finished_at: null,
};

/** spec/auto_mode 2.3: neither id, key, owner nor time belong to the request. */
function startDigest(input: Input, branchId: string) {
  return digest({
    root_frame_id: input.rootFrameId,
    branch_id: branchId,
    turn_id: input.turnId,
    execution_id: input.executionId,
    mode: input.mode,
    selection: input.selection,
    budgets: input.budgets,
  });
}

function replay({ ledger }: Context, proof: RunProof, runId: string, input: Input, requestSha256: string) {
  if (proof.sound && proof.run.abandonedAt !== null) {
    throw new LedgerConflictError(
      "run_abandoned",
      `run ${runId} of this key lies on an abandoned branch tail`,
      { runId },
    );
  }
  assertReplayable(ledger, proof, runId);
  const isSameRun = input.runId === undefined || input.runId === runId;
  const [started] = proof.events;
  if (started === undefined || !isSameRun || proof.run.requestSha256 !== requestSha256) {
    throw keyReused(runId, input.idempotencyKey, "runs.start");
  }
  return committed(proof.run, started, false);
}

/** A branch has one active run at a time. A damaged one does not count: it can't go on, and is closed below. */
function assertBranchFree({ ledger }: Context, rootFrameId: string, branchId: string): void {
  const current = findDamage(() => currentRun(ledger, rootFrameId, branchId));
  if (current === undefined || current instanceof DamageFound || !current.proof.sound) return;
  const { run } = current.proof;
  const isBlocking =
    run.branchId === branchId &&
    run.trustState === "local" &&
    isActive(run.status) &&
    run.finishedAt === null &&
    run.abandonedAt === null &&
    showsWholeRun(current.proof, current.ranges);
  if (!isBlocking) return;
  throw new LedgerConflictError(
    "branch_busy",
    `branch ${branchId} has a recovery-required active run ${run.runId} (${run.status}, owner ${run.ownerInstanceId})`,
    { branchId, runId: run.runId, status: run.status, ownerInstanceId: run.ownerInstanceId },
  );
}

function assertIdsFree({ ledger }: Context, input: Input, runId: string, branchId: string): void {
  const taken = ledger.database.value(selectTaken, [
    runId,
    input.rootFrameId,
    branchId,
    input.turnId,
    input.executionId,
  ]);
  if (taken === undefined) return;
  const field = taken === runId ? "runId" : "executionId";
  throw new LedgerConflictError(
    "id_taken",
    field === "runId"
      ? `the run id ${runId} is taken`
      : `turn ${input.turnId}, execution ${input.executionId} of branch ${branchId} has a run already: ${String(taken)}`,
    { field, runId: taken },
  );
}
