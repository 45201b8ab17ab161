import { expect } from "vitest";
import { browserGone } from "./browser.ts";
import { expectIntact, expectRecovered } from "./expectations.ts";
import { interruptWriting, openLedgerIn, openTab, startBrowser, type Tab, test } from "./tab.ts";

const MOMENT = { afterAcks: 200, delayMs: 0 };

test("a verified run reads the same after a reload amid writes, in a new tab and in a new browser", async ({
  profile,
  site,
  acks,
}) => {
  const browser = await startBrowser(profile, acks);
  const first = await openTab(browser, site);
  const sessions = await first.page.evaluate(() => crashPage.newSessions());
  const root = await first.page.evaluate(() => crashPage.newSession());
  const verified = await first.page.evaluate((id) => crashPage.verifyRun(id, "run-verified"), root);
  expect(verified.run?.status).toBe("verified");
  const proofIn = ({ page }: Tab) => page.evaluate((id) => crashPage.proof(id), root);
  const proof = await proofIn(first);
  expect(proof.projection).toEqual(verified);
  expect(proof.events).toEqual(verified.events);

  await interruptWriting(first, { round: 1, sessions }, MOMENT, acks, () => first.page.reload());
  const reloaded = await openLedgerIn(first.page);
  expect(await proofIn(reloaded)).toEqual(proof);
  await expectRecovered(reloaded, first, { round: 1, sessions }, acks);

  await interruptWriting(reloaded, { round: 2, sessions }, MOMENT, acks, () => reloaded.page.close());
  const second = await openTab(browser, site);
  expect(await proofIn(second)).toEqual(proof);
  await expectRecovered(second, reloaded, { round: 2, sessions }, acks);

  await second.page.evaluate(() => crashPage.close());
  await browser.close();
  await browserGone(profile);
  const third = await openTab(await startBrowser(profile, acks), site);
  expect(await proofIn(third)).toEqual(proof);
  await expectIntact(third.page, acks);
});
