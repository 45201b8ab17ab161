import type { BrowserContext, Page } from "playwright";
import { expect, test } from "vitest";
import { browserGone, launchBrowser, newProfile, removeProfile, rendererOf } from "./browser.ts";
import { serveSite } from "./site.ts";

const DEADLINE_MS = 2_000;

test("a host that is frozen is named, takes nothing down with it, and carries out what it was sent when it wakes", async () => {
  const site = await serveSite();
  const profile = newProfile();
  try {
    const browser = await launchBrowser(profile);
    const [host, other] = [await open(browser, site.pageUrl, null), await browser.newPage()];
    const shared = await host.evaluate(() => chaosPage.shared);
    await openIn(other, site.pageUrl, shared);
    const hostId = await host.evaluate(() => chaosPage.instanceId);
    const frozen = await rendererOf(host, profile);
    expect(await rendererOf(other, profile)).not.toBe(frozen);

    process.kill(frozen, "SIGSTOP");
    try {
      expect(await other.evaluate(() => chaosPage.say("sent to the frozen host"))).toMatchObject({
        code: "host_timeout",
        details: { hostInstanceId: hostId, hostEpoch: 1, limitMs: DEADLINE_MS },
      });
    } finally {
      process.kill(frozen, "SIGCONT");
    }
    expect(await other.evaluate(() => chaosPage.say("sent after it woke"))).toEqual({ seq: 1 });
    const said = ["sent to the frozen host", "sent after it woke"];
    expect(await other.evaluate(() => chaosPage.said())).toEqual(said);
    expect(await host.evaluate(() => chaosPage.said())).toEqual(said);
    await browser.close();
    await browserGone(profile);
  } finally {
    await removeProfile(profile);
    await site.close();
  }
});

async function open(browser: BrowserContext, pageUrl: string, shared: string | null): Promise<Page> {
  return openIn(await browser.newPage(), pageUrl, shared);
}

async function openIn(page: Page, pageUrl: string, shared: string | null): Promise<Page> {
  await page.goto(pageUrl.replace("crash", "chaos"));
  await page.waitForFunction("globalThis.openChaosPage !== undefined");
  await page.evaluate(([session, deadlineMs]) => openChaosPage(session, deadlineMs), [
    shared,
    DEADLINE_MS,
  ] as const);
  return page;
}
