import fc from "fast-check";
import { describe, expect } from "vitest";
import { type Sha256, sha256 } from "../../src/proof/index.ts";
import { anyContents, entriesOf } from "./contents.ts";
import {
  blobPath,
  type Contents,
  empty,
  fileAt,
  type Place,
  readFiles,
  remove,
  test,
  writeFiles,
} from "./place.ts";

describe("a restore", () => {
  test("writes, replaces and deletes what the plan says, and leaves the rest", async ({ place }) => {
    const { files, workspace } = place;
    await writeFiles(workspace, { "a.txt": "old", "d/gone.txt": "gone", "same.txt": "same" });
    const target = await stored(place, { "a.txt": "new", "d/e/f.txt": "deep", "same.txt": "same" });
    const baseline = await capturedNow(place);
    await writeFiles(workspace, { "mine.txt": "untracked" });

    const plan = {
      targetTreeId: target,
      baselineTreeId: baseline,
      observedTreeId: (await files.observe(workspace)).treeId,
      writes: [
        { path: "a.txt", operation: "replace", fromBlob: sha256("old"), toBlob: sha256("new"), size: 3 },
        { path: "d/e/f.txt", operation: "create", fromBlob: null, toBlob: sha256("deep"), size: 4 },
      ],
      deletes: ["d/gone.txt"],
      conflicts: [],
      unchanged: ["same.txt"],
      preservedUntracked: ["mine.txt"],
    };
    expect(await files.previewRestore(workspace, target, baseline)).toEqual(plan);
    expect(await files.restore(workspace, target, baseline)).toEqual({ applied: true, plan });
    expect(await readFiles(workspace)).toEqual({
      "a.txt": "new",
      "d/e/f.txt": "deep",
      "mine.txt": "untracked",
      "same.txt": "same",
    });
    await remove(workspace, "mine.txt");
    expect((await files.observe(workspace)).treeId).toBe(target);
  });

  test("from any tree to any other: either all of it or, where something is in the way, nothing", async ({
    place,
  }) => {
    const { files, workspace } = place;
    await fc.assert(
      fc.asyncProperty(anyContents(), anyContents(), async (from, to) => {
        await empty(workspace);
        await writeFiles(workspace, from);
        const baseline = await capturedNow(place);
        const target = await stored(place, to);
        const restored = await files.restore(workspace, target, baseline);
        expect(await readFiles(workspace)).toEqual(restored.applied ? to : from);
        // A file where there was a directory, or the reverse, is the only thing that can be in the way here.
        expect(restored.applied).toBe(!clash(from, to));
      }),
      { numRuns: 20 },
    );
  });

  test("never loses an edit that was made since the baseline", async ({ place }) => {
    const { files, workspace } = place;
    await fc.assert(
      fc.asyncProperty(anyContents(), anyContents(), anyContents(), async (from, edits, to) => {
        await empty(workspace);
        await writeFiles(workspace, from);
        const baseline = await capturedNow(place);
        const mine = compatible(from, edits);
        await writeFiles(workspace, mine);
        await files.restore(workspace, await stored(place, to), baseline);
        const after = await readFiles(workspace);
        for (const [path, content] of Object.entries(mine)) {
          if (from[path] !== content) expect(after[path]).toBe(content);
        }
      }),
      { numRuns: 20 },
    );
  });

  test("touches nothing when there is one conflict", async ({ place }) => {
    const { files, workspace } = place;
    await writeFiles(workspace, { "a.txt": "old", "b.txt": "old", "gone.txt": "gone" });
    const target = await stored(place, { "a.txt": "new", "b.txt": "new" });
    const baseline = await capturedNow(place);
    await writeFiles(workspace, { "b.txt": "edited" });
    const before = await readFiles(workspace);

    const restored = await files.restore(workspace, target, baseline);
    expect(restored).toMatchObject({
      applied: false,
      reason: "conflicts",
      plan: { conflicts: [{ path: "b.txt", observedBlob: sha256("edited") }], writes: [{ path: "a.txt" }] },
    });
    expect(await readFiles(workspace)).toEqual(before);
  });

  test.for<[string, Contents, Contents]>([
    ["a file is above the path", { d: "file" }, { "d/f.txt": "x" }],
    ["a directory has the path", { "f/g.txt": "x" }, { f: "file" }],
    ["a skipped file has the path", { ".env": "SECRET=1" }, { ".env": "SECRET=2" }],
    ["a skipped directory is above it", { "node_modules/x": "1" }, { "node_modules/x": "2" }],
  ])(
    "finds in the plan that %s, before an earlier file is replaced",
    async ([, present, wanted], { place }) => {
      const { files, workspace } = place;
      const target = await stored(place, { "a.txt": "new", ...wanted });
      await writeFiles(workspace, { "a.txt": "old", ...present });
      for (const baseline of [null, await stored(place, { "a.txt": "old" })]) {
        expect(await files.restore(workspace, target, baseline)).toMatchObject({
          applied: false,
          reason: "conflicts",
          plan: { conflicts: [{ path: Object.keys(wanted)[0] }] },
        });
        expect(await readFiles(workspace)).toEqual({ "a.txt": "old", ...present });
      }
    },
  );

  test("finds missing and damaged blobs before the first write, as a state", async ({ place }) => {
    const { files, workspace, storage } = place;
    await writeFiles(workspace, { "a.txt": "a" });
    const target = await stored(place, { "a.txt": "A", "b.txt": "lost", "c.txt": "damaged", "d.txt": "d" });
    await remove(storage, blobPath(sha256("lost")));
    await writeFiles(storage, { [blobPath(sha256("damaged"))]: "dAmaged" });

    const problems = [
      { path: "b.txt", blob: sha256("lost"), state: "missing" },
      { path: "c.txt", blob: sha256("damaged"), state: "damaged" },
    ];
    expect(await files.restore(workspace, target, null)).toMatchObject({
      applied: false,
      reason: "blobs_unavailable",
      problems,
    });
    expect(await files.materialise(target, workspace)).toEqual({
      applied: false,
      reason: "blobs_unavailable",
      problems,
    });
    expect(await readFiles(workspace)).toEqual({ "a.txt": "a" });

    // A blob that the workspace has as it should be is not needed.
    await writeFiles(workspace, { "b.txt": "lost", "c.txt": "damaged" });
    expect(await files.restore(workspace, target, null)).toMatchObject({ applied: true });
  });

  test("is refused without the manifests it needs", async ({ place }) => {
    const { files, workspace } = place;
    const absent = sha256("no tree");
    const target = await stored(place, { a: "a" });
    for (const [wanted, baseline] of [
      [absent, null],
      [target, absent],
    ] as const) {
      await expect(files.restore(workspace, wanted, baseline)).rejects.toMatchObject({
        code: "tree_missing",
        details: { treeId: absent },
      });
    }
  });

  test("writes to a file by the spelling that the workspace has for it", async ({ place }) => {
    const { files, workspace } = place;
    await writeFiles(workspace, { "e\u0301/cafe\u0301.txt": "old", "o\u0308": "gone" });
    const target = await stored(place, { "\u00e9/caf\u00e9.txt": "new" });
    const baseline = await capturedNow(place);
    expect(await files.restore(workspace, target, baseline)).toMatchObject({ applied: true });
    expect(await readFiles(workspace)).toEqual({ "e\u0301/cafe\u0301.txt": "new" });
  });
});

