import * as z from "zod";
import type { Sha256 } from "../proof/sha256.ts";
import { defineCommand } from "./command.ts";
import { existingTreeId, integer, LONG_TEXT, text } from "./fields.ts";

/** One file of a workspace tree. */
export interface TreeEntry {
  /** Relative, with slashes, in NFC. */
  readonly path: string;
  readonly blob: Sha256;
  readonly size: number;
  readonly mode: number;
}

export interface SkippedPath {
  readonly path: string;
  /** A word such as `too_large`; never a text of the operating system, which would differ between machines (W46). */
  readonly reason: string;
}

/**
 * The files of a workspace at one moment, by their digests (spec/session_store 3.1). The id is the digest of the
 * manifest, which is stored as a blob; there is no folder of trees.
 */
export interface Tree {
  readonly treeId: Sha256;
  readonly entries: readonly TreeEntry[];
  /** What was there and was left out: the id covers it too. */
  readonly skipped: readonly SkippedPath[];
}

/** What of a tree can't be used; `path` is null for the tree's own manifest. */
export interface BlobProblem {
  readonly path: string | null;
  readonly blob: Sha256;
  readonly state: "missing" | "damaged";
}

/** One file that a restore would write. */
export interface PlannedWrite {
  readonly path: string;
  readonly operation: "create" | "replace";
  /** What the path holds now; null if it is absent. */
  readonly fromBlob: Sha256 | null;
  readonly toBlob: Sha256;
  readonly size: number;
}

export interface RestoreConflict {
  readonly path: string;
  readonly baselineBlob: Sha256 | null;
  /** Null too where something is in the way that has no blob: a skipped file, a directory, a file above the path. */
  readonly observedBlob: Sha256 | null;
  readonly targetBlob: Sha256 | null;
}

/** What a restore would do, path by path (spec/session_store 3.4). */
export interface RestorePlan {
  readonly targetTreeId: Sha256;
  readonly baselineTreeId: Sha256 | null;
  readonly observedTreeId: Sha256;
  readonly writes: readonly PlannedWrite[];
  readonly deletes: readonly string[];
  readonly conflicts: readonly RestoreConflict[];
  readonly unchanged: readonly string[];
  /** Files in neither tree. They are never touched. */
  readonly preservedUntracked: readonly string[];
}

export type RestoreResult =
  | { readonly applied: true; readonly plan: RestorePlan }
  | { readonly applied: false; readonly reason: "conflicts"; readonly plan: RestorePlan }
  | {
      readonly applied: false;
      readonly reason: "blobs_unavailable";
      readonly plan: RestorePlan;
      readonly problems: readonly BlobProblem[];
    };

export interface TreeDiff {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
  readonly unchanged: readonly string[];
}

/** A folder in OPFS, or one that the user picked. */
export const directory = () =>
  z
    .custom<FileSystemDirectoryHandle>(
      (value) =>
        typeof FileSystemDirectoryHandle !== "undefined" && value instanceof FileSystemDirectoryHandle,
      "a FileSystemDirectoryHandle",
    )
    .meta({ holds: "directory" });

const options = {
  directory: directory(),
  /** Larger files are skipped as `too_large`. Default: 64 MiB. */
  maxFileBytes: integer(1).optional(),
  /** More files than this are refused. Default: 100,000. */
  maxFiles: integer(1).optional(),
  /** Paths of files and directories to leave out. */
  exclude: z.array(text(LONG_TEXT), "a list of paths").max(10_000, "at most 10,000 paths").default([]),
};

const restoration = { ...options, treeId: existingTreeId(), baselineTreeId: existingTreeId().nullish() };

export const workspace = {
  /**
   * Stores the files of a folder under their digests, and their tree (spec/session_store 3.3). What looks like a
   * secret by its name, `.git` and the like are skipped and listed. The tree is safe from `collect` until the ledger
   * is closed, or for ever once a checkpoint names it.
   *
   * @throws ValidationError too many files, or a path to exclude is malformed.
   */
  capture: defineCommand<Tree>()("read", z.strictObject(options)),
  /** What `restore` would do now. Writes nothing. */
  preview: defineCommand<RestorePlan>()("read", z.strictObject(restoration)),
  /**
   * Makes the folder what the tree says. With a baseline, a file that is not as the baseline says is a conflict, and
   * then no file is touched; so it is when a blob is missing (spec/session_store 3.5).
   *
   * @throws NotFoundError a tree is not in the store.
   * @throws LedgerConflictError the folder was changed meanwhile; the details say what was done until then.
   */
  restore: defineCommand<RestoreResult>()("read", z.strictObject(restoration)),
  /** What became of the paths from one tree to another. */
  diff: defineCommand<TreeDiff>()(
    "read",
    z.strictObject({ fromTreeId: existingTreeId(), toTreeId: existingTreeId() }),
  ),
  /** Reads every byte of a tree and says what is missing or damaged. */
  verify: defineCommand<{ readonly ok: boolean; readonly problems: readonly BlobProblem[] }>()(
    "read",
    z.strictObject({ treeId: existingTreeId() }),
  ),
  /** The tree's list of files. @throws NotFoundError */
  tree: defineCommand<Tree>()("read", z.strictObject({ treeId: existingTreeId() })),
  /**
   * One file of a tree.
   *
   * @throws NotFoundError the tree, the path or the bytes are not there.
   * @throws IntegrityError the bytes are damaged.
   */
  read: defineCommand<File>()("read", z.strictObject({ treeId: existingTreeId(), path: text(LONG_TEXT) })),
  /**
   * Removes stored bytes that nothing needs: no checkpoint's tree, no artifact version, and nothing that is being
   * stored meanwhile (spec/session_store 3.7).
   */
  collect: defineCommand<{ readonly removed: number; readonly bytes: number }>()("write", z.strictObject({})),
};
