import fc from "fast-check";
import { describe, expect } from "vitest";
import { type Sha256, sha256 } from "../../src/proof/index.ts";
import { encodeTree, treeEntry } from "../../worker/files/tree.ts";
import { anyContents, entriesOf } from "./contents.ts";
import { blobPath, type Contents, empty, readFiles, remove, test, writeFiles } from "./place.ts";

const EMPTY_TREE = "d7790d1a20acc201fcb8742a2dbc8aae10d8ac88130b1dccc41d99cb5ad300e1";
const ONE_FILE_TREE = "4e82827f20187d4fb475a8b9768290e423d52c81ecf7acd96db7f8077153c17b";

describe("a captured workspace", () => {
  test("has the tree ids of the spec's vectors", async ({ place: { files, workspace } }) => {
    const hold = await files.hold();
    expect(await files.capture(workspace, hold)).toMatchObject({
      treeId: EMPTY_TREE,
      entries: [],
      skipped: [],
    });
    await writeFiles(workspace, { "result.txt": "candidate\n" });
    await workspace.getDirectoryHandle("empty", { create: true });
    expect(await files.capture(workspace, hold)).toMatchObject({
      treeId: ONE_FILE_TREE,
      entries: [treeEntry("result.txt", sha256("candidate\n"), 10)],
      skipped: [],
      directories: ["empty"],
    });
    expect(await files.verifyTree(EMPTY_TREE as Sha256)).toBe(true);
    expect(await files.verifyTree(ONE_FILE_TREE as Sha256)).toBe(true);
  });

  test("is written back as it was, byte for byte, and is the same tree each time", async ({
    place: { files, workspace, storage },
  }) => {
    await fc.assert(
      fc.asyncProperty(anyContents(), async (contents) => {
        await empty(workspace);
        await writeFiles(workspace, contents);
        const hold = await files.hold();
        const captured = await files.capture(workspace, hold);
        const { manifest: _, ...expected } = encodeTree(entriesOf(contents), []);
        expect(captured).toMatchObject(expected);
        const stored = await readFiles(storage);
        expect(await files.capture(workspace, hold)).toEqual(captured);
        expect(await readFiles(storage)).toEqual(stored);

        const copy = await storage.getDirectoryHandle("copy", { create: true });
        expect(await files.materialise(captured.treeId, copy)).toMatchObject({ applied: true });
        expect(await readFiles(copy)).toEqual(contents);
        expect((await files.observe(copy)).treeId).toBe(captured.treeId);
        await storage.removeEntry("copy", { recursive: true });
      }),
      { numRuns: 20 },
    );
  });

  test("when only observed, is the same, and nothing is written", async ({
    place: { files, workspace, storage },
  }) => {
    await writeFiles(workspace, { "a.txt": "a", "b/c.txt": "c", ".env": "KEY=1" });
    const observed = await files.observe(workspace);
    expect(await readFiles(storage)).toEqual({});
    expect(await files.capture(workspace, await files.hold())).toEqual(observed);
  });

  test("a damaged or lost blob is mended by the next capture", async ({
    place: { files, workspace, storage },
  }) => {
    await writeFiles(workspace, { "a.txt": "alpha", "b.txt": "beta" });
    const { treeId } = await files.capture(workspace, await files.hold());
    await writeFiles(storage, { [blobPath(sha256("alpha"))]: "alphA" });
    await remove(storage, blobPath(sha256("beta")));
    await writeFiles(storage, { [blobPath(treeId)]: "" });
    expect(await files.verifyTree(treeId)).toBe(false);

    expect((await files.capture(workspace, await files.hold())).treeId).toBe(treeId);
    expect(await files.verifyTree(treeId)).toBe(true);
  });
});

