import { describe, expect } from "vitest";
import { RecoveryRequiredError, revertRecoverySettingKey, ValidationError } from "../../src/index.ts";
import type { TestLedger } from "../../src/testing.ts";
import { candidateFields, startFields } from "../support/fields.ts";
import { projectedRun } from "../support/scenario.ts";
import { type SessionFixture, test } from "../support/session.ts";
import { newWorkspace, readTexts, writeText } from "../support/workspace.ts";

describe("a revert", () => {
  test("brings back history, workspace and artifact heads; undo brings the state before back", async ({
    session,
  }) => {
    const { ledger, root } = session;
    const { directory, first } = await twoCheckpoints(session);
    const before = await stateOf(session, directory);

    const reverted = await ledger.branches.revert({
      rootFrameId: root,
      checkpointId: first,
      directory,
      idempotencyKey: "back",
    });
    expect(reverted).toMatchObject({
      applied: true,
      created: true,
      checkpoint: { reason: "revert_continue" },
    });
    expect(await stateOf(session, directory)).toMatchObject({
      messages: ["one"],
      groups: [0],
      files: { "a.txt": "A", "b/c.txt": "C" },
      artifact: "v-1",
    });

    const undone = await ledger.branches.undo({ rootFrameId: root, directory, idempotencyKey: "forth" });
    expect(undone).toMatchObject({ applied: true });
    expect(await stateOf(session, directory)).toEqual(before);
    expect(await ledger.verify()).toMatchObject({ ok: true });
    expect(await ledger.settings.get({ key: revertRecoverySettingKey(root) })).toBeNull();
  });

  test("abandons the unfinished run of the branch, and what follows counts again", async ({ session }) => {
    const { ledger, root } = session;
    await ledger.runs.start(startFields(root));
    const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    await ledger.runs.recordCandidate(candidateFields);
    await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    await ledger.branches.revert({ rootFrameId: root, checkpointId, idempotencyKey: "back" });

    expect((await projectedRun(ledger, root))?.status).toBe("running");
    await expect(
      ledger.runs.recordCandidate({ ...candidateFields, idempotencyKey: "again" }),
    ).rejects.toThrow("abandoned branch tail");
    await ledger.runs.start(startFields(root, { runId: "run-2", turnId: "turn-2" }));
    expect((await projectedRun(ledger, root))?.runId).toBe("run-2");
    expect(
      (await ledger.events.list({ rootFrameId: root, branchId: root })).map(({ runId, type }) => [
        runId,
        type,
      ]),
    ).toEqual([
      ["run-1", "auto_run_started"],
      ["run-2", "auto_run_started"],
    ]);
  });

  test("is repeated by its key with the same answer, and refused under it for another checkpoint", async ({
    session,
  }) => {
    const { ledger, root } = session;
    const { directory, first, second } = await twoCheckpoints(session);
    const request = { rootFrameId: root, checkpointId: first, directory, idempotencyKey: "back" };
    const answer = await ledger.branches.revert(request);
    await ledger.messages.add({ rootFrameId: root, role: "user", content: "after" });

    const repeated = await ledger.branches.revert(request);
    expect(repeated).toMatchObject({ created: false });
    expect(repeated.applied && repeated.checkpoint).toEqual(answer.applied && answer.checkpoint);
    await expect(ledger.branches.revert({ ...request, checkpointId: second })).rejects.toMatchObject({
      code: "idempotency_key_reused",
    });
  });

  test("over a workspace that was edited meanwhile does nothing and names the files", async ({ session }) => {
    const { ledger, root } = session;
    const { directory, first } = await twoCheckpoints(session);
    await writeText(directory, "a.txt", "edited by hand");
    const before = await stateOf(session, directory);

    const refused = await ledger.branches.revert({
      rootFrameId: root,
      checkpointId: first,
      directory,
      idempotencyKey: "back",
    });
    expect(refused).toMatchObject({
      applied: false,
      reason: "workspace_conflicts",
      preview: { canApply: false, workspace: { conflicts: [{ path: "a.txt" }] } },
    });
    expect(await stateOf(session, directory)).toEqual(before);
    expect(await ledger.settings.get({ key: revertRecoverySettingKey(root) })).toBeNull();
  });

  test("needs the workspace where there was one", async ({ session }) => {
    const { ledger, root } = session;
    const { first } = await twoCheckpoints(session);
    const refusal = ledger.branches.revert({
      rootFrameId: root,
      checkpointId: first,
      idempotencyKey: "back",
    });
    await expect(refusal).rejects.toThrow(ValidationError);
    await expect(refusal).rejects.toMatchObject({ details: { field: "directory" } });
    expect(await ledger.settings.get({ key: revertRecoverySettingKey(root) })).toBeNull();
  });

  test("is previewed without a trace", async ({ session }) => {
    const { ledger, root } = session;
    const { directory, first } = await twoCheckpoints(session);
    const entries = "SELECT COUNT(*) AS n FROM journal";
    const before = await ledger.testing.sql(entries);
    expect(
      await ledger.branches.previewRevert({ rootFrameId: root, checkpointId: first, directory }),
    ).toMatchObject({
      canApply: true,
      cursors: { messages: { from: 2, to: 1 }, actions: { from: 1, to: 0 } },
      artifactVersions: { added: ["v-1"], removed: ["v-2"] },
      workspace: { deletes: ["new.txt"] },
    });
    expect(await ledger.testing.sql(entries)).toEqual(before);
  });
});

