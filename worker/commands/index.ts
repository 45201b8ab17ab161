import type { CommandDefinition } from "../../src/protocol/command.ts";
import type { Registry } from "../../src/protocol/registry.ts";
import { appendActionEvent } from "./actions/append-event.ts";
import { appendGroup, appendToolGroup } from "./actions/append-group.ts";
import { getGroup, listGroups } from "./actions/read.ts";
import { getArtifact, listArtifacts, listVersions, openVersion } from "./artifacts/read.ts";
import { saveArtifact } from "./artifacts/save.ts";
import { finishAttempt, listAttempts, recordMilestone } from "./attempts/advance.ts";
import { allocateAttempt } from "./attempts/allocate.ts";
import { listAudits } from "./audits/list.ts";
import { ensureBranch } from "./branches/ensure.ts";
import { forkBranch } from "./branches/fork.ts";
import { getBranch } from "./branches/get.ts";
import { listBranches } from "./branches/list.ts";
import { previewRevert, revertBranch } from "./branches/revert.ts";
import { undoRevert } from "./branches/undo.ts";
import { createCheckpoint } from "./checkpoints/create.ts";
import { getCheckpoint } from "./checkpoints/get.ts";
import { listCheckpoints } from "./checkpoints/list.ts";
import type { Context, Handler, TaskContext, TaskHandler } from "./command.ts";
import { commitDelivery } from "./deliveries/commit.ts";
import { getDelivery } from "./deliveries/get.ts";
import { buildManifest } from "./deliveries/manifest.ts";
import { publishDelivery } from "./deliveries/publish.ts";
import { eventCursor } from "./events/cursor.ts";
import { listEvents } from "./events/list.ts";
import { createFrame } from "./frames/create.ts";
import { addMessage } from "./messages/add.ts";
import { listMessages } from "./messages/list.ts";
import { updateMessageMetadata } from "./messages/update-metadata.ts";
import { createProject } from "./projects/create.ts";
import { listProjects } from "./projects/list.ts";
import { reconcileCandidates, settleCandidate } from "./recovery/reconcile-candidates.ts";
import { reconcileReverts, releaseBarrier } from "./recovery/reconcile-reverts.ts";
import { reconcileRuns } from "./recovery/reconcile-runs.ts";
import { reconcileStartup } from "./recovery/reconcile-startup.ts";
import { bindGroup } from "./repairs/bind-group.ts";
import { completeRepair } from "./repairs/complete.ts";
import { startRepair } from "./repairs/start.ts";
import { completeReview } from "./reviews/complete.ts";
import { startReview } from "./reviews/start.ts";
import { projectRun } from "./runs/project.ts";
import { recordCandidate } from "./runs/record-candidate.ts";
import { startRun } from "./runs/start.ts";
import { takeOverRun } from "./runs/take-over.ts";
import { terminateRun } from "./runs/terminate.ts";
import { deleteSetting } from "./settings/delete.ts";
import { getSetting } from "./settings/get.ts";
import { setSetting } from "./settings/set.ts";
import { verifyLedger } from "./verification/verify.ts";
import {
  captureWorkspace,
  collectGarbage,
  diffWorkspace,
  previewWorkspace,
  readFile,
  readTree,
  restoreWorkspace,
  verifyWorkspace,
} from "./workspace/workspace.ts";

type Handlers = {
  readonly [Family in keyof Registry]: {
    readonly [Name in keyof Registry[Family]]: Registry[Family][Name] extends CommandDefinition
      ? Handler<Registry[Family][Name]> | TaskHandler<Registry[Family][Name]>
      : never;
  };
};

/** What carries out each command of the registry; the compiler misses none. */
const handlers: Handlers = {
  projects: { create: createProject, list: listProjects },
  frames: { create: createFrame },
  branches: {
    ensure: ensureBranch,
    fork: forkBranch,
    previewRevert: { task: previewRevert },
    revert: { task: revertBranch },
    undo: { task: undoRevert },
    get: getBranch,
    list: listBranches,
  },
  checkpoints: { create: createCheckpoint, get: getCheckpoint, list: listCheckpoints },
  settings: { set: setSetting, get: getSetting, delete: deleteSetting },
  runs: {
    start: startRun,
    takeOver: takeOverRun,
    recordCandidate,
    terminate: terminateRun,
    project: projectRun,
  },
  reviews: { start: startReview, complete: completeReview },
  repairs: { start: { task: startRepair }, bindGroup, complete: completeRepair },
  actions: { appendGroup, appendEvent: appendActionEvent, appendToolGroup, getGroup, listGroups },
  attempts: { allocate: allocateAttempt, record: recordMilestone, finish: finishAttempt, list: listAttempts },
  artifacts: {
    save: { task: saveArtifact },
    get: getArtifact,
    open: { task: openVersion },
    list: listArtifacts,
    versions: listVersions,
  },
  messages: { add: addMessage, updateMetadata: updateMessageMetadata, list: listMessages },
  deliveries: {
    buildManifest: { task: buildManifest },
    commit: commitDelivery,
    publish: publishDelivery,
    get: getDelivery,
  },
  workspace: {
    capture: { task: captureWorkspace },
    preview: { task: previewWorkspace },
    restore: { task: restoreWorkspace },
    diff: { task: diffWorkspace },
    verify: { task: verifyWorkspace },
    tree: { task: readTree },
    read: { task: readFile },
    collect: { task: collectGarbage },
  },
  events: { cursor: eventCursor, list: listEvents },
  audits: { list: listAudits },
  recovery: {
    reconcileRuns,
    reconcileCandidates,
    settleCandidate,
    reconcileReverts: { task: reconcileReverts },
    releaseBarrier,
    reconcileStartup,
  },
  verification: { verify: verifyLedger },
};

/** A handler as the dispatcher calls it: its input was parsed by the command's own schema. */
export type ParsedHandler =
  | ((input: unknown, context: Context) => unknown)
  | { readonly task: (input: unknown, context: TaskContext) => Promise<unknown> };

export function findHandler(name: string): ParsedHandler | undefined {
  const [family = "", command = ""] = name.split(".");
  if (!Object.hasOwn(handlers, family)) return undefined;
  const commands = handlers[family as keyof Handlers] as Readonly<Record<string, ParsedHandler>>;
  return Object.hasOwn(commands, command) ? commands[command] : undefined;
}
