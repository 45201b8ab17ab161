import { wrap } from "comlink";
import { sha256 } from "../../src/proof/index.ts";
import { openTestLedger, type SqlRow, type TestLedger } from "../../src/testing.ts";
import { candidateFields, startFields } from "../support/fields.ts";
import type { Floor, Statement } from "./floor.worker.ts";

/** Times in milliseconds; every claim is a ratio against the floor, or another figure, of the same run. */
export interface BenchResult {
  readonly commands: readonly CommandResult[];
  readonly projection: readonly {
    readonly events: number;
    readonly warmMs: number;
    readonly coldMs: number;
    readonly warmToSmallest: number;
    readonly coldToSmallest: number;
  }[];
  readonly checkpoints: readonly {
    readonly checkpoints: number;
    readonly warmMs: number;
    readonly coldMs: number;
    readonly coldToSmallest: number;
  }[];
  readonly capture: {
    readonly files: number;
    readonly firstMs: number;
    readonly unchangedMs: number;
    readonly blobsWrittenByUnchanged: number;
  };
  readonly sweep: readonly {
    readonly messages: number;
    readonly candidates: number;
    readonly sweepMs: number;
  }[];
  readonly open: { readonly floorMs: number; readonly emptyMs: number; readonly tenThousandEventsMs: number };
}

interface CommandResult {
  readonly command: string;
  /** The same rows, written by raw SQLite in a transaction of their own. */
  readonly floorMs: number;
  readonly sequentialMs: number;
  readonly toFloor: number;
  /** A command of a burst of 100, issued at once. */
  readonly burstMs: number;
  readonly timesSequentialRate: number;
}

const WORKER = { workerUrl: "/testing-worker.js" };
const ROUNDS = 7;
const COMMANDS_A_ROUND = 40;
const BURST = 100;

export async function runBench(report: (line: string) => void): Promise<BenchResult> {
  const floor = wrap<Floor>(new Worker(new URL("./floor.worker.ts", import.meta.url), { type: "module" }));
  await floor.open("bench-floor");
  const opening = performance.now();
  const ledger = await openTestLedger({ name: "bench", ...WORKER });
  const emptyMs = performance.now() - opening;

  const commands: CommandResult[] = [];
  for (const subject of [settingsCommand(ledger), await candidateCommand(ledger)]) {
    report(subject.command);
    commands.push(await measureCommand(subject, (steps) => floor.write(steps)));
  }
  report("projection in growing sessions");
  const projection = await measureProjection(ledger);
  report("projection over long chains of checkpoints");
  const checkpoints = await measureCheckpoints(ledger);
  report("capture of a workspace");
  const capture = await measureCapture(ledger);
  report("sweep for candidates");
  const sweep = [await measureSweep(ledger, 100), await measureSweep(ledger, 10_000)];
  report("opening");
  await ledger.close();
  return { commands, projection, checkpoints, capture, sweep, open: { ...(await measureOpen()), emptyMs } };
}

/** A command to measure: how to issue its n-th instance, and how to see afterwards which rows that wrote. */
interface Subject {
  readonly command: string;
  issue(n: number): Promise<unknown>;
  /** What the floor needs beforehand, once. */
  foundation(): Promise<Statement[]>;
  /** The statements that write the same rows as the commands from `first` on. */
  rows(first: number, count: number): Promise<Statement[][]>;
  /** A new place for a burst to go to. */
  renew(round: number): Promise<void>;
}

function settingsCommand(ledger: TestLedger): Subject {
  return {
    command: "settings.set",
    issue: (n) => ledger.settings.set({ key: "bench", value: `value ${n}` }),
    foundation: async () => [insertOf("settings", { key: "bench", value: "", updated_at: 0 })],
    async rows(first, count) {
      const entries = await ledger.testing.sql(
        "SELECT * FROM journal WHERE command = 'settings.set' ORDER BY position DESC LIMIT ?",
        [count],
      );
      return entries.reverse().map((entry, index) => [
        updateOf("settings", "key", {
          key: "bench",
          value: `value ${first + index}`,
          updated_at: Number(entry["at"]),
        }),
        insertOf("journal", entry),
        {
          sql: "INSERT OR REPLACE INTO commitment_index VALUES ('settings', 'bench', ?, ?)",
          values: [String(entry["root_frame_id"]), Number(entry["position"])],
        },
      ]);
    },
    renew: async () => {},
  };
}

