import type { BrowserContext, Page } from "playwright";
import { expect, onTestFailed, test } from "vitest";
import {
  browserGone,
  killerOf,
  launchBrowser,
  newProfile,
  removeProfile,
  renderersOf,
} from "../crash/browser.ts";
import { serveSite } from "../crash/site.ts";
import type { Survey, Trace } from "./page.ts";
import { pick, seededRandom } from "./random.ts";

/**
 * Tabs that write without end, and a controller that ends them in every way a tab can end. Afterwards everything that
 * was acknowledged is there once, nothing is there twice, and nothing is stuck.
 *
 * `CHAOS_EVENTS`, `CHAOS_TABS` and `CHAOS_SEED` make it longer, wider, and the same again.
 */

const EVENTS = Number(process.env["CHAOS_EVENTS"] ?? 14);
const TABS = Number(process.env["CHAOS_TABS"] ?? 4);
const SEED = Number(process.env["CHAOS_SEED"] ?? Math.floor(Math.random() * 2 ** 32));

/** How many operations the tabs begin between two events, at most. */
const LULL_OPERATIONS = 80;

const EVENTS_OF_A_TAB = ["close", "reload", "crash page", "crash worker", "kill renderer"] as const;
type ChaosEvent = (typeof EVENTS_OF_A_TAB)[number] | "kill browser";

/** What the tabs have told of what they sent. */
class Log {
  readonly begun = new Map<string, Trace>();
  readonly done = new Map<string, Trace>();
  readonly failures: string[] = [];
  #awaited: { readonly count: number; readonly reached: () => void } | undefined;

  begin(trace: Trace, key: string): void {
    this.begun.set(key, trace);
    if (this.#awaited !== undefined && this.begun.size >= this.#awaited.count) this.#awaited.reached();
  }

  /** Resolves once so many more operations were begun. */
  more(count: number): Promise<void> {
    return new Promise((reached) => {
      this.#awaited = { count: this.begun.size + count, reached };
    });
  }
}

class Chaos {
  readonly #profile: string;
  readonly #pageUrl: string;
  readonly #random: () => number;
  readonly log: Log;
  browser!: BrowserContext;
  tabs: Page[] = [];
  #shared: string | null = null;
  #opened = 0;

  constructor(profile: string, pageUrl: string, random: () => number, log: Log) {
    this.#profile = profile;
    this.#pageUrl = pageUrl;
    this.#random = random;
    this.log = log;
  }

