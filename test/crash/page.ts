import type { ReconcileOutcome } from "../../src/protocol/recovery.ts";
import type { Projection } from "../../src/protocol/runs.ts";
import type { VerificationReport } from "../../src/protocol/verification.ts";
import { openTestLedger, type SqlRow, type TestLedger } from "../../src/testing.ts";
import {
  candidateFields,
  completionFields,
  reviewFields,
  startFields,
  terminalFields,
} from "../support/fields.ts";

/** The page that gets killed, reloaded and closed. Node calls it through `globalThis`. */

/** A command that was answered, and what must be found of it ever after. */
export type Ack = { readonly command: string; readonly key: string } & (
  | { readonly kind: "event"; readonly eventId: string; readonly payloadSha256: string }
  | { readonly kind: "setting"; readonly revision: number }
  | { readonly kind: "session"; readonly rootFrameId: string }
  | { readonly kind: "settled"; readonly runId: string; readonly status: string }
);

/** The sessions that the writers work in, by their root frames. */
export interface Sessions {
  /** Runs whose commands are sent one after the other. */
  readonly oneByOne: string;
  /** Runs whose commands are sent together. */
  readonly atOnce: string;
  /** One run a round that never ends: whenever the page dies, it is unfinished. */
  readonly endless: string;
}

/** What the database holds, read past the ledger's own commands. */
export interface Survey {
  readonly integrity: readonly SqlRow[];
  readonly foreignKeyViolations: readonly SqlRow[];
  readonly verification: VerificationReport;
  readonly events: readonly SqlRow[];
  readonly settings: readonly SqlRow[];
  readonly branches: readonly SqlRow[];
  readonly runs: readonly SqlRow[];
}

/** A session's current run with all there is to prove it. */
export interface Proof {
  readonly projection: Projection;
  readonly events: readonly unknown[];
  readonly journal: unknown;
}

declare global {
  /** Opens the ledger; gives this tab's id. Set once the page has loaded. */
  var openCrashPage: () => Promise<string>;
  /** Set once the ledger is open. */
  var crashPage: CrashPage;
  /** Node's: tells it of acknowledgements. */
  var acknowledge: (acks: readonly Ack[]) => Promise<void>;
}

/** So many settings are written in one go, and so long is each: a commit takes long enough to be hit. */
const BURST = 16;
const SETTING_LENGTH = 4_000;
/** No round sets so many settings. */
const REVISIONS_A_ROUND = 1_000_000;

interface Step {
  readonly command: string;
  readonly key: string;
  issue(): Promise<{ readonly event: { readonly eventId: string; readonly payloadSha256: string } }>;
}

export class CrashPage {
  readonly #ledger: TestLedger;

  constructor(ledger: TestLedger) {
    this.#ledger = ledger;
  }

  close(): Promise<void> {
    return this.#ledger.close();
  }

  async newSessions(): Promise<Sessions> {
    return {
      oneByOne: await this.newSession(),
      atOnce: await this.newSession(),
      endless: await this.newSession(),
    };
  }

  async newSession(): Promise<string> {
    const { projectId } = await this.#ledger.projects.create({ name: "crash" });
    const { rootFrameId } = await this.#ledger.frames.create({ projectId });
    await this.#ledger.branches.ensure({ rootFrameId, branchId: rootFrameId });
    report({ command: "branches.ensure", key: rootFrameId, kind: "session", rootFrameId });
    return rootFrameId;
  }

  async survey(): Promise<Survey> {
    const { sql } = this.#ledger.testing;
    return {
      integrity: await sql("PRAGMA integrity_check"),
      foreignKeyViolations: await sql("PRAGMA foreign_key_check"),
      verification: await this.#ledger.verify(),
      events: await sql("SELECT event_id, run_id, payload_json, payload_sha256 FROM auto_mode_events"),
      settings: await sql("SELECT key, CAST(value AS INTEGER) AS revision FROM settings"),
      branches: await sql("SELECT branch_id FROM session_branches"),
      runs: await this.runs(),
    };
  }

  runs(): Promise<SqlRow[]> {
    return this.#ledger.testing.sql("SELECT * FROM auto_mode_runs ORDER BY created_at, run_id");
  }

