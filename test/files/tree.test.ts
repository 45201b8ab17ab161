import { describe, expect, test as pureTest } from "vitest";
import { canonicalJson, type Sha256, sha256 } from "../../src/proof/index.ts";
import { blobsOfTree, encodeTree, parseTree, treeEntry } from "../../worker/files/tree.ts";
import { diffTrees } from "../../worker/files/tree-diff.ts";
import { blobPath, remove, test, writeFiles } from "./place.ts";

const CANDIDATE = "candidate\n";
const BLOB = sha256(CANDIDATE);
const EMPTY_TREE = "d7790d1a20acc201fcb8742a2dbc8aae10d8ac88130b1dccc41d99cb5ad300e1" as Sha256;
const ONE_FILE_TREE = "4e82827f20187d4fb475a8b9768290e423d52c81ecf7acd96db7f8077153c17b" as Sha256;

const entry = (path: string, blob = BLOB, size = 10) => treeEntry(path, blob, size);

describe("a manifest", () => {
  pureTest("has the ids of the spec's vectors", () => {
    expect(encodeTree([], []).treeId).toBe(EMPTY_TREE);
    const { treeId, manifest } = encodeTree([entry("result.txt")], []);
    expect(treeId).toBe(ONE_FILE_TREE);
    expect(manifest).toBe(
      `{"entries":[{"blob":"${BLOB}","mode":420,"path":"result.txt","size":10}],"skipped":[],"version":1}`,
    );
  });

  pureTest(
    "is in code-point order, entries by path and skipped by path and reason, however it was given",
    () => {
      const entries = [entry("\u{1f600}"), entry("\uffee"), entry("a/b"), entry("a.b"), entry("Z")];
      const skipped = [
        { path: "x", reason: "unreadable" },
        { path: "\u{1f600}x", reason: "excluded" },
        { path: "x", reason: "too_large" },
        { path: "\ue000", reason: "excluded" },
      ];
      const tree = encodeTree(entries, skipped);
      expect(tree.entries.map(({ path }) => path)).toEqual(["Z", "a.b", "a/b", "\uffee", "\u{1f600}"]);
      expect(tree.skipped.map(({ path, reason }) => `${path} ${reason}`)).toEqual([
        "x too_large",
        "x unreadable",
        "\ue000 excluded",
        "\u{1f600}x excluded",
      ]);
      expect(encodeTree(entries.toReversed(), skipped.toReversed()).treeId).toBe(tree.treeId);
      expect(parseTree(tree.manifest)).toEqual({
        treeId: tree.treeId,
        entries: tree.entries,
        skipped: tree.skipped,
      });
    },
  );

  pureTest("covers what was skipped", () => {
    const skipped = [{ path: "big.bin", reason: "too_large" }];
    expect(encodeTree([entry("result.txt")], skipped).treeId).not.toBe(ONE_FILE_TREE);
  });

  pureTest("names each blob once", () => {
    const other = sha256("other");
    expect(blobsOfTree({ entries: [entry("a"), entry("b"), entry("c", other, 5)] })).toEqual(
      new Set([BLOB, other]),
    );
  });

  pureTest.for([
    ["a path that leads out", [entry("../a")], []],
    ["a path that is not in NFC", [entry("cafe\u0301")], []],
    ["a path with backslashes", [entry("a\\b")], []],
    ["a path twice", [entry("a"), entry("a", sha256("b"), 1)], []],
    ["a file that is a directory too", [entry("a"), entry("a.b"), entry("a/b/c")], []],
    ["a blob that is no digest", [{ ...entry("a"), blob: "../../x" as Sha256 }], []],
    ["a size below zero", [entry("a", BLOB, -1)], []],
    ["a size that is no integer", [entry("a", BLOB, 1.5)], []],
    ["another mode", [{ ...entry("a"), mode: 493 as 420 }], []],
    ["a reason of the operating system's", [], [{ path: "a", reason: "stat: /home/me: denied" }]],
    ["a skipped path with a lone surrogate", [], [{ path: "\ud800", reason: "excluded" }]],
  ] as const)("refuses %s", ([, entries, skipped]) => {
    expect(() => encodeTree(entries, skipped)).toThrow(
      expect.objectContaining({ name: "ValidationError", code: "invalid_tree" }),
    );
    const stored = canonicalOrPlain({ version: 1, entries, skipped });
    expect(() => parseTree(stored)).toThrow(
      expect.objectContaining({ name: "IntegrityError", code: "tree_malformed" }),
    );
  });

  pureTest.for([
    ["no JSON", "{"],
    ["nothing", ""],
    ["null", "null"],
    ["another version", '{"entries":[],"skipped":[],"version":2}'],
    ["a missing list", '{"entries":[],"version":1}'],
    ["a surplus field", '{"entries":[],"note":1,"skipped":[],"version":1}'],
    ["a field twice", '{"entries":[],"entries":[],"skipped":[],"version":1}'],
    ["white space", '{"entries": [],"skipped":[],"version":1}'],
    ["another order of fields", '{"version":1,"entries":[],"skipped":[]}'],
    ["another order of paths", encodeTree([entry("a"), entry("b")], []).manifest.replace('"a"', '"c"')],
    ["a prototype", '{"__proto__":{},"entries":[],"skipped":[],"version":1}'],
  ])("is not read with %s", ([, text]) => {
    expect(() => parseTree(text ?? "")).toThrow(expect.objectContaining({ code: "tree_malformed" }));
  });

  pureTest("differs from another by paths", () => {
    const other = sha256("other");
    const from = { entries: [entry("gone"), entry("kept"), entry("\uffee"), entry("\u{1f600}")] };
    const to = {
      entries: [entry("\u{1f600}", other, 5), entry("kept"), entry("\uffee", other, 5), entry("new")],
    };
    expect(diffTrees(from, to)).toEqual({
      added: ["new"],
      changed: ["\uffee", "\u{1f600}"],
      removed: ["gone"],
      unchanged: ["kept"],
    });
  });
});

