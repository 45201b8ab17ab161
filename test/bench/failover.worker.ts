import { installPool, startSqlite } from "../../worker/storage/open.ts";

/**
 * The bare cost of a hand-over: the lock, the pool, the database, and nothing of the ledger. Answers the time of day when
 * it has them; SQLite was started before.
 */
const sqlite3 = await startSqlite(null);
postMessage("waits");
await navigator.locks.request("failover-floor", async () => {
  const pool = await installPool(sqlite3, "failover-floor");
  const database = new pool.OpfsSAHPoolDb("/floor.sqlite3");
  for (const pragma of ["locking_mode=exclusive", "journal_mode=wal", "synchronous=full"])
    database.exec(`PRAGMA ${pragma}`);
  database.exec("CREATE TABLE IF NOT EXISTS t (n INTEGER); INSERT INTO t VALUES (1)");
  postMessage(Date.now());
  await new Promise(() => {});
});
