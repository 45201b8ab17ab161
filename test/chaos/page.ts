import type { LedgerError } from "../../src/index.ts";
import { openTestLedger, type SqlRow, type TestLedger } from "../../src/testing.ts";
import {
  candidateFields,
  completionFields,
  reviewFields,
  startFields,
  terminalFields,
} from "../support/fields.ts";
import { proposal } from "../support/repair.ts";
import { newSession } from "../support/roots.ts";
import { pick, seededRandom } from "./random.ts";

/** A tab that writes without end, until it is stopped or dies. Node calls it through `globalThis`. */

/** Which table shows that an operation took effect: the rows of this key are counted. */
export type Trace = "message" | "setting" | "artifact" | "checkpoint" | "branch" | "group" | "event";

export interface Survey {
  readonly integrity: readonly SqlRow[];
  readonly verified: boolean;
  readonly traces: Readonly<Record<Trace, readonly string[]>>;
  /** Sessions whose events, or messages, are not numbered without a gap. */
  readonly gaps: readonly SqlRow[];
  readonly barriers: readonly SqlRow[];
  readonly unfinished: readonly { readonly run_id: string; readonly owner_instance_id: string }[];
}

declare global {
  /** Given by Node: what is about to be sent, what was answered, and what went wrong. */
  function chaosBegun(trace: Trace, key: string): Promise<void>;
  function chaosDone(trace: Trace, key: string): Promise<void>;
  function chaosFailed(key: string, error: string): Promise<void>;
  var openChaosPage: (shared: string | null, deadlineMs?: number) => Promise<string>;
  var chaosPage: ChaosPage;
}

const LANES = 2;

class ChaosPage {
  readonly #ledger: TestLedger;
  readonly #shared: string;
  #stopped = false;
  #lanes: Promise<void>[] = [];

  constructor(ledger: TestLedger, shared: string) {
    this.#ledger = ledger;
    this.#shared = shared;
  }

  get instanceId(): string {
    return this.#ledger.instanceId;
  }

  get shared(): string {
    return this.#shared;
  }

