import type { Reply, WorkerApi } from "./wire.ts";

/** A value as SQLite holds it. */
export type SqlValue = string | number | bigint | null | Uint8Array;
export type SqlRow = Readonly<Record<string, SqlValue>>;

/** The input of `testing.sql`, a command that only the testing worker has. */
export interface SqlInput {
  readonly text: string;
  readonly parameters: readonly SqlValue[];
}

/** The places where a test can make the worker fail. */
export type FaultPoint = "recovery.reconcileRun";

/** The places where a test can hold a command for ever, to kill the worker there: the steps of a revert, and its answer. */
export const REVERT_POINTS = [
  "branches.revert.prepared",
  "branches.revert.planned",
  "branches.revert.captured",
  "branches.revert.undoKept",
  "branches.revert.restored",
  "branches.revert.committed",
] as const;
export type RevertPoint = (typeof REVERT_POINTS)[number];
export type HoldPoint = RevertPoint | "host.answer";

/** What the worker of `countersign/testing` answers beside the ledger's own calls. The production worker has none of it. */
export interface TestingWorkerApi extends WorkerApi {
  failNext(point: FaultPoint, subject: string | null): Promise<Reply<null>>;
  /** The next time the point is reached the command stays there for ever; resolves when it does. */
  holdNext(point: HoldPoint): Promise<Reply<null>>;
  setClock(now: number | null): Promise<Reply<null>>;
}
