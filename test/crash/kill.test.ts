import { onTestFailed } from "vitest";
import { seededRandom } from "../chaos/random.ts";
import { browserGone, killerOf } from "./browser.ts";
import { expectIntact, expectRecovered } from "./expectations.ts";
import { interruptWriting, type Moment, openTab, startBrowser, test } from "./tab.ts";

const ROUNDS = 10;

test("all that was acknowledged outlives ten kills of the browser amid writes", async ({
  profile,
  site,
  acks,
}) => {
  const seed = Number(process.env["CRASH_SEED"] ?? Math.floor(Math.random() * 2 ** 32));
  onTestFailed(() => console.error(`CRASH_SEED=${seed} draws the same moments for the kills`));
  const random = seededRandom(seed);

  let browser = await startBrowser(profile, acks);
  let tab = await openTab(browser, site);
  const sessions = await tab.page.evaluate(() => crashPage.newSessions());
  const unacknowledged: number[] = [];
  for (let round = 1; round <= ROUNDS; round++) {
    const dead = tab;
    const closed = browser.waitForEvent("close");
    await interruptWriting(dead, { round, sessions }, drawMoment(round, random), acks, killerOf(profile));
    await closed; // Acknowledgements that the browser had passed on before it died have arrived by then.

    browser = await startBrowser(profile, acks);
    tab = await openTab(browser, site);
    unacknowledged.push(await expectRecovered(tab, dead, { round, sessions }, acks));
  }
  await expectIntact(tab.page, acks);
  await browser.close();
  await browserGone(profile);

  console.info(
    `seed ${seed}: ${acks.all.length} commands acknowledged; events committed but not acknowledged, by round: ${unacknowledged.join(" ")}`,
  );
});

/**
 * Every other kill comes right upon an acknowledgement, to catch one that was given too early, the others at any
 * point of the work after it. By 50 acknowledgements every writer is at work.
 */
function drawMoment(round: number, random: () => number): Moment {
  return { afterAcks: 50 + Math.floor(random() * 950), delayMs: round % 2 === 0 ? 0 : random() * 25 };
}