describe("an interrupted revert", () => {
  test("that had touched nothing is cancelled", async ({ session: { ledger, root } }) => {
    const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    await putMarker(ledger, root, {
      state: "preparing",
      current_checkpoint_id: checkpointId,
      target_checkpoint_id: checkpointId,
    });
    await expectBlocked(ledger, root);
    expect(await ledger.recovery.reconcileReverts({ rootFrameId: root })).toEqual({
      rootFrameId: root,
      resolved: true,
      state: "cancelled",
    });
    await expectFree(ledger, root);
  });

  test("whose files are half-way is taken back to the state before", async ({ session }) => {
    const { ledger, root } = session;
    const { directory, first, trees } = await twoCheckpoints(session);
    const before = await readTexts(directory);
    const undo = await ledger.checkpoints.create({
      rootFrameId: root,
      reason: "before_revert",
      internal: true,
      workspaceTreeId: trees.second,
      metadata: { operation_id: "so-1" },
    });
    await putMarker(ledger, root, {
      state: "reverting",
      current_checkpoint_id: "unused",
      target_checkpoint_id: first,
      undo_checkpoint_id: undo.checkpointId,
      revert_checkpoint_id: "cp-never",
      undo_tree_id: trees.second,
      target_tree_id: trees.first,
    });
    await writeText(directory, "a.txt", "A");

    expect(await ledger.recovery.reconcileReverts({ rootFrameId: root })).toMatchObject({
      resolved: false,
      state: "recovery_required",
      error: expect.stringContaining("directory"),
    });
    expect(await ledger.recovery.reconcileReverts({ rootFrameId: root, directory })).toMatchObject({
      resolved: true,
      state: "compensated",
    });
    expect(await readTexts(directory)).toEqual(before);
    await expectFree(ledger, root);
  });

  test("of a living tab is left alone", async ({ session: { ledger, root } }) => {
    const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    await putMarker(ledger, root, {
      state: "preparing",
      owner_instance_id: "another-tab",
      current_checkpoint_id: checkpointId,
      target_checkpoint_id: checkpointId,
    });
    expect(
      await ledger.recovery.reconcileReverts({ rootFrameId: root, liveInstanceIds: ["another-tab"] }),
    ).toMatchObject({ resolved: false, state: "owner_alive" });
    await expectBlocked(ledger, root);
  });

  test("with a corrupt marker is released by hand, by its exact text and the branch head", async ({
    session: { ledger, root },
  }) => {
    const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    await ledger.settings.set({ key: revertRecoverySettingKey(root), value: "{broken" });
    const outcome = await ledger.recovery.reconcileReverts({ rootFrameId: root });
    expect(outcome).toMatchObject({
      resolved: false,
      state: "marker_corrupt",
      markerText: "{broken",
      headCheckpointId: checkpointId,
    });
    const release = { rootFrameId: root, markerText: "{broken", headCheckpointId: checkpointId };
    await expect(ledger.recovery.releaseBarrier({ ...release, markerText: "{" })).rejects.toMatchObject({
      code: "barrier_differs",
    });
    await expect(
      ledger.recovery.releaseBarrier({ ...release, headCheckpointId: null }),
    ).rejects.toMatchObject({
      code: "head_moved",
    });
    expect(await ledger.recovery.releaseBarrier(release)).toEqual({ released: true });
    await expectFree(ledger, root);
  });
});

