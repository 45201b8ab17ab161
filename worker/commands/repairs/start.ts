import { canonicalJson } from "../../../src/proof/canonical.ts";
import { digest } from "../../../src/proof/sha256.ts";
import type { ParsedOf, ResultOf } from "../../../src/protocol/command.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { repairs } from "../../../src/protocol/repairs.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
import { requireRow } from "../../ledger/required.ts";
import type { SoundRun } from "../../ledger/run-proof.ts";
import { historyOf, requireSoundBranch } from "../../ledger/sessions.ts";
import type { Row } from "../../storage/database.ts";
import type { Context, Task } from "../command.ts";
import {
  assertReplayable,
  committed,
  keyReused,
  lastEvent,
  replayedEvent,
  requireMutable,
} from "../runs/guards.ts";
import { decodeRepair, identityOf } from "./rows.ts";

type Input = ParsedOf<typeof repairs.start>;
type Result = ResultOf<typeof repairs.start>;

export const startRepair: Task<typeof repairs.start> = async (input, { transact, files }) => {
  const first = await transact((context) => answerOrTree(context, input));
  if ("replayed" in first) return first.replayed;
  const isRestorable = first.treeId !== null && (await files.isRestorable(first.treeId));
  return transact((context) => start(context, input, isRestorable ? first.treeId : null));
};

/** The answer to an exact replay, or else the tree that must be restorable. */
function answerOrTree(context: Context, input: Input): { replayed: Result } | { treeId: string | null } {
  const replayed = replay(context, input);
  if (replayed !== undefined) return { replayed };
  requireMutable(context, context.ledger.run(input.runId), input.runId);
  const checkpoint = requireRow(context.ledger, "session_checkpoints", input.checkpointId, "checkpointId");
  const treeId = checkpoint["workspace_tree_id"];
  return { treeId: typeof treeId === "string" ? treeId : null };
}

function replay({ ledger }: Context, input: Input): Result | undefined {
  const { runId, idempotencyKey } = input;
  const proof = ledger.run(runId);
  const request = { idempotencyKey, type: "repair_started", requestSha256: requestDigest(input) } as const;
  const event = replayedEvent(proof, runId, request);
  if (event?.type !== "repair_started") return undefined;
  assertReplayable(ledger, proof, runId);
  const repairRunId = event.payload.repair_run_id;
  const isSame = input.repairRunId === undefined || input.repairRunId === repairRunId;
  if (event.payload.phase !== undefined || !isSame)
    throw keyReused(runId, idempotencyKey, "repairs.bindGroup");
  return committed(decodeRepair(proof, repairRunId), event, false);
}

function requestDigest(input: Input) {
  return digest({
    finding_ids: input.findingIds,
    before_version_ids: input.beforeVersionIds,
    checkpoint_id: input.checkpointId,
  });
}

function start(context: Context, input: Input, restorableTreeId: string | null): Result {
  const { ledger, caller, now, newId } = context;
  const { runId, idempotencyKey } = input;
  const replayed = replay(context, input);
  if (replayed !== undefined) return replayed;
  const run = requireMutable(context, ledger.run(runId), runId);
  assertCandidate(run, input.beforeVersionIds);
  assertCheckpoint(context, run, input.checkpointId, restorableTreeId);
  const findings = claimable(run, input.findingIds);
  const repairRunId = input.repairRunId ?? newId("repair-");
  assertIdFree(context, repairRunId);

  const at = input.startedAt ?? now();
  const requestSha256 = requestDigest(input);
  const row: Row = {
    repair_run_id: repairRunId,
    ...identityOf(run),
    start_idempotency_key: idempotencyKey,
    start_request_sha256: requestSha256,
    completion_idempotency_key: null,
    completion_request_sha256: null,
    checkpoint_id: input.checkpointId,
    finding_ids_json: canonicalJson(input.findingIds),
    before_version_ids_json: canonicalJson(input.beforeVersionIds),
    after_version_ids_json: null,
    execution_group_ids_json: "[]",
    verification_review_run_id: null,
    status: "started",
    started_at: at,
    completed_at: null,
  };
  const claims = findings.map(
    (before): RowWrite => ({
      act: "update",
      table: "review_findings",
      before,
      row: { ...before, status: "claimed", updated_at: at },
    }),
  );
  const after = ledger.appendToRun(caller, run, {
    command: "repairs.start",
    at,
    run: { status: "repairing" },
    writes: [...claims, { act: "insert", table: "repair_runs", row }],
    event: {
      type: "repair_started",
      idempotencyKey,
      requestSha256,
      payload: {
        repair_run_id: repairRunId,
        finding_ids: input.findingIds,
        before_version_ids: input.beforeVersionIds,
        checkpoint_id: input.checkpointId,
        status: "started",
      },
    },
  });
  return committed(decodeRepair(after, repairRunId), lastEvent(after), true);
}

