import { sha256 } from "../../src/proof/index.ts";
import type { TestLedger } from "../../src/testing.ts";
import { newRoot } from "./session.ts";

/** Candidate messages and deliveries as the seed's scenarios leave them. */

export interface Work {
  readonly turnId: string;
  readonly executionId: string;
}

export function candidateMetadata(content: string, { turnId, executionId }: Work) {
  return {
    review_status: "candidate",
    user_truth: "Candidate · provisional / not verified",
    gates_completion: true,
    unverified: true,
    turn_id: turnId,
    execution_id: executionId,
    candidate_content_sha256: sha256(content),
  };
}

export function addCandidateMessage(
  ledger: TestLedger,
  {
    rootFrameId,
    branchId,
    content,
    work,
  }: { rootFrameId: string; branchId: string; content: string; work: Work },
) {
  return ledger.messages.add({
    rootFrameId,
    branchId,
    frameId: rootFrameId,
    role: "assistant",
    content,
    metadata: candidateMetadata(content, work),
    createdAt: 100,
  });
}

/** A session of the project `project-1` with the delivery of one artifact, which nobody has judged yet. */
export async function commitCandidateDelivery(
  ledger: TestLedger,
  rootFrameId: string,
  work: Work,
  projectId = "project-1",
) {
  const artifact = await ledger.artifacts.save({
    filename: "candidate.csv",
    contentType: "text/csv",
    bytes: new TextEncoder().encode("orphaned-candidate-artifact"),
    frameId: rootFrameId,
    projectId,
  });
  const manifest = await ledger.deliveries.buildManifest({
    rootFrameId,
    projectId,
    versions: [artifact.versionId],
  });
  const content = `Candidate result: ${manifest.value.artifacts[0]?.url}`;
  return ledger.deliveries.commit({
    idempotencyKey: `${work.turnId}:candidate-delivery`,
    rootFrameId,
    branchId: rootFrameId,
    frameId: rootFrameId,
    content,
    manifest: manifest.value,
    expectedManifestSha256: manifest.sha256,
    messageMetadata: candidateMetadata(content, work),
  });
}

/** A project with this id, and a session in it. */
export async function sessionOf(ledger: TestLedger, projectId: string): Promise<string> {
  await ledger.projects.create({ projectId, name: "Candidate recovery" });
  return newRoot(ledger, projectId);
}
