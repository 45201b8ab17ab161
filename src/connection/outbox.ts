import { HostUnavailableError } from "../protocol/errors.ts";
import type { Envelope, Reply } from "../protocol/wire.ts";

/** Whether a message could not be sent because a value in it can't be cloned, as functions and DOM nodes can't. */
export function isCloneFailure(error: unknown): boolean {
  return error instanceof DOMException && error.name === "DataCloneError";
}

type Send = (envelopes: readonly Envelope[]) => Promise<readonly Reply<unknown>[]>;

interface Letter {
  readonly envelope: Envelope;
  readonly resolve: (reply: Reply<unknown>) => void;
  readonly reject: (error: unknown) => void;
}

/** Sends the commands that a page issues in one go as one message, in their order: one trip, and as a rule one commit. */
export class Outbox {
  readonly #send: Send;
  #letters: Letter[] = [];

  constructor(send: Send) {
    this.#send = send;
  }

  post(envelope: Envelope): Promise<Reply<unknown>> {
    return new Promise((resolve, reject) => {
      if (this.#letters.length === 0) queueMicrotask(() => this.#flush());
      this.#letters.push({ envelope, resolve, reject });
    });
  }

  async #flush(): Promise<void> {
    const letters = this.#letters;
    this.#letters = [];
    try {
      await this.#deliver(letters);
    } catch (error) {
      // A letter that can't be cloned kept all of them here; sent one by one it keeps back only itself.
      if (letters.length > 1 && isCloneFailure(error)) {
        for (const letter of letters) this.#deliver([letter]).catch(letter.reject);
      } else {
        for (const letter of letters) letter.reject(error);
      }
    }
  }

  async #deliver(letters: readonly Letter[]): Promise<void> {
    const replies = await this.#send(letters.map(({ envelope }) => envelope));
    letters.forEach(({ resolve, reject }, index) => {
      const reply = replies[index];
      if (reply !== undefined) resolve(reply);
      else reject(new HostUnavailableError("reply_missing", "the ledger's worker answered too few commands"));
    });
  }
}
