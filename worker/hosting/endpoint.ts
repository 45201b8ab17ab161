import type {
  HostAnnouncement,
  HostIdentity,
  HostNews,
  Notice,
  VersionChange,
} from "../../src/protocol/channel.ts";
import {
  HostUnavailableError,
  LedgerClosedError,
  StorageUnavailableError,
  toWireError,
} from "../../src/protocol/errors.ts";
import { type HeldLock, holdLock, locks } from "../../src/protocol/locks.ts";
import { commandNames } from "../../src/protocol/registry.ts";
import {
  type Envelope,
  type Greeting,
  type Joined,
  type OpenRequest,
  type Reply,
  type StorageReport,
  WIRE_VERSION,
  type WorkerApi,
} from "../../src/protocol/wire.ts";
import { Host, type HostSurroundings } from "../host.ts";
import { reply } from "../reply.ts";
import { warmUp } from "../storage/open.ts";
import { isPortable, packForTravel, unpack } from "./inbox.ts";
import { Reconciler } from "./reconciler.ts";
import { Service } from "./service.ts";
import { Standby } from "./standby.ts";
import { ageOf, isNewer, OUR_VERSION, otherVersion } from "./version.ts";

/** How long after it failed to open the database a worker queues for it again, in milliseconds. */
const STAND_AGAIN_MS = 1_000;

/** This worker as the host. */
interface Reign {
  readonly host: Host;
  /** Answers what was taken, closes the database and lets the next host have it. */
  readonly end: () => Promise<void>;
}

/** How a page reaches the ledger: through this worker as the host, or through this worker to the host. */
export class Endpoint implements WorkerApi {
  readonly #surroundings: HostSurroundings;
  #request: OpenRequest | undefined;
  #notices: MessagePort | undefined;
  #standby: Standby | undefined;
  /** Gives up the place in the queue for the host's lock. */
  readonly #candidacy = new AbortController();
  #reign: Reign | undefined;
  #signOfLife: HeldLock | undefined;
  /** The newest notice of each kind. */
  readonly #told: { readonly [Kind in Notice["kind"]]?: Extract<Notice, { kind: Kind }> } = {};
  #closed = false;

  constructor(surroundings: HostSurroundings) {
    this.#surroundings = surroundings;
  }

  greet(): Greeting {
    return { wireVersion: WIRE_VERSION, commands: commandNames };
  }

  open(request: OpenRequest, notices: MessagePort): Promise<Reply<Joined>> {
    return reply(async () => {
      if (this.#request !== undefined || this.#closed)
        throw new LedgerClosedError("worker_used", "this worker was opened before");
      this.#request = request;
      this.#notices = notices;
      if (request.storage !== "memory")
        this.#signOfLife = await holdLock(locks.worker(request.name, request.workerId));
      const storage =
        request.storage === "memory"
          ? (await this.#openInMemory(request)).storage
          : await this.#join(request);
      return { storage, host: identityOf(this.#told.host), recovered: this.#told.recovered?.report ?? null };
    });
  }

  execute(envelopes: readonly Envelope[]): Promise<readonly Reply<unknown>[]> {
    return Promise.all(envelopes.map((envelope) => this.#route(envelope)));
  }

  close(): Promise<Reply<null>> {
    return reply(async () => {
      this.#closed = true;
      this.#candidacy.abort();
      this.#standby?.leave();
      await this.#reign?.end();
      this.#signOfLife?.release();
      return null;
    });
  }

  async #openInMemory(request: OpenRequest): Promise<Host> {
    const tellPage = (rootFrameIds: readonly string[]) => this.#tellPage({ kind: "changed", rootFrameIds });
    return this.#reignAlone(await Host.open(request, this.#surroundings, tellPage)).host;
  }

  /** A ledger in memory is this tab's own: nothing that another could share, or would find after it. */
  #reignAlone(host: Host): Reign {
    return this.#begin({ host, end: () => host.close() });
  }

  /** Resolves with the first of: we are the host; the host said so; nobody did in time. */
  #join(request: OpenRequest): Promise<StorageReport> {
    return new Promise((resolve, reject) => {
      let olderHost: HostAnnouncement | undefined;
      const timer = setTimeout(() => {
        this.#candidacy.abort();
        if (olderHost !== undefined) {
          reject(otherVersion(olderHost, "close or reload that tab"));
          return;
        }
        reject(
          new HostUnavailableError(
            "host_silent",
            `the tab that has ledger "${request.name}" open does not answer; close it there and try again`,
            { name: request.name, lock: locks.host(request.name), waitedMs: request.hostWaitMs },
          ),
        );
      }, request.hostWaitMs);
      const settled = () => clearTimeout(timer);
      this.#standby = new Standby(
        request.name,
        request.workerId,
        (announcement) => {
          this.#tellPage(noticeOf(announcement));
          switch (ageOf(announcement)) {
            case "same":
              settled();
              resolve(announcement.storage);
              break;
            case "newer":
              settled();
              reject(otherVersion(announcement, "reload this page"));
              break;
            case "older":
              olderHost = announcement;
              this.#standby?.announceVersion(OUR_VERSION);
              break;
          }
        },
        (news) => this.#tellPage(news),
        (change) => this.#hearVersion(change),
      );
      this.#stand(request, settled).then(resolve, (error: unknown) => {
        settled();
        reject(error);
      });
    });
  }