async function candidateCommand(ledger: TestLedger): Promise<Subject> {
  let root = await newSession(ledger);
  let runId = "run-1";
  await ledger.runs.start(startFields(root));
  const runRow = async () =>
    (await ledger.testing.sql("SELECT * FROM auto_mode_runs WHERE run_id = ?", [runId]))[0] ?? {};
  return {
    command: "runs.recordCandidate",
    issue: (n) => ledger.runs.recordCandidate({ ...candidateFields, ...candidateNumber(n), runId }),
    foundation: async () => [insertOf("auto_mode_runs", await runRow())],
    async rows(first, count) {
      const newest = async (table: string, order: string) =>
        (
          await ledger.testing.sql(`SELECT * FROM ${table} WHERE run_id = ? ORDER BY ${order} DESC LIMIT ?`, [
            runId,
            count,
          ])
        ).reverse();
      const [events, entries, run] = [
        await newest("auto_mode_events", "sequence"),
        await newest("journal", "position"),
        await runRow(),
      ];
      return events.map((event, index) => [
        updateOf("auto_mode_runs", "run_id", {
          run_id: runId,
          status: "candidate",
          candidate_id: `candidate-${first + index}`,
          candidate_snapshot_sha256: run["candidate_snapshot_sha256"] ?? null,
          state_revision: first + index + 2,
          updated_at: run["updated_at"] ?? 0,
        }),
        insertOf("auto_mode_events", event),
        insertOf("journal", entries[index] ?? {}),
      ]);
    },
    async renew(round) {
      root = await newSession(ledger);
      runId = `burst-${round}`;
      await ledger.runs.start(startFields(root, { runId }));
    },
  };
}

/** Ledger and floor take turns, so that a busy machine slows both. The first round warms both up and does not count. */
async function measureCommand(subject: Subject, writeFloor: (steps: Statement[][]) => Promise<number[]>) {
  const sequential: number[] = [];
  const floor: number[] = [];
  const burst: number[] = [];
  await writeFloor([await subject.foundation()]);
  let issued = 0;
  for (let round = 0; round <= ROUNDS; round++) {
    const first = issued;
    const times = await repeat(COMMANDS_A_ROUND, () => timed(() => subject.issue(issued++)));
    const floorTimes = await writeFloor(await subject.rows(first, COMMANDS_A_ROUND));
    if (round === 0) continue;
    sequential.push(...times);
    floor.push(...floorTimes);
  }
  for (let round = 0; round <= ROUNDS; round++) {
    await subject.renew(round);
    const begin = performance.now();
    await Promise.all(Array.from({ length: BURST }, () => subject.issue(issued++)));
    if (round > 0) burst.push((performance.now() - begin) / BURST);
  }
  const [floorMs, sequentialMs, burstMs] = [median(floor), median(sequential), median(burst)];
  return {
    command: subject.command,
    floorMs,
    sequentialMs,
    toFloor: sequentialMs / floorMs,
    burstMs,
    timesSequentialRate: sequentialMs / burstMs,
  };
}

async function newSession(ledger: TestLedger): Promise<string> {
  const { projectId } = await ledger.projects.create({ name: "bench" });
  return (await ledger.frames.create({ projectId })).rootFrameId;
}

function candidateNumber(n: number) {
  return { idempotencyKey: `candidate:${n}`, candidateId: `candidate-${n}` };
}

function insertOf(table: string, row: SqlRow): Statement {
  const columns = Object.keys(row);
  const sql = `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${columns.map(() => "?").join(", ")})`;
  return { sql, values: Object.values(row) as Statement["values"] };
}

function updateOf(table: string, key: string, row: SqlRow): Statement {
  const { [key]: id = null, ...others } = row;
  const sql = `UPDATE ${table} SET ${Object.keys(others)
    .map((column) => `${column} = ?`)
    .join(", ")} WHERE ${key} = ?`;
  return { sql, values: [...Object.values(others), id] as Statement["values"] };
}

