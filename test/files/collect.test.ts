import { describe, expect } from "vitest";
import { type Sha256, sha256 } from "../../src/proof/index.ts";
import type { FilesClient } from "./files.worker.ts";
import { blobPath, readFiles, test, writeFiles } from "./place.ts";

const OLD = "old";
const NEW = "new";

describe("collecting", () => {
  test("removes what nothing refers to, and counts it", async ({ place: { files, storage } }) => {
    const hold = await files.hold();
    for (const text of ["one", "two", "three"]) await files.put(hold, bytes(text));
    await writeFiles(storage, { "blobs/aa/not-a-blob": "x", "blobs/stray": "x" });
    await files.release(hold);

    expect(await files.collect([sha256("two")])).toEqual({ removed: 2, bytes: 8 });
    expect(await readFiles(storage)).toEqual({
      [blobPath(sha256("two"))]: "two",
      "blobs/aa/not-a-blob": "x",
      "blobs/stray": "x",
    });
    expect(await files.collect([sha256("two")])).toEqual({ removed: 0, bytes: 0 });
  });

  test("spares what a hold has put, found there, or kept, until it is released", async ({
    place: { files },
  }) => {
    await files.release(await putIn(files, OLD));
    const hold = await files.hold();
    await files.put(hold, bytes(NEW));
    await files.put(hold, bytes(OLD));
    const other = await files.hold();
    expect(await files.keep(other, sha256(OLD), 3)).toBe("ok");

    expect(await files.collect([])).toEqual({ removed: 0, bytes: 0 });
    await files.release(hold);
    expect(await files.collect([])).toEqual({ removed: 1, bytes: 3 });
    expect([await files.has(sha256(OLD)), await files.has(sha256(NEW))]).toEqual([true, false]);
    await files.release(other);
    expect(await files.collect([])).toEqual({ removed: 1, bytes: 3 });
  });
});

/** Appendix C 9, step by step: what a capture has stored is never taken, whichever of the two comes first. */
describe("collecting while something is stored", () => {
  test("bytes of which the digest is not known yet", async ({ place: { files } }) => {
    const hold = await files.hold();
    const put = await files.beginPut(hold, bytes(NEW));
    expect(await files.collect([])).toEqual({ removed: 0, bytes: 0 });
    const stored = await files.finishPut(put);
    expect(await files.check(stored.sha256, 3)).toBe("ok");
    expect(await files.collect([])).toEqual({ removed: 0, bytes: 0 });
  });

  test("bytes that are found there while their old file is being removed", async ({ place: { files } }) => {
    await files.release(await putIn(files, OLD));
    await files.pauseNext("removeEntry");
    const collected = files.collect([]);
    await files.untilPaused();

    // The removal is decided and can't be called back: the put must wait for it, then write the bytes again.
    const hold = await files.hold();
    const streamed = await files.hold();
    const puts = [files.put(hold, bytes(OLD)), files.finishPut(await files.beginPut(streamed, bytes(OLD)))];
    await files.resume();

    expect(await collected).toEqual({ removed: 1, bytes: 3 });
    for (const put of puts) expect(await put).toEqual({ sha256: sha256(OLD), sizeBytes: 3 });
    expect(await files.check(sha256(OLD), 3)).toBe("ok");
  });

  test("bytes that come to be held between the decision to remove them and the removal", async ({
    place: { files },
  }) => {
    await files.release(await putIn(files, OLD));
    await files.pauseNext("getFile");
    const checked = files.check(sha256(OLD));
    await files.untilPaused();
    // Both wait for the check: first the hold, then the removal, which was decided before anything was held.
    const kept = files.keep(await files.hold(), sha256(OLD), 3);
    const collected = files.collect([]);
    await files.untilCollectorAsks();
    await files.resume();

    expect([await checked, await kept]).toEqual(["ok", "ok"]);
    expect(await collected).toEqual({ removed: 0, bytes: 0 });
    expect(await files.check(sha256(OLD), 3)).toBe("ok");
  });

  test("bytes that were stored, committed and let go after the collection had begun", async ({
    place: { files },
  }) => {
    const texts = Array.from({ length: 20 }, (_, index) => `garbage ${index}`);
    for (const text of texts) await files.release(await putIn(files, text));
    await files.pauseNext("removeEntry");
    const collected = files.collect([]);
    await files.untilPaused();

    // The list of references was made before this commit; that the blob was held meanwhile must be enough.
    const kept = [];
    for (const text of [NEW, ...texts]) {
      const hold = await files.hold();
      kept.push(files.put(hold, bytes(text)).then(() => files.release(hold)));
    }
    await files.resume();
    await Promise.all([collected, ...kept]);
    for (const text of [NEW, ...texts]) expect(await files.check(sha256(text))).toBe("ok");
  });
});

describe("collecting by trees", () => {
  test("keeps the manifests and blobs of the trees that are named", async ({
    place: { files, workspace },
  }) => {
    await writeFiles(workspace, { "a.txt": "a", "shared.txt": "shared" });
    const first = await captured(files, workspace);
    await writeFiles(workspace, { "a.txt": "A", "shared.txt": "shared" });
    const second = await captured(files, workspace);

    expect(await files.collectAllBut([second])).toMatchObject({ removed: 2 });
    expect([await files.verifyTree(first), await files.verifyTree(second)]).toEqual([false, true]);
  });

  test("goes on past a bad manifest, and keeps what can still be read in it", async ({
    place: { files, workspace, storage },
  }) => {
    await writeFiles(workspace, { "a.txt": "a", "b.txt": "b" });
    const tree = await captured(files, workspace);
    await files.release(await putIn(files, "garbage"));
    const manifest = await files.text(tree);
    await writeFiles(storage, { [blobPath(tree)]: manifest.slice(0, -40) });
    const absent = sha256("a tree that was never stored");

    expect(await files.collectAllBut([tree, absent])).toEqual({ removed: 1, bytes: 7 });
    await writeFiles(storage, { [blobPath(tree)]: manifest });
    expect(await files.verifyTree(tree)).toBe(true);
  });

  test("in parallel with captures never breaks a tree that was committed", async ({
    place: { files, workspace },
  }) => {
    const committed: Sha256[] = [];
    let collecting = true;
    const collections = (async () => {
      while (collecting) await files.collectAllBut(committed);
    })();
    for (let round = 0; round < 8; round++) {
      // Back and forth between two states, so that blobs become garbage and are wanted again.
      await writeFiles(workspace, { "a.txt": `a${round % 2}`, "b/c.txt": `c${round % 3}` });
      const hold = await files.hold();
      const { treeId } = await files.capture(workspace, hold);
      committed.splice(0, committed.length, treeId);
      await files.release(hold);
      expect(await files.verifyTree(treeId)).toBe(true);
    }
    collecting = false;
    await collections;
    expect(await files.verifyTree(committed[0] as Sha256)).toBe(true);
  });
});

async function putIn(files: FilesClient, text: string): Promise<number> {
  const hold = await files.hold();
  await files.put(hold, bytes(text));
  return hold;
}

async function captured(files: FilesClient, workspace: FileSystemDirectoryHandle): Promise<Sha256> {
  const hold = await files.hold();
  const { treeId } = await files.capture(workspace, hold);
  await files.release(hold);
  return treeId;
}

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
