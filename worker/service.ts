import {
  type Answer,
  channelName,
  type HostAnnouncement,
  type HostNews,
  type Message,
  type VersionChange,
} from "../src/protocol/channel.ts";
import { LedgerError, toWireError } from "../src/protocol/errors.ts";
import type { Envelope } from "../src/protocol/wire.ts";
import type { Host } from "./host.ts";

/** The host's side of the channel: takes commands of other tabs' workers and answers them. */
export class Service {
  readonly #host: Host;
  readonly #channel: BroadcastChannel;
  readonly #announcement: HostAnnouncement;
  readonly #onCommand: (envelope: Envelope) => void;
  readonly #onVersionChange: (change: VersionChange) => void;
  /** Answers that go out together: those of one commit. */
  readonly #outgoing = new Map<string, Answer[]>();
  readonly #underWay = new Set<Promise<void>>();

  /** @param onCommand told of each command before it is carried out */
  constructor(
    ledgerName: string,
    host: Host,
    announcement: HostAnnouncement,
    onCommand: (envelope: Envelope) => void,
    onVersionChange: (change: VersionChange) => void,
  ) {
    this.#host = host;
    this.#announcement = announcement;
    this.#onCommand = onCommand;
    this.#onVersionChange = onVersionChange;
    this.#channel = new BroadcastChannel(channelName(ledgerName));
    this.#channel.onmessage = ({ data }: MessageEvent<Message>) => this.#receive(data);
    this.#post(announcement);
  }

  tell(news: HostNews): void {
    this.#post(news);
  }

  /** Takes no more commands; resolves when those that were taken have been answered. The others go to the next host. */
  async close(): Promise<void> {
    this.#channel.onmessage = null;
    await Promise.all(this.#underWay);
    this.#channel.close();
  }

  #receive(message: Message): void {
    if (message.kind === "who-is-host") this.#post(this.#announcement);
    if (message.kind === "version-change") this.#onVersionChange(message);
    if (message.kind !== "commands") return;
    for (const envelope of message.envelopes) {
      const carried = this.#carryOut(envelope, message.from);
      this.#underWay.add(carried);
      carried.finally(() => this.#underWay.delete(carried));
    }
  }

  async #carryOut(envelope: Envelope, from: string): Promise<void> {
    this.#onCommand(envelope);
    const reply = await this.#host.execute(envelope);
    const outgoing = this.#outgoing.get(from);
    if (outgoing !== undefined) {
      outgoing.push({ operationId: envelope.operationId, reply });
      return;
    }
    const answers: Answer[] = [{ operationId: envelope.operationId, reply }];
    this.#outgoing.set(from, answers);
    // One task later: the commands of a commit are answered in turn, and their answers travel as one message.
    await new Promise<void>((resolve) => queueMicrotask(resolve));
    await null;
    this.#outgoing.delete(from);
    this.#answer(from, answers);
  }

  #answer(to: string, answers: readonly Answer[]): void {
    try {
      this.#post({ kind: "answers", to, answers });
    } catch (error) {
      const failure = new LedgerError(
        "answer_lost",
        `the answer can't be sent to another tab: ${String(error)}`,
      );
      const reply = { ok: false, error: toWireError(failure) } as const;
      this.#post({
        kind: "answers",
        to,
        answers: answers.map(({ operationId }) => ({ operationId, reply })),
      });
    }
  }

  #post(message: Message): void {
    this.#channel.postMessage(message);
  }
}
