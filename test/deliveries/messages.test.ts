import { describe, expect } from "vitest";
import { sha256 } from "../../src/proof/index.ts";
import { CANDIDATE_METADATA, RESERVED_METADATA } from "../../src/protocol/messages.ts";
import type { TestLedger } from "../../src/testing.ts";
import { candidateMetadata } from "../support/candidates.ts";
import { newSession, type SessionFixture, test } from "../support/session.ts";
import {
  conflict,
  expectRefused,
  invalid,
  readyToDeliver,
  refusalOf,
  WORK,
  whileTampered,
} from "./fixtures.ts";

describe("seq", () => {
  test("has no gap over all branches of a session, also when 200 messages come at once over three of them", async ({
    session,
  }) => {
    const { ledger, root } = session;
    const branches = [root, ...(await twoForks(session))];
    const other = await newSession(ledger);
    const wanted = Array.from({ length: 200 }, (_, n) => ({
      rootFrameId: root,
      branchId: branches[n % 3] ?? root,
      content: `message ${n}`,
    }));

    const answers = await Promise.all(
      wanted.flatMap((fields, n) => [
        ledger.messages.add({ ...fields, role: "user" }),
        ...(n % 20 === 0
          ? [
              refusalOf(ledger.messages.add({ ...fields, role: "user", metadata: { review_recovery: {} } })),
              ledger.messages.add({ rootFrameId: other, role: "user", content: "elsewhere" }),
            ]
          : []),
      ]),
    );

    expect(answers).toHaveLength(220);
    expect(await rowsOf(ledger, root)).toEqual(
      wanted.map(({ branchId, content }, seq) => ({ seq, branch_id: branchId, content })),
    );
    expect((await rowsOf(ledger, other)).map(({ seq }) => seq)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("goes on without a gap after messages that a revert hides", async ({ session: { ledger, root } }) => {
    const say = speaker(ledger, root);
    await say("one");
    const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    await say("two");
    await ledger.branches.revert({ rootFrameId: root, checkpointId, idempotencyKey: "back" });
    expect(await say("three")).toBe(2);
  });
});

describe("a branch shows", () => {
  test("the history up to its fork, then its own", async ({ session: { ledger, root } }) => {
    const say = speaker(ledger, root);
    await say("one");
    await say("two");
    const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    await say("three");
    const fork = await ledger.branches.fork({ rootFrameId: root, fromCheckpointId: checkpointId });
    await say("four", fork.branchId);
    await say("five");
    await say("six", fork.branchId);
    const second = await ledger.checkpoints.create({
      rootFrameId: root,
      branchId: fork.branchId,
      reason: "manual",
    });
    await say("seven", fork.branchId);
    const nested = await ledger.branches.fork({ rootFrameId: root, fromCheckpointId: second.checkpointId });
    await say("eight", nested.branchId);

    expect(await view(ledger, root)).toEqual([
      [0, "one"],
      [1, "two"],
      [2, "three"],
      [4, "five"],
    ]);
    expect(await view(ledger, root, fork.branchId)).toEqual([
      [0, "one"],
      [1, "two"],
      [3, "four"],
      [5, "six"],
      [6, "seven"],
    ]);
    expect(await view(ledger, root, nested.branchId)).toEqual([
      [0, "one"],
      [1, "two"],
      [3, "four"],
      [5, "six"],
      [7, "eight"],
    ]);
  });

  test("after a revert the state that it went back to, then what came since; after an undo what it had hidden", async ({
    session: { ledger, root },
  }) => {
    const say = speaker(ledger, root);
    await say("one");
    const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    await say("two");
    const fork = await ledger.branches.fork({ rootFrameId: root, fromCheckpointId: checkpointId });
    await say("on the fork", fork.branchId);

    await ledger.branches.revert({ rootFrameId: root, checkpointId, idempotencyKey: "back" });
    expect(await view(ledger, root)).toEqual([[0, "one"]]);
    await say("three");
    expect(await view(ledger, root)).toEqual([
      [0, "one"],
      [3, "three"],
    ]);
    const later = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    await say("four");
    const forkOfReverted = await ledger.branches.fork({
      rootFrameId: root,
      fromCheckpointId: later.checkpointId,
    });
    expect(await view(ledger, root, forkOfReverted.branchId)).toEqual([
      [0, "one"],
      [3, "three"],
    ]);

    const [revert] = (await ledger.checkpoints.list({ rootFrameId: root })).filter(
      ({ reason }) => reason === "revert_continue",
    );
    await ledger.branches.undo({
      rootFrameId: root,
      idempotencyKey: "forth",
      ...(revert !== undefined && { revertCheckpointId: revert.checkpointId }),
    });
    await say("five");
    expect(await view(ledger, root)).toEqual([
      [0, "one"],
      [1, "two"],
      [5, "five"],
    ]);
    expect(await view(ledger, root, fork.branchId)).toEqual([
      [0, "one"],
      [2, "on the fork"],
    ]);
  });

  test("after a revert that was put together from checkpoints the same", async ({
    session: { ledger, root },
  }) => {
    const say = speaker(ledger, root);
    await say("one");
    const target = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    await say("two");
    const undo = await ledger.checkpoints.create({ rootFrameId: root, reason: "before_revert" });
    await ledger.checkpoints.create({
      rootFrameId: root,
      reason: "revert_continue",
      messageCursor: target.messageCursor,
      metadata: {
        reverted_to: target.checkpointId,
        undo_checkpoint_id: undo.checkpointId,
        history_projection: {
          version: 1,
          base_checkpoint_id: target.checkpointId,
          resume_cursors: { message_cursor: undo.messageCursor },
        },
      },
    });
    await say("three");
    expect(await view(ledger, root)).toEqual([
      [0, "one"],
      [2, "three"],
    ]);
  });

  test("its messages page by page, over the fork too", async ({ session: { ledger, root } }) => {
    const say = speaker(ledger, root);
    await say("one");
    await say("two");
    const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    const { branchId } = await ledger.branches.fork({ rootFrameId: root, fromCheckpointId: checkpointId });
    await say("hidden");
    await say("three", branchId);
    await say("four", branchId);

    const pages: unknown[] = [];
    let afterSeq = -1;
    for (;;) {
      const page = await ledger.messages.list({ rootFrameId: root, branchId, afterSeq, limit: 3 });
      const last = page.at(-1);
      if (last === undefined) break;
      pages.push(page.map(({ content }) => content));
      afterSeq = last.seq;
    }
    expect(pages).toEqual([["one", "two", "three"], ["four"]]);
  });
});

describe("a new message is refused", () => {
  test("with a key that only the ledger writes, by its name", async ({ session: { ledger, root } }) => {
    for (const key of RESERVED_METADATA) {
      for (const metadata of [{ [key]: {} }, { ...candidateMetadata("text", WORK), [key]: null }])
        await expectRefused(
          ledger,
          () => ledger.messages.add({ rootFrameId: root, role: "assistant", content: "text", metadata }),
          invalid(`metadata.${key}`),
        );
    }
  });

  test("with a verdict of its own", async ({ session: { ledger, root } }) => {
    const statuses = ["verified", "completed_with_issues", "review_unavailable", "Candidate", "", null, 1];
    for (const review_status of statuses)
      await expectRefused(
        ledger,
        () =>
          ledger.messages.add({
            rootFrameId: root,
            role: "assistant",
            content: "text",
            metadata: { ...candidateMetadata("text", WORK), review_status },
          }),
        invalid("metadata.review_status"),
      );
  });

  for (const key of ["review_run_id", "reviewed_content_sha256"]) {
    test(`as a candidate with ${key}, which recovery could never settle (spec/session_store 7.3 j)`, async ({
      session: { ledger, root },
    }) => {
      await expectRefused(
        ledger,
        () =>
          ledger.messages.add({
            rootFrameId: root,
            role: "assistant",
            content: "text",
            metadata: { ...candidateMetadata("text", WORK), [key]: sha256("text") },
          }),
        invalid(`metadata.${key}`),
      );
    });
  }

  test("as a candidate whose digest is not that of its content", async ({ session: { ledger, root } }) => {
    for (const candidate_content_sha256 of [sha256("other"), sha256("text").toUpperCase(), "", null, 7])
      await expectRefused(
        ledger,
        () =>
          ledger.messages.add({
            rootFrameId: root,
            role: "assistant",
            content: "text",
            metadata: { ...candidateMetadata("text", WORK), candidate_content_sha256 },
          }),
        invalid("metadata.candidate_content_sha256"),
      );
  });
});

describe("metadata", () => {
  test("is merged entry by entry; the envelope of a delivery stays", async ({ fresh: ledger }) => {
    const { request } = await readyToDeliver(ledger);
    const { created: _, ...committed } = await ledger.deliveries.commit(request);
    const { messageId, deliveryId } = committed;
    const metadata = { note: "changed", deep: { a: [1, "ä"] } };

    const updated = await ledger.messages.updateMetadata({ messageId, metadata, at: 120 });
    expect(updated.metadata).toEqual({ ...committed.messageMetadata, ...metadata });
    expect(await ledger.deliveries.get({ deliveryId })).toEqual({
      ...committed,
      messageMetadata: updated.metadata,
    });
  });

  test("that was there already writes nothing", async ({ session: { ledger, root } }) => {
    const { messageId } = await ledger.messages.add({
      rootFrameId: root,
      role: "user",
      content: "text",
      metadata: { b: 1, a: { d: 1, c: 2 } },
    });
    const journal = "SELECT COUNT(*) AS n FROM journal";
    const before = await ledger.testing.sql(journal);
    await ledger.messages.updateMetadata({ messageId, metadata: { a: { c: 2, d: 1 } } });
    expect(await ledger.testing.sql(journal)).toEqual(before);
  });

  test("that only the ledger writes, or that binds a candidate, is refused by its name", async ({
    session: { ledger, root },
  }) => {
    const add = (content: string, metadata: Parameters<typeof ledger.messages.add>[0]["metadata"]) =>
      ledger.messages.add({ rootFrameId: root, frameId: root, role: "assistant", content, metadata });
    const plain = await add("plain", null);
    const candidate = await add("text", candidateMetadata("text", WORK));
    for (const key of [...RESERVED_METADATA, ...CANDIDATE_METADATA]) {
      for (const { messageId } of [plain, candidate])
        await expectRefused(
          ledger,
          () => ledger.messages.updateMetadata({ messageId, metadata: { note: "fine", [key]: null } }),
          invalid(`metadata.${key}`),
        );
    }
  });
});

describe("the repetition of a message by its id", () => {
  const MESSAGE = {
    messageId: "m-1",
    role: "user",
    content: "text",
    metadata: { a: 1, b: { c: 2, d: 3 } },
  } as const;

  test("is answered with the first one, however the keys of its metadata are ordered", async ({
    session: { ledger, root },
  }) => {
    const first = await ledger.messages.add({ ...MESSAGE, rootFrameId: root, createdAt: 100 });
    expect(first).toEqual({
      ...MESSAGE,
      rootFrameId: root,
      branchId: root,
      frameId: null,
      seq: 0,
      createdAt: 100,
      created: true,
    });
    const repeated = await ledger.messages.add({
      ...MESSAGE,
      rootFrameId: root,
      metadata: { b: { d: 3, c: 2 }, a: 1 },
      createdAt: 999,
    });
    expect(repeated).toEqual({ ...first, created: false });
    expect(await rowsOf(ledger, root)).toHaveLength(1);
  });

  test("with anything else is a conflict", async ({ session }) => {
    const { ledger, root } = session;
    const [branchId = ""] = await twoForks(session);
    const other = await newSession(ledger);
    await ledger.messages.add({ ...MESSAGE, rootFrameId: root });
    const changes = [
      { content: "another text" },
      { content: "text " },
      { role: "assistant" as const },
      { metadata: { a: 1 } },
      { metadata: null },
      { frameId: root },
      { branchId },
      { rootFrameId: other },
    ];
    for (const change of changes)
      await expectRefused(
        ledger,
        () => ledger.messages.add({ ...MESSAGE, rootFrameId: root, ...change }),
        conflict("id_taken", "messageId"),
        JSON.stringify(change),
      );
  });

  test("is refused when its row was changed, whatever of it", async ({ session: { ledger, root } }) => {
    await ledger.messages.add({ ...MESSAGE, rootFrameId: root, createdAt: 100 });
    for (const change of ["seq = 7", "created_at = 7", "content = 'forged'"]) {
      await ledger.testing.sql(`UPDATE messages SET ${change}`);
      await expectRefused(
        ledger,
        () => ledger.messages.add({ ...MESSAGE, rootFrameId: root }),
        {
          name: "IntegrityError",
          code: "message_damaged",
          field: "messageId",
        },
        change,
      );
      await ledger.testing.sql("UPDATE messages SET seq = 0, created_at = 100, content = 'text'");
    }
  });
});

describe("a damaged message", () => {
  test("is shown as such, refused to whoever would write it, and hides no other", async ({
    session: { ledger, root },
  }) => {
    for (const n of [0, 1, 2])
      await ledger.messages.add({
        messageId: `m-${n}`,
        rootFrameId: root,
        role: "user",
        content: `text ${n}`,
        metadata: { n },
      });
    const before = await ledger.messages.list({ rootFrameId: root });
    for (const change of [
      "content = 'forged'",
      `metadata = '{"n":9}'`,
      "metadata = '17'",
      "metadata = '[]'",
      "metadata = '{broken'",
      "metadata = NULL",
      "role = 'assistant'",
      "created_at = 7",
    ]) {
      await whileTampered(
        ledger,
        "messages",
        { what: change, act: `UPDATE messages SET ${change} WHERE seq = 1` },
        async () => {
          const [first, damaged, last, ...others] = await ledger.messages.list({ rootFrameId: root });
          expect({ change, first, last, others }).toEqual({
            change,
            first: before[0],
            last: before[2],
            others: [],
          });
          expect({ change, ...damaged }).toMatchObject({
            change,
            messageId: "m-1",
            seq: 1,
            damage: "was changed after it was written",
          });
          // What is typed as an object stays one, so that who reads it does not trip over the damage.
          expect({ change, metadata: damaged?.metadata }).toEqual({
            change,
            metadata: change.includes('"n":9')
              ? { n: 9 }
              : /17|\[|broken|NULL/.test(change)
                ? null
                : { n: 1 },
          });
          await expectRefused(
            ledger,
            () => ledger.messages.updateMetadata({ messageId: "m-1", metadata: { note: "no" } }),
            { name: "IntegrityError", code: "message_damaged", field: "messageId" },
            change,
          );
          expect(await ledger.verify()).toMatchObject({ ok: false });
        },
      );
    }
    expect(await ledger.messages.list({ rootFrameId: root })).toEqual(before);
  });

  test("that no command wrote is shown as such", async ({ session: { ledger, root } }) => {
    await ledger.messages.add({ rootFrameId: root, role: "user", content: "true" });
    await ledger.testing.sql(
      `INSERT INTO messages (message_id, root_frame_id, branch_id, seq, role, content, created_at)
       VALUES ('forged', ?, ?, 1, 'assistant', 'forged', 1)`,
      [root, root],
    );
    const listed = await ledger.messages.list({ rootFrameId: root });
    expect(listed.map(({ content, damage }) => [content, damage])).toEqual([
      ["true", undefined],
      ["forged", "is a row that no command wrote"],
    ]);
  });
});

/** Adds messages to a branch, the main one if none is named; gives their seq. */
function speaker(ledger: TestLedger, root: string) {
  return async (content: string, branchId = root) =>
    (await ledger.messages.add({ rootFrameId: root, branchId, role: "user", content })).seq;
}

async function view(ledger: TestLedger, root: string, branchId = root): Promise<[number, string][]> {
  const listed = await ledger.messages.list({ rootFrameId: root, branchId });
  return listed.map(({ seq, content }) => [seq, content]);
}

function rowsOf(ledger: TestLedger, root: string) {
  const sql = "SELECT seq, branch_id, content FROM messages WHERE root_frame_id = ? ORDER BY seq";
  return ledger.testing.sql(sql, [root]);
}

async function twoForks({ ledger, root }: SessionFixture): Promise<string[]> {
  const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
  const fork = () => ledger.branches.fork({ rootFrameId: root, fromCheckpointId: checkpointId });
  return [(await fork()).branchId, (await fork()).branchId];
}
