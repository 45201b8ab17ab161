import { describe, expect } from "vitest";
import { canonicalJson, digest, sha256 } from "../../src/proof/index.ts";
import { candidateMetadata, commitCandidateDelivery, sessionOf } from "../support/candidates.ts";
import { test } from "../support/session.ts";
import {
  blobFile,
  breakTable,
  conflict,
  encode,
  everyRow,
  expectRefused,
  invalid,
  type Refusal,
  readyToDeliver,
  refusalOf,
  settling,
  type Tampering,
  unreviewedCandidate,
  versionElsewhere,
  WORK,
  whileTampered,
} from "./fixtures.ts";

const BYTES_SHA256 = sha256("orphaned-candidate-artifact");

describe("a manifest", () => {
  test("has the digest of the specification", () => {
    const manifest = {
      schema_version: 1,
      root_frame_id: "f-000000000001",
      project_id: "project-1",
      artifacts: [
        {
          artifact_id: "a-000000000001",
          version_id: "v-000000000001",
          filename: "candidate.csv",
          content_type: "text/csv",
          size_bytes: 27,
          sha256: BYTES_SHA256,
          url: "/api/v1/artifacts/versions/v-000000000001",
        },
      ],
    };
    // spec/session_store 0.4
    expect(digest(manifest)).toBe("2d90d63b08b0706ac1a7b3967bfb6b726f3c9100fae050d1af49de47fc294ade");
  });

  test("says of each version exactly what the specification lists", async ({ fresh: ledger }) => {
    const root = await sessionOf(ledger, "project-1");
    const version = await ledger.artifacts.save({
      filename: "candidate.csv",
      contentType: "text/csv",
      bytes: encode("orphaned-candidate-artifact"),
      frameId: root,
      versionId: "v-000000000001",
    });
    const value = {
      schema_version: 1,
      root_frame_id: root,
      project_id: "project-1",
      artifacts: [
        {
          artifact_id: version.artifactId,
          version_id: "v-000000000001",
          filename: "candidate.csv",
          content_type: "text/csv",
          size_bytes: 27,
          sha256: BYTES_SHA256,
          url: "/api/v1/artifacts/versions/v-000000000001",
        },
      ],
    };
    expect(
      await ledger.deliveries.buildManifest({
        rootFrameId: root,
        projectId: "project-1",
        versions: ["v-000000000001"],
      }),
    ).toEqual({ value, sha256: digest(value) });
  });

  test("keeps the order of the caller, counts a repeated version once, and knows files without a type", async ({
    fresh: ledger,
  }) => {
    const root = await sessionOf(ledger, "project-1");
    for (const versionId of ["v-a", "v-b", "v-c"])
      await ledger.artifacts.save({
        filename: versionId,
        bytes: encode(versionId),
        frameId: root,
        versionId,
      });
    const { value } = await ledger.deliveries.buildManifest({
      rootFrameId: root,
      projectId: "project-1",
      versions: ["v-c", "v-a", "v-c", "v-b", "v-a"],
    });
    expect(value.artifacts.map(({ version_id, content_type }) => [version_id, content_type])).toEqual([
      ["v-c", ""],
      ["v-a", ""],
      ["v-b", ""],
    ]);
  });

  test("names a version in its URL with every reserved character encoded", async ({ fresh: ledger }) => {
    const root = await sessionOf(ledger, "project-1");
    const urls = {
      "v/1/../2": "v%2F1%2F..%2F2",
      "a b?c#d%20&e=+": "a%20b%3Fc%23d%2520%26e%3D%2B",
      "!'()*;:@,$[]": "%21%27%28%29%2A%3B%3A%40%2C%24%5B%5D",
      "Az09-._~": "Az09-._~",
      "ü😀": "%C3%BC%F0%9F%98%80",
      "...": "...",
    };
    for (const [versionId, encoded] of Object.entries(urls)) {
      await ledger.artifacts.save({ filename: "f", bytes: encode("x"), frameId: root, versionId });
      const { value } = await ledger.deliveries.buildManifest({
        rootFrameId: root,
        projectId: "project-1",
        versions: [versionId],
      });
      expect(value.artifacts[0]?.url).toBe(`/api/v1/artifacts/versions/${encoded}`);
      const { manifest } = await ledger.deliveries.commit({
        idempotencyKey: versionId,
        rootFrameId: root,
        content: "done",
        manifest: value,
      });
      expect(manifest).toEqual(value);
    }
  });

  test("of a version whose id can't stand in a URL is refused", async ({ fresh: ledger }) => {
    const root = await sessionOf(ledger, "project-1");
    for (const versionId of [".", ".."]) {
      await ledger.artifacts.save({ filename: "f", bytes: encode("x"), frameId: root, versionId });
      await expectRefused(
        ledger,
        () =>
          ledger.deliveries.buildManifest({
            rootFrameId: root,
            projectId: "project-1",
            versions: [versionId],
          }),
        invalid("versions"),
      );
    }
  });

  test("of a version of another session or project is refused", async ({ fresh: ledger }) => {
    const { root, version } = await readyToDeliver(ledger);
    const [neighbour, stranger] = [
      await versionElsewhere(ledger, "project-1"),
      await versionElsewhere(ledger, "project-2"),
    ];
    for (const [projectId, versionId] of [
      ["project-1", neighbour.version.versionId],
      ["project-1", stranger.version.versionId],
      ["project-2", version.versionId],
    ] as const) {
      const versions = projectId === "project-1" ? [version.versionId, versionId] : [versionId];
      await expectRefused(
        ledger,
        () => ledger.deliveries.buildManifest({ rootFrameId: root, projectId, versions }),
        conflict("version_out_of_scope", "versions"),
      );
    }
  });
});