describe("while a restore is under way", () => {
  test("a file that was changed since it was observed stops it, and says how far it came", async ({
    place,
  }) => {
    const { files, workspace } = place;
    await writeFiles(workspace, { "a.txt": "old", "b.txt": "old", "gone.txt": "old" });
    const baseline = await capturedNow(place);
    const target = await stored(place, { "a.txt": "new", "b.txt": "new" });
    await files.changeBeforeWriting("a.txt", await fileAt(workspace, "b.txt"), "mine");

    await expect(files.restore(workspace, target, baseline)).rejects.toMatchObject({
      name: "LedgerConflictError",
      code: "workspace_changed",
      details: { path: "b.txt", written: ["a.txt"], deleted: [] },
    });
    expect(await readFiles(workspace)).toEqual({ "a.txt": "new", "b.txt": "mine", "gone.txt": "old" });
  });

  test("so does one that should be deleted, or has come into being", async ({ place }) => {
    const { files, workspace } = place;
    await writeFiles(workspace, { "a.txt": "old", "gone.txt": "old" });
    const hold = await files.hold();
    const observed = await files.capture(workspace, hold);
    await writeFiles(workspace, { "gone.txt": "mine" });
    const target = await stored(place, { "a.txt": "new" });
    const details = { path: "gone.txt", written: ["a.txt"], deleted: [] };
    await expect(files.restore(workspace, target, observed.treeId, { observed })).rejects.toMatchObject({
      code: "workspace_changed",
      details,
    });

    const wider = await stored(place, { "gone.txt": "old", "new.txt": "new" });
    await writeFiles(workspace, { "a.txt": "old", "new.txt": "mine" });
    await expect(files.restore(workspace, wider, null, { observed })).rejects.toMatchObject({
      code: "workspace_changed",
      details: { path: "new.txt" },
    });
    expect(await readFiles(workspace)).toEqual({ "a.txt": "old", "gone.txt": "mine", "new.txt": "mine" });
  });

  test("what a capture has just seen need not be read again", async ({ place }) => {
    const { files, workspace } = place;
    await writeFiles(workspace, { "a.txt": "old", "steady.txt": "steady" });
    const observed = await files.capture(workspace, await files.hold());
    const target = await stored(place, { "a.txt": "new", "steady.txt": "steady" });
    await files.failReading("steady.txt", "NotReadableError");
    expect(await files.restore(workspace, target, observed.treeId, { observed })).toMatchObject({
      applied: true,
    });
    expect(await readFiles(workspace)).toEqual({ "a.txt": "new", "steady.txt": "steady" });
  });

  test("a file that does not read back as it was written ends it", async ({ place }) => {
    const { files, workspace } = place;
    const target = await stored(place, { "a.txt": "new" });
    await files.turnWorkspaceBits();
    await expect(files.restore(workspace, target, null)).rejects.toMatchObject({
      name: "StorageUnavailableError",
      code: "write_not_verified",
      details: { path: "a.txt", written: [] },
    });
  });

  test("a file that can't be written ends it typed, and a new one is not left empty", async ({ place }) => {
    const { files, workspace } = place;
    await writeFiles(workspace, { "a.txt": "old" });
    const target = await stored(place, { "a.txt": "new", "b.txt": "new" });
    await files.failWriting("b.txt", "NotReadableError");
    await expect(files.restore(workspace, target, null)).rejects.toMatchObject({
      name: "StorageUnavailableError",
      code: "files_failed",
      details: { path: "b.txt", written: ["a.txt"], deleted: [] },
    });
    expect(await readFiles(workspace)).toEqual({ "a.txt": "new" });
  });
});

