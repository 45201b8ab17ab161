import { wrap } from "comlink";
import { test as base, vi } from "vitest";
import type { Sha256 } from "../../src/proof/index.ts";
import { fromWireError } from "../../src/protocol/errors.ts";
import type { FilesClient, FilesHost } from "./files.worker.ts";

/** A store and a workspace in OPFS, and the worker that owns the store. */
export interface Place {
  readonly files: FilesClient;
  readonly storage: FileSystemDirectoryHandle;
  readonly workspace: FileSystemDirectoryHandle;
  /** A new worker with the store open, as after a reload; the one before is ended. */
  restart(): Promise<FilesClient>;
}

/** A test with an empty store and an empty workspace of its own, removed afterwards. */
export const test = base.extend<{ place: Place }>({
  place: async ({ task: _ }, use) => {
    const name = `files-${crypto.randomUUID()}`;
    const root = await (await navigator.storage.getDirectory()).getDirectoryHandle(name, { create: true });
    const storage = await root.getDirectoryHandle("store", { create: true });
    const workspace = await root.getDirectoryHandle("workspace", { create: true });
    const workers: Worker[] = [];
    const restart = async () => {
      workers.at(-1)?.terminate();
      const files = startFiles(workers);
      await files.open(storage);
      return files;
    };
    await use({ files: await restart(), storage, workspace, restart });
    for (const worker of workers) worker.terminate();
    await removeEventually(name);
  },
});

/** A worker with the operations of `files.worker.ts`, added to the list for its ending. */
export function startFiles(workers: Worker[]): FilesClient {
  const worker = new Worker(new URL("./files.worker.ts", import.meta.url), { type: "module" });
  workers.push(worker);
  const remote = wrap<FilesHost>(worker);
  const call = async (name: keyof FilesClient, parameters: readonly unknown[]) => {
    const reply = await remote.call(name, parameters);
    if (reply.ok) return reply.value;
    throw fromWireError(reply.error);
  };
  return new Proxy({} as FilesClient, {
    get: (_, name) =>
      name === "then" ? undefined : (...all: unknown[]) => call(name as keyof FilesClient, all),
  });
}

/** A terminated worker can keep its file handles for a moment. */
async function removeEventually(name: string): Promise<void> {
  const root = await navigator.storage.getDirectory();
  await vi.waitFor(() => root.removeEntry(name, { recursive: true }), { timeout: 10_000 });
}

export type Contents = Readonly<Record<string, string>>;

/** Writes files by their paths, with the directories that they need. */
export async function writeFiles(root: FileSystemDirectoryHandle, contents: Contents): Promise<void> {
  for (const [path, content] of Object.entries(contents)) {
    const writable = await (await fileAt(root, path, true)).createWritable();
    await writable.write(content);
    await writable.close();
  }
}

/** The handle of a file by its path, taken as it is spelled. */
export async function fileAt(
  root: FileSystemDirectoryHandle,
  path: string,
  create = false,
): Promise<FileSystemFileHandle> {
  const parts = path.split("/");
  const name = parts.pop() ?? "";
  let directory = root;
  for (const part of parts) directory = await directory.getDirectoryHandle(part, { create });
  return directory.getFileHandle(name, { create });
}

/** Removes a file, or a directory with all that is in it. */
export async function remove(root: FileSystemDirectoryHandle, path: string): Promise<void> {
  const parts = path.split("/");
  const name = parts.pop() ?? "";
  let directory = root;
  for (const part of parts) directory = await directory.getDirectoryHandle(part);
  await directory.removeEntry(name, { recursive: true });
}

/** Removes all that is in a directory. */
export async function empty(directory: FileSystemDirectoryHandle): Promise<void> {
  const names: string[] = [];
  for await (const name of directory.keys()) names.push(name);
  for (const name of names) await directory.removeEntry(name, { recursive: true });
}

/** All files below a directory, by their paths. */
export async function readFiles(root: FileSystemDirectoryHandle, prefix = ""): Promise<Contents> {
  const contents: Record<string, string> = {};
  for await (const [name, handle] of root.entries()) {
    if (handle.kind === "file") contents[prefix + name] = await (await handle.getFile()).text();
    else Object.assign(contents, await readFiles(handle, `${prefix}${name}/`));
  }
  return contents;
}

/** Where the store keeps a blob. */
export function blobPath(sha256: Sha256): string {
  return `blobs/${sha256.slice(0, 2)}/${sha256}`;
}
