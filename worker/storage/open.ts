import sqlite3InitModule, { type SAHPoolUtil, type Sqlite3Static } from "@sqlite.org/sqlite-wasm";
import { HostUnavailableError, LedgerError, StorageUnavailableError } from "../../src/protocol/errors.ts";
import type { OpenRequest, StorageReport } from "../../src/protocol/wire.ts";
import { migrate, SCHEMA_VERSION } from "../schema/migrate.ts";
import { Database } from "./database.ts";
import { directoryOf } from "./directory.ts";

/** SQLite's start-up was seen to hang for good in Firefox; nothing sound takes this long. */
const INIT_LIMIT_MS = 30_000;

/** A worker that was busy when its tab reloaded can keep its file handles for two seconds after it is gone. */
const DRAIN_LIMIT_MS = 8_000;
const DRAIN_RETRY_MS = 50;

const DATABASE_FILE = "/ledger.sqlite3";

export interface OpenedStorage {
  readonly database: Database;
  readonly report: StorageReport;
  /**
   * The directory for the ledger's files.
   *
   * @throws StorageUnavailableError a ledger in memory has none.
   */
  readonly filesDirectory: () => Promise<FileSystemDirectoryHandle>;
  /** Closes the database and gives its files back, so that another worker can take them at once. */
  close(): void;
}

/**
 * Opens the ledger's database where the request asks for it. For `opfs` the caller must hold the host's Web Lock.
 *
 * @throws StorageUnavailableError OPFS is not to be had here, with the reason.
 * @throws HostUnavailableError another tab holds the files.
 * @throws SchemaTooNewError the database was written by newer code.
 */
export async function openStorage(request: OpenRequest): Promise<OpenedStorage> {
  const quota = askForQuota();
  const sqlite3 = await startSqlite(request.wasmUrl);
  if (request.storage === "memory") return openMemory(sqlite3, "memory was asked for", quota);
  const obstacle = await opfsObstacle();
  if (obstacle === undefined) return openOpfs(sqlite3, request.name, quota);
  if (request.storage === "auto" && request.allowMemory)
    return openMemory(sqlite3, `${obstacle}; memory was allowed`, quota);
  throw new StorageUnavailableError(
    "opfs_unavailable",
    `the ledger can't be stored here: ${obstacle}. Pass allowMemory to go on without durable storage`,
    { reason: obstacle },
  );
}

type Quota = Pick<StorageReport, "persisted" | "usageBytes" | "quotaBytes">;

/** What the browser says of the origin's storage; asked while the database is being opened, as it takes its time. */
async function askForQuota(): Promise<Quota> {
  const [persisted, estimate] = await Promise.all([
    navigator.storage?.persisted?.().catch(() => undefined),
    navigator.storage?.estimate?.().catch(() => undefined),
  ]);
  return {
    persisted: persisted ?? null,
    usageBytes: estimate?.usage ?? null,
    quotaBytes: estimate?.quota ?? null,
  };
}

/** Why OPFS can't be used in this worker, or undefined. A busy file is not a reason: that is another tab's. */
async function opfsObstacle(): Promise<string | undefined> {
  if (typeof navigator.storage?.getDirectory !== "function") {
    return "this browser (or a page that is not served over HTTPS or localhost) has no origin-private file system";
  }
  if (
    typeof FileSystemFileHandle === "undefined" ||
    !("createSyncAccessHandle" in FileSystemFileHandle.prototype)
  ) {
    return "this browser has no synchronous file access in workers";
  }
  try {
    await navigator.storage.getDirectory();
    return undefined;
  } catch (error) {
    return `the browser refuses its private file system (${describe(error)}); a private window or blocked site data does this`;
  }
}

let starting: Promise<Sqlite3Static> | undefined;

/** Starts SQLite ahead of time, so that a standby that becomes the host loses none with it. */
export function warmUp(wasmUrl: string | null): void {
  startSqlite(wasmUrl).catch(() => {});
}

/** Starts SQLite, once for a worker; what failed is tried again. */
export function startSqlite(wasmUrl: string | null): Promise<Sqlite3Static> {
  starting ??= initialiseSqlite(wasmUrl).catch((error: unknown) => {
    starting = undefined;
    throw error;
  });
  return starting;
}

async function initialiseSqlite(wasmUrl: string | null): Promise<Sqlite3Static> {
  // The "opfs" VFSes need special headers, one of them corrupts databases, and their start-up can hang in Firefox.
  Object.assign(globalThis, { sqlite3ApiConfig: { disable: { vfs: { opfs: true, "opfs-wl": true } } } });
  const init = sqlite3InitModule as (options: object) => Promise<Sqlite3Static>;
  const options =
    wasmUrl === null ? {} : { locateFile: (file: string) => (file.endsWith(".wasm") ? wasmUrl : file) };
  try {
    return await withLimit(init(options), INIT_LIMIT_MS, "SQLite did not start");
  } catch (error) {
    throw new StorageUnavailableError(
      "sqlite_failed",
      `SQLite (WebAssembly) failed to start: ${describe(error)}`,
      {
        reason: describe(error),
        wasmUrl,
      },
    );
  }
}

