import { setTimeout as delay } from "node:timers/promises";
import type { BrowserContext, Page } from "playwright";
import { test as base } from "vitest";
import { AckLog } from "./acks.ts";
import { launchBrowser, newProfile, removeProfile } from "./browser.ts";
import type { Ack, Sessions } from "./page.ts";
import { type Site, serveSite } from "./site.ts";

/** A profile that outlives its browsers, the site that their tabs show, and what those have acknowledged. */
export const test = base.extend<{ site: Site; profile: string; acks: AckLog }>({
  site: async ({ task: _ }, use) => {
    const site = await serveSite();
    await use(site);
    await site.close();
  },
  profile: async ({ task: _ }, use) => {
    const profile = newProfile();
    await use(profile);
    await removeProfile(profile);
  },
  acks: async ({ task: _ }, use) => use(new AckLog()),
});

/** A page with the ledger open. */
export interface Tab {
  readonly page: Page;
  readonly instanceId: string;
}

/** Starts a browser in the profile whose pages report to the log. */
export async function startBrowser(profile: string, acks: AckLog): Promise<BrowserContext> {
  const browser = await launchBrowser(profile);
  await browser.exposeFunction("acknowledge", (answered: readonly Ack[]) => acks.add(answered));
  return browser;
}

export async function openTab(browser: BrowserContext, site: Site): Promise<Tab> {
  const page = await browser.newPage();
  await page.goto(site.pageUrl);
  return openLedgerIn(page);
}

/** Opens the ledger in a page that was just loaded, or loaded anew. */
export async function openLedgerIn(page: Page): Promise<Tab> {
  await page.waitForFunction("globalThis.openCrashPage !== undefined");
  return { page, instanceId: await page.evaluate(() => openCrashPage()) };
}

/** What a tab writes: each round has runs of its own in the same sessions. */
export interface Work {
  readonly round: number;
  readonly sessions: Sessions;
}

/** When a page that writes is to be interrupted. */
export interface Moment {
  readonly afterAcks: number;
  /** How much longer. With 0 it is in the same turn as the last of them arrives. */
  readonly delayMs: number;
}

/** Lets the tab write, and interrupts it while it does. */
export async function interruptWriting(
  { page }: Tab,
  work: Work,
  { afterAcks, delayMs }: Moment,
  acks: AckLog,
  interrupt: () => Promise<unknown>,
): Promise<void> {
  const due = acks.more(afterAcks).then(() => (delayMs === 0 ? undefined : delay(delayMs)));
  const writing = page.evaluate(({ round, sessions }) => crashPage.write(round, sessions), work);
  // Never resolves; a command that fails before the interruption fails the test.
  await Promise.race([due, writing]);
  await interrupt();
}
