import type { RecoveryReport } from "./recovery.ts";
import type { Envelope, Reply, StorageReport } from "./wire.ts";

/**
 * What workers say to each other on the BroadcastChannel of a ledger. It keeps nothing for those who join later, so
 * whoever needs the host asks until it is answered, and the host says who it is whenever it begins or is asked.
 */
export type Message =
  | { readonly kind: "who-is-host"; readonly from: string }
  | VersionChange
  | HostAnnouncement
  | HostNews
  | { readonly kind: "commands"; readonly from: string; readonly envelopes: readonly Envelope[] }
  | { readonly kind: "answers"; readonly to: string; readonly answers: readonly Answer[] };

export interface Answer {
  readonly operationId: string;
  readonly reply: Reply<unknown>;
}

/** A page with newer code has come, and asks the tabs with older code to close. */
export interface VersionChange {
  readonly kind: "version-change";
  readonly wireVersion: number;
  readonly schemaVersion: number;
}

/** Who the host is. A new epoch means a new host: what the last one did not answer is sent again. */
export interface HostAnnouncement {
  readonly kind: "host";
  readonly wireVersion: number;
  readonly instanceId: string;
  readonly epoch: number;
  readonly storage: StorageReport;
}

/** What pages are told besides answers. */
export type HostNews =
  | { readonly kind: "changed"; readonly rootFrameIds: readonly string[] }
  | { readonly kind: "recovered"; readonly report: RecoveryReport };

/** The tab whose worker is the host, and which host of the ledger it is, counted from 1. */
export type HostIdentity = Pick<HostAnnouncement, "instanceId" | "epoch">;

/** What a worker tells its page, unasked. */
export type Notice = HostNews | VersionChange | ({ readonly kind: "host" } & HostIdentity);

export function channelName(ledgerName: string): string {
  return `countersign:${ledgerName}`;
}
