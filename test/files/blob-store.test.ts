import { describe, expect } from "vitest";
import { type Sha256, sha256 } from "../../src/proof/index.ts";
import { blobPath, fileAt, readFiles, remove, startFiles, test, writeFiles } from "./place.ts";

const MIB = 1_048_576;

const CANDIDATE = bytes("candidate\n");
const CANDIDATE_ID = "1e81270f1a47dce22a2e4985250c74b2e3374443734f1492b03ea2cd2af4ec48" as Sha256;

describe("storing", () => {
  test("a blob is a file under the digest of its bytes (spec vector)", async ({
    place: { files, storage },
  }) => {
    const hold = await files.hold();
    expect(await files.put(hold, CANDIDATE)).toEqual({ sha256: CANDIDATE_ID, sizeBytes: 10 });
    expect(await readFiles(storage)).toEqual({ [blobPath(CANDIDATE_ID)]: "candidate\n" });
    expect(await files.text(CANDIDATE_ID)).toBe("candidate\n");
    expect(await files.check(CANDIDATE_ID, 10)).toBe("ok");
  });

  test("bytes, blobs and streams give one blob, stored once", async ({ place: { files, storage } }) => {
    const hold = await files.hold();
    await files.recordWrites();
    const fromBytes = await files.put(hold, CANDIDATE);
    expect(await files.put(hold, new Blob([CANDIDATE]))).toEqual(fromBytes);
    // A second time known bytes are compared with what is there; nothing is written.
    expect(await files.written()).toEqual([10]);
    const put = await files.beginPut(hold, CANDIDATE);
    expect(await files.finishPut(put)).toEqual(fromBytes);
    expect(Object.keys(await readFiles(storage))).toEqual([blobPath(CANDIDATE_ID)]);
  });

  test("two at once of the same bytes", async ({ place: { files, storage } }) => {
    const hold = await files.hold();
    const same = Array.from({ length: 6 }, () => files.put(hold, CANDIDATE));
    expect(new Set((await Promise.all(same)).map((stored) => stored.sha256))).toEqual(
      new Set([CANDIDATE_ID]),
    );
    expect(await readFiles(storage)).toEqual({ [blobPath(CANDIDATE_ID)]: "candidate\n" });
  });

  test("no bytes at all are a blob too", async ({ place: { files } }) => {
    const hold = await files.hold();
    const stored = await files.put(hold, bytes(""));
    expect(stored).toEqual({ sha256: sha256(""), sizeBytes: 0 });
    expect(await files.check(stored.sha256, 0)).toBe("ok");
  });

  test("without move(), as in older browsers, the blob is copied and read back", async ({
    place: { files, storage },
  }) => {
    await files.withoutMove();
    await writeFiles(storage, { [blobPath(CANDIDATE_ID)]: "longer and damaged" });
    const hold = await files.hold();
    expect(await files.put(hold, CANDIDATE)).toEqual({ sha256: CANDIDATE_ID, sizeBytes: 10 });
    expect(await readFiles(storage)).toEqual({ [blobPath(CANDIDATE_ID)]: "candidate\n" });
  });
});

describe("large blobs", () => {
  test("96 MiB pass in pieces of 1 MiB, however they come", async ({ place: { files } }) => {
    const hold = await files.hold();
    await files.recordWrites();
    const { stored, expected, milliseconds } = await files.putGenerated(hold, 32, 3 * MIB);
    expect(stored).toEqual({ sha256: expected, sizeBytes: 96 * MIB });
    expect(await files.written()).toEqual(Array(96).fill(MIB));
    console.log(`96 MiB stored at ${Math.round((96 * 1000) / milliseconds)} MiB/s`);
  });

  test("a blob of more than is hashed whole", async ({ place: { files } }) => {
    const content = new Uint8Array(9 * MIB + 1).fill(7);
    const hold = await files.hold();
    await files.recordWrites();
    const stored = await files.put(hold, new Blob([content]));
    expect(stored).toEqual({ sha256: sha256(content), sizeBytes: content.length });
    expect(await files.written()).toEqual([...Array(9).fill(MIB), 1]);
    expect(await files.check(stored.sha256, content.length)).toBe("ok");
  });
});

