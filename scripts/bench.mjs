// Runs the benchmarks in Chromium, prints one page of ratios, writes test/bench/results/latest.json.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright";
import { describeMachine, keepResult, serveBench } from "./bench-server.mjs";
import { chromiumOptions } from "./browsers.mjs";

const { server, url: origin } = await serveBench();
const profile = mkdtempSync(join(tmpdir(), "countersign-bench-"));
const browser = await chromium.launchPersistentContext(profile, chromiumOptions);
try {
  const page = await browser.newPage();
  page.on("pageerror", (error) => console.error(error));
  await page.exposeFunction("report", (line) => console.log(`… ${line}`));
  await page.goto(`${origin}test/bench/index.html`);
  await page.waitForFunction("globalThis.runBench !== undefined");
  const large = await measureLargeArtifact(page, 200);
  const result = { ...(await page.evaluate("runBench(report)")), large };
  const machine = describeMachine(browser);
  print(result, machine);
  keepResult("latest", machine, result);
} finally {
  await browser.close();
  await server.close();
  rmSync(profile, { recursive: true, force: true });
}

/** The peak of the renderer's memory while a large artifact is saved and read back, over what it held before. */
async function measureLargeArtifact(page, sizeMiB) {
  await page.evaluate("saveLargeArtifact(4)");
  const pids = renderersOf(profile);
  for (const pid of pids) writeFileSync(`/proc/${pid}/clear_refs`, "5");
  const before = pids.map((pid) => memoryMiB(pid, "VmRSS"));
  const times = await page.evaluate(`saveLargeArtifact(${sizeMiB})`);
  const peaks = pids.map((pid, index) => memoryMiB(pid, "VmHWM") - before[index]);
  return { sizeMiB, ...times, peakMiB: Math.max(...peaks) };
}

function renderersOf(directory) {
  return readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      const args = readFileSync(`/proc/${name}/cmdline`, "utf8");
      return args.includes("--type=renderer") && readsProfile(name, directory);
    } catch {
      return false;
    }
  });
}

/** Renderers don't name the profile; the browser that started them does. */
function readsProfile(pid, directory) {
  const group = readFileSync(`/proc/${pid}/stat`, "utf8").replace(/.*\) /s, "").split(" ")[2];
  return readFileSync(`/proc/${group}/cmdline`, "utf8").includes(directory);
}

function memoryMiB(pid, field) {
  const line = readFileSync(`/proc/${pid}/status`, "utf8").match(new RegExp(`${field}:\\s+(\\d+) kB`));
  return Number(line?.[1] ?? Number.NaN) / 1024;
}

function print({ commands, projection, checkpoints, capture, large, sweep, open }, machine) {
  const ms = (value) => `${value.toFixed(2)} ms`;
  const times = (value) => `${value.toFixed(2)} ×`;
  console.log(`\n${machine.browser}, ${machine.cores} cores (${machine.cpu})\n`);
  for (const { command, floorMs, sequentialMs, toFloor, burstMs, timesSequentialRate } of commands) {
    console.log(command);
    console.log(`  one at a time   ${ms(sequentialMs)} = ${times(toFloor)} the floor (${ms(floorMs)})`);
    console.log(`  burst of 100    ${ms(burstMs)} each = ${times(timesSequentialRate)} the sequential rate`);
  }
  console.log("projection of the current run, by events in its session");
  for (const { events, warmMs, coldMs, warmToSmallest, coldToSmallest } of projection) {
    const label = `  ${events}`.padEnd(18);
    console.log(
      `${label}${ms(warmMs)} (${times(warmToSmallest)}), checked from zero ${ms(coldMs)} (${times(coldToSmallest)})`,
    );
  }
  console.log("projection over a chain of checkpoints");
  for (const { checkpoints: count, warmMs, coldMs, coldToSmallest } of checkpoints) {
    console.log(
      `${`  ${count}`.padEnd(18)}${ms(warmMs)}, checked from zero ${ms(coldMs)} (${times(coldToSmallest)})`,
    );
  }
  console.log(`capture of ${capture.files} files
  first           ${ms(capture.firstMs)}, again ${ms(capture.unchangedMs)} (${capture.blobsWrittenByUnchanged} blobs written)`);
  console.log(`artifact of ${large.sizeMiB} MiB
  saved           in ${ms(large.saveMs)}, read in ${ms(large.readMs)}; at most ${large.peakMiB.toFixed(0)} MiB of memory over what was used before`);
  console.log("sweep for 10 candidates");
  for (const { messages, sweepMs } of sweep) console.log(`${`  in ${messages}`.padEnd(18)}${ms(sweepMs)}`);
  console.log(
    `open\n  empty           ${ms(open.emptyMs)}, with 10,000 events ${ms(open.tenThousandEventsMs)}; floor ${ms(open.floorMs)}`,
  );
}