  /** Waits to be elected, and becomes the host. */
  async #stand(request: OpenRequest, onElected: () => void): Promise<StorageReport> {
    warmUp(request.wasmUrl);
    const lock = await this.#electedIn(request.name);
    onElected();
    try {
      return (await this.#reignOver(request, lock)).host.storage;
    } catch (error) {
      lock.release();
      // Another may do better meanwhile. If this worker serves its page as a standby, it stands again.
      if (!this.#closed) setTimeout(() => this.#standAgain(request), STAND_AGAIN_MS);
      throw error;
    }
  }

  /**
   * It must be held before the files are touched: a second installation of the pool can destroy the first one's
   * database.
   */
  async #electedIn(ledgerName: string): Promise<HeldLock> {
    try {
      return await holdLock(locks.host(ledgerName), this.#candidacy.signal);
    } catch (error) {
      const message = `the browser refuses Web Locks: ${String(error)}`;
      throw new StorageUnavailableError("locks_unavailable", message, { reason: String(error) });
    }
  }

  #standAgain(request: OpenRequest): void {
    if (!this.#closed) this.#stand(request, () => {}).catch(() => {});
  }

  async #reignOver(request: OpenRequest, lock: HeldLock): Promise<Reign> {
    const { name, instanceId } = request;
    let service: Service | undefined;
    const tell = (news: HostNews) => {
      service?.tell(news);
      this.#tellPage(news);
    };
    const host = await Host.open(request, this.#surroundings, (rootFrameIds) =>
      tell({ kind: "changed", rootFrameIds }),
    );
    if (host.storage.kind === "memory") {
      lock.release();
      return this.#reignAlone(host);
    }
    const reconciler =
      request.recovery === "automatic"
        ? new Reconciler(name, instanceId, host, this.#surroundings.now, (report) =>
            tell({ kind: "recovered", report }),
          )
        : undefined;
    await reconciler?.reconcile();
    const announcement: HostAnnouncement = {
      kind: "host",
      wireVersion: WIRE_VERSION,
      instanceId,
      epoch: host.epoch,
      storage: host.storage,
    };
    const serving = new Service(
      name,
      host,
      announcement,
      ({ ownerInstanceId }) => reconciler?.watch(ownerInstanceId),
      (change) => this.#hearVersion(change),
    );
    service = serving;
    this.#tellPage(noticeOf(announcement));
    const end = async () => {
      reconciler?.close();
      await serving.close();
      await host.close();
      lock.release();
    };
    const reign = this.#begin({ host, end });
    reconciler?.tidy();
    return reign;
  }

  /** From here on commands are carried out here; first those that waited for a host, in their order. */
  #begin(reign: Reign): Reign {
    this.#reign = reign;
    for (const { envelope, resolve } of this.#standby?.leave() ?? [])
      reign.host.execute({ ...envelope, resent: true }).then(resolve);
    this.#standby = undefined;
    return reign;
  }

  #route(envelope: Envelope): Promise<Reply<unknown>> {
    const [host, standby] = [this.#reign?.host, this.#standby];
    if (host !== undefined) return carryOut(host, envelope);
    if (standby === undefined || this.#closed) return Promise.resolve(refusalOf(closedError()));
    return isPortable(envelope) ? standby.send(envelope) : this.#sendPacked(envelope);
  }

  async #sendPacked(packed: Envelope): Promise<Reply<unknown>> {
    const { name = "", workerId = "" } = this.#request ?? {};
    const travelling = await reply(() => packForTravel(name, workerId, packed));
    if (!travelling.ok) return travelling;
    const { envelope, release } = travelling.value;
    try {
      // Packing took time: this worker may be the host by now.
      return await this.#route(envelope);
    } finally {
      await release();
    }
  }

  #hearVersion(change: VersionChange): void {
    if (isNewer(change, OUR_VERSION)) this.#tellPage(change);
  }

  #tellPage(notice: Notice): void {
    Object.assign(this.#told, { [notice.kind]: notice });
    this.#notices?.postMessage(notice);
  }
}

async function carryOut(host: Host, packed: Envelope): Promise<Reply<unknown>> {
  const { envelope, release } = unpack(packed);
  try {
    return await host.execute(envelope);
  } finally {
    await release();
  }
}

function refusalOf(error: LedgerClosedError): Reply<never> {
  return { ok: false, error: toWireError(error) };
}

function identityOf(host: HostIdentity | undefined): HostIdentity | null {
  return host === undefined ? null : { instanceId: host.instanceId, epoch: host.epoch };
}

function noticeOf({ kind, instanceId, epoch }: HostAnnouncement): Notice {
  return { kind, instanceId, epoch };
}

function closedError(): LedgerClosedError {
  return new LedgerClosedError("ledger_closed", "the ledger is closed");
}
