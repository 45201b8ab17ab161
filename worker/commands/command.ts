import type { CommandDefinition, ParsedOf, ResultOf } from "../../src/protocol/command.ts";
import type { HoldPoint } from "../../src/protocol/testing-wire.ts";
import type { Files } from "../files/files.ts";
import type { Caller, Ledger } from "../ledger/ledger.ts";

/** Named places where tests make a command fail. In production nothing ever does. */
export interface FaultPoints {
  /** Throws if a test asked for it at this point and for this subject. */
  reach(point: string, subject: string): void;
  /** Resolves at once, or never if a test asked to hold here. */
  hold(point: HoldPoint): Promise<void>;
}

/** What a command works with. Time, ids and faults come from outside, so that it replays. */
export interface Context {
  readonly ledger: Ledger;
  readonly caller: Caller;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** A new id: the prefix and random hex digits. */
  readonly newId: (prefix: string) => string;
  readonly faults: FaultPoints;
}

/** What carries a command out, inside its transaction: it reads, decides and writes, and never awaits. */
export type Handler<Command extends CommandDefinition> = (
  input: ParsedOf<Command>,
  context: Context,
) => ResultOf<Command>;

/** What a command works with that must await files between its transactions. */
export interface TaskContext {
  /** Runs work in a transaction, in its turn; nothing holds between two of them. */
  readonly transact: <Result>(work: (context: Context) => Result) => Promise<Result>;
  /** The transaction that takes the task's effect and gives its answer: that is kept, should it be asked for again. */
  readonly conclude: <Result>(work: (context: Context) => Result) => Promise<Result>;
  readonly files: Files;
  readonly faults: FaultPoints;
}

/** What carries out a command that touches files: transactions with file work between them. */
export type Task<Command extends CommandDefinition> = (
  input: ParsedOf<Command>,
  context: TaskContext,
) => Promise<ResultOf<Command>>;

/** Marks a command as a task. */
export interface TaskHandler<Command extends CommandDefinition> {
  readonly task: Task<Command>;
}
