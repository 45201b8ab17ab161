import { describe, expect, test } from "vitest";
import { type Sha256, sha256 } from "../../src/proof/index.ts";
import type { RestorePlan } from "../../src/protocol/workspace.ts";
import { planRestore } from "../../worker/files/restore-plan.ts";
import { encodeTree, treeEntry } from "../../worker/files/tree.ts";

/** Contents by path; each content is its own blob. */
type Files = Readonly<Record<string, string>>;

const ONE = sha256("one");
const TWO = sha256("two");
const SIX = sha256("six");

const nothing = { writes: [], deletes: [], conflicts: [], unchanged: [], preservedUntracked: [] };

/** The rows of spec/session_store 3.4 for one path `f`: what target, workspace and baseline have. */
describe("with a baseline", () => {
  test.for<
    [target: string | null, observed: string | null, baseline: string | null, plan: Partial<RestorePlan>]
  >([
    [null, null, null, {}],
    [null, null, "one", {}],
    [null, "one", null, { preservedUntracked: ["f"] }],
    [null, "one", "one", { deletes: ["f"] }],
    [null, "two", "one", { conflicts: [conflict(ONE, TWO, null)] }],
    ["one", "one", "one", { unchanged: ["f"] }],
    ["one", "one", "two", { unchanged: ["f"] }],
    ["one", "one", null, { unchanged: ["f"] }],
    ["one", "two", "six", { conflicts: [conflict(SIX, TWO, ONE)] }],
    ["one", "two", "one", { conflicts: [conflict(ONE, TWO, ONE)] }],
    ["one", "two", null, { conflicts: [conflict(null, TWO, ONE)] }],
    ["one", null, "two", { conflicts: [conflict(TWO, null, ONE)] }],
    ["one", null, "one", { conflicts: [conflict(ONE, null, ONE)] }],
    ["one", null, null, { writes: [write("create", null, ONE)] }],
    ["one", "two", "two", { writes: [write("replace", TWO, ONE)] }],
  ])("target %j, workspace %j, baseline %j: %j", ([target, observed, baseline, expected]) => {
    expect(planned(at(target), at(observed), at(baseline))).toEqual({ ...nothing, ...expected });
  });
});

describe("without a baseline nothing is edited", () => {
  test.for<[target: string | null, observed: string | null, plan: Partial<RestorePlan>]>([
    [null, null, {}],
    [null, "one", { preservedUntracked: ["f"] }],
    ["one", "one", { unchanged: ["f"] }],
    ["one", "two", { writes: [write("replace", TWO, ONE)] }],
    ["one", null, { writes: [write("create", null, ONE)] }],
  ])("target %j, workspace %j: %j", ([target, observed, expected]) => {
    expect(planned(at(target), at(observed), null)).toEqual({ ...nothing, ...expected });
  });
});

describe("what is in the way is a conflict", () => {
  const skipped = (path: string) => ({ skipped: [{ path, reason: "too_large" }] });

  test.for<[string, { skipped?: { path: string; reason: string }[]; directories?: string[]; files?: Files }]>(
    [
      ["the path was skipped (W4)", skipped("d/f")],
      ["a directory above it was skipped", skipped("d")],
      ["the path was skipped under another spelling", { skipped: [{ path: "d/f", reason: "invalid_name" }] }],
      ["the path is a directory, be it empty (W6)", { directories: ["d", "d/f"] }],
      ["a directory above it is a file (W6)", { files: { d: "two" } }],
    ],
  )("%s, with and without a baseline", ([, { files = {}, ...surroundings }]) => {
    const expected = [{ ...conflict(null, null, ONE), path: "d/f" }];
    for (const baseline of [null, {}]) {
      expect(planned({ "d/f": "one" }, files, baseline, surroundings)).toMatchObject({
        writes: [],
        conflicts: expected,
      });
    }
  });

  test("also when the path was only skipped for its decomposed spelling", () => {
    const plan = planned({ "\u00e9": "one" }, {}, null, skipped("e\u0301"));
    expect(plan).toMatchObject({ writes: [], conflicts: [{ path: "\u00e9" }] });
  });

  test("also for a file that should go and was skipped", () => {
    expect(planned({}, {}, { f: "one" }, skipped("f"))).toEqual({
      ...nothing,
      conflicts: [conflict(ONE, null, null)],
    });
  });

  test("and what was skipped elsewhere is not in the way", () => {
    const plan = planned({ "f/g": "one" }, {}, null, { ...skipped("f/g.txt"), directories: ["f"] });
    expect(plan).toMatchObject({ conflicts: [], writes: [{ path: "f/g" }] });
  });

  test("a directory where nothing should be is left alone", () => {
    expect(planned({}, { "f/g": "two" }, { f: "one" }, { directories: ["f"] })).toEqual({
      ...nothing,
      preservedUntracked: ["f/g"],
    });
  });
});

test("the lists are in code-point order and name the three trees", () => {
  const target = tree({ "\u{1f600}": "one", "\uffee": "one", b: "one", a: "two" });
  const baseline = tree({ y: "one", x: "one" });
  const seen = tree({ a: "two", y: "one", x: "one", "\u{1f601}": "one", "\uffef": "one" });
  const plan = planRestore(target, baseline, { ...seen, directories: [], spellings: new Map() });
  expect(plan).toEqual({
    targetTreeId: target.treeId,
    baselineTreeId: baseline.treeId,
    observedTreeId: seen.treeId,
    writes: ["b", "\uffee", "\u{1f600}"].map((path) => ({ ...write("create", null, ONE), path })),
    deletes: ["x", "y"],
    conflicts: [],
    unchanged: ["a"],
    preservedUntracked: ["\uffef", "\u{1f601}"],
  });
});

/** The plan without the ids of the trees. */
function planned(
  target: Files,
  observed: Files,
  baseline: Files | null,
  {
    skipped = [],
    directories = [],
  }: { skipped?: { path: string; reason: string }[]; directories?: string[] } = {},
) {
  const { targetTreeId, baselineTreeId, observedTreeId, ...plan } = planRestore(
    tree(target),
    baseline === null ? null : tree(baseline),
    { ...tree(observed), skipped, directories, spellings: new Map() },
  );
  return plan;
}

function tree(files: Files) {
  const entries = Object.entries(files).map(([path, text]) => treeEntry(path, sha256(text), text.length));
  return encodeTree(entries, []);
}

function at(content: string | null): Files {
  return content === null ? {} : { f: content };
}

function write(operation: "create" | "replace", fromBlob: Sha256 | null, toBlob: Sha256) {
  return { path: "f", operation, fromBlob, toBlob, size: 3 };
}

function conflict(baselineBlob: Sha256 | null, observedBlob: Sha256 | null, targetBlob: Sha256 | null) {
  return { path: "f", baselineBlob, observedBlob, targetBlob };
}
