import type { HostIdentity } from "./channel.ts";
import type { WireError } from "./errors.ts";
import type { RecoveryReport } from "./recovery.ts";

/** The version of what page and worker say to each other. */
export const WIRE_VERSION = 1;

/** Errors cross as values: Comlink would lose their class, code and details. */
export type Reply<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly error: WireError };

export interface Greeting {
  readonly wireVersion: number;
  /** The commands that this worker answers, as `family.name`. */
  readonly commands: readonly string[];
}

export type StorageChoice = "auto" | "opfs" | "memory";

export interface OpenRequest {
  readonly name: string;
  /** The tab, and the worker in it: a tab that restarts its worker stays the same. */
  readonly instanceId: string;
  readonly workerId: string;
  /** Whether work of tabs that are gone is closed without being asked. */
  readonly recovery: "automatic" | "manual";
  readonly storage: StorageChoice;
  readonly allowMemory: boolean;
  /** How long to wait for a closing tab to give the database up, in milliseconds. */
  readonly hostWaitMs: number;
  readonly wasmUrl: string | null;
}

/** Where the ledger lives, and what that promises. */
export interface StorageReport {
  readonly kind: "opfs" | "memory";
  /** Why this kind and no other. */
  readonly reason: string;
  /** Acknowledged writes survive a crash of the browser. */
  readonly durable: boolean;
  /** The browser promised not to evict it; null where it can't tell. */
  readonly persisted: boolean | null;
  readonly vfs: string;
  readonly journalMode: string;
  readonly synchronous: string;
  readonly schemaVersion: number;
  readonly sqliteVersion: string;
  /** Bytes that the origin uses and may use, as the browser estimates them. */
  readonly usageBytes: number | null;
  readonly quotaBytes: number | null;
}

/** One command on its way. */
export interface Envelope {
  /** Made once by the client; the same when a command is sent again. */
  readonly operationId: string;
  readonly command: string;
  readonly input: unknown;
  /** The tab that sends it. */
  readonly ownerInstanceId: string;
  /** Its number among the tab's commands, from 1. */
  readonly sequence: number;
  /** The tab has had its answers to all commands below this number: what is kept for them can go. */
  readonly settledBelow: number;
  /** It may have been carried out before, by this host or an earlier one. */
  readonly resent?: boolean;
}

/** What a page knows once its worker has joined the ledger. */
export interface Joined {
  readonly storage: StorageReport;
  /** Null for a ledger in memory. */
  readonly host: HostIdentity | null;
  /** What was closed before this tab could be used. */
  readonly recovered: RecoveryReport | null;
}

/** What the page calls on its worker, through Comlink. */
export interface WorkerApi {
  greet(): Greeting;
  /**
   * Joins the ledger: opens the database, or finds the worker that has it open.
   *
   * @param notices where the page hears what it did not ask for: `Notice`
   */
  open(request: OpenRequest, notices: MessagePort): Promise<Reply<Joined>>;
  /** Carries the commands out in order, in as few commits as may be, and answers them in that order. */
  execute(envelopes: readonly Envelope[]): Promise<readonly Reply<unknown>[]>;
  /** Finishes what is under way, and gives the database up if it is ours. */
  close(): Promise<Reply<null>>;
}
