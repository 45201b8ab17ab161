import * as z from "zod";
import type { Sha256 } from "../../src/proof/sha256.ts";
import { NotFoundError } from "../../src/protocol/errors.ts";
import { commandNames, findCommand } from "../../src/protocol/registry.ts";
import type { Files } from "../files/files.ts";
import type { Database } from "../storage/database.ts";

/** Every id in an input that must point to something is looked up before the command looks at anything else. */

const TREE = "tree";

interface Reference {
  readonly path: readonly string[];
  /** What the id points to, as the schema says: a run, a session, … */
  readonly to: string;
}

/** Answers whether the id is known. A run that lost its row is: the journal knows it, and it reads as damaged. */
const lookups: Readonly<Record<string, string>> = {
  project: byKey("projects", "project_id"),
  frame: byKey("frames", "frame_id"),
  session: "SELECT 1 FROM frames WHERE frame_id = ?1",
  branch: `${byKey("session_branches", "branch_id")} UNION ALL SELECT 1 FROM frames WHERE frame_id = ?1 AND parent_id IS NULL`,
  checkpoint: byKey("session_checkpoints", "checkpoint_id"),
  run: "SELECT 1 FROM auto_mode_runs WHERE run_id = ?1 UNION ALL SELECT 1 FROM journal WHERE run_id = ?1",
  review: "SELECT 1 FROM review_runs WHERE review_run_id = ?1",
  repair: "SELECT 1 FROM repair_runs WHERE repair_run_id = ?1",
  "action group": byKey("action_groups", "group_id"),
  attempt: byKey("execution_attempts", "attempt_id"),
  message: byKey("messages", "message_id"),
  delivery: byKey("completion_deliveries", "delivery_id"),
  artifact: byKey("artifacts", "artifact_id"),
  version: byKey("artifact_versions", "version_id"),
};

function byKey(table: string, key: string): string {
  const committed = `SELECT 1 FROM commitment_index WHERE table_name = '${table}' AND row_key = json_array(?1)`;
  return `SELECT 1 FROM ${table} WHERE ${key} = ?1 UNION ALL ${committed}`;
}

const referencesOfCommand = new Map(
  commandNames.map((name) => {
    const schema = findCommand(name)?.input;
    return [name, schema === undefined ? [] : [...referencesIn(schema, [])]] as const;
  }),
);

function* referencesIn(schema: z.core.$ZodType, path: readonly string[]): Generator<Reference> {
  const to = z.globalRegistry.get(schema)?.["references"];
  if (typeof to === "string") {
    yield { path, to };
    return;
  }
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case "object":
      for (const [name, member] of Object.entries(def.shape)) yield* referencesIn(member, [...path, name]);
      break;
    case "array":
      yield* referencesIn(def.element, [...path, "[]"]);
      break;
    case "optional":
    case "nullable":
    case "default":
      yield* referencesIn(def.innerType, path);
      break;
    case "pipe":
      yield* referencesIn(def.in, path);
      break;
  }
}

/** @throws NotFoundError names the field whose id points to nothing. */
export function assertReferences(database: Database, command: string, input: unknown): void {
  for (const { path, to } of referencesOfCommand.get(command) ?? []) {
    if (to === TREE) continue;
    for (const { field, id } of idsAt(input, path, "")) {
      if (database.value(lookups[to] ?? "", [id]) === undefined) throw notFound(command, to, field, id);
    }
  }
}

/** The same for workspace trees, which are files. @throws NotFoundError */
export async function assertTrees(files: Files, command: string, input: unknown): Promise<void> {
  for (const { path, to } of referencesOfCommand.get(command) ?? []) {
    if (to !== TREE) continue;
    for (const { field, id } of idsAt(input, path, "")) {
      if (!(await files.has(id as Sha256))) throw notFound(command, to, field, id);
    }
  }
}

function notFound(command: string, to: string, field: string, id: string): NotFoundError {
  const code = `${to.replace(" ", "_")}_not_found`;
  return new NotFoundError(code, `${command}: ${field}: there is no ${to} ${id}`, { field, id });
}

/** The ids under a path of field names, where `[]` stands for each item of a list. */
function* idsAt(
  value: unknown,
  path: readonly string[],
  field: string,
): Generator<{ field: string; id: string }> {
  const [step, ...rest] = path;
  if (value === undefined || value === null) return;
  if (step === undefined) {
    yield { field, id: String(value) };
  } else if (step === "[]") {
    for (const [index, item] of (value as unknown[]).entries())
      yield* idsAt(item, rest, `${field}[${index}]`);
  } else {
    yield* idsAt((value as Record<string, unknown>)[step], rest, field === "" ? step : `${field}.${step}`);
  }
}