function openMemory(sqlite3: Sqlite3Static, reason: string, quota: Promise<Quota>): Promise<OpenedStorage> {
  const connection = new sqlite3.oo1.DB(":memory:", "c");
  return finishOpening(
    sqlite3,
    new Database(sqlite3, connection),
    { kind: "memory", reason, vfs: "memdb" },
    { release: () => {}, filesDirectory: noFiles },
    quota,
  );
}

async function noFiles(): Promise<never> {
  throw new StorageUnavailableError("files_unavailable", "a ledger in memory keeps no files");
}

async function openOpfs(sqlite3: Sqlite3Static, name: string, quota: Promise<Quota>): Promise<OpenedStorage> {
  const pool = await installPool(sqlite3, name);
  const release = () => {
    pool.pauseVfs();
  };
  try {
    const connection = new pool.OpfsSAHPoolDb(DATABASE_FILE);
    const kind = {
      kind: "opfs",
      reason: "the origin-private file system is available",
      vfs: pool.vfsName,
    } as const;
    const filesDirectory = () => directoryOf(name, "files");
    const means = { release, filesDirectory };
    return await finishOpening(sqlite3, new Database(sqlite3, connection), kind, means, quota);
  } catch (error) {
    if (!pool.isPaused()) release();
    throw error;
  }
}

/**
 * Installs the pool of a ledger's files, waiting for those that a dead worker still holds.
 *
 * @throws HostUnavailableError they are held for too long.
 * @throws StorageUnavailableError the pool can't be installed.
 */
export async function installPool(sqlite3: Sqlite3Static, name: string): Promise<SAHPoolUtil> {
  const poolOptions = {
    name: `countersign-${name}`,
    directory: `/countersign/${name}/pool`,
    initialCapacity: 6,
    // A failed install deletes the whole pool unless told not to.
    preserveOnInitFailure: true,
    forceReinitIfPreviouslyFailed: true,
  };
  const giveUpAt = performance.now() + DRAIN_LIMIT_MS;
  for (;;) {
    try {
      return await sqlite3.installOpfsSAHPoolVfs(poolOptions);
    } catch (error) {
      if (!isBusy(error)) {
        throw new StorageUnavailableError(
          "opfs_failed",
          `the ledger's files can't be opened: ${describe(error)}`,
          {
            reason: describe(error),
          },
        );
      }
      if (performance.now() > giveUpAt) {
        throw new HostUnavailableError(
          "files_busy",
          `the files of ledger "${name}" are still held by another tab or worker; close it and try again`,
          { name, reason: describe(error) },
        );
      }
      await new Promise((resolve) => setTimeout(resolve, DRAIN_RETRY_MS));
    }
  }
}

/** What the browsers say when another worker holds the files. It never means that there are none. */
function isBusy(error: unknown): boolean {
  const busy = ["NoModificationAllowedError", "InvalidStateError", "UnknownError"];
  return error instanceof Error && busy.includes(error.name);
}

async function finishOpening(
  sqlite3: Sqlite3Static,
  database: Database,
  where: Pick<StorageReport, "kind" | "reason" | "vfs">,
  { release, filesDirectory }: { release: () => void } & Pick<OpenedStorage, "filesDirectory">,
  quota: Promise<Quota>,
): Promise<OpenedStorage> {
  try {
    const pragmas = configure(database, where.kind);
    migrate(database);
    const report: StorageReport = {
      ...where,
      ...pragmas,
      durable: where.kind === "opfs",
      schemaVersion: SCHEMA_VERSION,
      sqliteVersion: sqlite3.version.libVersion,
      ...(await quota),
    };
    return {
      database,
      report,
      filesDirectory,
      close() {
        database.close();
        release();
      },
    };
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Sets the pragmas and checks what SQLite made of each: an unsupported one is ignored without a word. */
function configure(
  database: Database,
  kind: StorageReport["kind"],
): { journalMode: string; synchronous: string } {
  // Exclusive locking must come first: without it WAL silently stays off in the pool.
  const wanted: readonly (readonly [pragma: string, value: string, answer: string])[] = [
    ["locking_mode", "exclusive", "exclusive"],
    ["journal_mode", "wal", kind === "opfs" ? "wal" : "memory"],
    ["synchronous", "full", "2"],
    ["foreign_keys", "on", "1"],
    ["trusted_schema", "off", "0"],
    // Without it INSERT OR REPLACE would delete rows past the triggers that seal them.
    ["recursive_triggers", "on", "1"],
  ];
  for (const [pragma, value, answer] of wanted) {
    const set = database.value(`PRAGMA ${pragma} = ${value}`);
    const got = String(set ?? database.value(`PRAGMA ${pragma}`));
    if (got !== answer) {
      throw new StorageUnavailableError(
        "pragma_refused",
        `SQLite answers ${pragma} = ${got}, expected ${answer}`,
        {
          pragma,
          expected: answer,
          got,
        },
      );
    }
  }
  return { journalMode: kind === "opfs" ? "wal" : "memory", synchronous: "full" };
}

async function withLimit<Value>(work: Promise<Value>, limitMs: number, what: string): Promise<Value> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new LedgerError("timed_out", `${what} within ${limitMs / 1000} s`)),
      limitMs,
    );
  });
  try {
    return await Promise.race([work, limit]);
  } finally {
    clearTimeout(timer);
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
