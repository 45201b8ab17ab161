import { rowKey } from "../ledger/rows.ts";
import type { ProofTableName } from "../schema/tables.ts";
import type { Database } from "../storage/database.ts";

const selectOfRun =
  "SELECT owner_instance_id FROM journal WHERE run_id = ? ORDER BY run_ordinal DESC LIMIT 1";
const selectOfRow = `SELECT owner_instance_id FROM journal
  WHERE (root_frame_id, position) =
    (SELECT root_frame_id, position FROM commitment_index WHERE table_name = ? AND row_key = ?)`;

/** The tab that wrote to a run last, as the journal says. */
export function lastWriterOfRun(database: Database, runId: string): string | undefined {
  return textOf(database.value(selectOfRun, [runId]));
}

/** The tab that wrote a row outside of runs last, as the journal says. */
export function lastWriterOfRow(database: Database, table: ProofTableName, id: string): string | undefined {
  return textOf(database.value(selectOfRow, [table, rowKey(id)]));
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