describe("a tree in the store", () => {
  test("is a blob under its id", async ({ place: { files } }) => {
    const hold = await files.hold();
    await files.put(hold, new TextEncoder().encode(CANDIDATE));
    const tree = await files.putTree(hold, [entry("result.txt")], []);
    expect(tree.treeId).toBe(ONE_FILE_TREE);
    expect(await files.getTree(ONE_FILE_TREE)).toEqual(tree);
    expect(await files.text(ONE_FILE_TREE)).toBe(encodeTree([entry("result.txt")], []).manifest);
    expect(await files.verifyTree(ONE_FILE_TREE)).toBe(true);
  });

  test("is not stored while a blob of it is missing, damaged or of another size", async ({
    place: { files, storage },
  }) => {
    const hold = await files.hold();
    await expect(files.putTree(hold, [entry("a")], [])).rejects.toMatchObject({
      code: "blob_missing",
      details: { path: "a", blob: BLOB },
    });
    await files.put(hold, new TextEncoder().encode(CANDIDATE));
    await expect(files.putTree(hold, [entry("a", BLOB, 11)], [])).rejects.toMatchObject({
      code: "blob_damaged",
    });
    await writeFiles(storage, { [blobPath(BLOB)]: "x" });
    await expect(files.putTree(await files.hold(), [entry("a")], [])).rejects.toMatchObject({
      code: "blob_damaged",
    });
    expect(await files.has(encodeTree([entry("a")], []).treeId)).toBe(false);
  });

  test("keeps blobs that were there before from collections", async ({ place: { files } }) => {
    const before = await files.hold();
    await files.put(before, new TextEncoder().encode(CANDIDATE));
    const hold = await files.hold();
    const { treeId } = await files.putTree(hold, [entry("a")], []);
    await files.release(before);
    await files.collect([]);
    expect(await files.verifyTree(treeId)).toBe(true);
  });

  test("tells what is missing or damaged of it, and verifying never throws", async ({
    place: { files, storage },
  }) => {
    const hold = await files.hold();
    const texts = ["one", "two", "three"];
    for (const text of texts) await files.put(hold, new TextEncoder().encode(text));
    const entries = texts.map((text) => entry(`${text}.txt`, sha256(text), text.length));
    const { treeId } = await files.putTree(hold, [...entries, entry("copy.txt", sha256("two"), 3)], []);
    expect(await files.checkTree(treeId)).toEqual([]);

    await remove(storage, blobPath(sha256("two")));
    await writeFiles(storage, { [blobPath(sha256("three"))]: "thref" });
    expect(await files.checkTree(treeId)).toEqual([
      { path: "copy.txt", blob: sha256("two"), state: "missing" },
      { path: "three.txt", blob: sha256("three"), state: "damaged" },
      { path: "two.txt", blob: sha256("two"), state: "missing" },
    ]);
    expect(await files.verifyTree(treeId)).toBe(false);

    await writeFiles(storage, { [blobPath(treeId)]: "{}" });
    expect(await files.checkTree(treeId)).toEqual([{ path: null, blob: treeId, state: "damaged" }]);
    await expect(files.getTree(treeId)).rejects.toMatchObject({
      name: "IntegrityError",
      code: "tree_damaged",
    });
    expect(await files.verifyTree(treeId)).toBe(false);

    await remove(storage, blobPath(treeId));
    expect(await files.checkTree(treeId)).toEqual([{ path: null, blob: treeId, state: "missing" }]);
    await expect(files.getTree(treeId)).rejects.toMatchObject({
      name: "NotFoundError",
      code: "tree_missing",
    });
    for (const id of [treeId, "../x" as Sha256, "" as Sha256]) expect(await files.verifyTree(id)).toBe(false);
  });

  test("is not any blob that is asked for as one", async ({ place: { files } }) => {
    await files.put(await files.hold(), new TextEncoder().encode(CANDIDATE));
    await expect(files.getTree(BLOB)).rejects.toMatchObject({ code: "tree_malformed" });
    expect(await files.verifyTree(BLOB)).toBe(false);
  });
});

function canonicalOrPlain(value: unknown): string {
  try {
    return canonicalJson(value);
  } catch {
    return JSON.stringify(value);
  }
}
