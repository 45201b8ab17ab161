// How long a command waits when the host's tab dies, against the bare cost of the hand-over; and what a standby's
// commands cost. In Chromium; `--rounds N` for each way to die (default 50).
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { chromium } from "playwright";
import { describeMachine, keepResult, serveBench } from "./bench-server.mjs";
import { chromiumOptions } from "./browsers.mjs";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "50" } } });
const rounds = Number(values.rounds);
const { server, url: origin } = await serveBench();
const url = `${origin}test/bench/failover.html`;
const profile = mkdtempSync(join(tmpdir(), "countersign-failover-"));
const browser = await chromium.launchPersistentContext(profile, chromiumOptions);

/** Each ends the page's tab and answers at once. */
const deaths = {
  close: (page) => page.close(),
  crash: async (page) => {
    const session = await browser.newCDPSession(page);
    return () => session.send("Page.crash").catch(() => {});
  },
  "SIGKILL renderer": async (page) => {
    const pid = await rendererOf(page);
    return () => process.kill(pid, "SIGKILL");
  },
};

try {
  const result = { failover: {}, forwarding: await measureForwarding() };
  for (const [name, death] of Object.entries(deaths)) {
    const ledger = [];
    const recovery = [];
    const floor = [];
    for (let round = 0; round < rounds; round++) {
      const { answerMs, recoveryMs } = await failover(death);
      ledger.push(answerMs);
      recovery.push(recoveryMs);
      floor.push(await bareHandOver(death));
    }
    const summary = { ledger: summaryOf(ledger), recovery: summaryOf(recovery), floor: summaryOf(floor) };
    result.failover[name] = { ...summary, ratio: summary.ledger.median / summary.floor.median };
    const { median, p99 } = summary.ledger;
    console.log(
      `${name.padEnd(18)} median ${median} ms, p99 ${p99} ms; bare hand-over ${summary.floor.median} ms (${(median / summary.floor.median).toFixed(2)} ×); its run closed after ${summary.recovery.median} ms, p99 ${summary.recovery.p99} ms; ${rounds} rounds`,
    );
  }
  keepResult("failover", describeMachine(browser), result);
} finally {
  await browser.close();
  await server.close();
  rmSync(profile, { recursive: true, force: true });
}

async function newPage() {
  const page = await browser.newPage();
  await page.goto(url);
  await page.waitForFunction("globalThis.openFloor !== undefined");
  return page;
}

/** Milliseconds from the death of the host's tab to the first answer of the other's own worker. */
async function failover(death) {
  const [host, standby] = [await newPage(), await newPage()];
  await host.evaluate("openShared()");
  await standby.evaluate("openShared()");
  await host.evaluate("startRun()");
  const closedRun = standby.evaluate("closedRunAt()");
  const answered = standby.evaluate("answeredByMe()");
  const ended = await end(host, death);
  const waited = { answerMs: (await answered) - ended, recoveryMs: (await closedRun) - ended };
  await standby.close();
  return waited;
}

async function bareHandOver(death) {
  const [holder, waiting] = [await newPage(), await newPage()];
  await holder.evaluate("openFloor()");
  await holder.evaluate("floorHeld()");
  await waiting.evaluate("openFloor()");
  const held = waiting.evaluate("floorHeld()");
  const ended = await end(holder, death);
  const waited = (await held) - ended;
  await waiting.close();
  return waited;
}

/** Ends the tab; gives the time of day right before. */
async function end(page, death) {
  if (death === deaths.close) {
    const now = Date.now();
    await page.close();
    return now;
  }
  const crashed = page.waitForEvent("crash");
  const strike = await death(page);
  const now = Date.now();
  strike();
  await crashed;
  await page.close();
  return now;
}

/** The process that shows a page: the one that works when the page does. */
async function rendererOf(page) {
  const session = await browser.browser().newBrowserCDPSession();
  const cpuTimes = async () => {
    const { processInfo } = await session.send("SystemInfo.getProcessInfo");
    return processInfo.filter(({ type }) => type === "renderer");
  };
  const before = new Map((await cpuTimes()).map(({ id, cpuTime }) => [id, cpuTime]));
  await page.evaluate("{ const end = performance.now() + 200; while (performance.now() < end); }");
  const work = (await cpuTimes()).map(({ id, cpuTime }) => ({ id, used: cpuTime - (before.get(id) ?? 0) }));
  await session.detach();
  return work.sort((a, b) => b.used - a.used)[0].id;
}

async function measureForwarding() {
  const [host, standby] = [await newPage(), await newPage()];
  await host.evaluate("openShared()");
  await standby.evaluate("openShared()");
  const times = { host: [], standby: [] };
  for (let round = 0; round < 7; round++) {
    times.host.push(...(await host.evaluate("timeCommands(40)")));
    times.standby.push(...(await standby.evaluate("timeCommands(40)")));
  }
  const own = summaryOf(times.host).median;
  const forwarded = summaryOf(times.standby).median;
  console.log(
    `a command of the host's tab ${own.toFixed(2)} ms, of a standby's ${forwarded.toFixed(2)} ms (${(forwarded / own).toFixed(2)} ×)`,
  );
  await host.close();
  await standby.close();
  return { ownMs: own, forwardedMs: forwarded, ratio: forwarded / own };
}

function summaryOf(times) {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  return { median: at(0.5), p99: at(0.99) };
}
