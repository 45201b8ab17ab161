import type { Database as SqliteDatabase, PreparedStatement, SAHPoolUtil, Sqlite3Static } from "@sqlite.org/sqlite-wasm";
import { sqliteError } from "./sqlite-error.ts";

export type SqlValue = string | number | bigint | null | Uint8Array;
export type Row = Record<string, SqlValue>;

type Sqlite3 = Sqlite3Static;
export type { SAHPoolUtil };

/**
 * One SQLite connection with its prepared statements kept. Everything is synchronous; a failure is thrown as a
 * typed storage error, never as an integrity failure.
 */
export class Database {
  readonly #sqlite3: Sqlite3;
  readonly #connection: SqliteDatabase;
  readonly #statements = new Map<string, PreparedStatement>();

  constructor(sqlite3: Sqlite3, connection: SqliteDatabase) {
    this.#sqlite3 = sqlite3;
    this.#connection = connection;
  }

  /** All rows that a statement answers. */
  all(sql: string, parameters: readonly SqlValue[] = []): Row[] {
    return this.#use(sql, parameters, (statement) => {
      const rows: Row[] = [];
      while (statement.step()) rows.push(statement.get({}) as Row);
      return rows;
    });
  }

  /** The first row, or undefined. */
  get(sql: string, parameters: readonly SqlValue[] = []): Row | undefined {
    return this.#use(sql, parameters, (statement) => (statement.step() ? (statement.get({}) as Row) : undefined));
  }

  /** The first column of the first row, or undefined. */
  value(sql: string, parameters: readonly SqlValue[] = []): SqlValue | undefined {
    return this.#use(sql, parameters, (statement) => (statement.step() ? (statement.get(0) as SqlValue) : undefined));
  }

  /** Runs a statement to its end; gives the number of rows that it changed. */
  run(sql: string, parameters: readonly SqlValue[] = []): number {
    this.#use(sql, parameters, (statement) => {
      while (statement.step());
    });
    return this.#connection.changes();
  }

  /** Runs a script of several statements without parameters. */
  script(sql: string): void {
    try {
      this.#connection.exec(sql);
    } catch (error) {
      throw sqliteError(error);
    }
  }

  /** Rows changed on this connection since it was opened, by whomever: the sign of a write that went round us. */
  totalChanges(): number {
    return this.#connection.changes(true);
  }

  /** False once SQLite has rolled the transaction back on its own, as it does when the disk is full. */
  inTransaction(): boolean {
    return this.#sqlite3.capi.sqlite3_get_autocommit(this.#connection) === 0;
  }

  close(): void {
    for (const statement of this.#statements.values()) statement.finalize();
    this.#statements.clear();
    this.#connection.close();
  }

  #use<Result>(sql: string, parameters: readonly SqlValue[], work: (statement: PreparedStatement) => Result): Result {
    try {
      let statement = this.#statements.get(sql);
      if (statement === undefined) {
        statement = this.#connection.prepare(sql);
        this.#statements.set(sql, statement);
      }
      try {
        if (parameters.length > 0) statement.bind([...parameters]);
        return work(statement);
      } finally {
        statement.reset(true);
      }
    } catch (error) {
      throw sqliteError(error);
    }
  }
}
