import { describe, expect } from "vitest";
import type { ArtifactBytes, LedgerError } from "../../src/index.ts";
import { sha256 } from "../../src/proof/index.ts";
import { sessionOf } from "../support/candidates.ts";
import { newRoot, openBuilt, test } from "../support/session.ts";
import { newWorkspace } from "../support/workspace.ts";
import {
  blobFile,
  conflict,
  encode,
  everyRow,
  expectRefused,
  refusalOf,
  storedFiles,
  versionElsewhere,
} from "./fixtures.ts";

describe("saving", () => {
  test("bytes, a Blob, a File or a stream gives the same version, and stores the bytes once", async ({
    fresh: ledger,
  }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const text = "x,y\n1,2\nä,😀\n";
    const sources: Record<string, ArtifactBytes> = {
      bytes: encode(text),
      Blob: new Blob([text]),
      File: new File([text], "another name.csv", { type: "text/plain" }),
      "a stream of one chunk": streamOf([encode(text)]),
      "a stream of single bytes": streamOf([...encode(text)].map((byte) => Uint8Array.of(byte))),
      "a stream with empty chunks": streamOf([encode(""), encode(text), encode("")]),
      "a view into a larger buffer": encode(`..${text}..`).subarray(2, -2),
    };
    for (const [what, bytes] of Object.entries(sources)) {
      const saved = await ledger.artifacts.save({
        filename: "table.csv",
        contentType: "text/csv",
        bytes,
        frameId,
        versionId: `v-${what}`,
        source: { cell: 1 },
        createdAt: 100,
      });
      expect(saved).toEqual({
        versionId: `v-${what}`,
        artifactId: expect.stringMatching(/^a-/),
        ordinal: 1,
        filename: "table.csv",
        contentType: "text/csv",
        sizeBytes: encode(text).length,
        checksum: sha256(text),
        producingCellId: null,
        frameId,
        source: { cell: 1 },
        createdAt: 100,
        created: true,
      });
    }
    expect(await storedFiles(ledger, "blobs")).toEqual([sha256(text)]);
    expect(await storedFiles(ledger, "tmp")).toEqual([]);
  });

  test("nothing at all, and more than is hashed in one go, works in every form", async ({
    fresh: ledger,
  }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const large = new Uint8Array(9 * 1_048_576 + 7).map((_, at) => (at * 31 + (at >> 12)) % 251);
    for (const [what, bytes] of [
      ["empty", new Uint8Array()],
      ["large", large],
    ] as const) {
      const checksums: string[] = [];
      for (const source of [bytes, new Blob([bytes]), new Blob([bytes]).stream()])
        checksums.push((await ledger.artifacts.save({ filename: what, bytes: source, frameId })).checksum);
      const { versionId, sizeBytes } = await ledger.artifacts.save({ filename: what, bytes, frameId });
      expect([what, sizeBytes, new Set(checksums).size]).toEqual([what, bytes.length, 1]);
      const opened = new Uint8Array(await (await ledger.artifacts.open({ versionId })).arrayBuffer());
      expect([what, indexOfDifference(opened, bytes)]).toEqual([what, -1]);
    }
    expect(await storedFiles(ledger, "blobs")).toHaveLength(2);
  });

  test("at once stores equal bytes once, and every version is there", async ({ fresh: ledger }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const saved = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        ledger.artifacts.save({ filename: `f-${n}`, bytes: encode(`text ${n % 3}`), frameId }),
      ),
    );
    expect(saved.map(({ checksum }) => checksum)).toEqual(
      Array.from({ length: 12 }, (_, n) => sha256(`text ${n % 3}`)),
    );
    expect(await storedFiles(ledger, "blobs")).toHaveLength(3);
    expect(await ledger.artifacts.list({ rootFrameId: frameId })).toHaveLength(12);
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("again adds a version and moves the head", async ({ fresh: ledger }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const first = await ledger.artifacts.save({
      filename: "plot.svg",
      contentType: "image/svg+xml",
      bytes: encode("first"),
      frameId,
      isUserUpload: true,
      priority: 3,
      createdAt: 100,
    });
    const { artifactId } = first;
    const second = await ledger.artifacts.save({
      filename: "plot v2.svg",
      bytes: encode("second"),
      frameId,
      artifactId,
      producingCellId: "cell-1",
      createdAt: 110,
    });
    const third = await ledger.artifacts.save({
      filename: "plot.svg",
      bytes: encode("first"),
      frameId,
      artifactId,
      createdAt: 105,
    });
    const [v1, v2, v3] = [first, second, third].map(({ created: _, ...version }) => version);
    expect([v1?.ordinal, v2?.ordinal, v3?.ordinal]).toEqual([1, 2, 3]);
    expect(await ledger.artifacts.versions({ artifactId })).toEqual([v3, v2, v1]);
    expect(await ledger.artifacts.get({ artifactId })).toEqual({
      artifactId,
      projectId: "project-1",
      rootFrameId: frameId,
      filename: "plot.svg",
      contentType: "image/svg+xml",
      isUserUpload: true,
      priority: 3,
      latestVersionId: third.versionId,
      createdAt: 100,
      updatedAt: 105,
      latest: v3,
    });
    expect(await storedFiles(ledger, "blobs")).toHaveLength(2);
  });

  test("a version again by its id is answered with it, and moves no head", async ({ fresh: ledger }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const fields = { filename: "f", frameId, versionId: "v-1", createdAt: 100 };
    const first = await ledger.artifacts.save({ ...fields, bytes: encode("first") });
    const { artifactId } = first;
    const second = await ledger.artifacts.save({
      filename: "f",
      bytes: encode("second"),
      frameId,
      artifactId,
    });
    for (const changes of [{}, { artifactId }, { createdAt: 999 }])
      expect(
        await ledger.artifacts.save({
          ...fields,
          ...changes,
          bytes: streamOf([encode("fir"), encode("st")]),
        }),
      ).toEqual({ ...first, created: false });
    expect((await ledger.artifacts.get({ artifactId })).latestVersionId).toBe(second.versionId);
    for (const changes of [
      { bytes: encode("First") },
      { filename: "g" },
      { contentType: "text/plain" },
      { producingCellId: "cell-1" },
      { source: {} },
    ])
      await expectRefused(
        ledger,
        () => ledger.artifacts.save({ ...fields, bytes: encode("first"), ...changes }),
        conflict("id_taken", "versionId"),
        JSON.stringify(changes),
      );
  });

  test("a version under an id that a version of another artifact has is a conflict", async ({
    fresh: ledger,
  }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const fields = { filename: "f", bytes: encode("same"), frameId };
    await ledger.artifacts.save({ ...fields, versionId: "v-1" });
    const { artifactId } = await ledger.artifacts.save({ ...fields, versionId: "v-2" });
    await expectRefused(
      ledger,
      () => ledger.artifacts.save({ ...fields, artifactId, versionId: "v-1" }),
      conflict("id_taken", "versionId"),
    );
  });

  test("a version again whose row was changed is refused", async ({ fresh: ledger }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const save = () =>
      ledger.artifacts.save({ filename: "f", bytes: encode("x"), frameId, versionId: "v-1" });
    await save();
    await ledger.testing.sql("UPDATE artifact_versions SET created_at = 1, ordinal = 7");
    await expectRefused(ledger, save, {
      name: "IntegrityError",
      code: "version_damaged",
      field: "versionId",
    });
  });

  test("into another session or project is refused by the field, before the bytes are read", async ({
    fresh: ledger,
  }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const { artifactId } = await ledger.artifacts.save({ filename: "f", bytes: encode("own"), frameId });
    const neighbour = await versionElsewhere(ledger, "project-1");
    const stranger = await versionElsewhere(ledger, "project-2");
    const stored = await storedFiles(ledger, "blobs");
    const outOf = (field: string) => conflict("artifact_out_of_scope", field);
    for (const [changes, refusal] of [
      [{ artifactId: neighbour.version.artifactId }, outOf("artifactId")],
      [{ artifactId: stranger.version.artifactId }, outOf("artifactId")],
      [{ frameId: neighbour.root, artifactId }, outOf("artifactId")],
      [{ projectId: "project-2" }, outOf("projectId")],
      [{ projectId: "project-3" }, { name: "NotFoundError", code: "project_not_found", field: "projectId" }],
      [{ frameId: "f-unknown" }, { name: "NotFoundError", code: "frame_not_found", field: "frameId" }],
      [
        { artifactId: "a-unknown" },
        { name: "NotFoundError", code: "artifact_not_found", field: "artifactId" },
      ],
    ] as [object, ReturnType<typeof conflict>][])
      await expectRefused(
        ledger,
        () => ledger.artifacts.save({ filename: "f", bytes: encode("new"), frameId, ...changes }),
        refusal,
        JSON.stringify(changes),
      );
    expect(await storedFiles(ledger, "blobs")).toEqual(stored);
  });

  test("a stream that fails half-way leaves no row and no file, and names the cause", async ({
    fresh: ledger,
  }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const rows = await everyRow(ledger);
    for (const before of [[], [encode("half")], [new Uint8Array(3 * 1_048_576)]]) {
      const bytes = streamOf(before, new Error("the camera was unplugged"));
      const { message } = await refusalOf(ledger.artifacts.save({ filename: "film", bytes, frameId }));
      expect(message).toContain("the camera was unplugged");
      expect(await everyRow(ledger)).toEqual(rows);
      expect(await storedFiles(ledger, "blobs")).toEqual([]);
      expect(await storedFiles(ledger, "tmp")).toEqual([]);
    }
    const again = await ledger.artifacts.save({
      filename: "film",
      bytes: streamOf([encode("all")]),
      frameId,
    });
    expect(again.checksum).toBe(sha256("all"));
  });

  test("a stream that fails is refused by its field: it is no fault of the ledger", async ({
    fresh: ledger,
  }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const bytes = streamOf([encode("half")], new Error("the camera was unplugged"));
    const { code, details } = await refusalOf(ledger.artifacts.save({ filename: "film", bytes, frameId }));
    expect({ isInternal: code === "internal_error", field: details["field"] }).toEqual({
      isInternal: false,
      field: "bytes",
    });
  });

  test("a stream of something else than bytes is refused, never saved as something else", async ({
    fresh: ledger,
  }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const outcomes: Record<string, unknown> = {};
    const refused = { name: "ValidationError", field: "bytes" };
    const chunks: Record<string, unknown> = {
      "an ArrayBuffer": encode("text").buffer,
      "a DataView": new DataView(encode("text").buffer),
      "a Uint16Array": new Uint16Array([1, 258]),
      "a string": "text",
      "a list": [1, 2],
      null: null,
    };
    for (const [what, chunk] of Object.entries(chunks)) {
      const bytes = streamOf([encode("good"), chunk as Uint8Array<ArrayBuffer>]);
      outcomes[what] = await ledger.artifacts.save({ filename: "f", bytes, frameId }).then(
        ({ sizeBytes }) => `saved as ${sizeBytes} bytes`,
        ({ name, details }: LedgerError) => ({ name, field: details["field"] }),
      );
    }
    expect(outcomes).toEqual(Object.fromEntries(Object.keys(chunks).map((what) => [what, refused])));
    expect(await storedFiles(ledger, "tmp")).toEqual([]);
  });
});

