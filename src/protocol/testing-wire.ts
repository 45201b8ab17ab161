import type { HostApi, Reply } from "./wire.ts";

/** A value as SQLite holds it. */
export type SqlValue = string | number | bigint | null | Uint8Array;
export type SqlRow = Readonly<Record<string, SqlValue>>;

/** The places where a test can make the worker fail. */
export type FaultPoint = "recovery.reconcileRun";

/** What the worker of `countersign/testing` answers beside the ledger's own calls. The production worker has none of it. */
export interface TestingHostApi extends HostApi {
  sql(text: string, parameters: readonly SqlValue[]): Promise<Reply<SqlRow[]>>;
  failNext(point: FaultPoint, subject: string | null): Promise<Reply<null>>;
  setClock(now: number | null): Promise<Reply<null>>;
}
