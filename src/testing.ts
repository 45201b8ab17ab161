import type { Remote } from "comlink";
import { connect, type Ledger, type OpenOptions } from "./ledger.ts";
import type { FaultPoint, HoldPoint, SqlRow, SqlValue, TestingWorkerApi } from "./protocol/testing-wire.ts";
import type { Reply } from "./protocol/wire.ts";

export type { FaultPoint, HoldPoint, SqlRow, SqlValue };

/** What a test may do that a page may not. */
export interface TestingTools {
  /** Runs one statement of raw SQL on the host's own connection, between commands: a read, or an act of tampering. */
  sql(text: string, parameters?: readonly SqlValue[]): Promise<SqlRow[]>;
  /** The next time the point is reached (for this subject, if one is given) the database fails there. */
  failNext(point: FaultPoint, subject?: string): Promise<void>;
  /** The next command that reaches the point stays there for ever. Resolves when one does; `kill` ends it. */
  holdNext(point: HoldPoint): Promise<void>;
  /** Ends the worker and gives up the tab's lock at once, in the middle of whatever it does, as a dying tab would. */
  kill(): Promise<void>;
  /** Ends the worker alone, as a crash of it would: the page starts another and goes on. */
  crash(): Promise<void>;
  /** Fixes the ledger's clock at some milliseconds; null lets it run again. */
  setClock(now: number | null): Promise<void>;
}

export interface TestLedger extends Ledger {
  readonly testing: TestingTools;
}

/**
 * Opens a ledger in the testing worker: the production code, with raw SQL, fault points and a clock to hold. Meant
 * for tests and demonstrations; nothing of it is in the production worker.
 *
 * @throws what `openLedger` throws
 */
export async function openTestLedger(options: OpenOptions): Promise<TestLedger> {
  const { ledger, connection, channel, tab, deadlineMs } = await connect(
    options,
    () => new Worker(new URL("../worker/testing.ts", import.meta.url), { type: "module" }),
  );
  const ask = async <Value>(
    what: string,
    invoke: (remote: Remote<TestingWorkerApi>) => Promise<Reply<Value>>,
  ): Promise<Value> => {
    const link = await connection.link();
    return link.call(() => invoke(link.remote as unknown as Remote<TestingWorkerApi>), what, deadlineMs);
  };
  const testing: TestingTools = {
    sql: (text, parameters = []) => channel.execute("testing.sql", { text, parameters }) as Promise<SqlRow[]>,
    async failNext(point, subject) {
      await ask("testing.failNext", (remote) => remote.failNext(point, subject ?? null));
    },
    async holdNext(point) {
      await ask("testing.holdNext", (remote) => remote.holdNext(point));
    },
    async kill() {
      connection.terminate();
      await tab.release();
    },
    async crash() {
      connection.crash();
    },
    async setClock(now) {
      await ask("testing.setClock", (remote) => remote.setClock(now));
    },
  };
  return { ...ledger, testing };
}
