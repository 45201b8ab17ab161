import type { Sha256 } from "../../src/proof/sha256.ts";
import { StorageFullError } from "../../src/protocol/errors.ts";
import { type Bytes, bytesOf, chunksOfFile, digestWhole } from "./digest.ts";
import { fileError } from "./file-error.ts";
import "./opfs.ts";

/** What was written to a file, to be compared with what it holds. */
export interface Written {
  readonly sizeBytes: number;
  /** Of its chunks, in order: those the browser computes itself, which it can't for all in one. */
  readonly digests: readonly Sha256[];
}

/**
 * Writes all chunks to a new file, flushes them to the disk and closes it. Several chunks must be those of `chunksOf`.
 * Errors in getting chunks pass unchanged.
 */
export async function writeDurably(
  handle: FileSystemFileHandle,
  source: AsyncIterable<Bytes> | Iterable<Bytes>,
): Promise<Written> {
  const access = await storing(() => handle.createSyncAccessHandle());
  try {
    const digests: Sha256[] = [];
    let sizeBytes = 0;
    await storing(() => access.truncate(0));
    for await (const chunk of source) {
      await storing(() => writeAll(access, chunk, sizeBytes));
      digests.push(await digestWhole(chunk));
      sizeBytes += chunk.length;
    }
    await storing(() => access.flush());
    return { sizeBytes, digests };
  } finally {
    access.close();
  }
}

function writeAll(access: FileSystemSyncAccessHandle, chunk: Bytes, at: number): void {
  for (let done = 0; done < chunk.length; ) {
    // A full disk can show as a short count instead of an error.
    const written = access.write(chunk.subarray(done), { at: at + done });
    if (!(written > 0))
      throw new StorageFullError("storage_full", "no space is left for a blob", { reason: "short write" });
    done += written;
  }
}

/**
 * Whether a closed file, opened as others will open it, has the size and the bytes that were written. It costs one more
 * reading, mostly from memory, and the browser's own hashing: a tenth of the time of storing a large stream.
 */
export function readsBack(handle: FileSystemFileHandle, written: Written): Promise<boolean> {
  return storing(async () => {
    const file = await handle.getFile();
    if (file.size !== written.sizeBytes) return false;
    const chunks = written.digests.length === 1 ? [await bytesOf(file)] : chunksOfFile(handle);
    const digests: Sha256[] = [];
    for await (const chunk of chunks) digests.push(await digestWhole(chunk));
    return digests.join() === written.digests.join();
  });
}

/** Runs a step of storing a blob; what fails in it is the store's failure, not the source's. */
export async function storing<Result>(work: () => Result | Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    throw fileError(error, "storing a blob");
  }
}