  /** Starts to write, with a random walk that the seed repeats. */
  start(seed: number): void {
    this.#lanes = Array.from({ length: LANES }, (_, lane) =>
      this.#walk(seededRandom(seed + lane), `${seed}-${lane}`),
    );
  }

  /** Resolves when the last operation of each lane has been answered. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#lanes);
  }

  /** Adds a message to the shared session; gives its place, or the refusal. */
  async say(content: string): Promise<{ seq: number } | { code: string; details: unknown }> {
    try {
      const { seq } = await this.#ledger.messages.add({ rootFrameId: this.#shared, role: "user", content });
      return { seq };
    } catch (error) {
      const { code, details } = error as LedgerError;
      return { code, details };
    }
  }

  /** Everything that was said in the shared session. */
  async said(): Promise<string[]> {
    const messages = await this.#ledger.messages.list({ rootFrameId: this.#shared });
    return messages.map(({ content }) => content);
  }

  async crashWorker(): Promise<void> {
    await this.#ledger.testing.crash();
  }

  async #walk(random: () => number, name: string): Promise<void> {
    const own = await newSession(this.#ledger);
    const operations = [
      this.#addMessage,
      this.#addMessage,
      this.#setSetting,
      this.#saveArtifact,
      this.#appendGroup,
      this.#forkAndRevert,
      this.#verifyRun,
    ];
    for (let step = 0; !this.#stopped; step++) {
      const key = `${this.#ledger.instanceId.slice(0, 8)}-${name}-${step}`;
      try {
        await pick(operations, random).call(this, key, own, random);
      } catch (error) {
        await chaosFailed(key, String(error));
      }
    }
  }

  /** Sends one command of which the effect can be counted. */
  async #traced<Result>(trace: Trace, key: string, send: () => Promise<Result>): Promise<Result> {
    await chaosBegun(trace, key);
    const result = await send();
    await chaosDone(trace, key);
    return result;
  }

  async #addMessage(key: string): Promise<void> {
    await this.#traced("message", key, () =>
      this.#ledger.messages.add({ rootFrameId: this.#shared, role: "user", content: key }),
    );
  }

  async #setSetting(key: string): Promise<void> {
    await this.#traced("setting", key, () => this.#ledger.settings.set({ key, value: key }));
  }

  async #saveArtifact(key: string, _own: string, random: () => number): Promise<void> {
    const text = new TextEncoder().encode(key.repeat(1 + Math.floor(random() * 4_000)));
    const bytes = pick([text, new Blob([text])], random);
    await this.#traced("artifact", key, () =>
      this.#ledger.artifacts.save({ filename: key, bytes, frameId: this.#shared }),
    );
  }

  async #appendGroup(key: string, own: string): Promise<void> {
    await this.#traced("group", key, () =>
      this.#ledger.actions.appendToolGroup({ rootFrameId: own, turnId: key, events: [proposal] }),
    );
  }

  async #forkAndRevert(key: string, own: string): Promise<void> {
    const rootFrameId = own;
    const { checkpointId } = await this.#traced("checkpoint", key, () =>
      this.#ledger.checkpoints.create({ rootFrameId, reason: "manual", metadata: { key } }),
    );
    await this.#traced("branch", key, () =>
      this.#ledger.branches.fork({ rootFrameId, fromCheckpointId: checkpointId, name: key }),
    );
    await this.#ledger.branches.revert({ rootFrameId, checkpointId, idempotencyKey: `revert:${key}` });
    await this.#ledger.branches.undo({ rootFrameId, idempotencyKey: `undo:${key}` });
  }

  async #verifyRun(key: string, own: string): Promise<void> {
    const ledger = this.#ledger;
    const ids = { runId: `run:${key}`, turnId: `turn:${key}`, executionId: `execution:${key}` };
    const reviewRunId = `review:${key}`;
    const send = (step: string, work: (idempotencyKey: string) => Promise<unknown>) => {
      const idempotencyKey = `${key}:${step}`;
      return this.#traced("event", idempotencyKey, () => work(idempotencyKey));
    };
    await send("start", (idempotencyKey) =>
      ledger.runs.start(startFields(own, { ...ids, idempotencyKey, ownerInstanceId: ledger.instanceId })),
    );
    await send("candidate", (idempotencyKey) =>
      ledger.runs.recordCandidate({ ...candidateFields, runId: ids.runId, idempotencyKey }),
    );
    await send("review", (idempotencyKey) =>
      ledger.reviews.start({
        ...reviewFields,
        runId: ids.runId,
        reviewRunId,
        auditId: `audit:${key}`,
        idempotencyKey,
      }),
    );
    await send("verdict", (idempotencyKey) =>
      ledger.reviews.complete({ ...completionFields, reviewRunId, idempotencyKey }),
    );
    await send("end", (idempotencyKey) =>
      ledger.runs.terminate({ ...terminalFields, runId: ids.runId, idempotencyKey }),
    );
  }

  /** What the database holds, read past the ledger's own commands. */
  async survey(): Promise<Survey> {
    const sql = (text: string) => this.#ledger.testing.sql(text);
    const keys = async (text: string) => (await sql(text)).map(({ key }) => String(key));
    return {
      integrity: await sql("PRAGMA integrity_check"),
      verified: (await this.#ledger.verify()).ok,
      traces: {
        message: await keys("SELECT content AS key FROM messages"),
        setting: await keys("SELECT key FROM settings"),
        artifact: await keys("SELECT filename AS key FROM artifact_versions"),
        checkpoint: await keys(
          "SELECT metadata ->> 'key' AS key FROM session_checkpoints WHERE metadata ->> 'key' IS NOT NULL",
        ),
        branch: await keys("SELECT name AS key FROM session_branches WHERE name IS NOT NULL"),
        group: await keys("SELECT turn_id AS key FROM action_groups"),
        event: await keys("SELECT idempotency_key AS key FROM auto_mode_events"),
      },
      gaps: await sql(`SELECT 'events of ' || root_frame_id AS what FROM auto_mode_events
          GROUP BY root_frame_id HAVING MAX(event_cursor) <> COUNT(*)
        UNION ALL SELECT 'messages of ' || root_frame_id FROM messages
          GROUP BY root_frame_id HAVING MAX(seq) + 1 <> COUNT(*)
        UNION ALL SELECT 'journal of ' || root_frame_id FROM journal
          GROUP BY root_frame_id HAVING MAX(position) <> COUNT(*)`),
      barriers: await sql("SELECT * FROM settings WHERE key LIKE 'session:revert-recovery:%'"),
      unfinished: (await sql(
        "SELECT run_id, owner_instance_id FROM auto_mode_runs WHERE finished_at IS NULL AND abandoned_at IS NULL",
      )) as unknown as Survey["unfinished"],
    };
  }
}

globalThis.openChaosPage = async (shared, deadlineMs = 30_000) => {
  const ledger = await openTestLedger({ name: "chaos", workerUrl: "/testing-worker.js", deadlineMs });
  globalThis.chaosPage = new ChaosPage(ledger, shared ?? (await newSession(ledger)));
  return ledger.instanceId;
};
