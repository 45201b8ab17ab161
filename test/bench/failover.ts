import { type Ledger, openLedger } from "../../src/index.ts";

/** What the script asks of the pages: one holds the database, the other waits for it. */

declare global {
  var openShared: () => Promise<string>;
  var answeredByMe: () => Promise<number>;
  var startRun: () => Promise<void>;
  var closedRunAt: () => Promise<number>;
  var timeCommands: (count: number) => Promise<number[]>;
  var hostId: () => string | undefined;
  var openFloor: () => Promise<void>;
  var floorHeld: () => Promise<number>;
}

let ledger: Ledger | undefined;

globalThis.openShared = async () => {
  ledger = await openLedger({ name: "failover", workerUrl: "/worker.js" });
  return ledger.instanceId;
};

globalThis.hostId = () => ledger?.host()?.instanceId;

/** Sends commands one after the other; gives the time of day of the first answer that this tab's own worker gave. */
globalThis.answeredByMe = async () => {
  for (let n = 0; ; n++) {
    await ledger?.settings.set({ key: "k", value: String(n) });
    if (ledger?.host()?.instanceId === ledger?.instanceId) return Date.now();
  }
};

/** Leaves a run unfinished, for another tab to close. */
globalThis.startRun = async () => {
  const { projectId } = (await ledger?.projects.create({ name: "bench" })) ?? { projectId: "" };
  const { rootFrameId = "" } = (await ledger?.frames.create({ projectId })) ?? {};
  const turnId = crypto.randomUUID();
  const work = { rootFrameId, turnId, executionId: turnId, mode: "review_only" } as const;
  await ledger?.runs.start({ idempotencyKey: turnId, ...work });
};

/** The time of day when this tab heard that the run was closed. */
globalThis.closedRunAt = () =>
  new Promise((resolve) => {
    ledger?.recovery.onReport(() => resolve(Date.now()));
  });

globalThis.timeCommands = async (count) => {
  const times: number[] = [];
  for (let n = 0; n < count; n++) {
    const begin = performance.now();
    await ledger?.settings.set({ key: "k", value: `${n}` });
    times.push(performance.now() - begin);
  }
  return times;
};

let held: Promise<number> | undefined;

globalThis.openFloor = () =>
  new Promise((waits) => {
    const worker = new Worker(new URL("./failover.worker.ts", import.meta.url), { type: "module" });
    held = new Promise((holds) => {
      worker.onmessage = ({ data }: MessageEvent<"waits" | number>) => {
        if (data === "waits") waits();
        else holds(data);
      };
    });
  });

globalThis.floorHeld = () => held ?? Promise.reject(new Error("open the floor first"));
