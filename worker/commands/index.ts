import type { CommandDefinition } from "../../src/protocol/command.ts";
import type { Registry } from "../../src/protocol/registry.ts";
import { listAudits } from "./audits/list.ts";
import { ensureBranch } from "./branches/ensure.ts";
import { forkBranch } from "./branches/fork.ts";
import { getBranch } from "./branches/get.ts";
import { listBranches } from "./branches/list.ts";
import { createCheckpoint } from "./checkpoints/create.ts";
import { getCheckpoint } from "./checkpoints/get.ts";
import { listCheckpoints } from "./checkpoints/list.ts";
import type { Context, Handler } from "./command.ts";
import { eventCursor } from "./events/cursor.ts";
import { listEvents } from "./events/list.ts";
import { createFrame } from "./frames/create.ts";
import { createProject } from "./projects/create.ts";
import { listProjects } from "./projects/list.ts";
import { reconcileRuns } from "./recovery/reconcile-runs.ts";
import { completeReview } from "./reviews/complete.ts";
import { startReview } from "./reviews/start.ts";
import { projectRun } from "./runs/project.ts";
import { recordCandidate } from "./runs/record-candidate.ts";
import { startRun } from "./runs/start.ts";
import { terminateRun } from "./runs/terminate.ts";
import { deleteSetting } from "./settings/delete.ts";
import { getSetting } from "./settings/get.ts";
import { setSetting } from "./settings/set.ts";
import { verifyLedger } from "./verification/verify.ts";

type Handlers = {
  readonly [Family in keyof Registry]: {
    readonly [Name in keyof Registry[Family]]: Registry[Family][Name] extends CommandDefinition
      ? Handler<Registry[Family][Name]>
      : never;
  };
};

/** What carries out each command of the registry; the compiler misses none. */
const handlers: Handlers = {
  projects: { create: createProject, list: listProjects },
  frames: { create: createFrame },
  branches: { ensure: ensureBranch, fork: forkBranch, get: getBranch, list: listBranches },
  checkpoints: { create: createCheckpoint, get: getCheckpoint, list: listCheckpoints },
  settings: { set: setSetting, get: getSetting, delete: deleteSetting },
  runs: { start: startRun, recordCandidate, terminate: terminateRun, project: projectRun },
  reviews: { start: startReview, complete: completeReview },
  events: { cursor: eventCursor, list: listEvents },
  audits: { list: listAudits },
  recovery: { reconcileRuns },
  verification: { verify: verifyLedger },
};

/** A handler as the dispatcher calls it: its input was parsed by the command's own schema. */
export type ParsedHandler = (input: unknown, context: Context) => unknown;

export function findHandler(name: string): ParsedHandler | undefined {
  const [family = "", command = ""] = name.split(".");
  if (!Object.hasOwn(handlers, family)) return undefined;
  const commands = handlers[family as keyof Handlers] as Readonly<Record<string, ParsedHandler>>;
  return Object.hasOwn(commands, command) ? commands[command] : undefined;
}
