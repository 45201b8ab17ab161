import { digest, sha256 } from "../../src/proof/index.ts";
import type { TestLedger } from "../../src/testing.ts";
import { candidateMetadata } from "./candidates.ts";
import { candidateFields, completionFields, reviewFields } from "./fields.ts";
import { bindNewGroup, proposal, reachRepair } from "./repair.ts";
import { projectedRun } from "./scenario.ts";

const WORK = { turnId: "turn-1", executionId: "execution-1" };

/**
 * A session with a row in every table: a run that was reviewed, repaired with a sealed group, reviewed again, and ended
 * `verified` with its delivery; then a fork that was reverted and undone.
 */
export async function buildEverything(ledger: TestLedger, root: string): Promise<void> {
  const { directory, repair } = await reachRepair(ledger, root);
  await ledger.repairs.start(repair);
  await repairInOneGroup(ledger, root);
  const delivery = await commitAnswer(ledger, root);
  const evidenceSnapshot = { candidate_answer: delivery.messageContent };
  const subject = {
    runId: "run-1",
    candidateId: "candidate-2",
    candidateSnapshotSha256: digest({ ...evidenceSnapshot, structured_completion: null }),
    evidenceSnapshotSha256: digest(evidenceSnapshot),
  };
  await ledger.runs.recordCandidate({ ...candidateFields, ...subject, idempotencyKey: "candidate:2" });
  const review = { reviewRunId: "review-2", auditId: "audit-2", idempotencyKey: "review:2" };
  await ledger.reviews.start({ ...reviewFields, ...subject, ...review, evidenceSnapshot, attempt: 2 });
  await ledger.reviews.complete({
    ...completionFields,
    reviewRunId: "review-2",
    idempotencyKey: "review:2:complete",
  });
  await ledger.runs.terminate({
    runId: "run-1",
    idempotencyKey: "terminal:1",
    status: "verified",
    reason: "review_passed",
    messagePromotion: {
      messageId: delivery.messageId,
      deliveryId: delivery.deliveryId,
      expectedContent: delivery.messageContent,
      metadata: {
        review_status: "verified",
        gates_completion: true,
        unverified: false,
        turn_id: WORK.turnId,
        execution_id: WORK.executionId,
        candidate_content_sha256: sha256(delivery.messageContent),
        reviewed_content_sha256: sha256(delivery.messageContent),
        review_run_id: "review-2",
      },
    },
  });
  await forkRevertAndUndo(ledger, root, directory);
  await ledger.settings.set({ key: "k", value: "v" });
  const run = await projectedRun(ledger, root);
  if (run?.status !== "verified")
    throw new Error(`the run reads ${run?.status}: ${JSON.stringify(run?.damage)}`);
}

async function repairInOneGroup(ledger: TestLedger, root: string): Promise<void> {
  const { groupId } = await bindNewGroup(ledger, root);
  await ledger.actions.appendEvent({ groupId, ...proposal });
  const { attemptId } = await ledger.attempts.allocate({ groupId, producingCellId: "cell-1" });
  for (const milestone of ["started", "response", "capture"] as const)
    await ledger.attempts.record({ attemptId, milestone });
  await ledger.attempts.finish({ attemptId, terminalState: "completed" });
  await ledger.actions.appendEvent({
    groupId,
    type: "result",
    toolCallId: proposal.toolCallId,
    result: { status: "ok", output_committed: true },
    sideEffectClass: "workspace_write",
  });
  await ledger.repairs.complete({
    repairRunId: "repair-1",
    idempotencyKey: "repair-1:complete",
    status: "completed",
    afterVersionIds: ["version-2"],
    executionGroupIds: [groupId],
  });
}

async function commitAnswer(ledger: TestLedger, root: string) {
  const version = await ledger.artifacts.save({
    filename: "answer.csv",
    bytes: new TextEncoder().encode("x,y\n1,2\n"),
    frameId: root,
  });
  const artifact = await ledger.artifacts.get({ artifactId: version.artifactId });
  const manifest = await ledger.deliveries.buildManifest({
    rootFrameId: root,
    projectId: artifact.projectId,
    versions: [version.versionId],
  });
  const content = `The answer is in ${manifest.value.artifacts[0]?.url}`;
  return ledger.deliveries.commit({
    idempotencyKey: "delivery:1",
    rootFrameId: root,
    frameId: root,
    content,
    manifest: manifest.value,
    messageMetadata: candidateMetadata(content, WORK),
  });
}

async function forkRevertAndUndo(
  ledger: TestLedger,
  root: string,
  directory: FileSystemDirectoryHandle,
): Promise<void> {
  const fork = await ledger.branches.fork({
    rootFrameId: root,
    fromCheckpointId: "checkpoint-repair",
    branchId: "fork",
  });
  const at = { rootFrameId: root, branchId: fork.branchId };
  await ledger.messages.add({ ...at, role: "user", content: "on the fork" });
  const { treeId } = await ledger.workspace.capture({ directory });
  await ledger.checkpoints.create({ ...at, reason: "manual", workspaceTreeId: treeId });
  await ledger.branches.revert({
    ...at,
    checkpointId: "checkpoint-repair",
    directory,
    idempotencyKey: "back",
  });
  await ledger.branches.undo({ ...at, directory, idempotencyKey: "forth" });
}