function refuse(code: string, message: string, details: Row): LedgerConflictError {
  return new LedgerConflictError(code, message, details);
}

function assertCandidate({ run }: SoundRun, beforeVersionIds: readonly string[]): void {
  const { runId, status, candidateId, candidateVersionIds } = run;
  if (status !== "candidate" || candidateId === null)
    throw refuse("no_candidate", `run ${runId} is ${status}: only a candidate can be repaired`, {
      runId,
      status,
    });
  if (canonicalJson(candidateVersionIds) !== canonicalJson(beforeVersionIds))
    throw refuse("versions_differ", `beforeVersionIds are not the versions of candidate ${candidateId}`, {
      field: "beforeVersionIds",
      candidateId,
    });
}

const selectLastVisible = `SELECT MAX(event_cursor) FROM auto_mode_events
  WHERE root_frame_id = ? AND branch_id = ? AND event_cursor > ? AND event_cursor <= ?`;

/** The state before a repair must be known and come back: the branch head, up to date, its tree restorable. */
function assertCheckpoint(
  { ledger }: Context,
  { run }: SoundRun,
  checkpointId: string,
  restorableTreeId: string | null,
): void {
  const checkpoint = requireRow(ledger, "session_checkpoints", checkpointId, "checkpointId", run.rootFrameId);
  const branch = requireSoundBranch(ledger, run.branchId, run.rootFrameId);
  const unfit = (reason: string) =>
    refuse("checkpoint_unfit", `checkpoint ${checkpointId} can't precede a repair: ${reason}`, {
      field: "checkpointId",
      checkpointId,
    });
  if (checkpoint["branch_id"] !== run.branchId) throw unfit("it is of another branch");
  if (branch["head_checkpoint_id"] !== checkpointId) throw unfit("it is not the branch head");
  if (restorableTreeId === null || checkpoint["workspace_tree_id"] !== restorableTreeId)
    throw unfit("its workspace tree can't be restored");
  const visible = historyOf(ledger, run.rootFrameId, run.branchId).map(({ branchId, after, upto }) =>
    Number(
      ledger.database.value(selectLastVisible, [
        run.rootFrameId,
        branchId,
        after,
        upto ?? Number.MAX_SAFE_INTEGER,
      ]) ?? 0,
    ),
  );
  if (Math.max(0, ...visible) > Number(checkpoint["auto_event_cursor"])) throw unfit("events followed it");
}

/** The findings, if each is open, against this candidate, from a review that was completed and is no pass. */
function claimable({ run, reviews, findings }: SoundRun, findingIds: readonly string[]): Row[] {
  return findingIds.map((findingId) => {
    const finding = findings.find((each) => each["finding_id"] === findingId);
    const review = reviews.find((each) => each["review_run_id"] === finding?.["review_run_id"]);
    const isOpen = ["open", "unaddressed"].includes(String(finding?.["status"]));
    const isAgainst = finding?.["candidate_id"] === run.candidateId;
    const isJudged = review?.["status"] === "completed" && review["verdict"] !== "pass";
    if (finding !== undefined && isOpen && isAgainst && isJudged) return finding;
    throw refuse(
      "finding_not_open",
      `finding ${findingId} is not open against candidate ${run.candidateId}`,
      {
        field: "findingIds",
        findingId,
      },
    );
  });
}

function assertIdFree({ ledger }: Context, repairRunId: string): void {
  const taken = ledger.database.value("SELECT 1 FROM repair_runs WHERE repair_run_id = ?", [repairRunId]);
  if (taken !== undefined)
    throw refuse("id_taken", `the repair id ${repairRunId} is taken`, { field: "repairRunId", repairRunId });
}