describe("stored bytes", () => {
  for (const [what, state, spoil] of [
    ["cut short", "damaged", (file) => file.overwrite(encode("orphaned"))],
    ["emptied", "damaged", (file) => file.overwrite(encode(""))],
    [
      "replaced by as many others",
      "damaged",
      (file) => file.overwrite(encode("orphaned-candidate-artifacT")),
    ],
    ["made longer", "damaged", (file) => file.overwrite(encode("orphaned-candidate-artifact\n"))],
    ["removed", "missing", (file) => file.remove()],
  ] as [string, "damaged" | "missing", (file: Awaited<ReturnType<typeof blobFile>>) => Promise<void>][]) {
    test(`that were ${what} are never delivered; saving them again repairs them`, async ({
      fresh: ledger,
    }) => {
      const { root, version, manifest } = await readyToDeliver(ledger);
      const { versionId } = version;
      await spoil(await blobFile(ledger, version.checksum));

      const build = () =>
        ledger.deliveries.buildManifest({ rootFrameId: root, projectId: "project-1", versions: [versionId] });
      await expectRefused(ledger, build, {
        name: "IntegrityError",
        code: `blob_${state}`,
        field: "versions",
      });
      await expectRefused(ledger, () => ledger.artifacts.open({ versionId }), {
        name: state === "damaged" ? "IntegrityError" : "NotFoundError",
        code: `blob_${state}`,
      });

      await ledger.artifacts.save({
        filename: "same bytes",
        bytes: encode("orphaned-candidate-artifact"),
        frameId: root,
      });
      expect(await build()).toEqual(manifest);
      expect(await (await ledger.artifacts.open({ versionId })).text()).toBe("orphaned-candidate-artifact");
    });
  }
});

