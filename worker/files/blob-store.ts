import type { Sha256 } from "../../src/proof/sha256.ts";
import {
  invalidInput,
  LedgerError,
  NotFoundError,
  StorageUnavailableError,
} from "../../src/protocol/errors.ts";
import {
  type ByteSource,
  type Bytes,
  bytesOf,
  chunksOf,
  chunksOfFile,
  digestBlob,
  digestFile,
  digestWhole,
  RunningDigest,
  WHOLE_LIMIT_BYTES,
} from "./digest.ts";
import { readsBack, storing, type Written, writeDurably } from "./durable-file.ts";
import { fileError, isNotFound } from "./file-error.ts";

export interface StoredBlob {
  readonly sha256: Sha256;
  readonly sizeBytes: number;
}

/** What the store has of a blob. All three are normal: browsers evict, disks rot (spec/session_store 9.2.11). */
export type BlobState = "ok" | "missing" | "damaged";

export type BlobSource = Bytes | ByteSource;

export interface Collected {
  readonly removed: number;
  readonly bytes: number;
}

/** Answers whether something that lives needs the blob. */
export type IsReferenced = (sha256: Sha256) => boolean;

/**
 * What a capture or a save has put or kept, until what refers to it is committed. A held blob survives every
 * collection, also one that was there before. All writing to the store goes through a hold.
 */
export interface Hold {
  /**
   * Stores the bytes under their SHA-256, once. A blob that is there already is read and replaced if it is damaged (W29).
   *
   * @throws StorageFullError no space is left; nothing remains of the attempt.
   * @throws StorageUnavailableError the files failed, or what was written doesn't read back.
   * @throws DOMException the source itself could not be read.
   */
  put(source: BlobSource): Promise<StoredBlob>;
  /** Keeps a blob that is there already, and says in what state it is. */
  keep(sha256: Sha256, sizeBytes: number): Promise<BlobState>;
  /** Whether this hold has put the blob, or found it sound. */
  has(sha256: Sha256, sizeBytes: number): boolean;
  /** Lets collections have what nothing refers to. Call it after the commit, and when no `put` is under way. */
  release(): void;
}

/** A file that is written and read back, on its way to its place. */
interface Temporary {
  readonly handle: FileSystemFileHandle;
  readonly written: Written;
}

/**
 * Opens the store in a directory of OPFS, in a worker, and removes what writers that died have left half-done.
 * The caller must be the only one that has the store open: the host, under its Web Lock.
 *
 * @throws StorageUnavailableError the directory can't be used.
 */
export async function openBlobStore(directory: FileSystemDirectoryHandle): Promise<BlobStore> {
  try {
    const blobs = await directory.getDirectoryHandle("blobs", { create: true });
    const temporaries = await directory.getDirectoryHandle("tmp", { create: true });
    const leftover: string[] = [];
    for await (const name of temporaries.keys()) leftover.push(name);
    for (const name of leftover) await discard(temporaries, name);
    return new BlobStore(blobs, temporaries);
  } catch (error) {
    throw fileError(error, "opening the blob store");
  }
}

/**
 * Bytes under their SHA-256, as files `blobs/<2 hex>/<64 hex>` (spec/session_store 3.1, 3.2). Tree manifests are blobs
 * like any other.
 *
 * A blob is written to `tmp/`, flushed, closed, read back and only then moved to its place, so that a crash leaves
 * either the whole blob or none. Browsers can't sync the directory entry (W24): after a power cut a blob that was
 * stored may be missing, which `check` reports and the next capture of the same bytes repairs.
 */
export class BlobStore {
  readonly #blobs: FileSystemDirectoryHandle;
  readonly #temporaries: FileSystemDirectoryHandle;
  readonly #holds = new Set<StoreHold>();
  /** For each collection under way, what must survive it: all that was held at any time since it began. */
  readonly #collections = new Set<Set<Sha256>>();
  /** The last piece of work on a blob that has not ended yet. */
  readonly #busy = new Map<Sha256, Promise<unknown>>();

  /** Use `openBlobStore`. */
  constructor(blobs: FileSystemDirectoryHandle, temporaries: FileSystemDirectoryHandle) {
    this.#blobs = blobs;
    this.#temporaries = temporaries;
  }

  /** A new hold; all writing goes through one. */
  hold(): Hold {
    const hold: StoreHold = new StoreHold({
      put: (source) => this.#put(hold, source),
      keep: (sha256, sizeBytes) => this.#keep(hold, sha256, sizeBytes),
      release: () => this.#holds.delete(hold),
    });
    this.#holds.add(hold);
    return hold;
  }

