import { actions } from "./actions.ts";
import { artifacts } from "./artifacts.ts";
import { attempts } from "./attempts.ts";
import { audits } from "./audits.ts";
import { branches } from "./branches.ts";
import { checkpoints } from "./checkpoints.ts";
import type { CommandDefinition } from "./command.ts";
import { deliveries } from "./deliveries.ts";
import { events } from "./events.ts";
import { frames } from "./frames.ts";
import { messages } from "./messages.ts";
import { projects } from "./projects.ts";
import { recovery } from "./recovery.ts";
import { repairs } from "./repairs.ts";
import { reviews } from "./reviews.ts";
import { runs } from "./runs.ts";
import { settings } from "./settings.ts";
import { verification } from "./verification.ts";
import { workspace } from "./workspace.ts";

/** Every command there is, by family. The typed client and the worker's dispatcher both follow from it. */
const registry = {
  projects,
  frames,
  branches,
  checkpoints,
  settings,
  runs,
  reviews,
  repairs,
  actions,
  attempts,
  artifacts,
  messages,
  deliveries,
  workspace,
  events,
  audits,
  recovery,
  verification,
} satisfies Record<string, Record<string, CommandDefinition>>;

export type Registry = typeof registry;
type FamilyName = keyof Registry;

/** The names on the wire: `runs.start`, `reviews.complete`, … */
export const commandNames: readonly string[] = Object.entries(registry).flatMap(([family, commands]) =>
  Object.keys(commands).map((name) => `${family}.${name}`),
);

/** The definition of a command by its name on the wire, or undefined. */
export function findCommand(name: string): CommandDefinition | undefined {
  const [family = "", command = ""] = name.split(".");
  if (!Object.hasOwn(registry, family)) return undefined;
  const commands: Record<string, CommandDefinition> = registry[family as FamilyName];
  return Object.hasOwn(commands, command) ? commands[command] : undefined;
}
