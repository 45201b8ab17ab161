import type { TestLedger } from "../../src/testing.ts";
import { candidateFields, completionFields, reviewFields, startFields } from "./fields.ts";
import { newWorkspace } from "./workspace.ts";

export const majorFinding = {
  findingId: "finding-1",
  fingerprint: "stable-finding-1",
  severity: "major",
  category: "evidence",
  claim: "The claim outruns its evidence.",
  evidenceRefs: ["artifact-1"],
  artifactIds: ["artifact-1"],
  versionIds: ["version-1"],
  cellIds: [],
};

/** A run whose review found a material issue, at a checkpoint from which it can be repaired. */
export async function reachRepair(ledger: TestLedger, root: string, ownerInstanceId = "daemon-regression") {
  await ledger.runs.start(startFields(root, { ownerInstanceId }));
  await ledger.runs.recordCandidate(candidateFields);
  await ledger.reviews.start(reviewFields);
  await ledger.reviews.complete({
    ...completionFields,
    verdict: "issues",
    assessment: { public_summary: "One material issue." },
    findings: [majorFinding],
    usage: {},
  });
  const directory = await newWorkspace({ "result.txt": "candidate\n" });
  const tree = await ledger.workspace.capture({ directory });
  const { cursor } = await ledger.events.cursor({ rootFrameId: root });
  const checkpoint = await ledger.checkpoints.create({
    checkpointId: "checkpoint-repair",
    rootFrameId: root,
    branchId: root,
    reason: "pre_repair",
    workspaceTreeId: tree.treeId,
    autoEventCursor: cursor,
  });
  return { directory, checkpoint, repair: { ...repairFields, checkpointId: checkpoint.checkpointId } };
}

const repairFields = {
  runId: "run-1",
  repairRunId: "repair-1",
  idempotencyKey: "repair-1:start",
  findingIds: ["finding-1"],
  beforeVersionIds: ["version-1"],
};

/** An empty action group in the run's turn, bound to the open repair. */
export async function bindNewGroup(
  ledger: TestLedger,
  root: string,
  kind: "native_tools" | "code" = "native_tools",
) {
  const group = await ledger.actions.appendGroup({
    rootFrameId: root,
    branchId: root,
    turnId: "turn-1",
    kind,
    assistantContent: "bounded repair",
  });
  await ledger.repairs.bindGroup({
    repairRunId: "repair-1",
    actionGroupId: group.groupId,
    idempotencyKey: `repair-1:bind:${group.groupId}`,
  });
  return group;
}

export const proposal = {
  type: "proposed",
  actionId: "repair-write",
  toolCallId: "repair-write",
  canonicalArguments: { path: "result.txt", content: "repaired\n" },
  sideEffectClass: "workspace_write",
  resourceKeys: ["workspace:result.txt"],
} as const;

/** What a tab killed in the middle of a repair leaves: a proposal without a result, or not even a group. */
export async function crashMidRepair(
  ledger: TestLedger,
  root: string,
  { bindLedger }: { bindLedger: boolean },
) {
  const { repair } = await reachRepair(ledger, root, "daemon-DEAD");
  await ledger.repairs.start(repair);
  if (!bindLedger) return;
  const group = await bindNewGroup(ledger, root);
  await ledger.actions.appendEvent({ groupId: group.groupId, ...proposal });
}
