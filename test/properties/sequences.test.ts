import fc from "fast-check";
import { expect } from "vitest";
import { LedgerError, type Projection } from "../../src/index.ts";
import type { TestLedger } from "../../src/testing.ts";
import { EVIDENCE_SHA256, evidence } from "../support/fields.ts";
import { newSession, openBuilt, type SessionFixture, test } from "../support/session.ts";

/** One step of an agent that does anything in any order. Small numbers, so that ids and keys meet again. */
interface Step {
  readonly act: "start" | "candidate" | "review" | "complete" | "terminate" | "reconcile";
  readonly session: number;
  readonly run: number;
  readonly item: number;
  readonly passes: boolean;
}

interface Accepted {
  readonly repeat: () => Promise<{ readonly eventId: string; readonly created: boolean }>;
  readonly eventId: string;
}

const ACTS = ["start", "candidate", "review", "complete", "terminate", "reconcile"] as const;

test("property: whatever agents do, the proof holds, replays repeat it, and a cold ledger reads the same", async ({
  session,
}) => {
  await fc.assert(
    fc.asyncProperty(anySteps(), async (steps) => {
      const { ledger } = session;
      const roots = [await newSession(ledger), await newSession(ledger)];
      const accepted: Accepted[] = [];
      for (const step of steps) await take(step, session.ledger, roots, accepted);

      for (const { repeat, eventId } of accepted) {
        expect(await repeat()).toMatchObject({ eventId, created: false });
      }
      for (const root of roots) expectEarned(await ledger.runs.project({ rootFrameId: root }));
    }),
    { numRuns: 15 },
  );
  await expectSameWhenCold(session);
}, 120_000);

async function take(
  step: Step,
  ledger: TestLedger,
  roots: readonly string[],
  accepted: Accepted[],
): Promise<void> {
  const root = roots[step.session] ?? "";
  if (step.act === "reconcile") {
    await ledger.recovery.reconcileRuns({ ownerInstanceId: `owner-${step.item}` });
    return;
  }
  const command = commandOf(step, ledger, root);
  try {
    const { eventId, created } = await command();
    if (created) accepted.push({ repeat: command, eventId });
  } catch (error) {
    if (!(error instanceof LedgerError) || error.code === "internal_error") throw error;
  }
}

function commandOf(step: Step, ledger: TestLedger, root: string) {
  const runId = `${root}:run-${step.run}`;
  const candidateId = `candidate-${step.item}`;
  const reviewRunId = `${runId}:review-${step.item}`;
  const candidate = {
    runId,
    candidateId,
    candidateSnapshotSha256: String(step.item).repeat(64),
    evidenceSnapshotSha256: EVIDENCE_SHA256,
  };
  switch (step.act) {
    case "start":
      return () =>
        ledger.runs.start({
          runId,
          idempotencyKey: `start-${step.run}`,
          rootFrameId: root,
          turnId: `turn-${step.run}`,
          executionId: "execution",
          mode: "auto_fix",
          ownerInstanceId: `owner-${step.run % 2}`,
        });
    case "candidate":
      return () => ledger.runs.recordCandidate({ ...candidate, idempotencyKey: `candidate-${step.item}` });
    case "review":
      return () =>
        ledger.reviews.start({
          ...candidate,
          reviewRunId,
          idempotencyKey: `review-${step.item}`,
          evidenceSnapshot: evidence,
          roundIndex: 0,
          attempt: 1 + step.item,
          reviewer: { profile_id: "p", profile_revision: 1, model_fingerprint: "m" },
        });
    case "complete":
      return () =>
        ledger.reviews.complete({
          reviewRunId,
          idempotencyKey: `complete-${step.item}`,
          status: "completed",
          verdict: step.passes ? "pass" : "failed",
          assessment: {},
        });
    default:
      return () =>
        ledger.runs.terminate({
          runId,
          idempotencyKey: `terminal-${step.item}`,
          status: step.passes ? "verified" : "cancelled",
          reason: "done",
        });
  }
}

/** `verified` only after the newest review of the newest candidate was completed and passed. */
function expectEarned({ run, events }: Projection): void {
  if (run?.status !== "verified") return;
  const newest = (type: string) => events.findLast((event) => event.type === type)?.payload ?? {};
  const audit = newest("auto_audit_completed") as Record<string, unknown>;
  const candidate = newest("candidate_ready") as Record<string, unknown>;
  expect(audit).toMatchObject({
    status: "completed",
    verdict: "pass",
    candidate_id: candidate["candidate_id"],
  });
}

/** What was remembered along the way equals what the database alone says. */
async function expectSameWhenCold({ ledger }: SessionFixture): Promise<void> {
  const roots = await ledger.testing.sql("SELECT frame_id FROM frames");
  const project = (from: TestLedger) =>
    Promise.all(roots.map(({ frame_id }) => from.runs.project({ rootFrameId: String(frame_id) })));
  const warm = await project(ledger);
  expect(await ledger.verify()).toMatchObject({ ok: true });
  await ledger.close();
  await using cold = await openBuilt(ledger.name);
  expect(await project(cold)).toEqual(warm);
}

/** Steps at random, with whole runs among them that could end `verified` if nothing came in between. */
function anySteps(): fc.Arbitrary<Step[]> {
  const wholeRun = fc
    .tuple(anyStep(), fc.subarray([...ACTS], { minLength: 4 }))
    .map(([step, acts]) => acts.map((act) => ({ ...step, act, passes: true })));
  const single = anyStep().map((step) => [step]);
  return fc
    .array(fc.oneof({ arbitrary: single, weight: 3 }, { arbitrary: wholeRun, weight: 1 }), {
      minLength: 3,
      maxLength: 25,
    })
    .map((groups) => groups.flat());
}

function anyStep(): fc.Arbitrary<Step> {
  return fc.record({
    act: fc.constantFrom(...ACTS),
    session: fc.nat({ max: 1 }),
    run: fc.nat({ max: 2 }),
    item: fc.nat({ max: 2 }),
    passes: fc.boolean(),
  });
}
