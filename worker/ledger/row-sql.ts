import { IntegrityError } from "../../src/protocol/errors.ts";
import type { ProofTable } from "../schema/tables.ts";
import type { Database, Row, SqlValue } from "../storage/database.ts";

/** Whole-row statements of the proof tables, made once from their constant column lists. */
interface RowSql {
  readonly insert: string;
  readonly update: string;
  readonly delete: string;
}

const statements = new Map<string, RowSql>();

function sqlOf(table: ProofTable): RowSql {
  let sql = statements.get(table.name);
  if (sql === undefined) {
    const others = table.columns.filter((column) => column !== table.key);
    sql = {
      insert: `INSERT INTO ${table.name} (${table.columns.join(", ")}) VALUES (${table.columns.map(() => "?").join(", ")})`,
      update: `UPDATE ${table.name} SET ${others.map((column) => `${column} = ?`).join(", ")} WHERE ${table.key} = ?`,
      delete: `DELETE FROM ${table.name} WHERE ${table.key} = ?`,
    };
    statements.set(table.name, sql);
  }
  return sql;
}

export function insertRow(database: Database, table: ProofTable, row: Row): void {
  database.run(
    sqlOf(table).insert,
    table.columns.map((column) => valueOf(table, row, column)),
  );
}

export function updateRow(database: Database, table: ProofTable, row: Row): void {
  const others = table.columns.filter((column) => column !== table.key);
  const values = [...others, table.key].map((column) => valueOf(table, row, column));
  assertOneRow(table, database.run(sqlOf(table).update, values));
}

export function deleteRow(database: Database, table: ProofTable, row: Row): void {
  assertOneRow(table, database.run(sqlOf(table).delete, [valueOf(table, row, table.key)]));
}

function valueOf(table: ProofTable, row: Row, column: string): SqlValue {
  const value = row[column];
  if (value === undefined) throw new TypeError(`a row for ${table.name} lacks the column ${column}`);
  return value;
}

function assertOneRow(table: ProofTable, changed: number): void {
  if (changed !== 1) {
    throw new IntegrityError("row_missing", `a write to ${table.name} met ${changed} rows instead of one`, { table: table.name });
  }
}
