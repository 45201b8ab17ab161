import { expose } from "comlink";
import type { Sha256 } from "../../src/proof/index.ts";
import type { Reply } from "../../src/protocol/wire.ts";
import type { SkippedPath, TreeEntry } from "../../src/protocol/workspace.ts";
import { type BlobStore, type Hold, openBlobStore, type StoredBlob } from "../../worker/files/blob-store.ts";
import { type CaptureOptions, capture, observe } from "../../worker/files/capture.ts";
import { type Bytes, RunningDigest } from "../../worker/files/digest.ts";
import { materialise, previewRestore, type RestoreOptions, restore } from "../../worker/files/restore.ts";
import { checkTree, getTree, markTrees, putTree, verifyTree } from "../../worker/files/tree.ts";
import { reply } from "../../worker/reply.ts";

/** What tests ask of the store, in the worker where it lives. Holds and puts under way go by numbers. */
const operations = {
  async open(directory: FileSystemDirectoryHandle): Promise<void> {
    opened = await openBlobStore(directory);
  },

  async hold(): Promise<number> {
    return holds.push(store().hold()) - 1;
  },
  async put(hold: number, source: Bytes | Blob): Promise<StoredBlob> {
    return holdOf(hold).put(source);
  },
  async keep(hold: number, sha256: Sha256, sizeBytes: number) {
    return holdOf(hold).keep(sha256, sizeBytes);
  },
  async release(hold: number): Promise<void> {
    holdOf(hold).release();
  },

  /** Starts to store a stream that ends only when `finishPut` is called; resolves once its first bytes are written. */
  async beginPut(hold: number, bytes: Bytes): Promise<number> {
    const { readable, writable } = new TransformStream<Bytes, Bytes>();
    const writer = writable.getWriter();
    const stored = holdOf(hold).put(readable);
    stored.catch(() => {});
    const number = puts.push({ writer, stored }) - 1;
    await writer.write(bytes);
    await writer.ready;
    return number;
  },
  async finishPut(number: number): Promise<StoredBlob> {
    const { writer, stored } = putOf(number);
    await writer.close();
    return stored;
  },
  async abortPut(number: number, reason: string): Promise<StoredBlob> {
    const { writer, stored } = putOf(number);
    await writer.abort(new LostSource(reason)).catch(() => {});
    return stored;
  },

  /** Stores a stream whose chunks are made one at a time, when they are asked for. */
  async putGenerated(hold: number, chunks: number, chunkBytes: number) {
    const expected = new RunningDigest();
    let made = 0;
    const source = new ReadableStream<Bytes>(
      {
        pull(controller) {
          if (made === chunks) return controller.close();
          const chunk = new Uint8Array(chunkBytes).fill(made++);
          expected.update(chunk);
          controller.enqueue(chunk);
        },
      },
      { highWaterMark: 0 },
    );
    const begin = performance.now();
    const stored = await holdOf(hold).put(source);
    return { stored, expected: expected.finish(), milliseconds: performance.now() - begin };
  },

  async has(sha256: Sha256) {
    return store().has(sha256);
  },
  async check(sha256: Sha256, sizeBytes?: number) {
    return store().check(sha256, sizeBytes);
  },
  async text(sha256: Sha256) {
    return (await store().open(sha256)).text();
  },
  async collect(referenced: readonly string[]) {
    return store().collect(() => (sha256) => {
      collectorAsked.stop();
      return referenced.includes(sha256);
    });
  },
  async collectAllBut(treeIds: readonly Sha256[]) {
    return store().collect(() => markTrees(store(), treeIds));
  },

  async putTree(hold: number, entries: readonly TreeEntry[], skipped: readonly SkippedPath[]) {
    return putTree(holdOf(hold), entries, skipped);
  },
  async getTree(treeId: Sha256) {
    return getTree(store(), treeId);
  },
  async checkTree(treeId: Sha256) {
    return checkTree(store(), treeId);
  },
  async verifyTree(treeId: Sha256) {
    return verifyTree(store(), treeId);
  },

  async capture(directory: FileSystemDirectoryHandle, hold: number, options: CaptureOptions = {}) {
    return capture(directory, holdOf(hold), options);
  },
  async captureAborted(directory: FileSystemDirectoryHandle, hold: number, reason: string) {
    return capture(directory, holdOf(hold), { signal: AbortSignal.abort(new Error(reason)) });
  },
  async observe(directory: FileSystemDirectoryHandle, options: CaptureOptions = {}) {
    return observe(directory, options);
  },

  async previewRestore(directory: FileSystemDirectoryHandle, target: Sha256, baseline: Sha256 | null) {
    return previewRestore(store(), directory, target, baseline);
  },
  async restore(
    directory: FileSystemDirectoryHandle,
    target: Sha256,
    baseline: Sha256 | null,
    options: RestoreOptions = {},
  ) {
    return restore(store(), directory, target, baseline, options);
  },
  async materialise(treeId: Sha256, directory: FileSystemDirectoryHandle, paths?: readonly string[]) {
    return materialise(store(), treeId, directory, paths);
  },

  /** The next writes of blobs write `bytes` more bytes and then fail as a full disk does. */
  async fillDisk(how: "throws" | "writes short", bytes: number): Promise<void> {
    let left = bytes;
    patchWrite((write, chunk, options) => {
      if (chunk.length <= left) {
        left -= chunk.length;
        return write(chunk, options);
      }
      if (how === "throws") throw new DOMException("no space", "QuotaExceededError");
      const taken = left;
      left = 0;
      return taken === 0 ? 0 : write(chunk.subarray(0, taken), options);
    });
  },
  /** Blobs are written with one bit of the first byte turned, as a failing disk would. */
  async turnBits(): Promise<void> {
    patchWrite((write, chunk, options) =>
      write(
        Uint8Array.from(chunk, (byte, i) => (i === 0 ? byte ^ 1 : byte)),
        options,
      ),
    );
  },
  /** From now on `written` tells the sizes of all writes of blobs. */
  async recordWrites(): Promise<void> {
    patchWrite((write, chunk, options) => {
      written.push(chunk.length);
      return write(chunk, options);
    });
  },
  async written(): Promise<number[]> {
    return written.splice(0);
  },
  async withoutMove(): Promise<void> {
    Reflect.deleteProperty(FileSystemFileHandle.prototype, "move");
  },
  /** Holds a file as a writer does that is about to die. */
  async lock(handle: FileSystemFileHandle): Promise<void> {
    await handle.createSyncAccessHandle();
  },

  /** The next opening or removal of a blob's file stops right before it happens. */
  async pauseNext(step: "getFile" | "removeEntry"): Promise<void> {
    paused = pause();
    const isBlob = (name: string) => /^[0-9a-f]{64}$/.test(name);
    const { removeEntry } = FileSystemDirectoryHandle.prototype;
    const { getFile } = FileSystemFileHandle.prototype;
    if (step === "removeEntry") {
      FileSystemDirectoryHandle.prototype.removeEntry = async function (name, options) {
        if (isBlob(name)) await paused.stop();
        return removeEntry.call(this, name, options);
      };
    } else {
      FileSystemFileHandle.prototype.getFile = async function () {
        if (isBlob(this.name)) await paused.stop();
        return getFile.call(this);
      };
    }
  },
  /** Resolves when it has stopped. */
  async untilPaused(): Promise<void> {
    await paused.stopped;
  },
  async resume(): Promise<void> {
    paused.resume();
  },
  /** Resolves when a collection has asked for the first time whether a blob is referenced. */
  async untilCollectorAsks(): Promise<void> {
    await collectorAsked.stopped;
  },

  /** Each time the named file is opened for reading, the next of the contents is written into it in place. */
  async changeWhenOpened(name: string, contents: string[]): Promise<void> {
    const getFile = FileSystemFileHandle.prototype.getFile;
    FileSystemFileHandle.prototype.getFile = async function () {
      const file = await getFile.call(this);
      const next = this.name === name ? contents.shift() : undefined;
      if (next !== undefined) await overwrite(this, next);
      return file;
    };
  },
  /** Right before the named file is opened for writing, something else is written into it. */
  async changeBeforeWriting(name: string, path: FileSystemFileHandle, content: string): Promise<void> {
    const createWritable = FileSystemFileHandle.prototype.createWritable;
    FileSystemFileHandle.prototype.createWritable = async function (options) {
      if (this.name === name) await overwrite(path, content);
      return createWritable.call(this, options);
    };
  },
  /** Reading the named file fails with an error of this name. */
  async failReading(name: string, errorName: string): Promise<void> {
    const getFile = FileSystemFileHandle.prototype.getFile;
    FileSystemFileHandle.prototype.getFile = function () {
      if (this.name === name) throw new DOMException("as the test wants it", errorName);
      return getFile.call(this);
    };
  },
  /** Listing the named directory fails with an error of this name. */
  async failListing(name: string, errorName: string): Promise<void> {
    const { entries } = FileSystemDirectoryHandle.prototype;
    FileSystemDirectoryHandle.prototype.entries = function () {
      if (this.name === name) throw new DOMException("as the test wants it", errorName);
      return entries.call(this);
    };
  },
  /** What is written to the workspace has one bit of its first byte turned. */
  async turnWorkspaceBits(): Promise<void> {
    const createWritable = FileSystemFileHandle.prototype.createWritable;
    FileSystemFileHandle.prototype.createWritable = async function (options) {
      const writable = await createWritable.call(this, options);
      const write = writable.write.bind(writable);
      writable.write = (chunk) =>
        write((chunk as Bytes).map((byte, index) => (index === 0 ? byte ^ 1 : byte)));
      return writable;
    };
  },
  /** Writing to the named file fails with an error of this name, when it was opened already. */
  async failWriting(name: string, errorName: string): Promise<void> {
    const createWritable = FileSystemFileHandle.prototype.createWritable;
    FileSystemFileHandle.prototype.createWritable = async function (options) {
      const writable = await createWritable.call(this, options);
      if (this.name === name)
        writable.write = () => Promise.reject(new DOMException("as the test wants it", errorName));
      return writable;
    };
  },
};

