import { StorageUnavailableError, ValidationError } from "../../src/protocol/errors.ts";
import {
  compareCodePoints,
  isExcludedDirectory,
  isSecretShaped,
  isSwapFile,
  MAX_PATH_DEPTH,
  nameProblem,
} from "./paths.ts";

/** Why a path of a workspace is not in its tree. Words only, the same on every machine (W46). */
export type SkipReason = "excluded" | "secret_or_excluded" | "too_large" | "unreadable" | "invalid_name";

/** What a walk meets, by its stored path. `spelling` is the directory's for its last part, if that is another one. */
export type Found =
  | { kind: "file"; path: string; spelling: string | undefined; handle: FileSystemFileHandle }
  | { kind: "directory"; path: string; spelling: string | undefined }
  | { kind: "skipped"; path: string; reason: SkipReason };

export interface WalkOptions {
  /** Stored paths of files and directories to leave out. */
  readonly exclude: ReadonlySet<string>;
  readonly maxFiles: number;
}

interface Place {
  readonly path: string;
  readonly depth: number;
  readonly handle: FileSystemDirectoryHandle;
}

/**
 * All that is below a directory, each directory in code-point order (spec/session_store 3.3). Links, devices and sockets
 * (`not_regular_file` there) don't exist in OPFS, and for a folder that the user picked the API does not tell them apart.
 *
 * @throws ValidationError `too_many_files`, `too_deep`.
 * @throws StorageUnavailableError `workspace_unreadable` the directory itself can't be listed, or permission was taken.
 */
export async function* walk(
  directory: FileSystemDirectoryHandle,
  options: WalkOptions,
): AsyncGenerator<Found> {
  const pending: Place[] = [{ path: "", depth: 0, handle: directory }];
  let files = 0;
  for (let place = pending.pop(); place !== undefined; place = pending.pop()) {
    const listed = await list(place);
    if (listed === undefined) {
      yield { kind: "skipped", path: place.path, reason: "unreadable" };
      continue;
    }
    for (const { name, handle, ...listing } of listed) {
      const path = place.path === "" ? name : `${place.path}/${name}`;
      const spelling = listing.spelling === name ? undefined : listing.spelling;
      const reason = skipReason(name, path, handle, options.exclude);
      if (handle.kind === "file" && ++files > options.maxFiles) throw tooMany(options.maxFiles);
      if (reason !== undefined) yield { kind: "skipped", path, reason };
      else if (handle.kind === "file") yield { kind: "file", path, spelling, handle };
      else {
        if (place.depth + 1 >= MAX_PATH_DEPTH) throw tooDeep(path);
        yield { kind: "directory", path, spelling };
        pending.push({ path, depth: place.depth + 1, handle });
      }
    }
  }
}

interface Listed {
  /** The name as a part of a stored path, or as it is when it can't be one. */
  readonly name: string;
  /** The name as the directory has it. */
  readonly spelling: string;
  readonly handle: FileSystemFileHandle | FileSystemDirectoryHandle;
}

/** What is in a directory, or undefined if it can't be read. */
async function list({ path, handle }: Place): Promise<Listed[] | undefined> {
  try {
    const listed: Listed[] = [];
    for await (const [spelling, entry] of handle.entries()) {
      // A browser's half-written file comes and goes with a write and is not the user's.
      if (entry.kind === "file" && isSwapFile(spelling)) continue;
      listed.push({ name: spelling.toWellFormed(), spelling, handle: entry });
    }
    return namedApart(listed);
  } catch (error) {
    if (path !== "" && !isRefusal(error)) return undefined;
    const reason = String(error);
    throw new StorageUnavailableError("workspace_unreadable", `the workspace can't be read: ${reason}`, {
      reason,
    });
  }
}

/** NFC names, in order. Of two spellings of one name the composed one has it; the other keeps its own, which no path can have. */
function namedApart(listed: readonly Listed[]): Listed[] {
  const taken = new Set(listed.map(({ spelling }) => spelling));
  const sorted = listed.toSorted((left, right) => compareCodePoints(left.spelling, right.spelling));
  return sorted.map((each) => {
    const composed = each.spelling.normalize("NFC");
    if (composed === each.spelling || taken.has(composed)) return each;
    taken.add(composed);
    return { ...each, name: composed };
  });
}

function skipReason(
  name: string,
  path: string,
  handle: FileSystemHandle,
  exclude: ReadonlySet<string>,
): SkipReason | undefined {
  if (nameProblem(name) !== undefined || name.normalize("NFC") !== name) return "invalid_name";
  if (handle.kind === "directory")
    return isExcludedDirectory(name) || exclude.has(path) ? "excluded" : undefined;
  return isSecretShaped(name) || exclude.has(path) ? "secret_or_excluded" : undefined;
}

/** The user took the permission back: all that follows would look unreadable, and the tree empty. */
export function isRefusal(error: unknown): boolean {
  return error instanceof DOMException && error.name === "NotAllowedError";
}

function tooMany(maxFiles: number): ValidationError {
  return new ValidationError("too_many_files", `the workspace has more than ${maxFiles} files`, {
    field: "directory",
    maxFiles,
  });
}

function tooDeep(path: string): ValidationError {
  return new ValidationError("too_deep", `the workspace is more than ${MAX_PATH_DEPTH} directories deep`, {
    field: "directory",
    path,
    maxDepth: MAX_PATH_DEPTH,
  });
}