  async begin(): Promise<void> {
    this.browser = await launchBrowser(this.#profile);
    await this.browser.exposeFunction("chaosBegun", (trace: Trace, key: string) =>
      this.log.begin(trace, key),
    );
    await this.browser.exposeFunction("chaosDone", (trace: Trace, key: string) =>
      this.log.done.set(key, trace),
    );
    await this.browser.exposeFunction("chaosFailed", (key: string, error: string) =>
      this.log.failures.push(`${key}: ${error}`),
    );
    this.tabs = [];
    for (let tab = 0; tab < TABS; tab++) this.tabs.push(await this.#openTab());
  }

  async cause(event: ChaosEvent): Promise<void> {
    if (event === "kill browser") {
      const closed = this.browser.waitForEvent("close");
      await killerOf(this.#profile)();
      await closed;
      await this.begin();
      return;
    }
    const tab = pick(this.tabs, this.#random);
    switch (event) {
      case "close":
        await tab.close();
        break;
      case "reload":
        await tab.reload();
        await this.#open(tab);
        return;
      case "crash page": {
        const crashed = tab.waitForEvent("crash");
        const session = await this.browser.newCDPSession(tab);
        session.send("Page.crash").catch(() => {});
        await crashed;
        await tab.close();
        break;
      }
      case "crash worker":
        await tab.evaluate(() => chaosPage.crashWorker());
        return;
      case "kill renderer":
        await this.#killRenderer();
        break;
    }
    this.tabs = this.tabs.filter((each) => !each.isClosed());
    while (this.tabs.length < TABS) this.tabs.push(await this.#openTab());
  }

  /** Lets every tab finish what it is at. */
  async stop(): Promise<void> {
    await Promise.all(this.tabs.map((tab) => tab.evaluate(() => chaosPage.stop())));
  }

  /** Tabs can share a renderer: all of them die with it. */
  async #killRenderer(): Promise<void> {
    const dead: Page[] = [];
    const crashed = new Promise<void>((resolve) => {
      for (const tab of this.tabs)
        tab.once("crash", () => {
          dead.push(tab);
          resolve();
        });
    });
    const victims = renderersOf(this.#profile);
    // Some renderers show no tab of ours; one after the other, until one does.
    for (const pid of victims) {
      process.kill(pid, "SIGKILL");
      const died = await Promise.race([crashed.then(() => true), this.tabs[0]?.evaluate(() => false)]).catch(
        () => true,
      );
      if (died === true) break;
    }
    await crashed;
    for (const tab of dead) await tab.close();
  }

  async #openTab(): Promise<Page> {
    const page = await this.browser.newPage();
    await page.goto(this.#pageUrl);
    await this.#open(page);
    return page;
  }

  async #open(page: Page): Promise<void> {
    await page.waitForFunction("globalThis.openChaosPage !== undefined");
    await page.evaluate((shared) => openChaosPage(shared), this.#shared);
    this.#shared ??= await page.evaluate(() => chaosPage.shared);
    await page.evaluate((seed) => chaosPage.start(seed), SEED + 1_000 * ++this.#opened);
  }
}

test(
  `${EVENTS} tabs' deaths among ${TABS} lose nothing, do nothing twice and wedge nothing`,
  async () => {
    onTestFailed(() => console.error(`CHAOS_SEED=${SEED} draws the same events`));
    const random = seededRandom(SEED);
    const site = await serveSite();
    const profile = newProfile();
    const log = new Log();
    const pageUrl = site.pageUrl.replace("crash", "chaos");
    const chaos = new Chaos(profile, pageUrl, random, log);
    const caused: ChaosEvent[] = [];
    try {
      await chaos.begin();
      for (let event = 0; event < EVENTS; event++) {
        await log.more(Math.floor(random() * LULL_OPERATIONS));
        const next = event % 10 === 9 ? "kill browser" : pick(EVENTS_OF_A_TAB, random);
        caused.push(next);
        await chaos.cause(next);
      }
      await chaos.stop();
      const [last, ...others] = chaos.tabs;
      if (last === undefined) throw new Error("no tab is left");
      for (const tab of others) await tab.close();
      const survey = () => last.evaluate(() => chaosPage.survey());
      // The last tab closes what the others left as soon as their locks are free.
      await expect.poll(async () => (await survey()).unfinished, { timeout: 20_000 }).toEqual([]);
      expectWhole(await survey(), log);
      console.info(
        `CHAOS_SEED=${SEED}: ${caused.length} events (${[...new Set(caused)].join(", ")}), ${log.done.size} operations acknowledged, ${log.begun.size - log.done.size} cut off`,
      );
      await chaos.browser.close();
      await browserGone(profile);
    } finally {
      await removeProfile(profile);
      await site.close();
    }
  },
  60_000 + EVENTS * 10_000,
);

function expectWhole(survey: Survey, { begun, done, failures }: Log): void {
  expect(failures).toEqual([]);
  expect(survey.integrity).toEqual([{ integrity_check: "ok" }]);
  expect(survey.verified).toBe(true);
  expect(survey.gaps).toEqual([]);
  expect(survey.barriers).toEqual([]);
  const counts = new Map<string, number>();
  for (const [trace, keys] of Object.entries(survey.traces))
    for (const key of keys) counts.set(`${trace} ${key}`, (counts.get(`${trace} ${key}`) ?? 0) + 1);
  const lost = [...done].filter(([key, trace]) => counts.get(`${trace} ${key}`) !== 1);
  expect(lost).toEqual([]);
  const doubled = [...begun].filter(([key, trace]) => (counts.get(`${trace} ${key}`) ?? 0) > 1);
  expect(doubled).toEqual([]);
  expect(done.size).toBeGreaterThan(EVENTS);
}