describe("opening", () => {
  test("a version gives its own bytes, name and type", async ({ fresh: ledger }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const first = await ledger.artifacts.save({
      filename: "report/final ä.txt",
      contentType: "text/plain;charset=utf-8",
      bytes: encode("first"),
      frameId,
    });
    const { artifactId } = first;
    const second = await ledger.artifacts.save({
      filename: "f",
      bytes: encode("second"),
      frameId,
      artifactId,
    });
    const seen = [];
    for (const { versionId } of [first, second]) {
      const file = await ledger.artifacts.open({ versionId });
      seen.push([file instanceof File, file.name, file.type, file.size, await file.text()]);
    }
    expect(seen).toEqual([
      [true, "report/final ä.txt", "text/plain;charset=utf-8", 5, "first"],
      [true, "f", "", 6, "second"],
    ]);
  });

  test("a version whose row was changed is refused", async ({ fresh: ledger }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const saved = await ledger.artifacts.save({ filename: "f", bytes: encode("true"), frameId });
    const other = await ledger.artifacts.save({ filename: "g", bytes: encode("else"), frameId });
    await ledger.testing.sql("UPDATE artifact_versions SET checksum = ? WHERE version_id = ?", [
      other.checksum,
      saved.versionId,
    ]);
    await expectRefused(ledger, () => ledger.artifacts.open({ versionId: saved.versionId }), {
      name: "IntegrityError",
      code: "version_damaged",
      field: "versionId",
    });
  });
});