describe("a commit", () => {
  test("writes the message and its delivery", async ({ fresh: ledger }) => {
    const { root, manifest, entry, request } = await readyToDeliver(ledger);
    await ledger.messages.add({ rootFrameId: root, role: "user", content: "please" });
    const committed = await ledger.deliveries.commit(request);
    const { deliveryId, messageId, requestSha256 } = committed;
    const envelope = { delivery_id: deliveryId, manifest_sha256: manifest.sha256, status: "committed" };
    expect(committed).toEqual({
      deliveryId: expect.stringMatching(/^delivery-/),
      idempotencyKey: "delivery:1",
      rootFrameId: root,
      branchId: root,
      frameId: root,
      messageId: expect.stringMatching(/^m-/),
      requestSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      manifest: manifest.value,
      manifestSha256: manifest.sha256,
      contentSha256: sha256(request.content),
      status: "committed",
      createdAt: 100,
      publishedAt: null,
      messageSeq: 1,
      messageRole: "assistant",
      messageContent: request.content,
      messageMetadata: { note: "plain", completion_delivery: envelope },
      created: true,
    });
    expect(await ledger.testing.sql("SELECT * FROM completion_delivery_artifacts")).toEqual([
      {
        delivery_id: deliveryId,
        ordinal: 0,
        artifact_id: entry.artifact_id,
        version_id: entry.version_id,
        size_bytes: 27,
        sha256: BYTES_SHA256,
      },
    ]);
    const { created: _, ...delivery } = committed;
    expect(requestSha256).not.toBe(manifest.sha256);
    expect(await ledger.deliveries.get({ deliveryId })).toEqual(delivery);
    expect((await ledger.messages.list({ rootFrameId: root }))[1]).toEqual({
      messageId,
      rootFrameId: root,
      branchId: root,
      frameId: root,
      seq: 1,
      role: "assistant",
      content: request.content,
      metadata: { note: "plain", completion_delivery: envelope },
      createdAt: 100,
    });
  });

  test("of a candidate notes the digest of its content", async ({ fresh: ledger }) => {
    const { request } = await readyToDeliver(ledger);
    const { candidate_content_sha256: _, ...metadata } = candidateMetadata(request.content, WORK);
    const { messageMetadata } = await ledger.deliveries.commit({ ...request, messageMetadata: metadata });
    expect(messageMetadata["candidate_content_sha256"]).toBe(sha256(request.content));
  });

  for (const write of [
    "INSERT ON messages",
    "INSERT ON completion_deliveries",
    "INSERT ON completion_delivery_artifacts",
  ]) {
    test(`is all or nothing when ${write} fails, and its neighbour in the same batch is not concerned`, async ({
      fresh: ledger,
    }) => {
      const { root, request } = await readyToDeliver(ledger);
      const { mend } = await breakTable(ledger, write);
      const [failed, setting] = await Promise.all([
        refusalOf(ledger.deliveries.commit(request)),
        ledger.settings.set({ key: "k", value: "v" }),
      ]);
      expect([failed.code, setting.value]).toEqual(["constraint", "v"]);
      await mend();
      for (const table of ["messages", "completion_deliveries", "completion_delivery_artifacts"])
        expect(await ledger.testing.sql(`SELECT * FROM ${table}`)).toEqual([]);

      const [committed, added] = await Promise.all([
        ledger.deliveries.commit(request),
        ledger.messages.add({ rootFrameId: root, role: "user", content: "next" }),
      ]);
      expect([committed.created, committed.messageSeq, added.seq]).toEqual([true, 0, 1]);
      expect(await ledger.verify()).toMatchObject({ ok: true });
    });
  }

  test("is nothing at all when its journal entry can't be written", async ({ fresh: ledger }) => {
    const { request } = await readyToDeliver(ledger);
    const { mend } = await breakTable(ledger, "INSERT ON journal");
    await expectRefused(ledger, () => ledger.deliveries.commit(request), {
      name: "LedgerError",
      code: "constraint",
    });
    await mend();
    expect((await ledger.deliveries.commit(request)).created).toBe(true);
  });

  test("refuses reserved keys and verdicts in the metadata by their name", async ({ fresh: ledger }) => {
    const { request } = await readyToDeliver(ledger);
    const candidate = candidateMetadata(request.content, WORK);
    for (const [key, metadata] of [
      ["completion_delivery", { completion_delivery: {} }],
      ["completion_delivery_import_pending", { completion_delivery_import_pending: true }],
      ["candidate_verdict_metadata_sha256", { candidate_verdict_metadata_sha256: sha256("") }],
      ["review_recovery", { review_recovery: {} }],
      ["review_status", { ...candidate, review_status: "verified" }],
      ["candidate_content_sha256", { ...candidate, candidate_content_sha256: sha256("other") }],
    ] as const)
      await expectRefused(
        ledger,
        () => ledger.deliveries.commit({ ...request, messageMetadata: metadata }),
        invalid(`messageMetadata.${key}`),
      );
  });

  test("refuses a manifest that is not what the ledger would write, by the field", async ({
    fresh: ledger,
  }) => {
    const { root, version, entry, request } = await readyToDeliver(ledger);
    const second = await ledger.artifacts.save({ filename: "b", bytes: encode("b"), frameId: root });
    const neighbour = await versionElsewhere(ledger, "project-1");
    const stranger = await versionElsewhere(ledger, "project-2");
    const { manifest } = request;
    const forged = (change: Partial<typeof entry>) => ({ ...manifest, artifacts: [{ ...entry, ...change }] });
    const differs = conflict("manifest_differs", "manifest.artifacts[0]");
    const cases: [string, object, Refusal][] = [
      ["size", forged({ size_bytes: 28 }), differs],
      ["digest", forged({ sha256: sha256("other") }), differs],
      ["file name", forged({ filename: "Candidate.csv" }), differs],
      ["type", forged({ content_type: "text/plain" }), differs],
      ["URL", forged({ url: `${entry.url}?v=2` }), differs],
      ["URL elsewhere", forged({ url: `https://example.org${entry.url}` }), differs],
      ["artifact", forged({ artifact_id: second.artifactId }), differs],
      ["version of another artifact", forged({ version_id: second.versionId }), differs],
      [
        "repeated version",
        { ...manifest, artifacts: [entry, entry] },
        invalid("manifest.artifacts[1].version_id"),
      ],
      ["root", { ...manifest, root_frame_id: neighbour.root }, invalid("manifest.root_frame_id")],
      ["no artifact", { ...manifest, artifacts: [] }, invalid("manifest.artifacts")],
      ["another schema", { ...manifest, schema_version: 2 }, invalid("manifest.schema_version")],
      [
        "surplus field of an entry",
        { ...manifest, artifacts: [{ ...entry, path: "/tmp/x" }] },
        invalid("manifest.artifacts[0].path"),
      ],
      [
        "second entry",
        { ...manifest, artifacts: [entry, { ...entry, version_id: second.versionId }] },
        {
          ...differs,
          field: "manifest.artifacts[1]",
        },
      ],
    ];
    for (const [why, value, refusal] of cases) {
      const { expectedManifestSha256: _, ...others } = request;
      // As somebody who knows the format would: with the digest that fits.
      for (const expected of [{}, { expectedManifestSha256: digest(value) }])
        await expectRefused(
          ledger,
          () => ledger.deliveries.commit({ ...others, ...expected, manifest: value as typeof manifest }),
          refusal,
          why,
        );
    }
    await expectRefused(
      ledger,
      () => ledger.deliveries.commit({ ...request, expectedManifestSha256: stranger.manifest.sha256 }),
      invalid("expectedManifestSha256"),
    );
    expect(version.versionId).toBe(entry.version_id);
    expect((await ledger.deliveries.commit(request)).created).toBe(true);
  });

  test("refuses versions of another session or project, and unknown ones, by the place in the manifest", async ({
    fresh: ledger,
  }) => {
    const { request, entry, root } = await readyToDeliver(ledger);
    const neighbour = await versionElsewhere(ledger, "project-1");
    const stranger = await versionElsewhere(ledger, "project-2");
    const { expectedManifestSha256: _, ...others } = request;
    const commit = (value: object) =>
      ledger.deliveries.commit({ ...others, manifest: value as typeof request.manifest });
    const { manifest } = request;
    for (const [why, value, refusal] of [
      [
        "another session",
        { ...manifest, artifacts: [entry, ...neighbour.manifest.value.artifacts] },
        conflict("version_out_of_scope", "manifest.artifacts[1].version_id"),
      ],
      [
        "another project",
        { ...stranger.manifest.value, root_frame_id: root },
        conflict("version_out_of_scope", "manifest.artifacts[0].version_id"),
      ],
      [
        "project of another session",
        { ...manifest, project_id: "project-2" },
        conflict("version_out_of_scope", "manifest.artifacts[0].version_id"),
      ],
      [
        "unknown version",
        { ...manifest, artifacts: [{ ...entry, version_id: "v-unknown" }] },
        {
          name: "NotFoundError",
          code: "version_not_found",
          field: "manifest.artifacts[0].version_id",
        },
      ],
    ] as [string, object, Refusal][])
      await expectRefused(ledger, () => commit(value), refusal, why);
  });

  test("refuses what a manifest does not have, as every unknown field", async ({ fresh: ledger }) => {
    const { request } = await readyToDeliver(ledger);
    const { expectedManifestSha256: _, ...others } = request;
    const manifest = { ...request.manifest, verified: true };
    await expectRefused(
      ledger,
      () => ledger.deliveries.commit({ ...others, manifest }),
      invalid("manifest.verified"),
    );
  });

  test("refuses a version whose row was changed", async ({ fresh: ledger }) => {
    const { request, entry } = await readyToDeliver(ledger);
    const forged = { ...entry, size_bytes: 28 };
    await ledger.testing.sql("UPDATE artifact_versions SET size_bytes = 28");
    await expectRefused(
      ledger,
      () =>
        ledger.deliveries.commit({
          ...request,
          manifest: { ...request.manifest, artifacts: [forged] },
          expectedManifestSha256: digest({ ...request.manifest, artifacts: [forged] }),
        }),
      { name: "IntegrityError", code: "version_damaged" },
    );
  });
});

