import { describe, expect } from "vitest";
import type { JsonObject } from "../../src/proof/index.ts";
import { digest, sha256 } from "../../src/proof/index.ts";
import { RESERVED_METADATA } from "../../src/protocol/messages.ts";
import type { TestLedger } from "../../src/testing.ts";
import { addCandidateMessage, candidateMetadata, sessionOf } from "../support/candidates.ts";
import { candidateFields, minorFinding, startFields } from "../support/fields.ts";
import { projectedRun } from "../support/scenario.ts";
import { test } from "../support/session.ts";
import {
  answerDigest,
  breakTable,
  conflict,
  everyRow,
  expectRefused,
  invalid,
  type Refusal,
  review,
  reviewedCandidate,
  settling,
  unreviewedCandidate,
  verdictMetadata,
  WORK,
  whileTampered,
} from "./fixtures.ts";

const UNFIT = conflict("promotion_unfit", "messagePromotion");

describe("a terminal settles the candidate message and its delivery", () => {
  test("as verified: the answer that the review looked at", async ({ fresh: ledger }) => {
    const { root, committed } = await reviewedCandidate(ledger);
    const terminal = settling(committed);
    const { messagePromotion } = terminal;
    const { metadata } = messagePromotion;

    const ended = await ledger.runs.terminate(terminal);

    const settledMetadata = {
      ...committed.messageMetadata,
      ...metadata,
      candidate_verdict_metadata_sha256: digest(metadata),
      completion_delivery: {
        delivery_id: committed.deliveryId,
        manifest_sha256: committed.manifestSha256,
        status: "published",
        published_at: 140,
      },
    };
    expect(await ledger.deliveries.get({ deliveryId: committed.deliveryId })).toEqual({
      ...committed,
      status: "published",
      publishedAt: 140,
      messageMetadata: settledMetadata,
    });
    expect(ended.event).toMatchObject({
      type: "auto_run_terminal",
      payload: {
        status: "verified",
        terminal_reason: "review_passed",
        stop_reason: null,
        message_promotion_sha256: digest({
          message_id: committed.messageId,
          delivery_id: committed.deliveryId,
          expected_content: committed.messageContent,
          content: null,
          metadata,
        }),
        // spec/auto_mode 2.7
        message_promotion_receipt: {
          schema_version: 1,
          message_id: committed.messageId,
          frame_id: root,
          review_status: "verified",
          candidate_content_sha256: sha256(committed.messageContent),
          content_sha256: sha256(committed.messageContent),
          message_metadata_sha256: digest(settledMetadata),
          delivery_id: committed.deliveryId,
          manifest_sha256: committed.manifestSha256,
          published_at: 140,
        },
      },
    });
    expect((await projectedRun(ledger, root))?.status).toBe("verified");
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("as verified, with a structured completion in the digest", async ({ fresh: ledger }) => {
    const { root, committed } = await unreviewedCandidate(ledger);
    await review(ledger, {
      candidate_answer: committed.messageContent,
      structured_completion: { summary: "ä", files: ["candidate.csv"] },
    });
    await ledger.runs.terminate(settling(committed));
    expect((await projectedRun(ledger, root))?.status).toBe("verified");
  });

  for (const status of ["completed_with_issues", "review_unavailable"] as const) {
    test(`as ${status}, with other content and without evidence of the answer`, async ({ fresh: ledger }) => {
      const { root, committed } = await unreviewedCandidate(ledger);
      const { deliveryId } = committed;
      if (status === "completed_with_issues") {
        await expectRefused(
          ledger,
          () => ledger.runs.terminate(settling(committed, status)),
          conflict("evidence_missing", "status"),
        );
        await review(ledger, {}, { verdict: "issues" });
      }
      const terminal = settling(committed, status, "Not verified; see the findings.");
      const { metadata } = terminal.messagePromotion;
      await ledger.runs.terminate(terminal);
      expect(await ledger.deliveries.get({ deliveryId })).toEqual({
        ...committed,
        status: "published",
        publishedAt: 140,
        contentSha256: sha256("Not verified; see the findings."),
        messageContent: "Not verified; see the findings.",
        messageMetadata: {
          ...committed.messageMetadata,
          ...metadata,
          candidate_verdict_metadata_sha256: digest(metadata),
          completion_delivery: expect.objectContaining({ status: "published", published_at: 140 }),
        },
      });
      expect(await projectedRun(ledger, root)).toMatchObject({ status, terminalReason: "review_passed" });
    });
  }

  test("also where there is no delivery", async ({ fresh: ledger }) => {
    const { root, message } = await undeliveredCandidate(ledger, "The answer is 42.");
    const metadata = verdictMetadata("verified", "The answer is 42.");
    const { event } = await ledger.runs.terminate({
      ...settlingMessage(message.messageId, "The answer is 42."),
      status: "verified",
    });
    const settled = { ...message.metadata, ...metadata, candidate_verdict_metadata_sha256: digest(metadata) };
    expect(await ledger.messages.list({ rootFrameId: root })).toEqual([
      {
        messageId: message.messageId,
        rootFrameId: root,
        branchId: root,
        frameId: root,
        seq: 0,
        role: "assistant",
        content: "The answer is 42.",
        metadata: settled,
        createdAt: 100,
      },
    ]);
    expect(event.payload).toMatchObject({
      message_promotion_receipt: {
        schema_version: 1,
        message_id: message.messageId,
        frame_id: root,
        review_status: "verified",
        candidate_content_sha256: sha256("The answer is 42."),
        content_sha256: sha256("The answer is 42."),
        message_metadata_sha256: digest(settled),
      },
    });
    expect((await projectedRun(ledger, root))?.status).toBe("verified");
  });
});

describe("a message is not settled as verified", () => {
  for (const [what, evidence, snapshot] of [
    ["the review saw another answer", () => ({ candidate_answer: "another answer" }), undefined],
    ["the review saw no answer", () => ({ note: "nothing" }), undefined],
    ["the review saw the answer as something else", (answer) => ({ candidate_answer: [answer] }), undefined],
    [
      "the candidate's digest is not that of the answer",
      (answer) => ({ candidate_answer: answer }),
      "a".repeat(64),
    ],
    [
      "the candidate's digest leaves the structured completion out",
      (answer) => ({ candidate_answer: answer, structured_completion: { done: true } }),
      "left out",
    ],
  ] as [string, (answer: string) => JsonObject, string | undefined][]) {
    test(`when ${what}`, async ({ fresh: ledger }) => {
      const { committed } = await unreviewedCandidate(ledger);
      const answer = committed.messageContent;
      const withoutCompletion = digest({ candidate_answer: answer, structured_completion: null });
      await review(
        ledger,
        evidence(answer),
        snapshot === undefined ? {} : { snapshot: snapshot === "left out" ? withoutCompletion : snapshot },
      );
      await expectRefused(ledger, () => ledger.runs.terminate(settling(committed)), UNFIT);
    });
  }

  test("with other content than the reviewed answer", async ({ fresh: ledger }) => {
    const { committed } = await reviewedCandidate(ledger);
    await expectRefused(
      ledger,
      () => ledger.runs.terminate(settling(committed, "verified", `${committed.messageContent} `)),
      UNFIT,
    );
  });

  test("under a review that is not the one that passed it", async ({ fresh: ledger }) => {
    const { committed } = await reviewedCandidate(ledger);
    const { messagePromotion, ...terminal } = settling(committed);
    const { review_run_id: _, ...metadata } = messagePromotion.metadata;
    for (const named of [{}, { review_run_id: "review-2" }, { review_run_id: "" }, { review_run_id: null }])
      await expectRefused(
        ledger,
        () =>
          ledger.runs.terminate({
            ...terminal,
            messagePromotion: { ...messagePromotion, metadata: { ...metadata, ...named } },
          }),
        UNFIT,
        JSON.stringify(named),
      );
  });

  test("when its review had issues, although another candidate passed and is current again", async ({
    fresh: ledger,
  }) => {
    const { committed } = await passedThenRejected(ledger);
    const { messagePromotion, ...terminal } = settling(committed);
    const metadata = { ...messagePromotion.metadata, review_run_id: "review-2" };
    await expectRefused(
      ledger,
      () => ledger.runs.terminate({ ...terminal, messagePromotion: { ...messagePromotion, metadata } }),
      UNFIT,
    );
  });

  test("but with the answer that did pass, whatever was reviewed after it", async ({ fresh: ledger }) => {
    const { root, committed } = await passedThenRejected(ledger);
    await ledger.runs.terminate(settling(committed, "verified", "a modest answer"));
    expect((await projectedRun(ledger, root))?.status).toBe("verified");
    expect(await ledger.messages.list({ rootFrameId: root })).toMatchObject([{ content: "a modest answer" }]);
  });

  test("without a passing review at all", async ({ fresh: ledger }) => {
    const { committed } = await unreviewedCandidate(ledger);
    const missing = conflict("evidence_missing", "status");
    await expectRefused(ledger, () => ledger.runs.terminate(settling(committed)), missing);
    await review(ledger, { candidate_answer: committed.messageContent }, { verdict: "issues" });
    await expectRefused(ledger, () => ledger.runs.terminate(settling(committed)), missing);
  });
});

describe("a promotion is refused by what is wrong with it, and nothing is written:", () => {
  test("metadata that does not say what the terminal says", async ({ fresh: ledger }) => {
    const { committed } = await reviewedCandidate(ledger);
    for (const status of ["verified", "review_unavailable"] as const) {
      const terminal = settling(committed, status);
      const { messagePromotion } = terminal;
      const wrong = {
        review_status: ["candidate", "completed_with_issues", null],
        gates_completion: [false, 1, "true"],
        unverified: [status === "verified", null],
        turn_id: ["turn-2", null],
        execution_id: ["execution-2", null],
        candidate_content_sha256: [sha256("other"), null],
        reviewed_content_sha256: [sha256("other"), null],
      };
      for (const [key, values] of Object.entries(wrong)) {
        const { [key as keyof typeof wrong]: _, ...without } = messagePromotion.metadata;
        for (const metadata of [without, ...values.map((value) => ({ ...without, [key]: value }))])
          await expectRefused(
            ledger,
            () => ledger.runs.terminate({ ...terminal, messagePromotion: { ...messagePromotion, metadata } }),
            invalid(`messagePromotion.metadata.${key}`),
            JSON.stringify(metadata),
          );
      }
    }
    expect((await ledger.runs.terminate(settling(committed))).created).toBe(true);
  });

  test("a key that only the ledger writes", async ({ fresh: ledger }) => {
    const { committed } = await reviewedCandidate(ledger);
    const terminal = settling(committed);
    for (const key of RESERVED_METADATA)
      await expectRefused(
        ledger,
        () =>
          ledger.runs.terminate({
            ...terminal,
            messagePromotion: {
              ...terminal.messagePromotion,
              metadata: { ...terminal.messagePromotion.metadata, [key]: {} },
            },
          }),
        invalid(`messagePromotion.metadata.${key}`),
      );
  });

  test("a status that settles nothing", async ({ fresh: ledger }) => {
    const { committed } = await reviewedCandidate(ledger);
    for (const status of ["cancelled", "failed", "paused", "blocked_by_guardian"] as const)
      await expectRefused(
        ledger,
        () => ledger.runs.terminate({ ...settling(committed), status }),
        UNFIT,
        status,
      );
  });

  test("a time before the message was committed", async ({ fresh: ledger }) => {
    const { committed } = await reviewedCandidate(ledger);
    await expectRefused(
      ledger,
      () => ledger.runs.terminate({ ...settling(committed), finishedAt: 99 }),
      invalid("finishedAt"),
    );
  });

  test("a message or a delivery that is not the run's", async ({ fresh: ledger }) => {
    const { root, committed } = await reviewedCandidate(ledger);
    const content = committed.messageContent;
    const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
    const { branchId } = await ledger.branches.fork({ rootFrameId: root, fromCheckpointId: checkpointId });
    const elsewhere = await sessionOf(ledger, "project-2");
    const add = (changes: object, metadata: JsonObject = {}) =>
      ledger.messages.add({
        rootFrameId: root,
        frameId: null,
        role: "assistant",
        content,
        createdAt: 100,
        metadata: { ...candidateMetadata(content, WORK), ...metadata },
        ...changes,
      });
    const others = {
      "of another branch": await add({ branchId }),
      "of another session": await add({ rootFrameId: elsewhere }),
      "of the user": await add({ role: "user" }),
      "of another turn": await add({}, { turn_id: "turn-2" }),
      "of another execution": await add({}, { execution_id: "execution-2" }),
      "that gates nothing": await add({}, { gates_completion: false }),
      "that claims to be verified": await add({}, { unverified: false }),
      "that is no candidate": await add({ metadata: null }),
      "with other content": await add({
        content: "other",
        metadata: candidateMetadata("other", WORK),
      }),
    };
    const promote = (changes: object) => {
      const terminal = settling(committed);
      return ledger.runs.terminate({
        ...terminal,
        messagePromotion: { ...terminal.messagePromotion, ...changes },
      });
    };
    for (const [why, { messageId }] of Object.entries(others))
      await expectRefused(ledger, () => promote({ messageId, deliveryId: null }), UNFIT, why);

    const delivered = await ledger.deliveries.commit({
      idempotencyKey: "other",
      rootFrameId: root,
      content,
      manifest: committed.manifest,
      messageMetadata: candidateMetadata(content, WORK),
    });
    const unknown = (kind: string, field: string): Refusal => ({
      name: "NotFoundError",
      code: `${kind}_not_found`,
      field: `messagePromotion.${field}`,
    });
    const { messageId: plain } = await add({});
    for (const [why, changes, refusal] of [
      ["unknown message", { messageId: "m-unknown" }, unknown("message", "messageId")],
      ["unknown delivery", { deliveryId: "delivery-unknown" }, unknown("delivery", "deliveryId")],
      ["another message's delivery", { deliveryId: delivered.deliveryId }, UNFIT],
      ["another delivery's message", { messageId: delivered.messageId }, UNFIT],
      ["a delivery that is not named", { deliveryId: null }, UNFIT],
      ["a delivery that the message has not", { messageId: plain }, UNFIT],
      [
        "other expected content",
        { expectedContent: "other", content, metadata: verdictMetadata("verified", "other", content) },
        UNFIT,
      ],
      [
        "other expected content, without its digest",
        { expectedContent: "other", content },
        invalid("messagePromotion.metadata.candidate_content_sha256"),
      ],
    ] as [string, object, Refusal][])
      await expectRefused(ledger, () => promote(changes), refusal, why);
    expect((await ledger.runs.terminate(settling(committed))).created).toBe(true);
  });

  test("a message or a delivery whose row was changed", async ({ fresh: ledger }) => {
    const { committed } = await reviewedCandidate(ledger);
    for (const [table, act, code] of [
      ["messages", "UPDATE messages SET created_at = 1", "message_damaged"],
      ["completion_deliveries", "UPDATE completion_deliveries SET created_at = 1", "delivery_damaged"],
      [
        "completion_delivery_artifacts",
        "UPDATE completion_delivery_artifacts SET size_bytes = 1",
        "delivery_damaged",
      ],
    ] as const)
      await whileTampered(ledger, table, { what: act, act }, () =>
        expectRefused(
          ledger,
          () => ledger.runs.terminate(settling(committed)),
          { name: "IntegrityError", code },
          act,
        ),
      );
    expect((await ledger.runs.terminate(settling(committed))).created).toBe(true);
  });

  test("a message that is settled already", async ({ fresh: ledger }) => {
    const { root, committed } = await reviewedCandidate(ledger);
    await ledger.runs.terminate(settling(committed));
    const next = { runId: "run-2", turnId: "turn-2", executionId: "execution-2" };
    await ledger.runs.start(startFields(root, next));
    const terminal = settling(committed, "review_unavailable");
    await expectRefused(
      ledger,
      () =>
        ledger.runs.terminate({
          ...terminal,
          runId: "run-2",
          messagePromotion: {
            ...terminal.messagePromotion,
            metadata: {
              ...terminal.messagePromotion.metadata,
              turn_id: "turn-2",
              execution_id: "execution-2",
            },
          },
        }),
      UNFIT,
    );
  });
});

for (const write of [
  "UPDATE ON messages",
  "UPDATE OF status ON completion_deliveries",
  "UPDATE ON auto_mode_runs",
  "INSERT ON auto_mode_events",
  "INSERT ON journal",
]) {
  test(`run, message and delivery end together or not at all: ${write} fails`, async ({ fresh: ledger }) => {
    const { root, committed } = await reviewedCandidate(ledger);
    const { mend } = await breakTable(ledger, write);
    await expectRefused(ledger, () => ledger.runs.terminate(settling(committed)), {
      name: "LedgerError",
      code: "constraint",
    });
    expect(await ledger.deliveries.get({ deliveryId: committed.deliveryId })).toEqual(committed);
    expect((await projectedRun(ledger, root))?.status).toBe("candidate");
    await mend();
    expect((await ledger.runs.terminate(settling(committed))).created).toBe(true);
    expect(await projectedRun(ledger, root)).toMatchObject({ status: "verified" });
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });
}

test("recovery settles a candidate with the digest of its verdict too (W15)", async ({ fresh: ledger }) => {
  const { root, committed } = await unreviewedCandidate(ledger);
  const { deliveryId, messageContent } = committed;
  await ledger.recovery.reconcileStartup({ now: 500 });
  const { messageMetadata, ...settled } = await ledger.deliveries.get({ deliveryId });
  const { messageMetadata: before, ...unsettled } = committed;
  expect(settled).toEqual({ ...unsettled, status: "published", publishedAt: 500 });
  const verdict = {
    review_status: "review_unavailable",
    user_truth: messageMetadata["user_truth"],
    gates_completion: true,
    unverified: true,
    turn_id: "turn-1",
    execution_id: "execution-1",
    candidate_content_sha256: sha256(messageContent),
    reviewed_content_sha256: sha256(messageContent),
    review_recovery: {
      schema_version: 1,
      reason: "daemon_restart_before_candidate_promotion",
      reconciled_at: 500,
      run_id: "run-1",
    },
  };
  expect(messageMetadata).toEqual({
    ...before,
    ...verdict,
    candidate_verdict_metadata_sha256: digest(verdict),
    completion_delivery: {
      delivery_id: deliveryId,
      manifest_sha256: committed.manifestSha256,
      status: "published",
      published_at: 500,
    },
  });
  expect((await projectedRun(ledger, root))?.status).toBe("review_unavailable");
});

test("the repetition of the terminal is answered with it, and conflicts when it settles otherwise", async ({
  fresh: ledger,
}) => {
  const { committed } = await reviewedCandidate(ledger);
  const terminal = settling(committed);
  const { messagePromotion } = terminal;
  const ended = await ledger.runs.terminate(terminal);
  const rows = await everyRow(ledger);
  expect(await ledger.runs.terminate({ ...terminal, finishedAt: 999 })).toEqual({ ...ended, created: false });
  expect(await everyRow(ledger)).toEqual(rows);
  const { metadata } = messagePromotion;
  for (const other of [
    undefined,
    { ...messagePromotion, content: "other" },
    { ...messagePromotion, expectedContent: "other" },
    { ...messagePromotion, deliveryId: null },
    { ...messagePromotion, metadata: { ...metadata, user_truth: "Otherwise." } },
  ])
    await expectRefused(
      ledger,
      () => ledger.runs.terminate({ ...terminal, messagePromotion: other ?? null }),
      conflict("idempotency_key_reused", "idempotencyKey"),
      JSON.stringify(other),
    );
});

describe("after a run has settled its message", () => {
  for (const status of ["verified", "review_unavailable"] as const) {
    test(`one changed cell of the message or the delivery makes the ${status} run read as damaged`, async ({
      fresh: ledger,
    }) => {
      const { root, committed } = await reviewedCandidate(ledger);
      await ledger.runs.terminate(settling(committed, status));
      const before = await projectedRun(ledger, root);
      expect(before?.status).toBe(status);

      const seen: unknown[] = [];
      for (const table of ["messages", "completion_deliveries"]) {
        const [row = {}] = await ledger.testing.sql(`SELECT * FROM ${table}`);
        for (const [column, value] of Object.entries(row)) {
          const act = `UPDATE ${table} SET ${column} = ?`;
          // The schema knows two words each; and a published delivery without a time is no row that it takes.
          const other = { role: "user", status: undefined, published_at: 141 }[column];
          const changed = column === "status" ? undefined : (other ?? otherCell(value));
          const tampering =
            changed === undefined
              ? {
                  what: column,
                  act: "UPDATE completion_deliveries SET status = 'committed', published_at = NULL",
                }
              : { what: column, act, values: [changed] };
          await whileTampered(ledger, table, tampering, async () => {
            const run = await projectedRun(ledger, root);
            seen.push([table, column, run?.status, run?.terminalReason, run?.sourceClaimedStatus]);
          });
        }
        await whileTampered(ledger, table, { what: "removed", act: `DELETE FROM ${table}` }, async () => {
          const run = await projectedRun(ledger, root);
          seen.push([table, "removed", run?.status, run?.terminalReason, run?.sourceClaimedStatus]);
        });
      }
      expect(seen).toHaveLength(9 + 1 + 13 + 1);
      expect(seen.filter((each) => !isSafetyBoundary(each, status))).toEqual([]);
      expect(await projectedRun(ledger, root)).toEqual(before);
    });
  }

  test("neither its metadata nor its delivery can change any more", async ({ fresh: ledger }) => {
    const { committed } = await reviewedCandidate(ledger);
    const { messageId, deliveryId } = committed;
    await ledger.runs.terminate(settling(committed));
    await expectRefused(
      ledger,
      () => ledger.messages.updateMetadata({ messageId, metadata: { note: "later" } }),
      conflict("message_settled"),
    );
    const rows = await everyRow(ledger);
    expect((await ledger.deliveries.publish({ deliveryId, at: 999 })).publishedAt).toBe(140);
    expect(await ledger.recovery.reconcileCandidates({ now: 999 })).toEqual([]);
    expect(await everyRow(ledger)).toEqual(rows);
  });

  test("a message that recovery settled can't change either", async ({ fresh: ledger }) => {
    const { committed } = await unreviewedCandidate(ledger);
    await ledger.recovery.reconcileStartup({ now: 500 });
    await expectRefused(
      ledger,
      () => ledger.messages.updateMetadata({ messageId: committed.messageId, metadata: { note: "later" } }),
      conflict("message_settled"),
    );
  });
});

test("a review with a minor finding still verifies and settles", async ({ fresh: ledger }) => {
  const { root, committed } = await unreviewedCandidate(ledger);
  await review(ledger, { candidate_answer: committed.messageContent }, { findings: [minorFinding] });
  await ledger.runs.terminate(settling(committed));
  expect((await projectedRun(ledger, root))?.status).toBe("verified");
});

/**
 * A run whose first candidate, with a modest answer, passed. The second, with the answer of the candidate message, had
 * issues; so the first was recorded again.
 */
async function passedThenRejected(ledger: TestLedger) {
  const { root, committed } = await unreviewedCandidate(ledger);
  const passed = { candidate_answer: "a modest answer" };
  await review(ledger, passed);
  await review(ledger, { candidate_answer: committed.messageContent }, { id: "2", verdict: "issues" });
  await ledger.runs.recordCandidate({
    ...candidateFields,
    candidateSnapshotSha256: answerDigest(passed),
    evidenceSnapshotSha256: digest(passed),
    idempotencyKey: "candidate:1:again",
  });
  return { root, committed };
}

/** A reviewed candidate that is only a message. */
async function undeliveredCandidate(ledger: TestLedger, content: string) {
  await ledger.testing.setClock(100);
  const root = await sessionOf(ledger, "project-1");
  await ledger.runs.start(startFields(root));
  const message = await addCandidateMessage(ledger, {
    rootFrameId: root,
    branchId: root,
    content,
    work: WORK,
  });
  await review(ledger, { candidate_answer: content });
  return { root, message };
}

function settlingMessage(messageId: string, expectedContent: string) {
  return {
    runId: "run-1",
    idempotencyKey: "terminal:1",
    reason: "review_passed",
    finishedAt: 140,
    messagePromotion: {
      messageId,
      expectedContent,
      metadata: verdictMetadata("verified", expectedContent),
    },
  };
}

function otherCell(value: unknown) {
  if (typeof value === "number") return value + 1;
  return typeof value === "string" ? `${value} ` : "x";
}

function isSafetyBoundary(seen: unknown, claimed: string): boolean {
  const [, , status, reason, source] = seen as string[];
  return status === "failed" && reason === "safety_boundary" && source === claimed;
}