describe("materialising", () => {
  test("writes all of a tree, or some paths, over what is there, and deletes nothing", async ({ place }) => {
    const { files, workspace } = place;
    const treeId = await stored(place, { "a.txt": "a", "b/c.txt": "c", "d.txt": "d" });
    await writeFiles(workspace, { "a.txt": "mine", "other.txt": "mine" });
    expect(await files.materialise(treeId, workspace, ["b\\c.txt", "a.txt"])).toEqual({
      applied: true,
      written: ["a.txt", "b/c.txt"],
    });
    expect(await readFiles(workspace)).toEqual({ "a.txt": "a", "b/c.txt": "c", "other.txt": "mine" });
    expect(await files.materialise(treeId, workspace)).toMatchObject({ applied: true });
    expect(await readFiles(workspace)).toMatchObject({ "d.txt": "d", "other.txt": "mine" });
  });

  test("refuses paths that the tree does not have, and those that lead out", async ({ place }) => {
    const { files, workspace } = place;
    const treeId = await stored(place, { "a.txt": "a" });
    await expect(files.materialise(treeId, workspace, ["a.txt", "b.txt"])).rejects.toMatchObject({
      code: "path_not_in_tree",
      details: { path: "b.txt" },
    });
    await expect(files.materialise(treeId, workspace, ["../a.txt"])).rejects.toMatchObject({
      code: "invalid_path",
      details: { field: "paths[0]" },
    });
    expect(await readFiles(workspace)).toEqual({});
  });

  test("a directory in the way is a typed refusal", async ({ place }) => {
    const { files, workspace } = place;
    await writeFiles(workspace, { "b/c.txt": "mine" });
    const treeId = await stored(place, { "a.txt": "a", b: "file" });
    await expect(files.materialise(treeId, workspace)).rejects.toMatchObject({
      name: "LedgerConflictError",
      code: "path_clash",
      details: { path: "b", written: ["a.txt"] },
    });
  });

  test("a large file passes in pieces", async ({ place }) => {
    const { files, workspace } = place;
    const hold = await files.hold();
    const { stored: blob } = await files.putGenerated(hold, 3, 1_048_576);
    const entry = { path: "big.bin", blob: blob.sha256, size: blob.sizeBytes, mode: 420 as const };
    const { treeId } = await files.putTree(hold, [entry], []);
    expect(await files.materialise(treeId, workspace)).toMatchObject({ applied: true });
    expect((await files.observe(workspace)).treeId).toBe(treeId);
  });
});

/** Stores a tree of these files, without a workspace. */
async function stored({ files }: Place, contents: Contents): Promise<Sha256> {
  const hold = await files.hold();
  for (const content of Object.values(contents)) await files.put(hold, new TextEncoder().encode(content));
  return (await files.putTree(hold, entriesOf(contents), [])).treeId;
}

async function capturedNow({ files, workspace }: Place): Promise<Sha256> {
  return (await files.capture(workspace, await files.hold())).treeId;
}

/** Whether a path of the one is a directory of the other. */
function clash(from: Contents, to: Contents): boolean {
  const under = (paths: Contents, path: string) =>
    Object.keys(paths).some((other) => other.startsWith(`${path}/`));
  return (
    Object.keys(to).some((path) => under(from, path)) || Object.keys(from).some((path) => under(to, path))
  );
}

/** Those edits that can be made: the path is not a directory, and no file is above it. */
function compatible(files: Contents, edits: Contents): Contents {
  return Object.fromEntries(Object.entries(edits).filter(([path]) => !clash(files, { [path]: "" })));
}