describe("the repetition of a commit", () => {
  test("is answered with the first delivery, also once it is published", async ({ fresh: ledger }) => {
    const { request } = await readyToDeliver(ledger);
    const first = await ledger.deliveries.commit(request);
    const rows = await everyRow(ledger);
    expect(
      await ledger.deliveries.commit({
        ...request,
        messageMetadata: { note: "plain" },
        createdAt: 999,
      }),
    ).toEqual({ ...first, created: false });
    expect(await everyRow(ledger)).toEqual(rows);

    const published = await ledger.deliveries.publish({ deliveryId: first.deliveryId, at: 120 });
    expect(await ledger.deliveries.commit(request)).toEqual({ ...published, created: false });
  });

  test("with another request is a conflict, before and after it was published", async ({ fresh: ledger }) => {
    const { root, request } = await readyToDeliver(ledger);
    const other = await ledger.artifacts.save({ filename: "b", bytes: encode("b"), frameId: root });
    const manifest = await ledger.deliveries.buildManifest({
      rootFrameId: root,
      projectId: "project-1",
      versions: [other.versionId],
    });
    const { deliveryId } = await ledger.deliveries.commit(request);
    const expectConflicts = async () => {
      for (const change of [
        { content: "another answer" },
        { frameId: null },
        { manifest: manifest.value, expectedManifestSha256: manifest.sha256 },
        { messageMetadata: { note: "other" } },
        { messageMetadata: null },
        { messageMetadata: candidateMetadata(request.content, WORK) },
      ])
        await expectRefused(
          ledger,
          () => ledger.deliveries.commit({ ...request, ...change }),
          conflict("idempotency_key_reused", "idempotencyKey"),
          JSON.stringify(change),
        );
    };
    await expectConflicts();
    await ledger.deliveries.publish({ deliveryId });
    await expectConflicts();
  });

  test("on another branch is another delivery", async ({ fresh: ledger }) => {
    const { root, request } = await readyToDeliver(ledger);
    const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    const { branchId } = await ledger.branches.fork({ rootFrameId: root, fromCheckpointId: checkpointId });
    const first = await ledger.deliveries.commit(request);
    const second = await ledger.deliveries.commit({ ...request, branchId });
    expect([second.created, second.deliveryId === first.deliveryId, second.messageSeq]).toEqual([
      true,
      false,
      1,
    ]);
  });

  for (const route of ["promotion", "recovery"] as const) {
    test(`is answered with the first delivery after ${route} too (W7)`, async ({ fresh: ledger }) => {
      const { root, committed } = await unreviewedCandidate(ledger);
      const request = {
        idempotencyKey: committed.idempotencyKey,
        rootFrameId: root,
        frameId: root,
        content: committed.messageContent,
        manifest: committed.manifest,
        expectedManifestSha256: committed.manifestSha256,
        messageMetadata: candidateMetadata(committed.messageContent, WORK),
      };
      expect(await ledger.deliveries.commit(request)).toEqual({ ...committed, created: false });

      if (route === "promotion")
        await ledger.runs.terminate(settling(committed, "review_unavailable", "No reviewer was there."));
      else await ledger.recovery.reconcileStartup({ now: 140 });

      const settled = await ledger.deliveries.get({ deliveryId: committed.deliveryId });
      expect(settled).toMatchObject({
        status: "published",
        publishedAt: 140,
        messageContent: route === "promotion" ? "No reviewer was there." : committed.messageContent,
      });
      const rows = await everyRow(ledger);
      expect(await ledger.deliveries.commit(request)).toEqual({ ...settled, created: false });
      expect(await everyRow(ledger)).toEqual(rows);
      await expectRefused(
        ledger,
        () =>
          ledger.deliveries.commit({ ...request, content: "No reviewer was there.", messageMetadata: null }),
        conflict("idempotency_key_reused", "idempotencyKey"),
      );
    });
  }
});

