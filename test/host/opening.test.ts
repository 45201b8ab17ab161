import { wrap } from "comlink";
import { describe, expect } from "vitest";
import {
  HostUnavailableError,
  LedgerClosedError,
  openLedger,
  SchemaTooNewError,
  StorageUnavailableError,
  ValidationError,
} from "../../src/index.ts";
import { buildVerified } from "../support/scenario.ts";
import { freshName, openBuilt, removeLedger, test } from "../support/session.ts";

describe("where a ledger lives", () => {
  test("on OPFS, durably, and it says so", async ({ fresh: ledger }) => {
    expect(ledger.storage).toMatchObject({
      kind: "opfs",
      durable: true,
      journalMode: "wal",
      synchronous: "full",
      schemaVersion: 1,
      vfs: `countersign-${ledger.name}`,
    });
  });

  test("in memory only when asked", async () => {
    await using ledger = await openBuilt(freshName(), { storage: "memory" });
    expect(ledger.storage).toMatchObject({ kind: "memory", durable: false, reason: "memory was asked for" });
  });

  test("without OPFS it is refused with the reason, unless memory was allowed", async () => {
    const withoutOpfs = { worker: () => workerAfter("StorageManager.prototype.getDirectory = undefined") };

    const refusal = await errorOf(openBuilt(freshName(), withoutOpfs));
    expect(refusal).toBeInstanceOf(StorageUnavailableError);
    expect(refusal).toMatchObject({ code: "opfs_unavailable" });
    expect(String(refusal)).toContain("no origin-private file system");

    await using ledger = await openBuilt(freshName(), { ...withoutOpfs, allowMemory: true });
    expect(ledger.storage).toMatchObject({ kind: "memory", durable: false });
    expect(ledger.storage.reason).toContain("no origin-private file system");
  });

  test("what it holds is there again after closing and opening, to the last digest", async ({
    session: { ledger, root },
  }) => {
    await buildVerified(ledger, root);
    const before = await ledger.runs.project({ rootFrameId: root });
    await ledger.close();

    await using again = await openBuilt(ledger.name);
    expect(before.run?.status).toBe("verified");
    expect(await again.runs.project({ rootFrameId: root })).toEqual(before);
    expect(await again.verify()).toMatchObject({ ok: true });
  });
});

describe("a second opening of the same ledger", () => {
  test("shares the database while the first lives, and has it to itself after it", async ({
    session: { ledger, root },
  }) => {
    await buildVerified(ledger, root);
    await using second = await openBuilt(ledger.name);
    expect((await second.runs.project({ rootFrameId: root })).run?.status).toBe("verified");
    expect(second.host()).toEqual({ instanceId: ledger.instanceId, epoch: 1 });

    await ledger.close();
    expect((await second.runs.project({ rootFrameId: root })).run?.status).toBe("verified");
    expect(second.host()).toEqual({ instanceId: second.instanceId, epoch: 2 });
  });

  test("is told when the one that has the database does not answer, and loses nothing", async ({
    session: { ledger, root },
  }) => {
    await buildVerified(ledger, root);
    const lock = `countersign:${ledger.name}-hung:host`;
    await navigator.locks.request(lock, async () => {
      const refusal = await errorOf(openBuilt(`${ledger.name}-hung`, { hostWaitMs: 50 }));
      expect(refusal).toBeInstanceOf(HostUnavailableError);
      expect(refusal).toMatchObject({ code: "host_silent", details: { lock, waitedMs: 50 } });
    });
    expect((await ledger.runs.project({ rootFrameId: root })).run?.status).toBe("verified");
  });

  test("has its own tab lock, which it gives back", async ({ fresh: ledger }) => {
    const lock = `countersign:${ledger.name}:tab:${ledger.instanceId}`;
    expect(await heldLocks()).toContain(lock);
    await (await openBuilt(ledger.name)).close();
    expect((await heldLocks()).filter((name) => name.startsWith(`countersign:${ledger.name}:tab:`))).toEqual([
      lock,
    ]);
    await ledger.close();
    expect((await heldLocks()).filter((name) => name.startsWith(`countersign:${ledger.name}:`))).toEqual([]);
  });
});

