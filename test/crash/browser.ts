import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type BrowserContext, chromium, type Page } from "playwright";
import { chromiumOptions } from "../../scripts/browsers.mjs";

/** A Chromium with a profile of its own, and how to end it without warning. */

const POLL_MS = 10;
const DEATH_LIMIT_MS = 30_000;

export function newProfile(): string {
  return mkdtempSync(join(tmpdir(), "countersign-crash-"));
}

/** Removes a profile; ends the browser first that a failed test left in it. */
export async function removeProfile(profile: string): Promise<void> {
  if (processesOf(profile).some((each) => each.isLeader)) await killerOf(profile)();
  await browserGone(profile);
  rmSync(profile, { recursive: true, force: true });
}

export function launchBrowser(profile: string): Promise<BrowserContext> {
  return chromium.launchPersistentContext(profile, chromiumOptions);
}

/**
 * A way to kill the profile's browser, all its processes at once, so that none can finish what another began. Finds
 * it now, as a search just before the kill would give a commit under way the time to end.
 */
export function killerOf(profile: string): () => Promise<void> {
  // Playwright starts each browser as the leader of a process group: nothing else is in it.
  const leader = processesOf(profile).find((each) => each.isLeader);
  if (leader === undefined) throw new Error(`no browser runs in ${profile}`);
  return () => {
    process.kill(-leader.pid, "SIGKILL");
    return browserGone(profile);
  };
}

/** Waits for the last process of a browser that was closed or killed: until then it holds its profile. */
export async function browserGone(profile: string): Promise<void> {
  await waitFor(() => processesOf(profile).length === 0, `the browser of ${profile} to be gone`);
}

/** The processes that show the profile's pages. */
export function renderersOf(profile: string): number[] {
  const family = new Set(processesOf(profile).map(({ pid }) => pid));
  // Renderers don't name the profile: they are the children of the zygotes that do, or of their children.
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readParent(Number(name)));
  for (let before = -1; before !== family.size; ) {
    before = family.size;
    for (const { pid, parent } of parents) if (family.has(parent)) family.add(pid);
  }
  return parents.filter(({ pid, isRenderer }) => isRenderer && family.has(pid)).map(({ pid }) => pid);
}

/** The process that shows a page: the one that works when the page does. */
export async function rendererOf(page: Page, profile: string): Promise<number> {
  const before = new Map(renderersOf(profile).map((pid) => [pid, cpuTicks(pid)]));
  await page.evaluate(() => {
    for (const end = performance.now() + 300; performance.now() < end; );
  });
  const used = [...before].map(([pid, ticks]) => ({ pid, ticks: cpuTicks(pid) - ticks }));
  const [busiest] = used.sort((a, b) => b.ticks - a.ticks);
  if (busiest === undefined) throw new Error("no renderer shows the page");
  return busiest.pid;
}

/** The time that a process has worked, in the kernel's hundredths of a second. */
function cpuTicks(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/.*\) /s, "").split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

function readParent(pid: number): { pid: number; parent: number; isRenderer: boolean }[] {
  try {
    const isRenderer = readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("--type=renderer");
    const [, parent] = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/.*\) /s, "").split(" ");
    return [{ pid, parent: Number(parent), isRenderer }];
  } catch {
    return []; // It ended while we looked.
  }
}

interface BrowserProcess {
  readonly pid: number;
  /** The browser itself, which started all others. */
  readonly isLeader: boolean;
}

/** Every living process of the browser: each names the profile in its command line. */
function processesOf(profile: string): BrowserProcess[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const process = readProcess(Number(name));
      // A zombie has no command line, so it does not count.
      return process?.args.includes(`--user-data-dir=${profile}`) ? [process] : [];
    });
}

function readProcess(pid: number): (BrowserProcess & { readonly args: readonly string[] }) | undefined {
  try {
    const args = readFileSync(`/proc/${pid}/cmdline`, "utf8").split(/[\0 ]/);
    // After the name in parentheses: state, parent, process group.
    const [, , group] = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/.*\) /s, "").split(" ");
    return { pid, args, isLeader: Number(group) === pid };
  } catch {
    return undefined; // It ended while we looked.
  }
}

/** Polls, as /proc tells nobody of a change. */
async function waitFor(condition: () => boolean, what: string): Promise<void> {
  const deadline = Date.now() + DEATH_LIMIT_MS;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`waited ${DEATH_LIMIT_MS} ms in vain for ${what}`);
    await delay(POLL_MS);
  }
}