describe("publishing", () => {
  test("happens once; a later call is answered with what is published", async ({ fresh: ledger }) => {
    const { request } = await readyToDeliver(ledger);
    const { created: _, ...committed } = await ledger.deliveries.commit(request);
    const { deliveryId } = committed;
    const published = await ledger.deliveries.publish({ deliveryId, at: 100 });
    expect(published).toEqual({
      ...committed,
      status: "published",
      publishedAt: 100,
      messageMetadata: {
        note: "plain",
        completion_delivery: {
          delivery_id: deliveryId,
          manifest_sha256: committed.manifestSha256,
          status: "published",
          published_at: 100,
        },
      },
    });
    const rows = await everyRow(ledger);
    expect(await ledger.deliveries.publish({ deliveryId, at: 200 })).toEqual(published);
    expect(await ledger.deliveries.publish({ deliveryId, at: 1 })).toEqual(published);
    expect(await ledger.deliveries.get({ deliveryId })).toEqual(published);
    expect(await everyRow(ledger)).toEqual(rows);
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("before the commit is refused", async ({ fresh: ledger }) => {
    const { request } = await readyToDeliver(ledger);
    const { deliveryId } = await ledger.deliveries.commit(request);
    await expectRefused(ledger, () => ledger.deliveries.publish({ deliveryId, at: 99 }), invalid("at"));
  });

  test("of a candidate is refused, as nobody has judged it", async ({ fresh: ledger }) => {
    const root = await sessionOf(ledger, "project-1");
    const { deliveryId } = await commitCandidateDelivery(ledger, root, WORK);
    await expectRefused(ledger, () => ledger.deliveries.publish({ deliveryId }), conflict("not_judged"));
  });

  for (const write of ["UPDATE ON completion_deliveries", "UPDATE ON messages"]) {
    test(`writes both rows or none: ${write} fails`, async ({ fresh: ledger }) => {
      const { request } = await readyToDeliver(ledger);
      const { created: _, ...committed } = await ledger.deliveries.commit(request);
      const { deliveryId } = committed;
      const { mend } = await breakTable(ledger, write);
      await expectRefused(ledger, () => ledger.deliveries.publish({ deliveryId, at: 120 }), {
        name: "LedgerError",
        code: "constraint",
      });
      expect(await ledger.deliveries.get({ deliveryId })).toEqual(committed);
      await mend();
      expect((await ledger.deliveries.publish({ deliveryId, at: 120 })).publishedAt).toBe(120);
    });
  }
});

test("a delivery whose parts do not agree is never shown, published or repeated", async ({
  fresh: ledger,
}) => {
  const { root, request, entry } = await readyToDeliver(ledger);
  const other = await ledger.artifacts.save({ filename: "b", bytes: encode("b"), frameId: root });
  const second = await ledger.messages.add({
    rootFrameId: root,
    role: "assistant",
    content: request.content,
  });
  const { created: _, ...committed } = await ledger.deliveries.commit(request);
  const { deliveryId, messageMetadata } = committed;
  const envelope = messageMetadata["completion_delivery"] as Record<string, string>;
  const withEnvelope = (change: object | undefined) =>
    canonicalJson({
      note: "plain",
      ...(change !== undefined && { completion_delivery: { ...envelope, ...change } }),
    });
  const forged = { ...request.manifest, artifacts: [{ ...entry, filename: "forged.csv" }] };
  const message = (what: string, assignments: string, ...values: Tampering["values"] & {}): Tampering => ({
    what,
    act: `UPDATE messages SET ${assignments} WHERE message_id = '${committed.messageId}'`,
    values,
  });
  const delivery = (what: string, assignments: string, ...values: Tampering["values"] & {}): Tampering => ({
    what,
    act: `UPDATE completion_deliveries SET ${assignments}`,
    values,
  });
  const relations = (what: string, act: string, ...values: Tampering["values"] & {}): Tampering => ({
    what,
    act,
    values,
  });
  const tampering: Record<string, Tampering[]> = {
    messages: [
      message("content", "content = 'forged'"),
      message("content by one blank", "content = content || ' '"),
      message("role", "role = 'user'"),
      message("branch", "branch_id = 'elsewhere'"),
      message("root", "root_frame_id = 'elsewhere'"),
      message("frame", "frame_id = NULL"),
      message("seq", "seq = 9"),
      message("time", "created_at = 101"),
      message("no metadata", "metadata = NULL"),
      message("metadata that is not JSON", "metadata = '{'"),
      message("no envelope", "metadata = ?", withEnvelope(undefined)),
      message("envelope of another delivery", "metadata = ?", withEnvelope({ delivery_id: "delivery-2" })),
      message("envelope of another manifest", "metadata = ?", withEnvelope({ manifest_sha256: sha256("") })),
      message(
        "envelope that is published",
        "metadata = ?",
        withEnvelope({ status: "published", published_at: 100 }),
      ),
      message("envelope with a time", "metadata = ?", withEnvelope({ published_at: 100 })),
      message("an entry more", "metadata = ?", canonicalJson({ ...messageMetadata, unverified: false })),
      relations("message removed", "DELETE FROM messages WHERE message_id = ?", committed.messageId),
    ],
    completion_deliveries: [
      delivery("manifest", "manifest_json = ?", canonicalJson(forged)),
      delivery(
        "manifest with its digest",
        "manifest_json = ?, manifest_sha256 = ?",
        canonicalJson(forged),
        digest(forged),
      ),
      delivery("manifest that is not JSON", "manifest_json = '{'"),
      delivery("manifest digest", "manifest_sha256 = ?", sha256("")),
      delivery("content digest", "content_sha256 = ?", sha256("")),
      delivery("request digest", "request_sha256 = ?", sha256("")),
      delivery("status", "status = 'published', published_at = 100"),
      delivery("message", "message_id = ?", second.messageId),
      delivery("branch", "branch_id = 'elsewhere'"),
      delivery("root", "root_frame_id = 'elsewhere'"),
      delivery("frame", "frame_id = NULL"),
      delivery("key", "idempotency_key = 'other'"),
      delivery("time", "created_at = 101"),
      relations("delivery removed", "DELETE FROM completion_deliveries"),
    ],
    completion_delivery_artifacts: [
      relations("size", "UPDATE completion_delivery_artifacts SET size_bytes = 28"),
      relations("digest", "UPDATE completion_delivery_artifacts SET sha256 = ?", sha256("")),
      relations("version", "UPDATE completion_delivery_artifacts SET version_id = ?", other.versionId),
      relations("artifact", "UPDATE completion_delivery_artifacts SET artifact_id = ?", other.artifactId),
      relations("relation removed", "DELETE FROM completion_delivery_artifacts"),
      relations(
        "relation added",
        "INSERT INTO completion_delivery_artifacts VALUES (?, 1, ?, ?, 1, ?)",
        deliveryId,
        other.artifactId,
        other.versionId,
        other.checksum,
      ),
    ],
  };

  for (const [table, acts] of Object.entries(tampering)) {
    for (const act of acts) {
      await whileTampered(ledger, table, act, async () => {
        for (const read of [ledger.deliveries.get, ledger.deliveries.publish]) {
          const { name } = await refusalOf(read({ deliveryId }));
          expect({ table, what: act.what, name }).toEqual({ table, what: act.what, name: "IntegrityError" });
        }
      });
    }
  }
  expect(await ledger.deliveries.get({ deliveryId })).toEqual(committed);
  expect(await ledger.verify()).toMatchObject({ ok: true });
});

test("relations that do not agree with their delivery are found by verifying the whole, as every changed row", async ({
  fresh: ledger,
}) => {
  const { request } = await readyToDeliver(ledger);
  await ledger.deliveries.commit(request);
  for (const act of [
    "UPDATE completion_delivery_artifacts SET size_bytes = 28",
    "DELETE FROM completion_delivery_artifacts",
  ])
    await whileTampered(ledger, "completion_delivery_artifacts", { what: act, act }, async () => {
      const { ok } = await ledger.verify();
      expect({ act, ok }).toEqual({ act, ok: false });
    });
});

test("recovery leaves a delivery that is no candidate as it is", async ({ fresh: ledger }) => {
  const { request } = await readyToDeliver(ledger);
  const { created: _, ...committed } = await ledger.deliveries.commit(request);
  expect(await ledger.recovery.reconcileCandidates({ now: 500 })).toEqual([]);
  expect(await ledger.deliveries.get({ deliveryId: committed.deliveryId })).toEqual(committed);
});
