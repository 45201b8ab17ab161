import type { verification } from "../../../src/protocol/verification.ts";
import { verifyAll } from "../../ledger/verify-all.ts";
import type { Handler } from "../command.ts";

export const verifyLedger: Handler<typeof verification.verify> = (_input, { ledger, now }) => {
  const sessions = verifyAll(ledger.database);
  const ok = sessions.every(
    (session) => session.damage.length === 0 && session.runs.every((run) => run.damage === null),
  );
  return { ok, verifiedAt: now(), sessions };
};
