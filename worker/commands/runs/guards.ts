import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { EventType, LedgerEvent } from "../../../src/protocol/events.ts";
import { isActive } from "../../../src/protocol/runs.ts";
import { DamageFound, findDamage } from "../../ledger/damage.ts";
import type { Caller, Ledger } from "../../ledger/ledger.ts";
import { currentRun, showsWholeRun } from "../../ledger/project.ts";
import type { RunProof, SoundRun } from "../../ledger/run-proof.ts";
import { historyOf } from "../../ledger/sessions.ts";
import type { Context } from "../command.ts";

/** The rules that every change of a run, and every replay, must pass (spec/auto_mode 3.0). */

/** @throws LedgerConflictError the run failed its integrity check. */
export function assertSound(proof: RunProof, runId: string): asserts proof is SoundRun {
  if (proof.sound) return;
  const { table, key, reason } = proof.damage;
  throw new LedgerConflictError(
    "run_damaged",
    `run ${runId} failed its integrity check and can't be used: ${table} ${key ?? ""} ${reason}`,
    { runId, damage: proof.damage },
  );
}

/**
 * The run, if it may change: local, no barrier, not abandoned, not finished, sound, and the whole of it is what
 * its branch shows.
 *
 * @throws LedgerConflictError
 */
export function requireMutable({ ledger, caller }: Context, proof: RunProof, runId: string): SoundRun {
  assertSound(proof, runId);
  const { run } = proof;
  assertLocal(proof);
  assertControlled(caller, proof);
  ledger.assertNoBarrier(run.rootFrameId);
  if (run.abandonedAt !== null) {
    throw new LedgerConflictError(
      "run_abandoned",
      `run ${runId} lies on an abandoned branch tail: the branch head moved on at ${run.abandonedAt}`,
      { runId, abandonedAt: run.abandonedAt, checkpointId: run.abandonedByCheckpointId },
    );
  }
  assertNotFinished(proof);
  const current = findDamage(() => currentRun(ledger, run.rootFrameId, run.branchId));
  const isHead =
    current !== undefined &&
    !(current instanceof DamageFound) &&
    current.runId === runId &&
    showsWholeRun(proof, current.ranges);
  if (!isHead) {
    throw new LedgerConflictError(
      "not_branch_head",
      `run ${runId} is not what the branch head of ${run.branchId} shows`,
      {
        runId,
        branchId: run.branchId,
      },
    );
  }
  return proof;
}

/**
 * Only one tab drives a run: the one that started it or took it over, or the one that the run names as its owner.
 * Recovery acts for an owner that is gone.
 *
 * @throws LedgerConflictError
 */
function assertControlled(caller: Caller, { run, controllerId }: SoundRun): void {
  const { ownerInstanceId, acts } = caller;
  if (acts === "for the dead" || ownerInstanceId === controllerId || ownerInstanceId === run.ownerInstanceId)
    return;
  throw new LedgerConflictError(
    "run_of_other_owner",
    `run ${run.runId} belongs to another tab (${controllerId}); take it over with runs.takeOver first`,
    { runId: run.runId, ownerInstanceId: run.ownerInstanceId, controllerId },
  );
}

/** @throws LedgerConflictError the run has ended. */
export function assertNotFinished({ run }: SoundRun): void {
  if (run.finishedAt === null && isActive(run.status)) return;
  throw new LedgerConflictError("run_finished", `run ${run.runId} has ended as ${run.status}`, {
    runId: run.runId,
    status: run.status,
  });
}

function assertLocal({ run }: SoundRun): void {
  if (run.trustState === "local") return;
  throw new LedgerConflictError("run_imported", `run ${run.runId} is imported history and can't change`, {
    runId: run.runId,
  });
}

/**
 * An exact replay is answered while the run is sound and its history shows all of it, however many runs came
 * after it.
 *
 * @throws LedgerConflictError
 */
export function assertReplayable(ledger: Ledger, proof: RunProof, runId: string): asserts proof is SoundRun {
  assertSound(proof, runId);
  assertLocal(proof);
  const { run } = proof;
  const ranges = findDamage(() => historyOf(ledger, run.rootFrameId, run.branchId));
  if (ranges instanceof DamageFound || !showsWholeRun(proof, ranges)) {
    throw new LedgerConflictError(
      "replay_not_visible",
      `run ${runId} can't be replayed: part of it is no longer on the branch tail of ${run.branchId}`,
      { runId, branchId: run.branchId },
    );
  }
}

/**
 * The event that a command with this key wrote before, if it was the same command.
 *
 * @throws LedgerConflictError the key belongs to another command or request of the run.
 */
export function replayedEvent(
  proof: RunProof,
  runId: string,
  request: { readonly idempotencyKey: string; readonly type: EventType; readonly requestSha256: string },
): LedgerEvent | undefined {
  if (!proof.sound) {
    const isKnown = proof.eventRows.some((row) => row["idempotency_key"] === request.idempotencyKey);
    if (isKnown) assertSound(proof, runId);
    return undefined;
  }
  const event = proof.events.find((each) => each.idempotencyKey === request.idempotencyKey);
  if (event === undefined) return undefined;
  if (event.type === request.type && event.requestSha256 === request.requestSha256) return event;
  throw keyReused(runId, request.idempotencyKey, event.type);
}

export function keyReused(runId: string, idempotencyKey: string, usedFor: string): LedgerConflictError {
  return new LedgerConflictError(
    "idempotency_key_reused",
    `the idempotency key ${idempotencyKey} of run ${runId} was used for another request (${usedFor})`,
    { field: "idempotencyKey", runId, idempotencyKey, usedFor },
  );
}

/** The command's answer: the entity with its event. */
export function committed<Entity extends object>(entity: Entity, event: LedgerEvent, created: boolean) {
  return { ...entity, event, eventId: event.eventId, eventCursor: event.eventCursor, created };
}

/** The newest event of a run: the one that the command just wrote. */
export function lastEvent(run: SoundRun): LedgerEvent {
  const event = run.events.at(-1);
  if (event === undefined) throw new TypeError(`run ${run.run.runId} has no event`);
  return event;
}
