import type { HostApi, Reply } from "./wire.ts";

/** A value as SQLite holds it. */
export type SqlValue = string | number | bigint | null | Uint8Array;
export type SqlRow = Readonly<Record<string, SqlValue>>;

/** The places where a test can make the worker fail. */
export type FaultPoint = "recovery.reconcileRun";

/** The places where a test can hold the worker for ever, to kill it there: the steps of a revert. */
export const HOLD_POINTS = [
  "branches.revert.prepared",
  "branches.revert.planned",
  "branches.revert.captured",
  "branches.revert.undoKept",
  "branches.revert.restored",
  "branches.revert.committed",
] as const;
export type HoldPoint = (typeof HOLD_POINTS)[number];

/** What the worker of `countersign/testing` answers beside the ledger's own calls. The production worker has none of it. */
export interface TestingHostApi extends HostApi {
  sql(text: string, parameters: readonly SqlValue[]): Promise<Reply<SqlRow[]>>;
  failNext(point: FaultPoint, subject: string | null): Promise<Reply<null>>;
  /** The next time the point is reached the command stays there for ever; resolves when it does. */
  holdNext(point: HoldPoint): Promise<Reply<null>>;
  setClock(now: number | null): Promise<Reply<null>>;
}