describe("what can't be opened says why", () => {
  test.for<[string, unknown]>([
    ["name", { name: "" }],
    ["name", { name: "../up" }],
    ["name", { name: "x".repeat(65) }],
    ["name", { name: 7 }],
    ["storage", { name: "a", storage: "floppy" }],
    ["hostWaitMs", { name: "a", hostWaitMs: -1 }],
    ["deadlineMs", { name: "a", deadlineMs: 0.5 }],
  ])("option %s in %j", async ([field, options]) => {
    const refusal = await errorOf(openLedger(options as Parameters<typeof openLedger>[0]));
    expect(refusal).toBeInstanceOf(ValidationError);
    expect(refusal).toMatchObject({ details: { field } });
  });

  test("a worker that is not there", async () => {
    const refusal = await errorOf(openBuilt(freshName(), { workerUrl: "/nowhere/worker.js" }));
    expect(refusal).toBeInstanceOf(HostUnavailableError);
    expect(refusal).toMatchObject({ code: "worker_failed" });
  });

  test("a worker that throws while it loads, with its words", async () => {
    const worker = () => workerAfter('throw new Error("the dog ate it")');
    const refusal = await errorOf(openBuilt(freshName(), { worker }));
    expect(refusal).toMatchObject({ name: "HostUnavailableError", code: "worker_failed" });
    expect(String(refusal)).toContain("the dog ate it");
  });

  test("WebAssembly that is not there", async () => {
    const name = freshName();
    const refusal = await errorOf(openBuilt(name, { wasmUrl: "/nowhere/sqlite3.wasm" }));
    expect(refusal).toMatchObject({ name: "StorageUnavailableError", code: "sqlite_failed" });
    await (await openBuilt(name)).close();
    await removeLedger(name);
  });

  test("a ledger of a newer version, which stays as it is", async ({ fresh: ledger }) => {
    await ledger.settings.set({ key: "kept", value: "yes" });
    await ledger.testing.sql("PRAGMA user_version = 99");
    await ledger.close();

    const refusal = await errorOf(openBuilt(ledger.name));
    expect(refusal).toBeInstanceOf(SchemaTooNewError);
    expect(refusal).toMatchObject({ details: { version: 99, supported: 1 } });
    expect(await errorOf(openBuilt(ledger.name))).toBeInstanceOf(SchemaTooNewError);
  });

  test("a database that is not a ledger", async ({ fresh: ledger }) => {
    await ledger.testing.sql("PRAGMA application_id = 7");
    await ledger.close();
    expect(await errorOf(openBuilt(ledger.name))).toMatchObject({ code: "not_a_ledger" });
  });
});

describe("closing", () => {
  test("finishes what was issued before, refuses what comes after, and can be repeated", async ({
    fresh: ledger,
  }) => {
    const written = Array.from({ length: 20 }, (_, n) =>
      ledger.settings.set({ key: `k${n}`, value: `${n}` }),
    );
    await Promise.all([...written, ledger.close(), ledger.close()]);
    expect(await errorOf(ledger.settings.get({ key: "k0" }))).toBeInstanceOf(LedgerClosedError);

    await using again = await openBuilt(ledger.name);
    expect(await again.settings.get({ key: "k19" })).toMatchObject({ value: "19" });
  });
});

test("the production worker knows no raw SQL", async () => {
  const remote = wrap<{ sql(text: string): unknown }>(new Worker("/worker.js", { type: "module" }));
  await expect(remote.sql("SELECT 1")).rejects.toMatchObject({ name: "TypeError" });
});

/** The testing worker, after some code that runs first. */
function workerAfter(code: string): Worker {
  const first = `data:text/javascript,${encodeURIComponent(code)}`;
  const modules = `import ${JSON.stringify(first)};import "${location.origin}/testing-worker.js";`;
  return new Worker(URL.createObjectURL(new Blob([modules], { type: "text/javascript" })), {
    type: "module",
  });
}

async function errorOf(answer: Promise<unknown>): Promise<unknown> {
  return answer.then(
    (value) => new Error(`it succeeded: ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
}

async function heldLocks(): Promise<string[]> {
  const { held = [] } = await navigator.locks.query();
  return held.flatMap(({ name }) => (name === undefined ? [] : [name]));
}
