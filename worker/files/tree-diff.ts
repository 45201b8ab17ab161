import type { Tree, TreeDiff } from "../../src/protocol/workspace.ts";
import { compareCodePoints } from "./paths.ts";

/** What became of the paths from one tree to another (spec/session_store 3.5), in code-point order. */
export function diffTrees(from: Pick<Tree, "entries">, to: Pick<Tree, "entries">): TreeDiff {
  const before = new Map(from.entries.map(({ path, blob }) => [path, blob]));
  const after = new Map(to.entries.map(({ path, blob }) => [path, blob]));
  const earlier = [...before.keys()].sort(compareCodePoints);
  const later = [...after.keys()].sort(compareCodePoints);
  return {
    added: later.filter((path) => !before.has(path)),
    changed: later.filter((path) => before.has(path) && before.get(path) !== after.get(path)),
    removed: earlier.filter((path) => !after.has(path)),
    unchanged: later.filter((path) => before.get(path) === after.get(path)),
  };
}