describe("what is not there as it was stored", () => {
  test("missing is a state", async ({ place: { files, storage } }) => {
    expect(await files.check(CANDIDATE_ID)).toBe("missing");
    expect(await files.has(CANDIDATE_ID)).toBe(false);
    await expect(files.text(CANDIDATE_ID)).rejects.toMatchObject({
      name: "NotFoundError",
      code: "blob_missing",
      details: { sha256: CANDIDATE_ID },
    });
    // The browser may take everything at once.
    await remove(storage, "blobs");
    expect(await files.check(CANDIDATE_ID)).toBe("missing");
  });

  test.for([
    ["cut short", "candid"],
    ["grown", "candidate\n\n"],
    ["changed in place", "candidatE\n"],
    ["emptied", ""],
  ])(
    "%s: reported as damaged, and mended when the same bytes are stored again",
    async ([, damage = ""], { place: { files, storage } }) => {
      await files.put(await files.hold(), CANDIDATE);
      await writeFiles(storage, { [blobPath(CANDIDATE_ID)]: damage });
      expect(await files.check(CANDIDATE_ID, 10)).toBe("damaged");
      expect(await files.check(CANDIDATE_ID)).toBe("damaged");
      expect(await files.has(CANDIDATE_ID)).toBe(true);

      await files.put(await files.hold(), CANDIDATE);
      expect(await files.check(CANDIDATE_ID, 10)).toBe("ok");

      await writeFiles(storage, { [blobPath(CANDIDATE_ID)]: damage });
      await files.finishPut(await files.beginPut(await files.hold(), CANDIDATE));
      expect(await files.check(CANDIDATE_ID, 10)).toBe("ok");
    },
  );

  test("a sound blob is not of another size", async ({ place: { files } }) => {
    await files.put(await files.hold(), CANDIDATE);
    expect(await files.check(CANDIDATE_ID, 11)).toBe("damaged");
  });

  test.for(["", "x", CANDIDATE_ID.toUpperCase(), `${CANDIDATE_ID}\n`, `../${CANDIDATE_ID}`])(
    "%j is no digest and is never made a path",
    async (text, { place: { files } }) => {
      const id = text as Sha256;
      for (const refused of [files.has(id), files.check(id), files.text(id)]) {
        await expect(refused).rejects.toMatchObject({
          name: "ValidationError",
          details: { field: "sha256" },
        });
      }
    },
  );
});

describe("when storing fails", () => {
  test.for(["throws", "writes short"] as const)(
    "a full disk that %s is told as such and nothing of the blob remains",
    async (how, { place: { files, storage } }) => {
      await files.put(await files.hold(), CANDIDATE);
      const before = await readFiles(storage);
      await files.fillDisk(how, 2 * MIB + 5);
      const hold = await files.hold();
      const refusal = { name: "StorageFullError", code: "storage_full" };
      await expect(files.put(hold, new Uint8Array(4 * MIB))).rejects.toMatchObject(refusal);
      await expect(files.putGenerated(hold, 4, MIB)).rejects.toMatchObject(refusal);
      expect(await readFiles(storage)).toEqual(before);
    },
  );

  test("what does not read back is not stored", async ({ place: { files, storage } }) => {
    await files.turnBits();
    await expect(files.put(await files.hold(), CANDIDATE)).rejects.toMatchObject({
      name: "StorageUnavailableError",
      code: "blob_not_stored",
    });
    expect(await readFiles(storage)).toEqual({});
  });

  test("a source that breaks off leaves nothing", async ({ place: { files, storage } }) => {
    const put = await files.beginPut(await files.hold(), CANDIDATE);
    expect(Object.keys(await readFiles(storage))).toHaveLength(1);
    await expect(files.abortPut(put, "the download broke off")).rejects.toThrow("the download broke off");
    expect(await readFiles(storage)).toEqual({});
  });

  test("a hold that was released takes nothing more", async ({ place: { files } }) => {
    const hold = await files.hold();
    await files.release(hold);
    await expect(files.put(hold, CANDIDATE)).rejects.toMatchObject({ code: "hold_released" });
    expect(await files.has(CANDIDATE_ID)).toBe(false);
  });
});

describe("opening", () => {
  test("removes what a worker that died has left half-written, and nothing else", async ({ place }) => {
    const { files, storage } = place;
    await files.put(await files.hold(), CANDIDATE);
    await files.beginPut(await files.hold(), bytes("half of some"));
    expect(Object.keys(await readFiles(storage))).toHaveLength(2);

    await place.restart();
    await expect
      .poll(async () => place.restart().then(() => readFiles(storage)))
      .toEqual({
        [blobPath(CANDIDATE_ID)]: "candidate\n",
      });
  });

  test("goes on when a dying worker still holds its file, which the next opening removes", async ({
    place,
  }) => {
    await writeFiles(place.storage, { "tmp/held": "half", "tmp/free": "half" });
    const dying: Worker[] = [];
    await startFiles(dying).lock(await fileAt(place.storage, "tmp/held"));

    const files = await place.restart();
    expect(Object.keys(await readFiles(place.storage))).toEqual(["tmp/held"]);
    expect(await files.put(await files.hold(), CANDIDATE)).toMatchObject({ sha256: CANDIDATE_ID });

    dying[0]?.terminate();
    await expect
      .poll(async () => place.restart().then(() => readFiles(place.storage)))
      .toEqual({ [blobPath(CANDIDATE_ID)]: "candidate\n" });
  });
});

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
