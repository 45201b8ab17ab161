import { SchemaTooNewError, StorageUnavailableError } from "../../src/protocol/errors.ts";
import type { Database } from "../storage/database.ts";
import { schemaV1 } from "./v1/index.ts";

/** Each step takes the schema from version `index` to `index + 1`. */
const migrations: readonly string[] = [schemaV1];

export const SCHEMA_VERSION = migrations.length;

/** "CNTR": marks the file as a Countersign ledger (PRAGMA application_id). */
const APPLICATION_ID = 0x434e5452;

/**
 * Brings the database to the newest schema, in one transaction.
 *
 * @throws SchemaTooNewError it was written by newer code; it is left as it is.
 * @throws StorageUnavailableError it is some other application's database.
 */
export function migrate(database: Database): void {
  const version = Number(database.value("PRAGMA user_version"));
  const applicationId = Number(database.value("PRAGMA application_id"));
  const isEmpty = database.value("SELECT COUNT(*) FROM sqlite_schema") === 0;
  if (!isEmpty && applicationId !== APPLICATION_ID) {
    throw new StorageUnavailableError("not_a_ledger", "the database file is not a Countersign ledger", {
      applicationId,
    });
  }
  if (version > SCHEMA_VERSION) {
    throw new SchemaTooNewError(
      "schema_too_new",
      `the ledger has schema version ${version}, this code knows up to ${SCHEMA_VERSION}; reload the page to get the newer code`,
      { version, supported: SCHEMA_VERSION },
    );
  }
  if (version === SCHEMA_VERSION) return;
  database.script(
    [
      "BEGIN IMMEDIATE",
      ...migrations.slice(version),
      `PRAGMA application_id = ${APPLICATION_ID}`,
      `PRAGMA user_version = ${SCHEMA_VERSION}`,
      "COMMIT",
    ].join(";\n"),
  );
}
