import { canonicalJson } from "../../../src/proof/canonical.ts";
import { digest } from "../../../src/proof/sha256.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { CandidateFields } from "../../../src/protocol/events.ts";
import type { runs } from "../../../src/protocol/runs.ts";
import type { SoundRun } from "../../ledger/run-proof.ts";
import type { Handler } from "../command.ts";
import { assertReplayable, committed, lastEvent, replayedEvent, requireMutable } from "./guards.ts";

export const recordCandidate: Handler<typeof runs.recordCandidate> = (input, context) => {
  const { ledger, caller, now } = context;
  const { runId, idempotencyKey } = input;
  const candidate: CandidateFields = {
    candidate_id: input.candidateId,
    candidate_snapshot_sha256: input.candidateSnapshotSha256,
    evidence_snapshot_sha256: input.evidenceSnapshotSha256,
    artifact_set_sha256: input.artifactSetSha256 ?? null,
    candidate_artifact_ids: input.candidateArtifactIds,
    candidate_version_ids: input.candidateVersionIds,
  };
  const requestSha256 = digest(candidate);
  const proof = ledger.run(runId);
  const replayed = replayedEvent(proof, runId, { idempotencyKey, type: "candidate_ready", requestSha256 });
  if (replayed !== undefined) {
    assertReplayable(ledger, proof, runId);
    return committed(proof.run, replayed, false);
  }
  const run = requireMutable(context, proof, runId);
  assertMayRecord(run, candidate);

  const at = input.createdAt ?? now();
  const after = ledger.appendToRun(caller, run, {
    command: "runs.recordCandidate",
    at,
    run: {
      status: "candidate",
      candidate_id: candidate.candidate_id,
      candidate_snapshot_sha256: candidate.candidate_snapshot_sha256,
      evidence_snapshot_sha256: candidate.evidence_snapshot_sha256,
      artifact_set_sha256: candidate.artifact_set_sha256,
      candidate_artifact_ids_json: canonicalJson(candidate.candidate_artifact_ids),
      candidate_version_ids_json: canonicalJson(candidate.candidate_version_ids),
    },
    event: {
      type: "candidate_ready",
      idempotencyKey,
      requestSha256,
      payload: { ...candidate, status: "candidate" },
    },
  });
  return committed(after.run, lastEvent(after), true);
};

function assertMayRecord({ run, events }: SoundRun, candidate: CandidateFields): void {
  if (run.status !== "running" && run.status !== "candidate") {
    throw new LedgerConflictError(
      "phase_active",
      `run ${run.runId} is ${run.status}; its candidate can't change now`,
      {
        runId: run.runId,
        status: run.status,
      },
    );
  }
  const wanted = canonicalJson({ ...candidate, status: "candidate" });
  const rebound = events.some(
    (event) =>
      event.type === "candidate_ready" &&
      event.payload.candidate_id === candidate.candidate_id &&
      canonicalJson(event.payload) !== wanted,
  );
  if (!rebound) return;
  throw new LedgerConflictError(
    "candidate_rebound",
    `candidate ${candidate.candidate_id} of run ${run.runId} stands for other content already; give the new content a new id`,
    { field: "candidateId", runId: run.runId, candidateId: candidate.candidate_id },
  );
}
