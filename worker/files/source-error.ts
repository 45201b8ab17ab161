import { LedgerError, ValidationError } from "../../src/protocol/errors.ts";

/** Reads what a caller gave: what the caller's own source throws is the caller's to mend. @throws ValidationError */
export async function readingSource<Result>(
  command: string,
  field: string,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof LedgerError) throw error;
    const message = `${command}: ${field}: the source could not be read: ${String(error)}`;
    throw new ValidationError("source_failed", message, { field, reason: String(error) });
  }
}
