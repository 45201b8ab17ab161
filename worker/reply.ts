import { LedgerError, toWireError } from "../src/protocol/errors.ts";
import type { Reply } from "../src/protocol/wire.ts";

/** The result of some work as a value that crosses to the page whole. An error that is not ours is also logged. */
export async function reply<Value>(work: () => Promise<Value>): Promise<Reply<Value>> {
  try {
    return { ok: true, value: await work() };
  } catch (error) {
    if (!(error instanceof LedgerError)) console.error("countersign:", error);
    return { ok: false, error: toWireError(error) };
  }
}