class LostSource extends Error {
  override readonly name = "LostSource";
}

let opened: BlobStore | undefined;
const holds: Hold[] = [];
const puts: { writer: WritableStreamDefaultWriter<Bytes>; stored: Promise<StoredBlob> }[] = [];
const written: number[] = [];
const collectorAsked = pause();
let paused = pause();

function store(): BlobStore {
  if (opened === undefined) throw new Error("open the store first");
  return opened;
}

function holdOf(number: number): Hold {
  const hold = holds[number];
  if (hold === undefined) throw new Error("no such hold");
  return hold;
}

function putOf(number: number) {
  const put = puts[number];
  if (put === undefined) throw new Error("no such put");
  return put;
}

function pause() {
  const arrived = Promise.withResolvers<void>();
  const resumed = Promise.withResolvers<void>();
  return {
    stopped: arrived.promise,
    resume: () => resumed.resolve(),
    stop: () => {
      arrived.resolve();
      return resumed.promise;
    },
  };
}

type Write = FileSystemSyncAccessHandle["write"];

function patchWrite(replacement: (write: Write, ...parameters: Parameters<Write>) => number): void {
  const prototype = (
    globalThis as unknown as { FileSystemSyncAccessHandle: { prototype: FileSystemSyncAccessHandle } }
  ).FileSystemSyncAccessHandle.prototype;
  const { write } = prototype;
  prototype.write = function (chunk, options) {
    return replacement((...parameters) => write.apply(this, parameters), chunk, options);
  };
}

async function overwrite(handle: FileSystemFileHandle, content: string): Promise<void> {
  const access = await handle.createSyncAccessHandle();
  const bytes = new TextEncoder().encode(content);
  access.truncate(bytes.length);
  access.write(bytes, { at: 0 });
  access.flush();
  access.close();
}

type Operations = typeof operations;

/** The operations as the page sees them. */
export type FilesClient = {
  [Name in keyof Operations]: (
    ...parameters: Parameters<Operations[Name]>
  ) => Promise<Awaited<ReturnType<Operations[Name]>>>;
};

export interface FilesHost {
  call(name: keyof Operations, parameters: readonly unknown[]): Promise<Reply<unknown>>;
}

const host: FilesHost = {
  call: (name, parameters) =>
    reply(() => (operations[name] as (...all: unknown[]) => Promise<unknown>)(...parameters)),
};

expose(host);