describe("what a capture skips", () => {
  test("every row of the table, with words that are the same on every machine", async ({
    place: { files, workspace },
  }) => {
    await writeFiles(workspace, {
      "kept.txt": "kept",
      ".gitignore": "kept",
      "deep/er/kept.txt": "kept",
      ".git/HEAD": "x",
      "deep/.venv/x": "x",
      "deep/er/__pycache__/x": "x",
      "node_modules/x/y": "x",
      ".openai4s/x": "x",
      "out/build/x": "x",
      "out/kept.txt": "kept",
      "notes/private.txt": "x",
      "deep/.env": "x",
      "server.PEM": "x",
      "large.bin": "12345678901",
      "limit.bin": "1234567890",
    });
    await expect(
      files.observe(workspace, {
        maxFileBytes: 10,
        exclude: ["out/build", "notes\\private.txt", "not/there"],
      }),
    ).resolves.toMatchObject({
      entries: [".gitignore", "deep/er/kept.txt", "kept.txt", "limit.bin", "out/kept.txt"].map((path) => ({
        path,
      })),
      skipped: [
        { path: ".git", reason: "excluded" },
        { path: ".openai4s", reason: "excluded" },
        { path: "deep/.env", reason: "secret_or_excluded" },
        { path: "deep/.venv", reason: "excluded" },
        { path: "deep/er/__pycache__", reason: "excluded" },
        { path: "large.bin", reason: "too_large" },
        { path: "node_modules", reason: "excluded" },
        { path: "notes/private.txt", reason: "secret_or_excluded" },
        { path: "out/build", reason: "excluded" },
        { path: "server.PEM", reason: "secret_or_excluded" },
      ],
      directories: ["deep", "deep/er", "notes", "out"],
    });
  });

  test("a file and a directory of the excluded names' other kind are kept", async ({
    place: { files, workspace },
  }) => {
    await writeFiles(workspace, { ".git": "gitdir: elsewhere", ".env/settings": "x" });
    const { entries, skipped } = await files.observe(workspace);
    expect(entries.map(({ path }) => path)).toEqual([".env/settings", ".git"]);
    expect(skipped).toEqual([]);
  });

  test("names that no stored path can have", async ({ place: { files, workspace } }) => {
    await writeFiles(workspace, { "fine.txt": "x", "line\nbreak": "x", [`${"n".repeat(256)}/inside`]: "x" });
    const { entries, skipped } = await files.observe(workspace);
    expect(entries.map(({ path }) => path)).toEqual(["fine.txt"]);
    expect(skipped).toEqual([
      { path: "line\nbreak", reason: "invalid_name" },
      { path: "n".repeat(256), reason: "invalid_name" },
    ]);
  });

  test("the browser's own half-written files are not there at all", async ({
    place: { files, workspace },
  }) => {
    await writeFiles(workspace, { "a.txt": "before" });
    const quiet = await files.observe(workspace);
    const writable = await (await workspace.getFileHandle("a.txt")).createWritable();
    await writable.write("half");
    expect(await files.observe(workspace)).toEqual(quiet);
    await writable.abort();
  });

  test("a composed and a decomposed name are one path: one of them has it, the other is skipped", async ({
    place: { files, workspace },
  }) => {
    await writeFiles(workspace, { "cafe\u0301.txt": "decomposed", "e\u0301/x": "x" });
    expect(await files.observe(workspace)).toMatchObject({
      entries: [{ path: "caf\u00e9.txt", blob: sha256("decomposed") }, { path: "\u00e9/x" }],
      skipped: [],
      spellings: new Map([
        ["caf\u00e9.txt", "cafe\u0301.txt"],
        ["\u00e9", "e\u0301"],
      ]),
    });
    await writeFiles(workspace, { "caf\u00e9.txt": "composed" });
    expect(await files.observe(workspace)).toMatchObject({
      entries: [{ path: "caf\u00e9.txt", blob: sha256("composed") }, { path: "\u00e9/x" }],
      skipped: [{ path: "cafe\u0301.txt", reason: "invalid_name" }],
    });
  });

  test("a file that can't be read", async ({ place: { files, workspace } }) => {
    await writeFiles(workspace, { "a.txt": "a", "broken.txt": "b" });
    await files.failReading("broken.txt", "NotReadableError");
    expect(await files.observe(workspace)).toMatchObject({
      entries: [{ path: "a.txt" }],
      skipped: [{ path: "broken.txt", reason: "unreadable" }],
    });
  });

  test("a directory that can't be listed", async ({ place: { files, workspace } }) => {
    await writeFiles(workspace, { "a.txt": "a", "d/broken/b.txt": "b" });
    await files.failListing("broken", "NotReadableError");
    expect(await files.observe(workspace)).toMatchObject({
      entries: [{ path: "a.txt" }],
      skipped: [{ path: "d/broken", reason: "unreadable" }],
    });
  });
});

