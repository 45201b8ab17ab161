import sqlite3InitModule, { type Database } from "@sqlite.org/sqlite-wasm";
import { expose } from "comlink";
import { schemaV1 } from "../../worker/schema/v1/index.ts";

/** What the ledger's own rows cost when they are written by hand: the same VFS, pragmas, tables and rows. */
const floor = {
  async open(name: string): Promise<number> {
    const begin = performance.now();
    Object.assign(globalThis, { sqlite3ApiConfig: { disable: { vfs: { opfs: true, "opfs-wl": true } } } });
    const sqlite3 = await sqlite3InitModule();
    const options = { name, directory: `/${name}`, initialCapacity: 6, preserveOnInitFailure: true };
    const pool = await sqlite3.installOpfsSAHPoolVfs(options);
    database = new pool.OpfsSAHPoolDb("/floor.sqlite3");
    for (const pragma of [
      "locking_mode=exclusive",
      "journal_mode=wal",
      "synchronous=full",
      "foreign_keys=on",
    ]) {
      database.exec(`PRAGMA ${pragma}`);
    }
    if (database.selectValue("SELECT COUNT(*) FROM sqlite_schema") === 0) database.exec(schemaV1);
    return performance.now() - begin;
  },

  /** Writes each step's statements in a transaction of its own; the time of each, in milliseconds. */
  write(steps: readonly (readonly Statement[])[]): number[] {
    const connection = opened();
    const prepared = new Map<string, ReturnType<Database["prepare"]>>();
    const run = (sql: string, values: Values) => {
      const statement = prepared.get(sql) ?? connection.prepare(sql);
      prepared.set(sql, statement);
      if (values.length > 0) statement.bind([...values]);
      statement.stepReset();
    };
    const times = steps.map((statements) => {
      const begin = performance.now();
      run("BEGIN IMMEDIATE", []);
      for (const { sql, values } of statements) run(sql, values);
      run("COMMIT", []);
      return performance.now() - begin;
    });
    for (const statement of prepared.values()) statement.finalize();
    return times;
  },
};

type Values = readonly (string | number | null)[];

export interface Statement {
  readonly sql: string;
  readonly values: Values;
}

export type Floor = typeof floor;

let database: Database | undefined;

function opened(): Database {
  if (database === undefined) throw new Error("open the floor first");
  return database;
}

expose(floor);
