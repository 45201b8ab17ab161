import {
  IntegrityError,
  LedgerError,
  StorageFullError,
  StorageUnavailableError,
} from "../../src/protocol/errors.ts";

const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_CONSTRAINT = 19;
const SQLITE_NOTADB = 26;

/** What a failure of SQLite means to the caller, by its primary result code. */
export function sqliteError(error: unknown): unknown {
  if (!(error instanceof Error) || !("resultCode" in error)) return error;
  const resultCode = Number(error.resultCode);
  const details = { resultCode, sqlite: error.message };
  switch (resultCode & 0xff) {
    case SQLITE_FULL:
      return new StorageFullError(
        "storage_full",
        "no space is left for the database; the command was rolled back",
        details,
      );
    case SQLITE_CONSTRAINT:
      // Commands check first, so this points to a write that went round them.
      return new LedgerError("constraint", `a database constraint was broken: ${error.message}`, details);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return new IntegrityError(
        "database_corrupt",
        `the database file is damaged: ${error.message}`,
        details,
      );
    default:
      return new StorageUnavailableError("storage_failed", `the database failed: ${error.message}`, details);
  }
}
