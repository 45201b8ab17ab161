import type { Sha256 } from "../../src/proof/sha256.ts";
import { LedgerConflictError, StorageUnavailableError } from "../../src/protocol/errors.ts";
import type { BlobStore } from "./blob-store.ts";
import { chunksOf, digestBlob } from "./digest.ts";
import { isNotFound, isTypeMismatch } from "./file-error.ts";
import { normalisePath } from "./paths.ts";

/**
 * The files of a workspace by their stored paths, for writing. Every path is normalised again before it is used and
 * handles reach only downwards, so nothing outside of the directory can be named (spec/session_store 3.6). Links are not
 * followed knowingly (W5): OPFS has none, and in a folder that the user picked the API shows only what they point to.
 */
export class Workspace {
  readonly #root: FileSystemDirectoryHandle;
  readonly #spellings: ReadonlyMap<string, string>;

  /** `spellings`: how the workspace spells the last part of a path where that is not in NFC. */
  constructor(root: FileSystemDirectoryHandle, spellings: ReadonlyMap<string, string> = new Map()) {
    this.#root = root;
    this.#spellings = spellings;
  }

  /** The digest of the file at the path now; null if there is none. */
  async digest(path: string): Promise<Sha256 | null> {
    try {
      const { directory, name } = await this.#locate(path, false);
      return await digestBlob(await (await directory.getFileHandle(name)).getFile());
    } catch (error) {
      if (isNotFound(error)) return null;
      throw clashOr(error, path);
    }
  }

  /**
   * Writes a blob to the path and reads it back. What was there stays whole until the new bytes are (W24): browsers
   * write beside the file and replace it when the writer is closed. A path that is new is an empty file until then.
   *
   * `createWritable` is what works both in OPFS and in a folder that the user picked.
   *
   * @throws LedgerConflictError `path_clash`, a file or directory is in the way.
   * @throws StorageUnavailableError `write_not_verified`. Other failures of the file system pass as they are.
   */
  async write(path: string, blob: Sha256, store: BlobStore): Promise<void> {
    try {
      const { directory, name } = await this.#locate(path, true);
      const content = await store.open(blob);
      const handle = await replaceContent(directory, name, content);
      if ((await digestBlob(await handle.getFile())) === blob) return;
    } catch (error) {
      throw clashOr(error, path);
    }
    throw new StorageUnavailableError(
      "write_not_verified",
      `what was written to ${JSON.stringify(path)} does not read back as it was`,
      { path, sha256: blob },
    );
  }

  /** Removes a file; one that is gone already is as good. The directory stays. */
  async remove(path: string): Promise<void> {
    try {
      const { directory, name } = await this.#locate(path, false);
      await directory.removeEntry(name);
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  async #locate(
    path: string,
    create: boolean,
  ): Promise<{ directory: FileSystemDirectoryHandle; name: string }> {
    const parts = normalisePath(path).split("/");
    let directory = this.#root;
    let below = "";
    for (const part of parts.slice(0, -1)) {
      below += part;
      directory = await directory.getDirectoryHandle(this.#spellings.get(below) ?? part, { create });
      below += "/";
    }
    return { directory, name: this.#spellings.get(path) ?? parts.at(-1) ?? "" };
  }
}

async function replaceContent(
  directory: FileSystemDirectoryHandle,
  name: string,
  content: Blob,
): Promise<FileSystemFileHandle> {
  const existing = await existingFile(directory, name);
  const handle = existing ?? (await directory.getFileHandle(name, { create: true }));
  try {
    await writeAll(handle, content);
    return handle;
  } catch (error) {
    // What was there before is still there; what was not must not be left as an empty file.
    if (existing === undefined) await directory.removeEntry(name).catch(() => {});
    throw error;
  }
}

async function existingFile(
  directory: FileSystemDirectoryHandle,
  name: string,
): Promise<FileSystemFileHandle | undefined> {
  try {
    return await directory.getFileHandle(name);
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

async function writeAll(handle: FileSystemFileHandle, content: Blob): Promise<void> {
  const writable = await handle.createWritable();
  try {
    for await (const chunk of chunksOf(content)) await writable.write(chunk);
    await writable.close();
  } catch (error) {
    await writable.abort().catch(() => {});
    throw error;
  }
}

function clashOr(error: unknown, path: string): unknown {
  if (!isTypeMismatch(error)) return error;
  return new LedgerConflictError(
    "path_clash",
    `a directory is where ${JSON.stringify(path)} should be a file, or a file is above it`,
    { path },
  );
}
