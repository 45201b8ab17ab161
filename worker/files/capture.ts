import type { Sha256 } from "../../src/proof/sha256.ts";
import { invalidInput, StorageUnavailableError } from "../../src/protocol/errors.ts";
import type { SkippedPath, Tree, TreeEntry } from "../../src/protocol/workspace.ts";
import type { Hold, StoredBlob } from "./blob-store.ts";
import { digestBlob } from "./digest.ts";
import { normalisePath } from "./paths.ts";
import { encodeTree, putTree, treeEntry } from "./tree.ts";
import { type Found, isRefusal, type SkipReason, type WalkOptions, walk } from "./walk.ts";

const DEFAULT_MAX_FILE_BYTES = 64 * 1_048_576;
const DEFAULT_MAX_FILES = 100_000;

/** How often a file that changes while it is read is read, before it is skipped. */
const MAX_READINGS = 3;

/** A write can leave the time of a file as it was if it comes this soon after another (FAT counts in 2 s). */
const TIME_GRAIN_MS = 2_000;

/** Files that are read at a time: much of the time of a small file is waiting for the browser. */
const LANES = 8;

export interface CaptureOptions {
  /** Larger files are skipped as `too_large`. Default 64 MiB. */
  readonly maxFileBytes?: number;
  /** Paths, relative to the workspace, of files and directories to leave out. */
  readonly exclude?: readonly string[];
  /** More files than this are refused. Default 100,000. */
  readonly maxFiles?: number;
  /** Aborts between two files, with its own reason. */
  readonly signal?: AbortSignal;
}

/** A workspace as it was found: its tree, and what a restore must know besides. */
export interface Observation extends Tree {
  /** All directories that were walked, empty ones too, which a tree does not record. */
  readonly directories: readonly string[];
  /** How the workspace spells the last part of a path, where that is not in NFC as the tree has it. */
  readonly spellings: ReadonlyMap<string, string>;
}

/**
 * Stores the files of a workspace and their tree (spec/session_store 3.3). The same files give the same tree id in every
 * browser and realm. The hold must be kept until what names the tree is committed.
 *
 * Files that look like secrets by name are left out; secrets inside of other files are captured (W45).
 *
 * @throws ValidationError `invalid_path` (exclude), `invalid_input` (limits), `too_many_files`, `too_deep`, `tree_too_large`.
 * @throws StorageUnavailableError `workspace_unreadable`; or the store failed.
 * @throws StorageFullError no space is left for the blobs.
 */
export async function capture(
  directory: FileSystemDirectoryHandle,
  hold: Hold,
  options: CaptureOptions = {},
): Promise<Observation> {
  const { entries, skipped, ...surroundings } = await readAll(directory, options, (file) => hold.put(file));
  return { ...(await putTree(hold, entries, skipped)), ...surroundings };
}

/**
 * What `capture` would return, with nothing written (W35).
 *
 * @throws ValidationError, StorageUnavailableError as `capture`.
 */
export async function observe(
  directory: FileSystemDirectoryHandle,
  options: CaptureOptions = {},
): Promise<Observation> {
  const read = await readAll(directory, options, async (file) => ({
    sha256: await digestBlob(file),
    sizeBytes: file.size,
  }));
  const { manifest: _, ...tree } = encodeTree(read.entries, read.skipped);
  return { ...tree, directories: read.directories, spellings: read.spellings };
}

/** Takes a file's bytes, at least to know their digest. */
type Take = (file: File) => Promise<StoredBlob>;

interface Reading {
  readonly entries: TreeEntry[];
  readonly skipped: SkippedPath[];
  readonly directories: string[];
  readonly spellings: Map<string, string>;
}

async function readAll(
  directory: FileSystemDirectoryHandle,
  options: CaptureOptions,
  take: Take,
): Promise<Reading> {
  const maxFileBytes = limit("maxFileBytes", options.maxFileBytes ?? DEFAULT_MAX_FILE_BYTES);
  const found = walk(directory, walkOptions(options));
  const reading: Reading = { entries: [], skipped: [], directories: [], spellings: new Map() };
  const lane = async () => {
    for await (const each of found) {
      options.signal?.throwIfAborted();
      await add(reading, each, (handle) => readStable(handle, maxFileBytes, take));
    }
  };
  // Nothing may still be reading or storing when this returns, also when it throws.
  const lanes = await Promise.allSettled(Array.from({ length: LANES }, lane));
  for (const each of lanes) if (each.status === "rejected") throw each.reason;
  reading.directories.sort();
  return reading;
}

function walkOptions({ exclude = [], maxFiles = DEFAULT_MAX_FILES }: CaptureOptions): WalkOptions {
  const paths = exclude.map((path, index) => normalisePath(path, `exclude[${index}]`));
  return { exclude: new Set(paths), maxFiles: limit("maxFiles", maxFiles) };
}

async function add(
  { entries, skipped, directories, spellings }: Reading,
  found: Found,
  read: (handle: FileSystemFileHandle) => Promise<StoredBlob | SkipReason>,
): Promise<void> {
  if (found.kind === "skipped") {
    skipped.push({ path: found.path, reason: found.reason });
    return;
  }
  if (found.spelling !== undefined) spellings.set(found.path, found.spelling);
  if (found.kind === "directory") {
    directories.push(found.path);
    return;
  }
  const blob = await read(found.handle);
  if (typeof blob === "string") skipped.push({ path: found.path, reason: blob });
  else entries.push(treeEntry(found.path, blob.sha256, blob.sizeBytes));
}

/** Reads a file until one reading saw one state of it: a mix of two is never taken (spec/session_store 3.3, read safety). */
async function readStable(
  handle: FileSystemFileHandle,
  maxFileBytes: number,
  take: Take,
): Promise<StoredBlob | SkipReason> {
  for (let reading = 0; reading < MAX_READINGS; reading++) {
    try {
      const file = await handle.getFile();
      if (file.size > maxFileBytes) return "too_large";
      const blob = await take(file);
      if (await isUnchanged(handle, file, blob.sha256)) return blob;
    } catch (error) {
      // What the store throws is typed. A DOMException is the workspace's: changed or removed since, or not to be read.
      if (!(error instanceof DOMException)) throw error;
      if (isRefusal(error)) throw permissionLost();
    }
  }
  return "unreadable";
}

/**
 * Whether the file is still what was read. Size and time tell, unless the time is so fresh that a later write may have
 * left it as it is; then the bytes do. One gap is known: in Chromium's private windows, where files are in memory, a
 * synchronous handle's writes never move the time of a file. For that reason time and size are no cache key here (W34).
 */
async function isUnchanged(handle: FileSystemFileHandle, read: File, sha256: Sha256): Promise<boolean> {
  const now = await handle.getFile();
  if (now.size !== read.size || now.lastModified !== read.lastModified) return false;
  const isFresh = Date.now() - read.lastModified < TIME_GRAIN_MS;
  return !isFresh || (await digestBlob(now)) === sha256;
}

function permissionLost(): StorageUnavailableError {
  return new StorageUnavailableError(
    "workspace_unreadable",
    "the permission to read the workspace was taken back",
    { reason: "NotAllowedError" },
  );
}

function limit(field: string, value: number): number {
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw invalidInput("capture", field, "an integer from 1 to 2^53-1");
}