const EVENTS_A_RUN = 4;

async function measureProjection(ledger: TestLedger): Promise<BenchResult["projection"]> {
  const root = await newSession(ledger);
  const measured: { events: number; warmMs: number; coldMs: number }[] = [];
  let runs = 0;
  for (const events of [100, 1_000, 10_000]) {
    for (; runs * EVENTS_A_RUN < events; runs += 25) await addRuns(ledger, root, runs, 25);
    const warm = await repeat(60, () => timed(() => ledger.runs.project({ rootFrameId: root })));
    const cold = await repeat(60, async () => {
      // A write that went round the ledger makes it check everything again.
      await ledger.testing.sql("UPDATE projects SET updated_at = updated_at");
      return timed(() => ledger.runs.project({ rootFrameId: root }));
    });
    measured.push({ events, warmMs: median(warm), coldMs: median(cold) });
  }
  const [smallest] = measured;
  return measured.map((each) => ({
    ...each,
    warmToSmallest: each.warmMs / (smallest?.warmMs ?? 1),
    coldToSmallest: each.coldMs / (smallest?.coldMs ?? 1),
  }));
}

/** Runs that were started, had three candidates each but the last, and were cancelled: sent together, in order. */
async function addRuns(ledger: TestLedger, root: string, from: number, count: number): Promise<void> {
  const commands: Promise<unknown>[] = [];
  for (let n = from; n < from + count; n++) {
    const runId = `${root}:${n}`;
    commands.push(
      ledger.runs.start(startFields(root, { runId, turnId: `turn-${n}`, executionId: `execution-${n}` })),
      ledger.runs.recordCandidate({ ...candidateFields, ...candidateNumber(1), runId }),
      ledger.runs.recordCandidate({ ...candidateFields, ...candidateNumber(2), runId }),
      ledger.runs.terminate({ runId, idempotencyKey: "terminal", status: "cancelled", reason: "bench" }),
    );
  }
  await Promise.all(commands);
}

async function measureCheckpoints(ledger: TestLedger): Promise<BenchResult["checkpoints"]> {
  const root = await newSession(ledger);
  await addRuns(ledger, root, 0, 1);
  const measured: { checkpoints: number; warmMs: number; coldMs: number }[] = [];
  let made = 0;
  for (const checkpoints of [1_000, 5_000]) {
    for (; made < checkpoints; made += 100) {
      const create = () => ledger.checkpoints.create({ rootFrameId: root, reason: "bench" });
      await Promise.all(Array.from({ length: 100 }, create));
    }
    const warm = await repeat(20, () => timed(() => ledger.runs.project({ rootFrameId: root })));
    const cold = await repeat(7, async () => {
      await ledger.testing.sql("UPDATE projects SET updated_at = updated_at");
      return timed(() => ledger.runs.project({ rootFrameId: root }));
    });
    measured.push({ checkpoints, warmMs: median(warm), coldMs: median(cold) });
  }
  const [smallest] = measured;
  return measured.map((each) => ({ ...each, coldToSmallest: each.coldMs / (smallest?.coldMs ?? 1) }));
}

const WORKSPACE_FILES = 2_000;

async function measureCapture(ledger: TestLedger): Promise<BenchResult["capture"]> {
  const opfs = await navigator.storage.getDirectory();
  const directory = await opfs.getDirectoryHandle("bench-workspace", { create: true });
  for (let n = 0; n < WORKSPACE_FILES; n++) {
    const folder = await directory.getDirectoryHandle(`folder-${n % 20}`, { create: true });
    const writable = await (await folder.getFileHandle(`file-${n}.txt`, { create: true })).createWritable();
    await writable.write(`the text of file ${n}\n`.repeat(20));
    await writable.close();
  }
  const capture = () => timed(() => ledger.workspace.capture({ directory }));
  const firstMs = await capture();
  const before = await countBlobs();
  const unchangedMs = median(await repeat(3, capture));
  return {
    files: WORKSPACE_FILES,
    firstMs,
    unchangedMs,
    blobsWrittenByUnchanged: (await countBlobs()) - before,
  };
}

