import type {
  PlannedWrite,
  RestoreConflict,
  RestorePlan,
  Tree,
  TreeEntry,
} from "../../src/protocol/workspace.ts";
import type { Observation } from "./capture.ts";
import { ancestorsOf, compareCodePoints } from "./paths.ts";

/** One path in the three trees. Equal blobs are equal entries: all modes of trees are the same. */
interface Three {
  readonly target: TreeEntry | undefined;
  readonly observed: TreeEntry | undefined;
  readonly baseline: TreeEntry | undefined;
}

type Outcome = "nothing" | "unchanged" | "delete" | "create" | "replace" | "conflict";

/**
 * The three-way plan of spec/session_store 3.4, in code-point order of the paths. Two rules are added to its table:
 * a path that the workspace has but capture skipped is a conflict (W4), and so is one where a file would have to take
 * a directory's place or lie below a file (W6), also an empty directory.
 */
export function planRestore(target: Tree, baseline: Tree | null, observed: Observation): RestorePlan {
  const wanted = byPath(target);
  const known = byPath(baseline ?? { entries: [] });
  const present = byPath(observed);
  const obstacles = new Obstacles(observed, present);
  const plan = {
    targetTreeId: target.treeId,
    baselineTreeId: baseline?.treeId ?? null,
    observedTreeId: observed.treeId,
    writes: [] as PlannedWrite[],
    deletes: [] as string[],
    conflicts: [] as RestoreConflict[],
    unchanged: [] as string[],
    preservedUntracked: observed.entries
      .map(({ path }) => path)
      .filter((path) => !wanted.has(path) && !known.has(path)),
  };
  const paths = [...new Set([...wanted.keys(), ...known.keys()])].sort(compareCodePoints);
  for (const path of paths) {
    const three = { target: wanted.get(path), observed: present.get(path), baseline: known.get(path) };
    const outcome = decide(three, baseline !== null, () => obstacles.block(path, three.target !== undefined));
    switch (outcome) {
      case "create":
      case "replace":
        plan.writes.push(write(path, outcome, three));
        break;
      case "delete":
        plan.deletes.push(path);
        break;
      case "conflict":
        plan.conflicts.push(conflict(path, three));
        break;
      case "unchanged":
        plan.unchanged.push(path);
        break;
      case "nothing":
        break;
    }
  }
  return plan;
}

function decide(
  { target, observed, baseline }: Three,
  hasBaseline: boolean,
  isBlocked: () => boolean,
): Outcome {
  if (target !== undefined && observed?.blob === target.blob) return "unchanged";
  if (isBlocked()) return "conflict";
  const isEdited = hasBaseline && observed?.blob !== baseline?.blob;
  if (target === undefined) {
    if (observed === undefined || baseline === undefined) return "nothing";
    return isEdited ? "conflict" : "delete";
  }
  if (isEdited) return "conflict";
  return observed === undefined ? "create" : "replace";
}

/** What of a workspace stands in the way of a path without being a file in its tree. */
class Obstacles {
  readonly #skipped: ReadonlySet<string>;
  readonly #directories: ReadonlySet<string>;
  readonly #files: ReadonlyMap<string, TreeEntry>;

  constructor(observed: Observation, files: ReadonlyMap<string, TreeEntry>) {
    // A name that was skipped for its spelling is in the way of the composed one.
    this.#skipped = new Set(observed.skipped.map(({ path }) => path.normalize("NFC")));
    this.#directories = new Set(observed.directories);
    this.#files = files;
  }

  block(path: string, willBeFile: boolean): boolean {
    if (this.#skipped.has(path)) return true;
    if (willBeFile && this.#directories.has(path)) return true;
    for (const ancestor of ancestorsOf(path)) {
      if (this.#skipped.has(ancestor) || (willBeFile && this.#files.has(ancestor))) return true;
    }
    return false;
  }
}

function byPath({ entries }: Pick<Tree, "entries">): ReadonlyMap<string, TreeEntry> {
  return new Map(entries.map((entry) => [entry.path, entry]));
}

function write(
  path: string,
  operation: PlannedWrite["operation"],
  { target, observed }: Three,
): PlannedWrite {
  if (target === undefined) throw new Error("a write without a target");
  return { path, operation, fromBlob: observed?.blob ?? null, toBlob: target.blob, size: target.size };
}

function conflict(path: string, { target, observed, baseline }: Three): RestoreConflict {
  return {
    path,
    baselineBlob: baseline?.blob ?? null,
    observedBlob: observed?.blob ?? null,
    targetBlob: target?.blob ?? null,
  };
}
