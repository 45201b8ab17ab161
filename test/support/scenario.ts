import { expect } from "vitest";
import { canonicalJson, digest } from "../../src/proof/index.ts";
import type { TestLedger } from "../../src/testing.ts";
import {
  candidateFields,
  completionFields,
  type minorFinding,
  reviewFields,
  startFields,
  terminalFields,
} from "./fields.ts";

/** What the seed's scenarios do, step by step. */

/** A run that went the whole way, with the calls that made it. */
export async function buildVerified(
  ledger: TestLedger,
  root: string,
  findings: (typeof minorFinding)[] = [],
) {
  const start = startFields(root);
  await ledger.runs.start(start);
  await ledger.runs.recordCandidate(candidateFields);
  await ledger.reviews.start(reviewFields);
  await ledger.reviews.complete({ ...completionFields, findings });
  await ledger.runs.terminate(terminalFields);
  return { start, candidate: candidateFields, terminal: terminalFields };
}

/** Exactly what a tab killed during its review leaves behind. */
export async function crashMidReview(ledger: TestLedger, root: string): Promise<void> {
  await ledger.runs.start(startFields(root, { ownerInstanceId: "daemon-DEAD" }));
  await ledger.runs.recordCandidate(candidateFields);
  await ledger.reviews.start(reviewFields);
}

/** Starts the turn that follows the crash; gives the status that the branch then shows. */
export async function nextTurn(
  ledger: TestLedger,
  root: string,
  ownerInstanceId: string,
): Promise<string | undefined> {
  const next = { runId: "run-2", turnId: "turn-2", executionId: "execution-2", ownerInstanceId };
  await ledger.runs.start(startFields(root, next));
  const { run } = await ledger.runs.project({ rootFrameId: root, branchId: root });
  expect(run?.runId).toBe("run-2");
  return run?.status;
}

/** The run of the branch, as a reader sees it. */
export async function projectedRun(ledger: TestLedger, root: string, branchId = root) {
  return (await ledger.runs.project({ rootFrameId: root, branchId })).run;
}

export async function expectSafetyBoundary(
  ledger: TestLedger,
  root: string,
  claimed = "verified",
): Promise<void> {
  expect(await projectedRun(ledger, root)).toMatchObject({
    sourceClaimedStatus: claimed,
    status: "failed",
    terminalReason: "safety_boundary",
  });
}

/** Rewrites an event's payload with a digest that fits, as somebody who knows the format would. */
export async function rehashPayload(
  ledger: TestLedger,
  where: string,
  change: Record<string, string>,
): Promise<void> {
  const [row] = await ledger.testing.sql(
    `SELECT event_id, payload_json FROM auto_mode_events WHERE ${where}`,
  );
  const payload = { ...JSON.parse(String(row?.["payload_json"])), ...change };
  await ledger.testing.sql(
    "UPDATE auto_mode_events SET payload_json = ?, payload_sha256 = ? WHERE event_id = ?",
    [canonicalJson(payload), digest(payload), String(row?.["event_id"])],
  );
}
