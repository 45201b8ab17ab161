import { describe, expect } from "vitest";
import { LedgerConflictError } from "../../src/index.ts";
import {
  candidateFields,
  completionFields,
  reviewFields,
  startFields,
  terminalFields,
} from "../support/fields.ts";
import { buildVerified } from "../support/scenario.ts";
import { type SessionFixture, test } from "../support/session.ts";

/** The rules of replay that go beyond the seed (spec/auto_mode 10: W-14, W-18, W-19, W-20). */

describe("an exact replay", () => {
  test("of every command of an older, finished run answers with its first result", async ({ session }) => {
    const { ledger, root } = session;
    const first = await everyAnswer(session);
    await ledger.runs.start(startFields(root, { runId: "run-2", turnId: "turn-2" }));

    const second = await everyAnswer(session);
    expect(first.map(({ created }) => created)).toEqual([true, true, true, true, true]);
    expect(second.map(({ created }) => created)).toEqual([false, false, false, false, false]);
    expect(second.map(({ event }) => event)).toEqual(first.map(({ event }) => event));
    expect(await ledger.events.list({ rootFrameId: root })).toHaveLength(6);
  });

  test("with one field changed is a conflict and writes nothing", async ({ session: { ledger, root } }) => {
    const { start } = await buildVerified(ledger, root);
    const changed: [string, () => Promise<unknown>][] = [
      ["mode", () => ledger.runs.start({ ...start, mode: "off" })],
      ["runId", () => ledger.runs.start({ ...start, runId: "run-other" })],
      ["candidate", () => ledger.runs.recordCandidate({ ...candidateFields, candidateArtifactIds: [] })],
      ["reviewer", () => ledger.reviews.start({ ...reviewFields, attempt: 2 })],
      ["verdict", () => ledger.reviews.complete({ ...completionFields, verdict: "failed" })],
      ["reason", () => ledger.runs.terminate({ ...terminalFields, reason: "another" })],
      ["key", () => ledger.runs.terminate({ ...terminalFields, idempotencyKey: "candidate:1" })],
    ];
    const before = await ledger.events.list({ rootFrameId: root });
    for (const [what, call] of changed) await expect(call(), what).rejects.toThrow(LedgerConflictError);
    expect(await ledger.events.list({ rootFrameId: root })).toEqual(before);
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("of two tabs' same start at once makes one run", async ({ session: { ledger, root } }) => {
    const answers = await Promise.all([
      ledger.runs.start(startFields(root)),
      ledger.runs.start(startFields(root, { ownerInstanceId: "another-tab" })),
    ]);
    expect(answers.map(({ runId, created, ownerInstanceId }) => [runId, created, ownerInstanceId])).toEqual([
      ["run-1", true, "daemon-regression"],
      ["run-1", false, "daemon-regression"],
    ]);
  });
});

describe("what `verified` needs", () => {
  test("a candidate that is recorded again under another key can still be verified", async ({
    session: { ledger, root },
  }) => {
    await ledger.runs.start(startFields(root));
    await ledger.runs.recordCandidate(candidateFields);
    await ledger.runs.recordCandidate({ ...candidateFields, idempotencyKey: "candidate:again" });
    await ledger.reviews.start(reviewFields);
    await ledger.reviews.complete(completionFields);
    expect(await ledger.runs.terminate(terminalFields)).toMatchObject({ status: "verified" });
  });

  test.for<[string, Partial<typeof completionFields> | null, string]>([
    ["no review at all", null, "verified"],
    ["a review that failed", { verdict: "failed" }, "verified"],
    ["no completed review", null, "completed_with_issues"],
  ])("%s does not do", async ([, completion, status], { session: { ledger, root } }) => {
    await ledger.runs.start(startFields(root));
    await ledger.runs.recordCandidate(candidateFields);
    if (completion !== null) {
      await ledger.reviews.start(reviewFields);
      await ledger.reviews.complete({ ...completionFields, ...completion });
    }
    await expect(
      ledger.runs.terminate({ ...terminalFields, status: status as "verified" }),
    ).rejects.toMatchObject({ name: "LedgerConflictError", code: "evidence_missing" });
  });

  test("a material finding does not do, and can't stand beside a pass", async ({
    session: { ledger, root },
  }) => {
    await ledger.runs.start(startFields(root));
    await ledger.runs.recordCandidate(candidateFields);
    await ledger.reviews.start(reviewFields);
    const finding = {
      fingerprint: "f",
      severity: "major",
      category: "method",
      claim: "The sample is biased.",
    };
    await expect(ledger.reviews.complete({ ...completionFields, findings: [finding] })).rejects.toMatchObject(
      { name: "ValidationError", details: { field: "findings" } },
    );
    await ledger.reviews.complete({ ...completionFields, verdict: "failed", findings: [finding] });
    await expect(ledger.runs.terminate(terminalFields)).rejects.toMatchObject({ code: "evidence_missing" });
  });

  test("a new candidate needs a review of its own", async ({ session: { ledger, root } }) => {
    await ledger.runs.start(startFields(root));
    await ledger.runs.recordCandidate(candidateFields);
    await ledger.reviews.start(reviewFields);
    await ledger.reviews.complete(completionFields);
    await ledger.runs.recordCandidate({
      ...candidateFields,
      idempotencyKey: "candidate:2",
      candidateId: "candidate-2",
      candidateSnapshotSha256: "c".repeat(64),
    });
    await expect(ledger.runs.terminate(terminalFields)).rejects.toMatchObject({ code: "evidence_missing" });
  });
});

/** The answers of the five commands that verify a run, in order. */
async function everyAnswer({ ledger, root }: SessionFixture) {
  return [
    await ledger.runs.start(startFields(root)),
    await ledger.runs.recordCandidate(candidateFields),
    await ledger.reviews.start(reviewFields),
    await ledger.reviews.complete(completionFields),
    await ledger.runs.terminate(terminalFields),
  ];
}
