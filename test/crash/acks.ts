import { createHash } from "node:crypto";
import type { Ack, Survey } from "./page.ts";

/** All that was acknowledged to Node, in every round. */
export class AckLog {
  readonly #acks: Ack[] = [];
  #awaited: { readonly count: number; readonly reached: () => void } | undefined;

  get all(): readonly Ack[] {
    return this.#acks;
  }

  add(acks: readonly Ack[]): void {
    this.#acks.push(...acks);
    if (this.#awaited !== undefined && this.#acks.length >= this.#awaited.count) this.#awaited.reached();
  }

  /** Resolves once so many more commands were acknowledged. */
  more(count: number): Promise<void> {
    return new Promise((reached) => {
      this.#awaited = { count: this.#acks.length + count, reached };
    });
  }
}

/** What was acknowledged and is not in the database, or not as it was acknowledged. */
export function lostOf(acks: readonly Ack[], survey: Survey): Ack[] {
  const isThere = presenceIn(survey);
  return acks.filter((ack) => !isThere(ack));
}

function presenceIn({ events, settings, branches, runs }: Survey): (ack: Ack) => boolean {
  const payloads = new Map(events.map((row) => [row["event_id"], soundDigest(row)]));
  const revisions = new Map(settings.map((row) => [row["key"], Number(row["revision"])]));
  const sessions = new Set(branches.map((row) => row["branch_id"]));
  const statuses = new Map(runs.map((row) => [row["run_id"], row["status"]]));
  return (ack) => {
    switch (ack.kind) {
      case "event":
        return payloads.get(ack.eventId) === ack.payloadSha256;
      case "setting":
        // A later revision may have been committed before it could be acknowledged.
        return (revisions.get(ack.key) ?? -1) >= ack.revision;
      case "session":
        return sessions.has(ack.rootFrameId);
      case "settled":
        return statuses.get(ack.runId) === ack.status;
    }
  };
}

/** The digest of an event's payload, if it is also what the row says; computed apart from the library. */
function soundDigest(row: Survey["events"][number]): string | undefined {
  const digest = createHash("sha256").update(String(row["payload_json"])).digest("hex");
  return digest === row["payload_sha256"] ? digest : undefined;
}
