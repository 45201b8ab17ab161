import { describe, expect } from "vitest";
import type { LedgerError, StoredEvent } from "../../src/index.ts";
import { candidateFields, evidence, reviewFields, startFields } from "../support/fields.ts";
import { newSession, openBuilt, test } from "../support/session.ts";
import { newWorkspace } from "../support/workspace.ts";

/** Several openings of one ledger, each with its own worker and its own sign of life, as several tabs have. */

const words = (count: number) => Array.from({ length: count }, (_, n) => `word ${n}`);

describe("a ledger that is open twice", () => {
  test("is one: what either writes both read, in one order", async ({ session: { ledger, root } }) => {
    await using second = await openBuilt(ledger.name);
    for (const [index, ledgerOfTurn] of [ledger, second, second, ledger].entries())
      await ledgerOfTurn.messages.add({ rootFrameId: root, role: "user", content: `turn ${index}` });
    const messages = await second.messages.list({ rootFrameId: root });
    expect(messages.map(({ seq, content }) => [seq, content])).toEqual([
      [0, "turn 0"],
      [1, "turn 1"],
      [2, "turn 2"],
      [3, "turn 3"],
    ]);
    expect(await ledger.messages.list({ rootFrameId: root })).toEqual(messages);
  });

  test("gives each refusal to the one who asked, whole", async ({ session: { ledger } }) => {
    await using second = await openBuilt(ledger.name);
    await expect(second.runs.project({ rootFrameId: "nowhere" })).rejects.toMatchObject({
      name: "NotFoundError",
      code: "session_not_found",
      details: { field: "rootFrameId" },
    });
  });

  test("lets one of them drive a run, until the other takes it over", async ({
    session: { ledger, root },
  }) => {
    await using second = await openBuilt(ledger.name);
    await ledger.runs.start(startFields(root, { ownerInstanceId: ledger.instanceId }));
    const refusal = { name: "LedgerConflictError", code: "run_of_other_owner" };
    await expect(second.runs.recordCandidate(candidateFields)).rejects.toMatchObject({
      ...refusal,
      details: { controllerId: ledger.instanceId },
    });
    await second.runs.takeOver({ runId: "run-1", fromInstanceId: ledger.instanceId });
    expect(await second.runs.recordCandidate(candidateFields)).toMatchObject({ status: "candidate" });
    await expect(ledger.reviews.start({ ...reviewFields, evidenceSnapshot: evidence })).rejects.toMatchObject(
      refusal,
    );
  });

  test("takes bytes, blobs, streams and folders from either, and gives files to either", async ({
    session: { ledger, root },
  }) => {
    await using second = await openBuilt(ledger.name);
    const bytes = new Uint8Array(200_000).map((_, index) => index % 251);
    const sources = {
      "a few bytes": () => bytes.slice(0, 10),
      "many bytes": () => bytes,
      "a blob": () => new Blob([bytes]),
      "a stream": () => new Blob([bytes]).stream(),
    };
    for (const [filename, source] of Object.entries(sources)) {
      const { versionId, sizeBytes } = await second.artifacts.save({
        filename,
        bytes: source(),
        frameId: root,
      });
      for (const each of [ledger, second]) {
        const file = await each.artifacts.open({ versionId });
        expect(new Uint8Array(await file.arrayBuffer())).toEqual(bytes.slice(0, sizeBytes));
      }
    }
    const directory = await newWorkspace({ "a.txt": "a" });
    const tree = await second.workspace.capture({ directory });
    expect(await ledger.workspace.capture({ directory })).toEqual(tree);
    expect(await inboxOf(ledger.name)).toEqual([]);
  });

  test("a stream that fails in the other tab is refused by its field", async ({
    session: { ledger, root },
  }) => {
    await using second = await openBuilt(ledger.name);
    const bytes = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: (controller) => controller.error(new Error("the camera was unplugged")),
    });
    await expect(second.artifacts.save({ filename: "f", bytes, frameId: root })).rejects.toMatchObject({
      code: "source_failed",
      details: { field: "bytes" },
    });
    expect(await inboxOf(ledger.name)).toEqual([]);
  });
});

