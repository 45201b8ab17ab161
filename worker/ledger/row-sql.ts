import { IntegrityError } from "../../src/protocol/errors.ts";
import type { ProofTable } from "../schema/tables.ts";
import type { Database, Row, SqlValue } from "../storage/database.ts";

/** Writes rows of the proof tables. The statements are made of the tables' constant column lists, each once. */

export function insertRow(database: Database, table: ProofTable, row: Row): void {
  const sql = statement(`insert ${table.name}`, () => {
    const places = table.columns.map(() => "?").join(", ");
    return `INSERT INTO ${table.name} (${table.columns.join(", ")}) VALUES (${places})`;
  });
  database.run(
    sql,
    table.columns.map((column) => columnValue(table, row, column)),
  );
}

/** Writes what differs between a row as it was and as it is to be. */
export function updateRow(database: Database, table: ProofTable, before: Row, after: Row): void {
  const changed = table.columns.filter((column) => before[column] !== after[column]);
  if (changed.length === 0) return;
  const sql = statement(`update ${table.name} ${changed.join()}`, () => {
    const assignments = changed.map((column) => `${column} = ?`).join(", ");
    return `UPDATE ${table.name} SET ${assignments} WHERE ${table.key} = ?`;
  });
  const values = [...changed, table.key].map((column) => columnValue(table, after, column));
  assertOneRow(table, database.run(sql, values));
}

export function deleteRow(database: Database, table: ProofTable, row: Row): void {
  const sql = statement(`delete ${table.name}`, () => `DELETE FROM ${table.name} WHERE ${table.key} = ?`);
  assertOneRow(table, database.run(sql, [columnValue(table, row, table.key)]));
}

const statements = new Map<string, string>();

function statement(name: string, make: () => string): string {
  let sql = statements.get(name);
  if (sql === undefined) {
    sql = make();
    statements.set(name, sql);
  }
  return sql;
}

function columnValue(table: ProofTable, row: Row, column: string): SqlValue {
  const value = row[column];
  if (value === undefined) throw new TypeError(`a row for ${table.name} lacks the column ${column}`);
  return value;
}

function assertOneRow(table: ProofTable, changed: number): void {
  if (changed !== 1) {
    throw new IntegrityError("row_missing", `a write to ${table.name} met ${changed} rows instead of one`, {
      table: table.name,
    });
  }
}
