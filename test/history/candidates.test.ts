import { expect } from "vitest";
import { addCandidateMessage, candidateMetadata } from "../support/candidates.ts";
import { test } from "../support/session.ts";

const work = { turnId: "turn-1", executionId: "execution-1" };

test("a malformed candidate is reported once, and settled by hand", async ({ session: { ledger, root } }) => {
  const { execution_id: _, ...metadata } = candidateMetadata("half", work);
  const malformed = await ledger.messages.add({
    rootFrameId: root,
    frameId: root,
    role: "assistant",
    content: "half",
    metadata,
    createdAt: 90,
  });
  const sound = await addCandidateMessage(ledger, {
    rootFrameId: root,
    branchId: root,
    content: "whole",
    work,
  });

  const first = await ledger.recovery.reconcileCandidates({ now: 500 });
  expect(first).toMatchObject([
    { messageId: malformed.messageId, unreconciled: "LedgerConflictError" },
    { messageId: sound.messageId, reviewStatus: "review_unavailable" },
  ]);
  expect(await ledger.recovery.reconcileCandidates({ now: 600 })).toEqual([]);

  await expect(ledger.recovery.settleCandidate({ messageId: sound.messageId })).rejects.toMatchObject({
    code: "candidate_sound",
  });
  const settled = await ledger.recovery.settleCandidate({ messageId: malformed.messageId, now: 700 });
  expect(settled).toMatchObject({
    content: "half",
    metadata: {
      review_status: "review_unavailable",
      unverified: true,
      review_recovery: { reason: "candidate_malformed", reconciled_at: 700 },
    },
  });
  expect(await ledger.verify()).toMatchObject({ ok: true });
});