describe("when the host goes", () => {
  test("in order, the other goes on and loses no command", async ({ session: { ledger, root } }) => {
    await using second = await openBuilt(ledger.name);
    const added = words(50).map((content) =>
      second.messages.add({ rootFrameId: root, role: "user", content }),
    );
    const closed = ledger.close();
    await Promise.all(added);
    await closed;
    const messages = await second.messages.list({ rootFrameId: root });
    expect(messages.map(({ content }) => content)).toEqual(words(50));
    expect(second.host()).toEqual({ instanceId: second.instanceId, epoch: 2 });
  });

  test("by a kill amid a burst, each command of the other takes effect once, in order", async ({
    session: { ledger, root },
  }) => {
    await using second = await openBuilt(ledger.name);
    const added = words(200).map((content) =>
      second.messages.add({ rootFrameId: root, role: "user", content }),
    );
    await added[0];
    await ledger.testing.kill();
    const answers = await Promise.all(added);
    const messages = await second.messages.list({ rootFrameId: root });
    expect(messages.map(({ content }) => content)).toEqual(words(200));
    expect(messages.map(({ messageId }) => messageId)).toEqual(answers.map(({ messageId }) => messageId));
    expect(await second.verify()).toMatchObject({ ok: true });
  });

  test("after it committed and before it answered, the first answer is given again", async ({
    session: { ledger, root },
  }) => {
    await using second = await openBuilt(ledger.name);
    const held = ledger.testing.holdNext("host.answer");
    const adding = second.messages.add({ rootFrameId: root, role: "user", content: "once" });
    await held;
    await ledger.testing.kill();
    const answer = await adding;
    expect(answer).toMatchObject({ created: true, content: "once", seq: 0 });
    expect(await second.messages.list({ rootFrameId: root })).toMatchObject([
      { messageId: answer.messageId },
    ]);
  });

  test("and comes back, nobody notices: a third opening in the place of the first", async ({
    session: { ledger, root },
  }) => {
    await using second = await openBuilt(ledger.name);
    await ledger.testing.kill();
    await using third = await openBuilt(ledger.name);
    await third.messages.add({ rootFrameId: root, role: "user", content: "from the third" });
    expect(await second.messages.list({ rootFrameId: root })).toMatchObject([{ content: "from the third" }]);
    expect(third.host()).toEqual(second.host());
  });
});

