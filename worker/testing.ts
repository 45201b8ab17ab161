import { expose } from "comlink";
import { StorageUnavailableError } from "../src/protocol/errors.ts";
import type {
  FaultPoint,
  HoldPoint,
  SqlInput,
  SqlRow,
  TestingWorkerApi,
} from "../src/protocol/testing-wire.ts";
import type { Reply } from "../src/protocol/wire.ts";
import type { FaultPoints } from "./commands/command.ts";
import { Endpoint } from "./hosting/endpoint.ts";
import { reply } from "./reply.ts";
import type { Database } from "./storage/database.ts";

/** Fails as a locked database would, once, where a test asked for it. */
class TestFaults implements FaultPoints {
  readonly #armed: { point: FaultPoint; subject: string | null }[] = [];

  arm(point: FaultPoint, subject: string | null): void {
    this.#armed.push({ point, subject });
  }

  readonly #held = new Map<HoldPoint, () => void>();

  /** Resolves when the point is reached. */
  holdNext(point: HoldPoint): Promise<void> {
    return new Promise((reached) => this.#held.set(point, reached));
  }

  async hold(point: HoldPoint): Promise<void> {
    const reached = this.#held.get(point);
    if (reached === undefined) return;
    reached();
    await new Promise<never>(() => {});
  }

  reach(point: string, subject: string): void {
    const index = this.#armed.findIndex(
      (each) => each.point === point && (each.subject ?? subject) === subject,
    );
    if (index === -1) return;
    this.#armed.splice(index, 1);
    throw new StorageUnavailableError("storage_failed", "the database failed: database is locked", {
      point,
      subject,
    });
  }
}

function runSql(database: Database, input: unknown): SqlRow[] {
  const { text, parameters } = input as SqlInput;
  return database.all(text, parameters);
}

let fixedNow: number | null = null;
const faults = new TestFaults();

/** The production worker, with raw SQL on its connection, fault points and a fixed clock. */
class TestingEndpoint extends Endpoint implements TestingWorkerApi {
  constructor() {
    super({ now: () => fixedNow ?? Date.now(), faults, strangers: { "testing.sql": runSql } });
  }

  failNext(point: FaultPoint, subject: string | null): Promise<Reply<null>> {
    return reply(async () => {
      faults.arm(point, subject);
      return null;
    });
  }

  holdNext(point: HoldPoint): Promise<Reply<null>> {
    return reply(async () => {
      await faults.holdNext(point);
      return null;
    });
  }

  setClock(now: number | null): Promise<Reply<null>> {
    return reply(async () => {
      fixedNow = now;
      return null;
    });
  }
}

expose(new TestingEndpoint());
