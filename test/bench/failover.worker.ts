import sqlite3InitModule from "@sqlite.org/sqlite-wasm";

/**
 * The bare cost of a hand-over: the lock, the pool, the database, and nothing of the ledger. Says "holds" when it has
 * them, with the time of day; SQLite was started before.
 */
Object.assign(globalThis, { sqlite3ApiConfig: { disable: { vfs: { opfs: true, "opfs-wl": true } } } });
const sqlite3 = await sqlite3InitModule();
postMessage("waits");
await navigator.locks.request("failover-floor", async () => {
  // The types of sqlite-wasm don't know the last of these.
  const options: Options = Object.assign(
    { name: "failover-floor", directory: "/failover-floor", preserveOnInitFailure: true },
    { forceReinitIfPreviouslyFailed: true },
  );
  const pool = await install(options);
  const database = new pool.OpfsSAHPoolDb("/floor.sqlite3");
  for (const pragma of ["locking_mode=exclusive", "journal_mode=wal", "synchronous=full"])
    database.exec(`PRAGMA ${pragma}`);
  database.exec("CREATE TABLE IF NOT EXISTS t (n INTEGER); INSERT INTO t VALUES (1)");
  postMessage(Date.now());
  await new Promise(() => {});
});

type Options = Parameters<typeof sqlite3.installOpfsSAHPoolVfs>[0];

async function install(options: Options): Promise<Awaited<ReturnType<typeof sqlite3.installOpfsSAHPoolVfs>>> {
  for (;;) {
    try {
      return await sqlite3.installOpfsSAHPoolVfs(options);
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}
