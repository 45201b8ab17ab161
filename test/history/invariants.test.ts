import { expect } from "vitest";
import type { TestLedger } from "../../src/testing.ts";
import { selectCandidates } from "../../worker/recovery/settle-candidates.ts";
import { proofTables } from "../../worker/schema/tables.ts";
import { addCandidateMessage, commitCandidateDelivery, sessionOf } from "../support/candidates.ts";
import { candidateFields, evidence, reviewFields, startFields } from "../support/fields.ts";
import { test } from "../support/session.ts";

/**
 * The invariants of spec/session_store Appendix C, and where each is tested:
 *
 * 1, 2  model.test.ts: no row twice, and undo gives the view before, over random histories.
 * 3     crash-points.test.ts: at every step of a revert.
 * 4     revert.test.ts: behind the barrier every write is refused; repairs/attempts.test.ts for open repairs.
 * 5     here, and deliveries/*.test.ts, which read each delivery back.
 * 6–8   here: recovery of everything that a dead tab can leave, beside the same of a living tab.
 * 9     files/collect.test.ts: in parallel with captures.
 * 10    files/capture.test.ts: the spec's tree ids, in every browser.
 */

const DEAD = "tab-dead";
const LIVE = "tab-live";

/** An open review, an attempt under way, and a candidate with its delivery that waits for the verdict. */
async function leaveUnfinished(ledger: TestLedger, root: string, owner: string): Promise<void> {
  const of = (name: string) => `${name}-${owner}`;
  const work = { turnId: of("turn"), executionId: of("execution") };
  await ledger.runs.start(startFields(root, { runId: of("run"), ...work, ownerInstanceId: owner }));
  await ledger.runs.recordCandidate({ ...candidateFields, runId: of("run") });
  await ledger.reviews.start({
    ...reviewFields,
    runId: of("run"),
    reviewRunId: of("review"),
    auditId: of("audit"),
    evidenceSnapshot: evidence,
  });
  await ledger.actions.appendGroup({
    groupId: of("group"),
    rootFrameId: root,
    turnId: work.turnId,
    kind: "code",
  });
  await ledger.attempts.allocate({
    attemptId: of("attempt"),
    groupId: of("group"),
    producingCellId: of("cell"),
    ownerInstanceId: owner,
  });
  await ledger.attempts.record({ attemptId: of("attempt"), milestone: "started" });
  await commitCandidateDelivery(ledger, root, work, of("project"));
}

/** The rows of every table that the journal commits to, and of the journal, of one session or of all. */
async function rowsOf(ledger: TestLedger, root?: string): Promise<Record<string, unknown>> {
  const rows: Record<string, unknown> = {};
  for (const table of [...Object.keys(proofTables), "journal", "commitment_index"]) {
    const columns = (await ledger.testing.sql(`SELECT name FROM pragma_table_info('${table}')`)).map(
      ({ name }) => name,
    );
    if (root !== undefined && !columns.includes("root_frame_id")) continue;
    const scope = root === undefined ? "" : `WHERE root_frame_id = '${root}'`;
    rows[table] = await ledger.testing.sql(`SELECT * FROM ${table} ${scope} ORDER BY 1, 2`);
  }
  return rows;
}

const contents = (ledger: TestLedger) =>
  ledger.testing.sql("SELECT message_id, seq, role, content FROM messages ORDER BY message_id");
const actions = (ledger: TestLedger) => ledger.testing.sql("SELECT * FROM action_events ORDER BY event_id");

test("recovery spares the living, changes no content, runs nothing, and done twice is done once", async ({
  fresh: ledger,
}) => {
  const [dead, live, neither] = [
    await sessionOf(ledger, `project-${DEAD}`),
    await sessionOf(ledger, `project-${LIVE}`),
    await sessionOf(ledger, "p"),
  ];
  await leaveUnfinished(ledger, dead, DEAD);
  await leaveUnfinished(ledger, live, LIVE);
  const work = { turnId: "never started", executionId: "e" };
  await addCandidateMessage(ledger, { rootFrameId: neither, branchId: neither, content: "lost", work });
  const before = {
    live: await rowsOf(ledger, live),
    contents: await contents(ledger),
    actions: await actions(ledger),
  };

  const report = await ledger.recovery.reconcileStartup({ liveInstanceIds: [LIVE], now: 10_000_000_000_000 });
  expect(report).toMatchObject({
    runs: [{ runId: `run-${DEAD}`, status: "review_unavailable", terminalReason: "daemon_restart" }],
    attempts: [{ attemptId: `attempt-${DEAD}`, terminalState: "abandoned" }],
    failures: [],
  });
  expect(report.candidates).toMatchObject([
    { reason: "daemon_restart_before_auto_run", rootFrameId: neither },
    { reason: "daemon_restart_before_candidate_promotion", rootFrameId: dead, deliveryStatus: "published" },
  ]);
  expect(await rowsOf(ledger, live)).toEqual(before.live);
  expect(await contents(ledger)).toEqual(before.contents);
  expect(await actions(ledger)).toEqual(before.actions);

  const once = await rowsOf(ledger);
  expect(
    await ledger.recovery.reconcileStartup({ liveInstanceIds: [LIVE], now: 20_000_000_000_000 }),
  ).toMatchObject({ runs: [], attempts: [], candidates: [], failures: [] });
  expect(await rowsOf(ledger)).toEqual(once);
  expect(await ledger.verify()).toMatchObject({ ok: true });
});

test("a delivery and its message agree whenever either can be read", async ({ fresh: ledger }) => {
  const root = await sessionOf(ledger, "project-1");
  const work = { turnId: "turn-1", executionId: "execution-1" };
  const { deliveryId, messageId } = await commitCandidateDelivery(ledger, root, work);
  const states: unknown[] = [];
  const agree = async () => {
    const delivery = await ledger.deliveries.get({ deliveryId });
    const [message] = (await ledger.messages.list({ rootFrameId: root })).filter(
      (each) => each.messageId === messageId,
    );
    expect(message?.metadata).toEqual(delivery.messageMetadata);
    expect(message?.content).toBe(delivery.messageContent);
    states.push([delivery.status, delivery.messageMetadata["review_status"]]);
  };
  await agree();
  await ledger.recovery.reconcileCandidates();
  await agree();
  expect(states).toEqual([
    ["committed", "candidate"],
    ["published", "review_unavailable"],
  ]);
});

test("the sweep for candidates finds them by their index", async ({ fresh: ledger }) => {
  const plan = await ledger.testing.sql(`EXPLAIN QUERY PLAN ${selectCandidates}`);
  expect(plan.map(({ detail }) => detail)).toEqual(["SCAN messages USING INDEX messages_candidates"]);
});
