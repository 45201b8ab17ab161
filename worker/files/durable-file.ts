import type { Sha256 } from "../../src/proof/sha256.ts";
import { StorageFullError } from "../../src/protocol/errors.ts";
import { type Bytes, digestBlob } from "./digest.ts";
import { fileError } from "./file-error.ts";
import "./opfs.ts";

/** Writes all chunks, flushes them to the disk and closes the file; answers its size. Reading errors pass unchanged. */
export async function writeDurably(
  handle: FileSystemFileHandle,
  chunks: AsyncIterable<Bytes>,
): Promise<number> {
  const access = await storing(() => handle.createSyncAccessHandle());
  try {
    await storing(() => access.truncate(0));
    let at = 0;
    for await (const chunk of chunks) at += await storing(() => writeAll(access, chunk, at));
    await storing(() => access.flush());
    return at;
  } finally {
    access.close();
  }
}

function writeAll(access: FileSystemSyncAccessHandle, chunk: Bytes, at: number): number {
  let done = 0;
  while (done < chunk.length) {
    // A full disk can show as a short count instead of an error.
    const written = access.write(chunk.subarray(done), { at: at + done });
    if (!(written > 0))
      throw new StorageFullError("storage_full", "no space is left for a blob", { reason: "short write" });
    done += written;
  }
  return done;
}

/**
 * The digest of a closed file as others will read it. It costs one more reading of what was just written, mostly from
 * memory: about as long as hashing takes, a fifth of storing a small blob, half of storing a large one.
 */
export function readBack(handle: FileSystemFileHandle, sizeBytes: number): Promise<Sha256 | undefined> {
  return storing(async () => {
    const file = await handle.getFile();
    return file.size === sizeBytes ? digestBlob(file) : undefined;
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
