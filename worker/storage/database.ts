import type { PreparedStatement, Sqlite3Static, Database as SqliteDatabase } from "@sqlite.org/sqlite-wasm";
import { FastBinder } from "./fast-binder.ts";
import { sqliteError } from "./sqlite-error.ts";

export type SqlValue = string | number | bigint | null | Uint8Array;
export type Row = Record<string, SqlValue>;

/**
 * One SQLite connection with its prepared statements kept. Everything is synchronous; a failure is thrown as a
 * typed storage error, never as an integrity failure.
 */
export class Database {
  readonly #sqlite3: Sqlite3Static;
  readonly #connection: SqliteDatabase;
  readonly #statements = new Map<string, PreparedStatement>();
  readonly #binder: FastBinder;

  constructor(sqlite3: Sqlite3Static, connection: SqliteDatabase) {
    this.#sqlite3 = sqlite3;
    this.#connection = connection;
    this.#binder = new FastBinder(sqlite3);
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
    return this.#use(sql, parameters, (statement) =>
      statement.step() ? (statement.get({}) as Row) : undefined,
    );
  }

  /** The first column of the first row, or undefined. */
  value(sql: string, parameters: readonly SqlValue[] = []): SqlValue | undefined {
    return this.#use(sql, parameters, (statement) =>
      statement.step() ? (statement.get(0) as SqlValue) : undefined,
    );
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

  #use<Result>(
    sql: string,
    parameters: readonly SqlValue[],
    work: (statement: PreparedStatement) => Result,
  ): Result {
    try {
      let statement = this.#statements.get(sql);
      if (statement === undefined) {
        statement = this.#connection.prepare(sql);
        this.#statements.set(sql, statement);
      }
      try {
        this.#bind(statement, parameters);
        return work(statement);
      } finally {
        statement.reset();
      }
    } catch (error) {
      throw sqliteError(error);
    }
  }

  /** Binds every parameter, so that none is left from the statement's last use. */
  #bind(statement: PreparedStatement, parameters: readonly SqlValue[]): void {
    if (parameters.length !== statement.parameterCount) {
      throw new RangeError(`${parameters.length} values for ${statement.parameterCount} parameters`);
    }
    parameters.forEach((value, index) => {
      if (!this.#binder.bind(statement, index + 1, value)) statement.bind(index + 1, value);
    });
  }
}
