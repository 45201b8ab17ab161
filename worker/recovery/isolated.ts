import type { Context } from "../commands/command.ts";

const MAX_ERROR_TEXT = 300;

/**
 * One piece of recovery. If it can't be done, what it did is undone, and it is reported: it denies no other piece its
 * recovery.
 *
 * @param failed what is reported instead, from the error in words
 * @throws whatever ended the transaction itself, as a failing disk does: nothing can go on then
 */
export function isolated<Outcome>(
  { ledger }: Context,
  work: () => Outcome,
  failed: (error: unknown, text: string) => Outcome,
): Outcome {
  try {
    return ledger.atomically(work);
  } catch (error) {
    if (!ledger.database.inTransaction()) throw error;
    return failed(error, shortText(error));
  }
}

/** An error in at most 300 characters, and never in none. */
export function shortText(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.slice(0, MAX_ERROR_TEXT) || "failed without a reason";
}