test("behind the barrier every write in the session is refused, and none elsewhere", async ({
  session: { ledger, root },
}) => {
  const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
  const { messageId } = await ledger.messages.add({ rootFrameId: root, role: "user", content: "before" });
  const [project] = await ledger.projects.list();
  const projectId = project?.projectId ?? "";
  const other = await ledger.frames.create({ projectId });
  await ledger.settings.set({ key: revertRecoverySettingKey(root), value: "" });

  const writes = [
    ledger.branches.ensure({ rootFrameId: root, branchId: "new" }),
    ledger.branches.fork({ rootFrameId: root, fromCheckpointId: checkpointId }),
    ledger.branches.revert({ rootFrameId: root, checkpointId, idempotencyKey: "k" }),
    ledger.checkpoints.create({ rootFrameId: root, reason: "manual" }),
    ledger.frames.create({ projectId, parentId: root }),
    ledger.messages.add({ rootFrameId: root, role: "user", content: "no" }),
    ledger.messages.updateMetadata({ messageId, metadata: { note: "no" } }),
    ledger.artifacts.save({ filename: "f", bytes: new Uint8Array(1), frameId: root }),
    ledger.actions.appendToolGroup({ rootFrameId: root, turnId: "t", events: [{ type: "result" }] }),
  ];
  for (const write of writes) await expect(write).rejects.toThrow(RecoveryRequiredError);
  expect(
    await ledger.messages.add({ rootFrameId: other.rootFrameId, role: "user", content: "yes" }),
  ).toMatchObject({
    created: true,
  });
});

/** A session with a message, an action group, an artifact version and a workspace at each of two checkpoints. */
async function twoCheckpoints({ ledger, root }: SessionFixture) {
  const directory = await newWorkspace({ "a.txt": "A", "b/c.txt": "C" });
  const step = async (n: 1 | 2, artifactId?: string) => {
    await ledger.messages.add({ rootFrameId: root, role: "user", content: n === 1 ? "one" : "two" });
    await ledger.actions.appendGroup({ rootFrameId: root, turnId: `turn-${n}`, kind: "user" });
    const version = await ledger.artifacts.save({
      filename: "plot.svg",
      bytes: new TextEncoder().encode(`plot ${n}`),
      frameId: root,
      versionId: `v-${n}`,
      ...(artifactId !== undefined && { artifactId: artifactId }),
    });
    const tree = await ledger.workspace.capture({ directory });
    const { checkpointId } = await ledger.checkpoints.create({
      rootFrameId: root,
      reason: "turn_complete",
      workspaceTreeId: tree.treeId,
      artifactVersions: [version.versionId],
    });
    return { checkpointId, treeId: tree.treeId, artifactId: version.artifactId };
  };
  const first = await step(1);
  await writeText(directory, "a.txt", "A changed");
  await writeText(directory, "new.txt", "new");
  const second = await step(2, first.artifactId);
  return {
    directory,
    first: first.checkpointId,
    second: second.checkpointId,
    trees: { first: first.treeId, second: second.treeId },
  };
}

async function stateOf({ ledger, root }: SessionFixture, directory: FileSystemDirectoryHandle) {
  const [artifact] = await ledger.artifacts.list({ rootFrameId: root });
  return {
    messages: (await ledger.messages.list({ rootFrameId: root })).map(({ content }) => content),
    groups: (await ledger.actions.listGroups({ rootFrameId: root })).map(({ ordinal }) => ordinal),
    files: await readTexts(directory),
    artifact: artifact?.latestVersionId,
  };
}

async function putMarker(ledger: TestLedger, root: string, fields: Record<string, unknown>): Promise<void> {
  const marker = { schema_version: 1, operation_id: "so-1", branch_id: root, ...fields };
  await ledger.settings.set({ key: revertRecoverySettingKey(root), value: JSON.stringify(marker) });
}

async function expectBlocked(ledger: TestLedger, root: string): Promise<void> {
  const write = ledger.messages.add({ rootFrameId: root, role: "user", content: "no" });
  await expect(write).rejects.toThrow("requires recovery");
}

async function expectFree(ledger: TestLedger, root: string): Promise<void> {
  const write = await ledger.messages.add({ rootFrameId: root, role: "user", content: "yes" });
  expect(write.created).toBe(true);
}