describe("a worker that crashes", () => {
  test("is started again by its page; what it owed is answered once, and the tab's runs go on", async ({
    session: { ledger, root },
  }) => {
    await ledger.runs.start(startFields(root, { ownerInstanceId: ledger.instanceId }));
    const held = ledger.testing.holdNext("host.answer");
    const recording = ledger.runs.recordCandidate(candidateFields);
    await held;
    await ledger.testing.crash();
    expect(await recording).toMatchObject({ created: true, status: "candidate" });
    const { run } = await ledger.runs.project({ rootFrameId: root });
    expect(run).toMatchObject({ status: "candidate" });
    expect(ledger.host()).toEqual({ instanceId: ledger.instanceId, epoch: 2 });
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("gives the database to another tab and serves its own as a standby", async ({
    session: { ledger, root },
  }) => {
    await using second = await openBuilt(ledger.name);
    await ledger.testing.crash();
    await ledger.messages.add({ rootFrameId: root, role: "user", content: "after" });
    expect(await second.messages.list({ rootFrameId: root })).toMatchObject([{ content: "after" }]);
    expect(ledger.host()).toEqual({ instanceId: second.instanceId, epoch: 2 });
  });
});

test("a tab that lost its lock writes no more, says so, and can open the ledger again", async ({
  session: { ledger, root },
}) => {
  const lock = `countersign:${ledger.name}:tab:${ledger.instanceId}`;
  await navigator.locks.request(lock, { steal: true }, () => {});
  await expect
    .poll(() => ledger.settings.get({ key: "k" }).catch(({ code }: LedgerError) => code))
    .toBe("tab_lost");
  await using again = await openBuilt(ledger.name);
  expect(again.instanceId).not.toBe(ledger.instanceId);
  expect(await again.messages.list({ rootFrameId: root })).toEqual([]);
});

describe("recovery by itself", () => {
  const automatic = { recovery: "automatic" } as const;

  test("closes the run of a tab that died in a review, in the tab that is left, and tells both why", async ({
    fresh: { name },
  }) => {
    const mine = `${name}-auto`;
    const dying = await openBuilt(mine, automatic);
    await using living = await openBuilt(mine, automatic);
    const root = await newSession(dying);
    const other = await newSession(living);
    await dying.runs.start(startFields(root, { ownerInstanceId: dying.instanceId }));
    await dying.runs.recordCandidate(candidateFields);
    await dying.reviews.start({ ...reviewFields, evidenceSnapshot: evidence });
    await living.runs.start(
      startFields(other, { runId: "run-2", turnId: "turn-2", ownerInstanceId: living.instanceId }),
    );
    const told = new Promise((resolve) => living.recovery.onReport(resolve));
    await dying.testing.kill();
    expect(await told).toMatchObject({
      runs: [{ runId: "run-1", status: "review_unavailable", terminalReason: "daemon_restart" }],
      messages: ["Run run-1 was closed as “review unavailable”: the tab that drove it is gone."],
    });
    expect(living.recovery.lastReport).toMatchObject({ failures: [] });
    expect((await living.runs.project({ rootFrameId: root })).run).toMatchObject({
      status: "review_unavailable",
    });
    expect((await living.runs.project({ rootFrameId: other })).run).toMatchObject({ status: "running" });
  });

  test("as a standby dies, the host closes what it left", async ({ fresh: { name } }) => {
    const mine = `${name}-auto`;
    await using host = await openBuilt(mine, automatic);
    const dying = await openBuilt(mine, automatic);
    const root = await newSession(dying);
    await dying.runs.start(startFields(root, { ownerInstanceId: dying.instanceId }));
    const told = new Promise((resolve) => host.recovery.onReport(resolve));
    await dying.testing.kill();
    expect(await told).toMatchObject({ runs: [{ runId: "run-1" }] });
    expect((await host.runs.project({ rootFrameId: root })).run).toMatchObject({
      status: "review_unavailable",
    });
  });

  test("when all were gone the next to open finds it done, and is told", async ({ fresh: { name } }) => {
    const mine = `${name}-auto`;
    const dying = await openBuilt(mine, automatic);
    const root = await newSession(dying);
    await dying.runs.start(startFields(root, { ownerInstanceId: dying.instanceId }));
    await dying.testing.kill();
    await using next = await openBuilt(mine, automatic);
    expect(next.recovery.lastReport).toMatchObject({ runs: [{ runId: "run-1" }] });
    expect((await next.runs.project({ rootFrameId: root })).run).toMatchObject({
      status: "review_unavailable",
    });
  });

  test("a run that another tab took over lives on", async ({ fresh: { name } }) => {
    const mine = `${name}-auto`;
    const dying = await openBuilt(mine, automatic);
    await using living = await openBuilt(mine, automatic);
    const root = await newSession(dying);
    await dying.runs.start(startFields(root, { ownerInstanceId: dying.instanceId }));
    await living.runs.takeOver({ runId: "run-1", fromInstanceId: dying.instanceId });
    const gone = navigator.locks.request(`countersign:${mine}:tab:${dying.instanceId}`, () => {});
    await dying.testing.kill();
    await gone;
    await navigator.locks.request(`countersign:${mine}:reconcile`, () => {});
    expect((await living.runs.project({ rootFrameId: root })).run).toMatchObject({ status: "running" });
    expect(living.recovery.lastReport).toBeNull();
  });
});

describe("a subscription", () => {
  test("gives every event once, in order, in another tab, across a change of the host", async ({
    session: { ledger, root },
  }) => {
    await using second = await openBuilt(ledger.name);
    await using third = await openBuilt(ledger.name);
    const seen: StoredEvent[] = [];
    const all = new Promise<void>((resolve) => {
      third.events.subscribe({ rootFrameId: root }, (event) => {
        seen.push(event);
        if (seen.length === 3) resolve();
      });
    });
    await second.runs.start(startFields(root, { ownerInstanceId: second.instanceId }));
    await ledger.testing.kill();
    await second.runs.recordCandidate(candidateFields);
    await second.reviews.start({ ...reviewFields, evidenceSnapshot: evidence });
    await all;
    expect(seen).toEqual(await second.events.list({ rootFrameId: root }));
    expect(seen.map(({ eventCursor }) => eventCursor)).toEqual([1, 2, 3]);
  });

  test("is a loop that ends with the ledger, and goes on from a cursor", async ({
    session: { ledger, root },
  }) => {
    await ledger.runs.start(startFields(root, { ownerInstanceId: ledger.instanceId }));
    await ledger.runs.recordCandidate(candidateFields);
    const types: string[] = [];
    for await (const { type } of ledger.events.subscribe({ rootFrameId: root, fromCursor: 1 })) {
      types.push(type);
      await ledger.close();
    }
    expect(types).toEqual(["candidate_ready"]);
  });

  test("as a store has one snapshot between changes", async ({ session: { ledger, root } }) => {
    const store = ledger.events.store({ rootFrameId: root });
    const empty = store.getSnapshot();
    expect(store.getSnapshot()).toBe(empty);
    const changed = () =>
      new Promise<void>((resolve) => {
        const stop = store.subscribe(() => {
          stop();
          resolve();
        });
      });
    const first = changed();
    await ledger.runs.start(startFields(root, { ownerInstanceId: ledger.instanceId }));
    await first;
    expect(store.getSnapshot()).toEqual(await ledger.events.list({ rootFrameId: root }));
    const second = changed();
    await ledger.runs.recordCandidate(candidateFields);
    await second;
    expect(store.getSnapshot()).toEqual(await ledger.events.list({ rootFrameId: root }));
  });
});

async function inboxOf(name: string): Promise<string[]> {
  let directory = await navigator.storage.getDirectory();
  for (const part of ["countersign", name, "inbox"])
    directory = await directory.getDirectoryHandle(part, { create: true });
  const names: string[] = [];
  for await (const name of directory.keys()) names.push(name);
  return names;
}
