import type { WireError } from "./errors.ts";

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
}

/** What the page calls on the worker, through Comlink. */
export interface HostApi {
  greet(): Greeting;
  open(request: OpenRequest): Promise<Reply<StorageReport>>;
  /** Carries the commands out in order, in as few commits as may be, and answers them in that order. */
  execute(envelopes: readonly Envelope[]): Promise<readonly Reply<unknown>[]>;
  /** Finishes what is queued, closes the database and gives its files back. */
  close(): Promise<Reply<null>>;
}