  /** Settles what dead tabs left behind: this tab alone is alive. */
  async settle(): Promise<ReconcileOutcome[]> {
    const outcomes = await this.#ledger.recovery.reconcileRuns({
      liveInstanceIds: [this.#ledger.instanceId],
    });
    for (const { runId, ...outcome } of outcomes) {
      const status = "status" in outcome ? outcome.status : "unreconciled";
      report({ command: "recovery.reconcileRuns", key: runId, kind: "settled", runId, status });
    }
    return outcomes;
  }

  /** Takes a new run all the way; gives what its branch then shows. */
  async verifyRun(rootFrameId: string, runId: string): Promise<Projection> {
    for (const step of this.#stepsOf(rootFrameId, runId)) await perform(step);
    return this.#ledger.runs.project({ rootFrameId });
  }

  async proof(rootFrameId: string): Promise<Proof> {
    const { sessions } = await this.#ledger.verify();
    return {
      projection: await this.#ledger.runs.project({ rootFrameId }),
      events: await this.#ledger.events.list({ rootFrameId }),
      journal: sessions.find((session) => session.rootFrameId === rootFrameId),
    };
  }

  /**
   * Writes until the page dies. No writer waits for anything but the ledger: from the first command on there is
   * always one under way.
   */
  async write(round: number, sessions: Sessions): Promise<never> {
    const endless = `round-${round}:endless`;
    await perform(this.#startOf(sessions.endless, endless));
    return Promise.race([
      this.#writeCandidates(endless),
      this.#writeOneByOne(sessions.oneByOne, `round-${round}:one-by-one`),
      this.#writeAtOnce(sessions.atOnce, `round-${round}:at-once`),
      this.#writeSettings(round * REVISIONS_A_ROUND),
    ]);
  }

  async #writeCandidates(runId: string): Promise<never> {
    for (let n = 1; ; n++) {
      const candidate = {
        ...candidateFields,
        runId,
        idempotencyKey: `candidate:${n}`,
        candidateId: `c-${n}`,
      };
      await perform({
        command: "runs.recordCandidate",
        key: candidate.idempotencyKey,
        issue: () => this.#ledger.runs.recordCandidate(candidate),
      });
    }
  }

  async #writeOneByOne(rootFrameId: string, name: string): Promise<never> {
    for (let n = 1; ; n++) for (const step of this.#stepsOf(rootFrameId, `${name}-${n}`)) await perform(step);
  }

  async #writeAtOnce(rootFrameId: string, name: string): Promise<never> {
    for (let n = 1; ; n++) await Promise.all(this.#stepsOf(rootFrameId, `${name}-${n}`).map(perform));
  }

  async #writeSettings(firstRevision: number): Promise<never> {
    for (let revision = firstRevision; ; revision++)
      await Promise.all(Array.from({ length: BURST }, (_, lane) => this.#set(`lane-${lane}`, revision)));
  }

  async #set(key: string, revision: number): Promise<void> {
    await this.#ledger.settings.set({ key, value: `${revision} `.padEnd(SETTING_LENGTH, "#") });
    report({ command: "settings.set", key, kind: "setting", revision });
  }

  #startOf(rootFrameId: string, runId: string): Step {
    const owner = { ownerInstanceId: this.#ledger.instanceId };
    const start = startFields(rootFrameId, { runId, turnId: runId, executionId: runId, ...owner });
    return {
      command: "runs.start",
      key: start.idempotencyKey,
      issue: () => this.#ledger.runs.start(start),
    };
  }

  /** The commands of a run that ends verified, in their order. */
  #stepsOf(rootFrameId: string, runId: string): Step[] {
    const { runs, reviews } = this.#ledger;
    const candidate = { ...candidateFields, runId };
    const review = { ...reviewFields, runId, reviewRunId: `${runId}:review`, auditId: `${runId}:audit` };
    const completion = { ...completionFields, reviewRunId: review.reviewRunId };
    const terminal = { ...terminalFields, runId };
    return [
      this.#startOf(rootFrameId, runId),
      {
        command: "runs.recordCandidate",
        key: candidate.idempotencyKey,
        issue: () => runs.recordCandidate(candidate),
      },
      { command: "reviews.start", key: review.idempotencyKey, issue: () => reviews.start(review) },
      {
        command: "reviews.complete",
        key: completion.idempotencyKey,
        issue: () => reviews.complete(completion),
      },
      { command: "runs.terminate", key: terminal.idempotencyKey, issue: () => runs.terminate(terminal) },
    ];
  }
}

let unreported: Ack[] = [];

/**
 * Tells Node at once, with all that the same commit acknowledged: a message for each would keep Node so far behind
 * that the newest ones, which a kill endangers most, died with the browser.
 */
function report(ack: Ack): void {
  if (unreported.length === 0) queueMicrotask(flush);
  unreported.push(ack);
}

function flush(): void {
  void acknowledge(unreported);
  unreported = [];
}

/** Issues a command; tells Node of its answer, without waiting for Node, so that the next one follows at once. */
async function perform({ command, key, issue }: Step): Promise<void> {
  const { eventId, payloadSha256 } = (await issue()).event;
  report({ command, key, kind: "event", eventId, payloadSha256 });
}

globalThis.openCrashPage = async () => {
  const ledger = await openTestLedger({
    name: "crash",
    workerUrl: "/testing-worker.js",
    // The tests ask for recovery themselves, and look at what it answers.
    recovery: "manual",
  });
  globalThis.crashPage = new CrashPage(ledger);
  return ledger.instanceId;
};
