import { expect } from "vitest";
import { REVERT_POINTS } from "../../src/protocol/testing-wire.ts";
import { test } from "../support/session.ts";
import { newWorkspace, readTexts, writeText } from "../support/workspace.ts";

/** The worker dies in a revert while the tab that asked for it lives: the command is sent again, and goes on. */

const BEFORE = { "kept.txt": "kept", "changed.txt": "before" };
const AFTER = { "kept.txt": "kept", "changed.txt": "after", "new.txt": "new" };

test.for(REVERT_POINTS)(
  "a revert and its undo, cut off at %s, are carried out once",
  async (point, { session }) => {
    const { ledger, root } = session;
    const directory = await newWorkspace(BEFORE);
    const checkpoint = async () =>
      ledger.checkpoints.create({
        rootFrameId: root,
        reason: "manual",
        workspaceTreeId: (await ledger.workspace.capture({ directory })).treeId,
      });
    await ledger.messages.add({ rootFrameId: root, role: "user", content: "one" });
    const { checkpointId } = await checkpoint();
    for (const [path, text] of Object.entries(AFTER)) await writeText(directory, path, text);
    await ledger.messages.add({ rootFrameId: root, role: "user", content: "two" });
    await checkpoint();
    const said = async () =>
      (await ledger.messages.list({ rootFrameId: root })).map(({ content }) => content);
    const cutOff = async <Result>(send: () => Promise<Result>): Promise<Result> => {
      const held = ledger.testing.holdNext(point);
      const answer = send();
      await held;
      await ledger.testing.crash();
      return answer;
    };

    await cutOff(() =>
      ledger.branches.revert({ rootFrameId: root, checkpointId, directory, idempotencyKey: "back" }),
    );
    expect(await readTexts(directory)).toEqual(BEFORE);
    expect(await said()).toEqual(["one"]);
    await cutOff(() => ledger.branches.undo({ rootFrameId: root, directory, idempotencyKey: "forth" }));
    expect(await readTexts(directory)).toEqual(AFTER);
    expect(await said()).toEqual(["one", "two"]);
    expect(await ledger.verify()).toMatchObject({ ok: true });
  },
);