async function countBlobs(): Promise<number> {
  let directory = await navigator.storage.getDirectory();
  for (const name of ["countersign", "bench", "files", "blobs"])
    directory = await directory.getDirectoryHandle(name);
  let count = 0;
  for await (const folder of directory.values()) {
    if (folder instanceof FileSystemDirectoryHandle) for await (const _ of folder.values()) count++;
  }
  return count;
}

/** Candidates among many messages: recovery must find them without reading the others. */
async function measureSweep(ledger: TestLedger, messages: number): Promise<BenchResult["sweep"][number]> {
  const root = await newSession(ledger);
  for (let n = 0; n < messages; n += 100) {
    const add = (_: unknown, index: number) =>
      ledger.messages.add({
        rootFrameId: root,
        role: "user",
        content: `message ${n + index}`,
        metadata: { n },
      });
    await Promise.all(Array.from({ length: 100 }, add));
  }
  const candidates = 10;
  for (let n = 0; n < candidates; n++) {
    await ledger.messages.add({
      rootFrameId: root,
      frameId: root,
      role: "assistant",
      content: `candidate ${n}`,
      metadata: {
        review_status: "candidate",
        gates_completion: true,
        unverified: true,
        turn_id: `turn-${n}`,
        execution_id: "execution",
        candidate_content_sha256: sha256(`candidate ${n}`),
      },
    });
  }
  const sweepMs = await timed(() => ledger.recovery.reconcileCandidates());
  return { messages, candidates, sweepMs };
}

/** Saves an artifact from a stream and reads it back, chunk by chunk, so that the page itself holds none of it. */
export async function saveLargeArtifact(sizeMiB: number): Promise<{ saveMs: number; readMs: number }> {
  const ledger = await openTestLedger({ name: "bench-large", ...WORKER });
  const root = await newSession(ledger);
  let left = sizeMiB;
  // Filled anew each time: one is read before the next is asked for.
  const mebibyte = new Uint8Array(1_048_576);
  const bytes = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      pull(controller) {
        if (left-- > 0) controller.enqueue(mebibyte.fill(left % 251));
        else controller.close();
      },
    },
    { highWaterMark: 0 },
  );
  const begin = performance.now();
  const version = await ledger.artifacts.save({ filename: "large.bin", bytes, frameId: root });
  const saveMs = performance.now() - begin;
  const readMs = await timed(async () => {
    const file = await ledger.artifacts.open({ versionId: version.versionId });
    let read = 0;
    for await (const chunk of inOneBuffer(file)) read += chunk;
    if (read !== sizeMiB * 1_048_576) throw new Error(`read ${read} bytes`);
  });
  await ledger.close();
  return { saveMs, readMs };
}

/** Reads a file as a careful page does, with no memory of its own but one buffer; gives the lengths of the pieces. */
async function* inOneBuffer(file: File): AsyncGenerator<number> {
  const reader = file.stream().getReader({ mode: "byob" });
  for (let buffer = new Uint8Array(1_048_576); ; ) {
    const { done, value } = await reader.read(buffer);
    if (done || value === undefined) return;
    yield value.length;
    buffer = new Uint8Array(value.buffer);
  }
}

async function measureOpen(): Promise<{ floorMs: number; tenThousandEventsMs: number }> {
  const floorMs: number[] = [];
  const openMs: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const worker = new Worker(new URL("./floor.worker.ts", import.meta.url), { type: "module" });
    floorMs.push(await wrap<Floor>(worker).open(`bench-open-${round}`));
    worker.terminate();
    const begin = performance.now();
    const ledger = await openTestLedger({ name: "bench", ...WORKER });
    openMs.push(performance.now() - begin);
    await ledger.close();
  }
  return { floorMs: median(floorMs), tenThousandEventsMs: median(openMs) };
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}

async function repeat(times: number, work: () => Promise<number>): Promise<number[]> {
  const results: number[] = [];
  for (let n = 0; n < times; n++) results.push(await work());
  return results;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
