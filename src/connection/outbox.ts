import { transfer } from "comlink";
import { coalesce } from "../protocol/coalesce.ts";
import { HostUnavailableError } from "../protocol/errors.ts";
import { portsIn } from "../protocol/stream-port.ts";
import type { Envelope, Reply } from "../protocol/wire.ts";

type Send = (envelopes: readonly Envelope[]) => Promise<readonly Reply<unknown>[]>;

interface Letter {
  readonly envelope: Envelope;
  readonly resolve: (reply: Reply<unknown>) => void;
  readonly reject: (error: unknown) => void;
}

/** Sends the commands that a page issues in one go as one message, in their order: one trip, and as a rule one commit. */
export class Outbox {
  readonly #send: Send;
  readonly #collect = coalesce<Letter>((letters) => this.#sendAll(letters));

  constructor(send: Send) {
    this.#send = send;
  }

  post(envelope: Envelope): Promise<Reply<unknown>> {
    return new Promise((resolve, reject) => this.#collect({ envelope, resolve, reject }));
  }

  async #sendAll(letters: readonly Letter[]): Promise<void> {
    try {
      const envelopes = letters.map(({ envelope }) => envelope);
      const ports = envelopes.flatMap(({ input }) => portsIn(input).map(([, port]) => port));
      const replies = await this.#send(transfer(envelopes, ports));
      letters.forEach(({ resolve, reject }, index) => {
        const reply = replies[index];
        if (reply !== undefined) resolve(reply);
        else
          reject(new HostUnavailableError("reply_missing", "the ledger's worker answered too few commands"));
      });
    } catch (error) {
      for (const { reject } of letters) reject(error);
    }
  }
}