  /**
   * The blob's file, to be read in pieces. Its bytes are not checked: that is `check`.
   *
   * @throws NotFoundError `blob_missing`.
   * @throws StorageUnavailableError the files failed.
   */
  async open(sha256: Sha256): Promise<File> {
    const file = (await this.#find(sha256))?.file;
    if (file !== undefined) return file;
    throw new NotFoundError("blob_missing", `the blob ${sha256} is not in the store`, {
      field: "sha256",
      sha256,
    });
  }

  /** Whether there is a file under the digest, sound or not. */
  async has(sha256: Sha256): Promise<boolean> {
    return (await this.#find(sha256)) !== undefined;
  }

  /**
   * Reads the blob and says whether its bytes and its size are right. Neither a missing nor a damaged blob throws.
   *
   * @throws StorageUnavailableError the files failed.
   */
  check(sha256: Sha256, sizeBytes?: number): Promise<BlobState> {
    return this.#alone(sha256, () => this.#read(sha256, sizeBytes));
  }

  /**
   * Removes the blobs that nothing refers to and nothing holds (spec/session_store 3.7). What is held at any moment from
   * this call on survives, so captures go on meanwhile (appendix C 9): what `mark` does not see yet as committed was
   * held then. That only holds for references that `mark` reads after it was called.
   *
   * Emptied fan-out directories stay; there are at most 256.
   *
   * @throws StorageUnavailableError the files failed; what was removed until then is gone.
   */
  async collect(mark: () => IsReferenced | Promise<IsReferenced>): Promise<Collected> {
    const spared = new Set<Sha256>();
    for (const hold of this.#holds) for (const sha256 of hold.held) spared.add(sha256);
    this.#collections.add(spared);
    try {
      const isReferenced = await mark();
      return await this.#sweep((sha256) => spared.has(sha256) || isReferenced(sha256));
    } catch (error) {
      throw fileError(error, "collecting blobs");
    } finally {
      this.#collections.delete(spared);
    }
  }

  async #sweep(isNeeded: IsReferenced): Promise<Collected> {
    let removed = 0;
    let bytes = 0;
    for await (const fan of this.#blobs.values()) {
      if (fan.kind !== "directory") continue;
      const names: string[] = [];
      for await (const name of fan.keys()) names.push(name);
      for (const sha256 of names.filter(isSha256)) {
        if (isNeeded(sha256)) continue;
        const freed = await this.#alone(sha256, () => removeUnless(() => isNeeded(sha256), fan, sha256));
        if (freed === undefined) continue;
        removed++;
        bytes += freed;
      }
    }
    return { removed, bytes };
  }

  async #put(hold: StoreHold, source: BlobSource): Promise<StoredBlob> {
    if (source instanceof ReadableStream) return this.#putStream(hold, source);
    const blob = source instanceof Blob ? source : new Blob([source]);
    if (blob.size <= WHOLE_LIMIT_BYTES) return this.#putWhole(hold, await bytesOf(blob));
    // Hashed before it is written, so that a large blob that is there already needs no space for a second copy.
    const sha256 = await digestBlob(blob);
    const state = await this.#keep(hold, sha256, blob.size);
    return state === "ok" ? { sha256, sizeBytes: blob.size } : this.#putStream(hold, blob.stream());
  }

  async #putWhole(hold: StoreHold, bytes: Bytes): Promise<StoredBlob> {
    const sha256 = await digestWhole(bytes);
    const sizeBytes = bytes.length;
    await this.#alone(sha256, async () => {
      this.#protect(hold, sha256);
      if ((await this.#read(sha256, sizeBytes)) === "ok") return;
      await this.#writing([bytes], (temporary) => this.#settle(temporary, sha256));
    });
    return { sha256, sizeBytes };
  }