describe("a file that changes while it is read", () => {
  test("is read again until one reading saw one state of it", async ({ place: { files, workspace } }) => {
    await writeFiles(workspace, { "a.txt": "one", "b.txt": "steady" });
    // Of one length and within a millisecond: neither size nor time would tell.
    await files.changeWhenOpened("a.txt", ["two", "six"]);
    const hold = await files.hold();
    const { entries, treeId } = await files.capture(workspace, hold);
    expect(entries).toMatchObject([{ blob: sha256("six") }, { blob: sha256("steady") }]);
    expect(await files.verifyTree(treeId)).toBe(true);
  });

  test("and never rests is skipped", async ({ place: { files, workspace } }) => {
    await writeFiles(workspace, { "a.txt": "0", "b.txt": "steady" });
    await files.changeWhenOpened(
      "a.txt",
      Array.from({ length: 50 }, (_, index) => String(index)),
    );
    expect(await files.capture(workspace, await files.hold())).toMatchObject({
      entries: [{ path: "b.txt" }],
      skipped: [{ path: "a.txt", reason: "unreadable" }],
    });
  });
});

describe("a capture is refused", () => {
  test.for<[string, object]>([
    ["maxFileBytes", { maxFileBytes: 0 }],
    ["maxFileBytes", { maxFileBytes: 1.5 }],
    ["maxFiles", { maxFiles: -1 }],
    ["exclude[1]", { exclude: ["fine", "../up"] }],
  ])("for its option %s in %j", async ([field, options], { place: { files, workspace } }) => {
    await expect(files.observe(workspace, options)).rejects.toMatchObject({
      name: "ValidationError",
      details: { field },
    });
  });

  test("when there are more files than allowed", async ({ place: { files, workspace } }) => {
    const contents: Contents = { a: "", "b/c": "", "b/d": "" };
    await writeFiles(workspace, contents);
    expect(await files.observe(workspace, { maxFiles: 3 })).toMatchObject({ skipped: [] });
    await expect(files.capture(workspace, await files.hold(), { maxFiles: 2 })).rejects.toMatchObject({
      name: "ValidationError",
      code: "too_many_files",
      details: { maxFiles: 2 },
    });
  });

  test("when directories are nested too deeply", async ({ place: { files, workspace } }) => {
    await writeFiles(workspace, { [`${"d/".repeat(127)}file`]: "deepest" });
    expect((await files.observe(workspace)).entries).toHaveLength(1);
    await writeFiles(workspace, { [`${"d/".repeat(128)}file`]: "too deep" });
    await expect(files.observe(workspace)).rejects.toMatchObject({
      name: "ValidationError",
      code: "too_deep",
      details: { maxDepth: 128 },
    });
  });

  test("when the workspace is gone: that is not an empty one", async ({ place: { files, workspace } }) => {
    const gone = await workspace.getDirectoryHandle("gone", { create: true });
    await workspace.removeEntry("gone");
    await expect(files.observe(gone)).rejects.toMatchObject({
      name: "StorageUnavailableError",
      code: "workspace_unreadable",
    });
  });

  test("when the permission is taken back half-way: that is not a workspace full of unreadable files", async ({
    place: { files, workspace },
  }) => {
    await writeFiles(workspace, { "a.txt": "a", "b.txt": "b" });
    await files.failReading("b.txt", "NotAllowedError");
    await expect(files.observe(workspace)).rejects.toMatchObject({ code: "workspace_unreadable" });
  });

  test("when the disk is full, and not as if the file were unreadable", async ({
    place: { files, workspace },
  }) => {
    await writeFiles(workspace, { "a.txt": "a".repeat(100) });
    await files.fillDisk("throws", 50);
    await expect(files.capture(workspace, await files.hold())).rejects.toMatchObject({
      name: "StorageFullError",
    });
  });

  test("when its signal says so", async ({ place: { files, workspace } }) => {
    await writeFiles(workspace, { "a.txt": "a" });
    await expect(files.captureAborted(workspace, await files.hold(), "the user left")).rejects.toThrow(
      "the user left",
    );
  });
});
