import {
  type Answer,
  channelName,
  type HostAnnouncement,
  type HostNews,
  type Message,
  type VersionChange,
} from "../../src/protocol/channel.ts";
import { coalesce } from "../../src/protocol/coalesce.ts";
import type { Envelope, Reply } from "../../src/protocol/wire.ts";

/** How often the host is asked again while it owes an answer, in milliseconds. */
const ASK_AGAIN_MS = 500;

interface Pending {
  readonly envelope: Envelope;
  readonly resolve: (reply: Reply<unknown>) => void;
  sentAt: number;
}

/**
 * A worker's way to the host while another worker is it. What is not answered is sent again, in order: at once to a new
 * host, and from time to time to the same one, which carries nothing out twice.
 */
export class Standby {
  readonly #workerId: string;
  readonly #channel: BroadcastChannel;
  readonly #onHost: (host: HostAnnouncement) => void;
  readonly #onNews: (news: HostNews) => void;
  readonly #onVersionChange: (change: VersionChange) => void;
  readonly #pending = new Map<string, Pending>();
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #postTogether = coalesce<Envelope>((envelopes) => {
    if (!this.#hasLeft) this.#post({ kind: "commands", from: this.#workerId, envelopes });
  });
  #epoch = 0;
  #hasLeft = false;

  constructor(
    ledgerName: string,
    workerId: string,
    onHost: (host: HostAnnouncement) => void,
    onNews: (news: HostNews) => void,
    onVersionChange: (change: VersionChange) => void,
  ) {
    this.#workerId = workerId;
    this.#onHost = onHost;
    this.#onNews = onNews;
    this.#onVersionChange = onVersionChange;
    this.#channel = new BroadcastChannel(channelName(ledgerName));
    this.#channel.onmessage = ({ data }: MessageEvent<Message>) => this.#receive(data);
    this.#timer = setInterval(() => this.#askAgain(), ASK_AGAIN_MS);
    this.#post({ kind: "who-is-host", from: workerId });
  }

  /** Has a command carried out by the host, whenever there is one. Those of one turn travel as one message. */
  send(envelope: Envelope): Promise<Reply<unknown>> {
    return new Promise((resolve) => {
      this.#pending.set(envelope.operationId, { envelope, resolve, sentAt: performance.now() });
      this.#postTogether(envelope);
    });
  }

  /** Asks the tabs with older code to close. */
  announceVersion(change: VersionChange): void {
    this.#post(change);
  }

  /** Leaves the channel; what waits for an answer is for the caller to see to, in this order. */
  leave(): Pick<Pending, "envelope" | "resolve">[] {
    this.#hasLeft = true;
    clearInterval(this.#timer);
    this.#channel.close();
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    return pending;
  }

  #receive(message: Message): void {
    switch (message.kind) {
      case "host":
        if (message.epoch !== this.#epoch) {
          this.#epoch = message.epoch;
          this.#sendAgain([...this.#pending.values()]);
        }
        this.#onHost(message);
        break;
      case "answers":
        if (message.to === this.#workerId) for (const answer of message.answers) this.#settle(answer);
        break;
      case "changed":
      case "recovered":
        this.#onNews(message);
        break;
      case "version-change":
        this.#onVersionChange(message);
        break;
      case "commands":
      case "who-is-host":
        break;
    }
  }

  #settle({ operationId, reply }: Answer): void {
    this.#pending.get(operationId)?.resolve(reply);
    this.#pending.delete(operationId);
  }

  #askAgain(): void {
    if (this.#epoch === 0) this.#post({ kind: "who-is-host", from: this.#workerId });
    const dueBefore = performance.now() - ASK_AGAIN_MS;
    this.#sendAgain([...this.#pending.values()].filter(({ sentAt }) => sentAt < dueBefore));
  }

  #sendAgain(pending: readonly Pending[]): void {
    if (pending.length === 0) return;
    for (const each of pending) each.sentAt = performance.now();
    const envelopes = pending.map(({ envelope }) => ({ ...envelope, resent: true }));
    this.#post({ kind: "commands", from: this.#workerId, envelopes });
  }

  #post(message: Message): void {
    this.#channel.postMessage(message);
  }
}
