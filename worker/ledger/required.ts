import { IntegrityError, NotFoundError } from "../../src/protocol/errors.ts";
import type { Row } from "../storage/database.ts";
import { DamageFound, findDamage } from "./damage.ts";
import type { Ledger } from "./ledger.ts";

/** What errors call a row; their codes are made of it: `message_not_found`, `message_damaged`. */
const NAMES = {
  session_checkpoints: "checkpoint",
  action_groups: "action group",
  action_events: "action event",
  execution_attempts: "attempt",
  messages: "message",
  completion_deliveries: "delivery",
  artifacts: "artifact",
  artifact_versions: "version",
} as const;

type NamedTable = keyof typeof NAMES;

/**
 * The row of an id, held against the journal; undefined when there is none.
 *
 * @param field the input that names it
 * @throws IntegrityError `<name>_damaged`
 */
export function soundRow(ledger: Ledger, table: NamedTable, id: string, field: string): Row | undefined {
  const row = findDamage(() => ledger.row(table, id));
  if (!(row instanceof DamageFound)) return row;
  const message = `${NAMES[table]} ${id} is damaged: ${row.message}`;
  throw new IntegrityError(codeOf(table, "damaged"), message, { field, ...row.damage });
}

/**
 * As `soundRow`, for a row that must be there.
 *
 * @param rootFrameId the session that it must be of: a row of another one is not found, so that ids tell nothing across
 *   sessions
 * @throws NotFoundError `<name>_not_found`
 * @throws IntegrityError `<name>_damaged`
 */
export function requireRow(
  ledger: Ledger,
  table: NamedTable,
  id: string,
  field: string,
  rootFrameId?: string,
): Row {
  const row = soundRow(ledger, table, id, field);
  if (row !== undefined && (rootFrameId === undefined || row["root_frame_id"] === rootFrameId)) return row;
  throw new NotFoundError(codeOf(table, "not_found"), `there is no ${NAMES[table]} ${id}`, { field, id });
}

function codeOf(table: NamedTable, ending: string): string {
  return `${NAMES[table].replace(" ", "_")}_${ending}`;
}
