import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import type { Sha256 } from "../../src/proof/sha256.ts";
import { invalidInput, type ValidationError } from "../../src/protocol/errors.ts";

/** Bytes in memory of their own, which file writers ask for. */
export type Bytes = Uint8Array<ArrayBuffer>;

export type ByteSource = Blob | ReadableStream<Bytes>;

/** How much of a large file is in memory at a time. */
const CHUNK_BYTES = 1_048_576;

/**
 * Up to here a file is read and hashed whole by the browser's own SHA-256, which was measured to be 14 times faster than
 * one in JavaScript (670 against 47 MB/s) and runs outside of the host's thread. It can't be fed in chunks.
 */
export const WHOLE_LIMIT_BYTES = 8 * CHUNK_BYTES;

/**
 * The bytes of a blob or a stream in chunks of 1 MiB, the last one shorter. A chunk is good until the next is asked for.
 * Throws what reading the source throws.
 */
export async function* chunksOf(source: ByteSource): AsyncGenerator<Bytes> {
  const stream = source instanceof Blob ? source.stream() : source;
  const chunk = new Uint8Array(CHUNK_BYTES);
  let filled = 0;
  for await (const piece of stream) {
    if (!(piece instanceof Uint8Array)) throw notBytes();
    for (let at = 0; at < piece.length; ) {
      const part = piece.subarray(at, at + CHUNK_BYTES - filled);
      chunk.set(part, filled);
      filled += part.length;
      at += part.length;
      if (filled < CHUNK_BYTES) continue;
      yield chunk;
      filled = 0;
    }
  }
  if (filled > 0) yield chunk.subarray(0, filled);
}

/**
 * The bytes of a file in OPFS, in the same chunks. One buffer serves for all: what reading it as a `Blob` leaves to the
 * collector was measured to pile up to twice a large file's size.
 */
export async function* chunksOfFile(handle: FileSystemFileHandle): AsyncGenerator<Bytes> {
  const access = await openToRead(handle);
  if (access === undefined) {
    yield* chunksOf(await handle.getFile());
    return;
  }
  try {
    const chunk = new Uint8Array(CHUNK_BYTES);
    for (let at = 0, length = 0; ; at += length) {
      length = access.read(chunk, { at });
      if (length === 0) return;
      yield chunk.subarray(0, length);
    }
  } finally {
    access.close();
  }
}

/** Undefined while another has the file open to write, as a worker that is gone can have for a moment. */
async function openToRead(handle: FileSystemFileHandle): Promise<FileSystemSyncAccessHandle | undefined> {
  try {
    return await handle.createSyncAccessHandle({ mode: "read-only" });
  } catch {
    return undefined;
  }
}

/** Anything else would be saved as other bytes than its owner meant. */
function notBytes(): ValidationError {
  return invalidInput("artifacts.save", "bytes", "a stream of Uint8Arrays");
}

/**
 * All bytes of a blob.
 *
 * @throws DOMException the blob is of a file that was changed or removed since `getFile()`.
 */
export async function bytesOf(blob: Blob): Promise<Bytes> {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  // A file in memory (Chromium's private windows) that shrank reads short without an error.
  if (bytes.length !== blob.size)
    throw new DOMException("the file became shorter while it was read", "NotReadableError");
  return bytes;
}

/** SHA-256 of bytes that are in memory, by the browser. */
export async function digestWhole(bytes: Bytes): Promise<Sha256> {
  return bytesToHex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))) as Sha256;
}

/** SHA-256 of a blob, however large, with little of it in memory. Throws what reading the blob throws. */
export async function digestBlob(blob: Blob): Promise<Sha256> {
  return blob.size <= WHOLE_LIMIT_BYTES ? digestWhole(await bytesOf(blob)) : digestChunks(chunksOf(blob));
}

/** The same for a file in OPFS. */
export async function digestFile(handle: FileSystemFileHandle): Promise<Sha256> {
  const file = await handle.getFile();
  return file.size <= WHOLE_LIMIT_BYTES ? digestBlob(file) : digestChunks(chunksOfFile(handle));
}

async function digestChunks(chunks: AsyncIterable<Bytes>): Promise<Sha256> {
  const running = new RunningDigest();
  for await (const chunk of chunks) running.update(chunk);
  return running.finish();
}

/** A SHA-256 that is fed chunk by chunk. */
export class RunningDigest {
  readonly #hash = sha256.create();

  update(bytes: Uint8Array): void {
    this.#hash.update(bytes);
  }

  finish(): Sha256 {
    return bytesToHex(this.#hash.digest()) as Sha256;
  }
}
