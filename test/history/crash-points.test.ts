import fc from "fast-check";
import { describe, expect } from "vitest";
import { revertRecoverySettingKey } from "../../src/index.ts";
import { REVERT_POINTS, type RevertPoint } from "../../src/protocol/testing-wire.ts";
import type { TestLedger } from "../../src/testing.ts";
import { freshName, newSession, openBuilt, removeLedger, test } from "../support/session.ts";
import { newWorkspace, readTexts, writeText } from "../support/workspace.ts";

const BEFORE = { "kept.txt": "kept", "changed.txt": "after", "new.txt": "new" };
const TARGET = { "kept.txt": "kept", "changed.txt": "before", "gone.txt": "gone" };

/** What recovery must make of a revert whose worker died at each step. */
const FATE: Record<RevertPoint, "cancelled" | "compensated" | "none"> = {
  "branches.revert.prepared": "cancelled",
  "branches.revert.planned": "cancelled",
  "branches.revert.captured": "cancelled",
  "branches.revert.undoKept": "compensated",
  "branches.revert.restored": "compensated",
  // The commit took the barrier away itself.
  "branches.revert.committed": "none",
};

describe("a tab that dies in a revert leaves it undone or done, never half", () => {
  for (const point of REVERT_POINTS) {
    test(`at ${point}`, async () => {
      await withCrashedRevert(point, [], async (ledger, { root, directory }) => {
        await expectRecovered(ledger, root, directory, point);
      });
    });
  }

  test("property: wherever it dies and whichever files it had written", async () => {
    const someWritten = fc.subarray(Object.keys({ ...BEFORE, ...TARGET }));
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...REVERT_POINTS), someWritten, async (point, written) => {
        const touched = point === "branches.revert.undoKept" ? written : [];
        await withCrashedRevert(point, touched, async (ledger, { root, directory }) => {
          await expectRecovered(ledger, root, directory, point);
        });
      }),
      { numRuns: 6 },
    );
  }, 120_000);

  test("recovery that is repeated, or has no folder to work on, changes nothing more", async () => {
    await withCrashedRevert("branches.revert.restored", [], async (ledger, { root, directory }) => {
      expect(await ledger.recovery.reconcileReverts({ rootFrameId: root })).toMatchObject({
        resolved: false,
      });
      expect(await readTexts(directory)).toEqual(TARGET);
      await expectRecovered(ledger, root, directory, "branches.revert.restored");
      expect(await ledger.recovery.reconcileReverts({ rootFrameId: root, directory })).toMatchObject({
        resolved: true,
        state: "none",
      });
    });
  });
});

interface Crashed {
  readonly root: string;
  readonly directory: FileSystemDirectoryHandle;
}

/** Kills the worker at a step of a revert; the files named had been written by then. Opens the ledger again. */
async function withCrashedRevert(
  point: RevertPoint,
  written: readonly string[],
  check: (ledger: TestLedger, crashed: Crashed) => Promise<void>,
): Promise<void> {
  const name = freshName();
  const dying = await openBuilt(name);
  const root = await newSession(dying);
  const directory = await newWorkspace(TARGET);
  const target = await checkpointNow(dying, root, directory, "one");
  await directory.removeEntry("gone.txt");
  for (const [path, text] of Object.entries(BEFORE)) await writeText(directory, path, text);
  await checkpointNow(dying, root, directory, "two");

  const reached = dying.testing.holdNext(point);
  const revert = dying.branches.revert({
    rootFrameId: root,
    checkpointId: target,
    directory,
    idempotencyKey: "back",
  });
  const cut = expect(revert).rejects.toMatchObject({ code: "ledger_closed" });
  await reached;
  await dying.testing.kill();
  await cut;
  for (const path of written) await putAsInTarget(directory, path);

  await using ledger = await openBuilt(name);
  await check(ledger, { root, directory });
  expect(await ledger.verify()).toMatchObject({ ok: true });
  await ledger.close();
  await removeLedger(name);
}

async function checkpointNow(
  ledger: TestLedger,
  root: string,
  directory: FileSystemDirectoryHandle,
  message: string,
): Promise<string> {
  await ledger.messages.add({ rootFrameId: root, role: "user", content: message });
  const { treeId } = await ledger.workspace.capture({ directory });
  const checkpoint = await ledger.checkpoints.create({
    rootFrameId: root,
    reason: "turn",
    workspaceTreeId: treeId,
  });
  return checkpoint.checkpointId;
}

async function putAsInTarget(directory: FileSystemDirectoryHandle, path: string): Promise<void> {
  const text = (TARGET as Record<string, string>)[path];
  if (text !== undefined) await writeText(directory, path, text);
  else await directory.removeEntry(path);
}

async function expectRecovered(
  ledger: TestLedger,
  root: string,
  directory: FileSystemDirectoryHandle,
  point: RevertPoint,
): Promise<void> {
  const isCommitted = FATE[point] === "none";
  if (!isCommitted) {
    const blocked = ledger.messages.add({ rootFrameId: root, role: "user", content: "no" });
    await expect(blocked).rejects.toThrow("requires recovery");
  }
  expect(await ledger.recovery.reconcileReverts({ rootFrameId: root, directory })).toEqual({
    rootFrameId: root,
    resolved: true,
    state: FATE[point],
  });
  expect(await readTexts(directory)).toEqual(isCommitted ? TARGET : BEFORE);
  const shown = (await ledger.messages.list({ rootFrameId: root })).map(({ content }) => content);
  expect(shown).toEqual(isCommitted ? ["one"] : ["one", "two"]);
  expect(await ledger.settings.get({ key: revertRecoverySettingKey(root) })).toBeNull();
}