test("artifacts are listed by session, newest first, however they were saved", async ({ fresh: ledger }) => {
  const root = await sessionOf(ledger, "project-1");
  const child = await ledger.frames.create({ projectId: "project-1", parentId: root });
  const other = await newRoot(ledger, "project-1");
  const save = async (filename: string, createdAt: number, frameId = root, artifactId?: string) =>
    ledger.artifacts.save({
      filename,
      bytes: encode(filename),
      frameId,
      createdAt,
      ...(artifactId !== undefined && { artifactId }),
    });
  const oldest = await save("oldest", 100);
  await save("newest", 300);
  await save("of a child frame", 200, child.frameId);
  await save("of another session", 250, other);
  await save("oldest, again", 400, root, oldest.artifactId);

  const listed = await ledger.artifacts.list({ rootFrameId: root });
  expect(listed.map(({ filename, latest }) => [filename, latest.filename])).toEqual([
    ["newest", "newest"],
    ["of a child frame", "of a child frame"],
    ["oldest", "oldest, again"],
  ]);
  expect(await ledger.artifacts.list({ rootFrameId: root, limit: 1 })).toEqual(listed.slice(0, 1));
  expect(await ledger.artifacts.list({ rootFrameId: other })).toHaveLength(1);
});

describe("collecting", () => {
  test("removes what nothing refers to; keeps versions, checkpoints and this session's captures", async ({
    fresh: first,
  }) => {
    const frameId = await sessionOf(first, "project-1");
    const kept = await first.artifacts.save({
      filename: "f",
      bytes: encode("kept"),
      frameId,
      versionId: "v-1",
    });
    const { artifactId } = kept;
    await first.artifacts.save({ filename: "f", bytes: encode("newer"), frameId, artifactId });
    const named = await first.workspace.capture({ directory: await newWorkspace({ "a.txt": "named" }) });
    await first.checkpoints.create({ rootFrameId: frameId, reason: "manual", workspaceTreeId: named.treeId });
    const captured = await first.workspace.capture({
      directory: await newWorkspace({ "a.txt": "named", "b.txt": "captured" }),
    });
    // Stored before its row is refused: bytes that nothing refers to.
    await refusalOf(
      first.artifacts.save({ filename: "f", bytes: encode("refused"), frameId, versionId: "v-1" }),
    );
    const before = await storedFiles(first, "blobs");

    expect(await first.workspace.collect({})).toEqual({ removed: 1, bytes: "refused".length });
    expect(await storedFiles(first, "blobs")).toEqual(before.filter((name) => name !== sha256("refused")));
    expect(await first.workspace.collect({})).toEqual({ removed: 0, bytes: 0 });
    for (const { treeId } of [named, captured])
      expect(await first.workspace.verify({ treeId })).toEqual({ ok: true, problems: [] });
    await first.close();

    await using second = await openBuilt(first.name);
    const recaptured = await second.workspace.capture({
      directory: await newWorkspace({ "c.txt": "captured now" }),
    });
    expect(await second.workspace.collect({})).toMatchObject({ removed: 2 });
    for (const { treeId } of [named, recaptured])
      expect(await second.workspace.verify({ treeId })).toEqual({ ok: true, problems: [] });
    await expectRefused(second, () => second.workspace.verify({ treeId: captured.treeId }), {
      name: "NotFoundError",
      code: "tree_not_found",
      field: "treeId",
    });
    for (const { versionId } of await second.artifacts.versions({ artifactId }))
      expect((await second.artifacts.open({ versionId })).size).toBeGreaterThan(0);
    expect(await second.verify()).toMatchObject({ ok: true });
  });

  test("keeps the bytes of versions that are saved while it runs", async ({ fresh: ledger }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const [saved] = await Promise.all([
      Promise.all(
        Array.from({ length: 8 }, (_, n) =>
          ledger.artifacts.save({ filename: `f-${n}`, bytes: encode(`text ${n}`), frameId }),
        ),
      ),
      ledger.workspace.collect({}),
      ledger.workspace.collect({}),
    ]);
    const texts: string[] = [];
    for (const { versionId } of saved) texts.push(await (await ledger.artifacts.open({ versionId })).text());
    expect(texts).toEqual(Array.from({ length: 8 }, (_, n) => `text ${n}`));
  });

  test("with a checkpoint whose tree is damaged still keeps the bytes of versions", async ({
    fresh: ledger,
  }) => {
    const frameId = await sessionOf(ledger, "project-1");
    const { versionId } = await ledger.artifacts.save({ filename: "f", bytes: encode("kept"), frameId });
    const { treeId } = await ledger.workspace.capture({
      directory: await newWorkspace({ "a.txt": "named" }),
    });
    await ledger.checkpoints.create({ rootFrameId: frameId, reason: "manual", workspaceTreeId: treeId });
    await (await blobFile(ledger, treeId)).overwrite(encode("{"));
    await ledger.workspace.collect({}).catch(() => {});
    expect(await (await ledger.artifacts.open({ versionId })).text()).toBe("kept");
    expect(await storedFiles(ledger, "blobs")).toContain(sha256("named"));
  });
});

/** A stream of these chunks, which then ends, or fails. */
function streamOf(chunks: readonly Uint8Array<ArrayBuffer>[], failure?: Error) {
  const left = [...chunks];
  return new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      const chunk = left.shift();
      if (chunk !== undefined) controller.enqueue(chunk);
      else if (failure === undefined) controller.close();
      else controller.error(failure);
    },
  });
}

/** Where two lists of bytes differ first; -1 where they are equal. Comparing millions one by one would take minutes. */
function indexOfDifference(some: Uint8Array, other: Uint8Array): number {
  if (some.length !== other.length) return Math.min(some.length, other.length);
  return some.findIndex((byte, at) => byte !== other[at]);
}
