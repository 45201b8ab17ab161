import {
  type Answer,
  channelName,
  type HostAnnouncement,
  type HostNews,
  type Message,
  type VersionChange,
} from "../../src/protocol/channel.ts";
import { coalesce } from "../../src/protocol/coalesce.ts";
import { LedgerError, toWireError } from "../../src/protocol/errors.ts";
import type { Envelope } from "../../src/protocol/wire.ts";
import type { Host } from "../host.ts";

interface Addressed {
  readonly to: string;
  readonly answer: Answer;
}

/** The host's side of the channel: takes commands of other tabs' workers and answers them. */
export class Service {
  readonly #host: Host;
  readonly #channel: BroadcastChannel;
  readonly #announcement: HostAnnouncement;
  readonly #onCommand: (envelope: Envelope) => void;
  readonly #onVersionChange: (change: VersionChange) => void;
  /** The commands of a commit are answered in one turn; their answers travel as one message to each tab. */
  readonly #answerTogether = coalesce<Addressed>((all) => {
    for (const to of new Set(all.map((each) => each.to)))
      this.#answer(
        to,
        all.filter((each) => each.to === to).map(({ answer }) => answer),
      );
  });
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
    this.#answerTogether({ to: from, answer: { operationId: envelope.operationId, reply } });
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