  /** The digest is known only when all is written. */
  #putStream(hold: StoreHold, source: ReadableStream<Bytes>): Promise<StoredBlob> {
    const running = new RunningDigest();
    return this.#writing(hashed(chunksOf(source), running), async (temporary) => {
      const sha256 = running.finish();
      const { sizeBytes } = temporary.written;
      await this.#alone(sha256, async () => {
        this.#protect(hold, sha256);
        if ((await this.#read(sha256, sizeBytes)) !== "ok") await this.#settle(temporary, sha256);
      });
      return { sha256, sizeBytes };
    });
  }

  #keep(hold: StoreHold, sha256: Sha256, sizeBytes: number): Promise<BlobState> {
    return this.#alone(sha256, () => {
      this.#protect(hold, sha256);
      return this.#read(sha256, sizeBytes);
    });
  }

  /** From here on no collection takes the blob, also none that is under way. */
  #protect(hold: StoreHold, sha256: Sha256): void {
    if (!this.#holds.has(hold)) throw new LedgerError("hold_released", "this hold was released before");
    hold.held.add(sha256);
    for (const spared of this.#collections) spared.add(sha256);
  }

  /** Writes the chunks to a temporary file, reads it back, gives it to `work`, and leaves nothing of it behind. */
  async #writing<Result>(
    chunks: AsyncIterable<Bytes> | Iterable<Bytes>,
    work: (temporary: Temporary) => Promise<Result>,
  ): Promise<Result> {
    const name = crypto.randomUUID();
    try {
      const handle = await storing(() => this.#temporaries.getFileHandle(name, { create: true }));
      const written = await writeDurably(handle, chunks);
      if (!(await readsBack(handle, written))) throw notStored(written);
      return await work({ handle, written });
    } finally {
      await discard(this.#temporaries, name);
    }
  }

  /** Moves a temporary file to the blob's place, over a damaged one if need be. */
  #settle({ handle, written }: Temporary, sha256: Sha256): Promise<void> {
    return storing(async () => {
      const fan = await this.#blobs.getDirectoryHandle(sha256.slice(0, 2), { create: true });
      if (handle.move !== undefined) {
        await handle.move(fan, sha256);
        return;
      }
      // A crash in here leaves a damaged blob, which `check` reports and the next `put` replaces.
      const copy = await fan.getFileHandle(sha256, { create: true });
      await writeDurably(copy, chunksOfFile(handle));
      if (!(await readsBack(copy, written))) throw notStored(written);
    });
  }

  async #read(sha256: Sha256, sizeBytes?: number): Promise<BlobState> {
    const found = await this.#find(sha256);
    if (found === undefined) return "missing";
    if (sizeBytes !== undefined && found.file.size !== sizeBytes) return "damaged";
    try {
      return (await digestFile(found.handle)) === sha256 ? "ok" : "damaged";
    } catch {
      // A file that is there and can't be read is no use, whatever the reason.
      return "damaged";
    }
  }

  async #find(sha256: Sha256): Promise<{ handle: FileSystemFileHandle; file: File } | undefined> {
    requireSha256(sha256);
    try {
      const fan = await this.#blobs.getDirectoryHandle(sha256.slice(0, 2));
      const handle = await fan.getFileHandle(sha256);
      return { handle, file: await handle.getFile() };
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw fileError(error, `opening the blob ${sha256}`);
    }
  }

  /** Runs work on one blob after all earlier work on it, so that it is never removed while it is found or placed. */
  async #alone<Result>(sha256: Sha256, work: () => Promise<Result>): Promise<Result> {
    const before = this.#busy.get(sha256) ?? Promise.resolve();
    const running = before.then(work);
    const settled = running.catch(() => {});
    this.#busy.set(sha256, settled);
    try {
      return await running;
    } finally {
      if (this.#busy.get(sha256) === settled) this.#busy.delete(sha256);
    }
  }
}

interface HoldActions {
  put(source: BlobSource): Promise<StoredBlob>;
  keep(sha256: Sha256, sizeBytes: number): Promise<BlobState>;
  release(): void;
}

class StoreHold implements Hold {
  /** What no collection may take. */
  readonly held = new Set<Sha256>();
  readonly #sound = new Map<Sha256, number>();
  readonly #actions: HoldActions;

  constructor(actions: HoldActions) {
    this.#actions = actions;
  }

  async put(source: BlobSource): Promise<StoredBlob> {
    const stored = await this.#actions.put(source);
    this.#sound.set(stored.sha256, stored.sizeBytes);
    return stored;
  }

  async keep(sha256: Sha256, sizeBytes: number): Promise<BlobState> {
    const state = await this.#actions.keep(sha256, sizeBytes);
    if (state === "ok") this.#sound.set(sha256, sizeBytes);
    return state;
  }

  has(sha256: Sha256, sizeBytes: number): boolean {
    return this.#sound.get(sha256) === sizeBytes;
  }

  release(): void {
    this.#actions.release();
  }
}

async function* hashed(chunks: AsyncIterable<Bytes>, running: RunningDigest): AsyncGenerator<Bytes> {
  for await (const chunk of chunks) {
    running.update(chunk);
    yield chunk;
  }
}

function notStored({ sizeBytes }: Written): StorageUnavailableError {
  const message = "what was written does not read back as it was";
  return new StorageUnavailableError("blob_not_stored", message, { sizeBytes });
}

async function removeUnless(
  isNeeded: () => boolean,
  fan: FileSystemDirectoryHandle,
  sha256: Sha256,
): Promise<number | undefined> {
  const { size } = await (await fan.getFileHandle(sha256)).getFile();
  // Asked right before the removal starts: whoever protects the blob later waits for its end, and writes it again.
  if (isNeeded()) return undefined;
  await fan.removeEntry(sha256);
  return size;
}

/** A file that a dying worker still holds stays until the next opening; one that was moved away is not there. */
async function discard(directory: FileSystemDirectoryHandle, name: string): Promise<void> {
  await directory.removeEntry(name).catch(() => {});
}

function isSha256(text: string): text is Sha256 {
  return /^[0-9a-f]{64}$/.test(text);
}

function requireSha256(text: string): void {
  if (isSha256(text)) return;
  throw invalidInput("blob store", "sha256", "a SHA-256 digest of 64 lower-case hex digits");
}
