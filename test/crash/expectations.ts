import type { Page } from "playwright";
import { expect } from "vitest";
import type { Damage } from "../../src/protocol/runs.ts";
import { type AckLog, lostOf } from "./acks.ts";
import type { Survey } from "./page.ts";
import type { Tab, Work } from "./tab.ts";

/**
 * Checks, in a new tab, what an interrupted one has left: nothing acknowledged is lost or damaged, the run that was
 * under way is settled, all verified ones are left alone, and the blocked branch can go on at once. Gives the
 * number of events that were committed but not acknowledged.
 */
export async function expectRecovered(
  { page }: Tab,
  dead: Tab,
  { round, sessions }: Work,
  acks: AckLog,
): Promise<number> {
  const survey = await expectIntact(page, acks);
  await expectSettled(page, dead, round, survey);
  await expectNextVerified(page, sessions.endless, `round-${round}:next`);
  return countUnacknowledged(survey, round, acks);
}

async function expectSettled(page: Page, dead: Tab, round: number, survey: Survey): Promise<void> {
  const unfinished = survey.runs.filter(isUnfinished);
  const runIds = unfinished.map((run) => run["run_id"]);
  // Its start was the first acknowledgement of the round, and nothing ends it: the writers were at work when it stopped.
  expect(runIds).toContain(`round-${round}:endless`);
  expect(new Set(unfinished.map((run) => run["owner_instance_id"]))).toEqual(new Set([dead.instanceId]));

  const outcomes = await page.evaluate(() => crashPage.settle());
  expect(outcomes).toEqual(
    runIds.map((runId) => ({ runId, status: "review_unavailable", terminalReason: "daemon_restart" })),
  );
  const settled = await page.evaluate(() => crashPage.runs());
  expect(settled.filter(isUnfinished)).toEqual([]);
  expect(settled.filter(isVerified)).toEqual(survey.runs.filter(isVerified));
}

async function expectNextVerified(page: Page, rootFrameId: string, runId: string): Promise<void> {
  const { run } = await page.evaluate((next) => crashPage.verifyRun(next.rootFrameId, next.runId), {
    rootFrameId,
    runId,
  });
  expect(run).toMatchObject({ runId, status: "verified" });
}

/** Checks the whole database, and that each acknowledged command of every round is in it. */
export async function expectIntact(page: Page, acks: AckLog): Promise<Survey> {
  const survey = await page.evaluate(() => crashPage.survey());
  expect(survey.integrity).toEqual([{ integrity_check: "ok" }]);
  expect(survey.foreignKeyViolations).toEqual([]);
  expect(damageIn(survey)).toEqual([]);
  expect(survey.verification.ok).toBe(true);
  expect(lostOf(acks.all, survey)).toEqual([]);
  return survey;
}

function damageIn({ verification }: Survey): Damage[] {
  return verification.sessions.flatMap(({ damage, runs }) => [
    ...damage,
    ...runs.flatMap((run) => run.damage ?? []),
  ]);
}

function isUnfinished(run: Survey["runs"][number]): boolean {
  return run["finished_at"] === null && run["abandoned_at"] === null;
}

function isVerified(run: Survey["runs"][number]): boolean {
  return run["status"] === "verified";
}

function countUnacknowledged(survey: Survey, round: number, acks: AckLog): number {
  const acknowledged = new Set(acks.all.map((ack) => (ack.kind === "event" ? ack.eventId : ack.key)));
  return survey.events.filter(
    (event) =>
      String(event["run_id"]).startsWith(`round-${round}:`) && !acknowledged.has(String(event["event_id"])),
  ).length;
}
