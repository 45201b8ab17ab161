import { LedgerError, StorageFullError, StorageUnavailableError } from "../../src/protocol/errors.ts";

/** Whether the browser says that there is no such file or directory. */
export function isNotFound(error: unknown): boolean {
  return error instanceof DOMException && error.name === "NotFoundError";
}

/** Whether a path leads through a file, or ends at a directory where a file is meant. */
export function isTypeMismatch(error: unknown): boolean {
  return error instanceof DOMException && error.name === "TypeMismatchError";
}

/** What a failure of the file system means to the caller: no space, or that it failed, while doing `what`. */
export function fileError(error: unknown, what: string): LedgerError {
  if (error instanceof LedgerError) return error;
  const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  if (error instanceof Error && error.name === "QuotaExceededError")
    return new StorageFullError("storage_full", `no space is left for ${what}`, { reason });
  return new StorageUnavailableError(
    "files_failed",
    `the browser's file system failed at ${what}: ${reason}`,
    {
      reason,
    },
  );
}
