import type { Sha256 } from "../../src/proof/sha256.ts";
import {
  fromWireError,
  LedgerConflictError,
  toWireError,
  ValidationError,
} from "../../src/protocol/errors.ts";
import type {
  BlobProblem,
  PlannedWrite,
  RestorePlan,
  RestoreResult,
  Tree,
  TreeEntry,
} from "../../src/protocol/workspace.ts";
import type { BlobStore } from "./blob-store.ts";
import { type CaptureOptions, type Observation, observe } from "./capture.ts";
import { fileError } from "./file-error.ts";
import { normalisePath } from "./paths.ts";
import { planRestore } from "./restore-plan.ts";
import { checkEntries, getTree } from "./tree.ts";
import { Workspace } from "./workspace.ts";

export interface RestoreOptions extends CaptureOptions {
  /**
   * What a capture of this workspace has just seen, to spare reading all of it again (W34). Each file is still compared
   * with it right before it is touched.
   */
  readonly observed?: Observation;
}

export type Materialised =
  | { readonly applied: true; readonly written: readonly string[] }
  | {
      readonly applied: false;
      readonly reason: "blobs_unavailable";
      readonly problems: readonly BlobProblem[];
    };

/**
 * What a restore would do now (spec/session_store 3.4). Writes nothing, also not to the store (W35). The options must be
 * those that the trees were captured with: what they skip is in the way.
 *
 * @throws NotFoundError `tree_missing`, IntegrityError `tree_damaged`, `tree_malformed`: of the target or the baseline.
 * @throws ValidationError, StorageUnavailableError as `observe`.
 */
export async function previewRestore(
  store: BlobStore,
  directory: FileSystemDirectoryHandle,
  targetTreeId: Sha256,
  baselineTreeId: Sha256 | null,
  options: RestoreOptions = {},
): Promise<RestorePlan> {
  const { plan } = await prepare(store, directory, targetTreeId, baselineTreeId, options);
  return plan;
}

/**
 * Makes the workspace what the target tree says (spec/session_store 3.5): all writes in order, then all deletes. Any
 * conflict, and any blob to be written that is missing or damaged, is found before the first file is touched, and told
 * as a result. Empty directories stay.
 *
 * One file is replaced whole or not at all; the files together are not. An error after the first one tells in its details
 * what was `written` and `deleted`, and so does `workspace_changed`: a file was changed after it was observed. Captured
 * beforehand, the workspace can be restored from that.
 *
 * @throws NotFoundError, IntegrityError, ValidationError as `previewRestore`.
 * @throws LedgerConflictError `workspace_changed`, `path_clash`.
 * @throws StorageFullError, StorageUnavailableError a file could not be written, or does not read back as written.
 */
export async function restore(
  store: BlobStore,
  directory: FileSystemDirectoryHandle,
  targetTreeId: Sha256,
  baselineTreeId: Sha256 | null,
  options: RestoreOptions = {},
): Promise<RestoreResult> {
  const { plan, observed } = await prepare(store, directory, targetTreeId, baselineTreeId, options);
  if (plan.conflicts.length > 0) return { applied: false, reason: "conflicts", plan };
  const hold = store.hold();
  try {
    const needed = plan.writes.map(({ path, toBlob, size }) => ({ path, blob: toBlob, size }));
    const problems = await checkEntries(needed, (blob, size) => hold.keep(blob, size));
    if (problems.length > 0) return { applied: false, reason: "blobs_unavailable", plan, problems };
    await apply(store, new Workspace(directory, observed.spellings), plan, observed);
    return { applied: true, plan };
  } finally {
    hold.release();
  }
}

/**
 * Writes a tree, or only the named paths of it, into a directory (spec/session_store 3.5). Replaces what is there,
 * deletes nothing, consults no baseline.
 *
 * @throws ValidationError `invalid_path`, `path_not_in_tree`.
 * @throws NotFoundError `tree_missing`, IntegrityError `tree_damaged`, `tree_malformed`.
 * @throws LedgerConflictError `path_clash`.
 * @throws StorageFullError, StorageUnavailableError as `restore`.
 */
export async function materialise(
  store: BlobStore,
  treeId: Sha256,
  directory: FileSystemDirectoryHandle,
  paths?: readonly string[],
): Promise<Materialised> {
  const tree = await getTree(store, treeId);
  const entries = paths === undefined ? tree.entries : select(tree, paths);
  const hold = store.hold();
  try {
    const problems = await checkEntries(entries, (blob, size) => hold.keep(blob, size));
    if (problems.length > 0) return { applied: false, reason: "blobs_unavailable", problems };
    const workspace = new Workspace(directory);
    const progress = new Progress();
    for (const { path, blob } of entries) {
      await progress.step(path, () => workspace.write(path, blob, store));
      progress.written.push(path);
    }
    return { applied: true, written: progress.written };
  } finally {
    hold.release();
  }
}

async function prepare(
  store: BlobStore,
  directory: FileSystemDirectoryHandle,
  targetTreeId: Sha256,
  baselineTreeId: Sha256 | null,
  options: RestoreOptions,
): Promise<{ plan: RestorePlan; observed: Observation }> {
  const target = await getTree(store, targetTreeId);
  const baseline = baselineTreeId === null ? null : await getTree(store, baselineTreeId);
  const observed = options.observed ?? (await observe(directory, options));
  return { plan: planRestore(target, baseline, observed), observed };
}

async function apply(
  store: BlobStore,
  workspace: Workspace,
  plan: RestorePlan,
  observed: Observation,
): Promise<void> {
  const progress = new Progress();
  const seen = new Map(observed.entries.map(({ path, blob }) => [path, blob]));
  for (const planned of plan.writes) {
    await progress.step(planned.path, () => writeIfUnchanged(store, workspace, planned));
    progress.written.push(planned.path);
  }
  for (const path of plan.deletes) {
    await progress.step(path, () => removeIfUnchanged(workspace, path, seen.get(path) ?? null));
    progress.deleted.push(path);
  }
}

async function writeIfUnchanged(
  store: BlobStore,
  workspace: Workspace,
  planned: PlannedWrite,
): Promise<void> {
  if ((await workspace.digest(planned.path)) !== planned.fromBlob) throw changed(planned.path);
  await workspace.write(planned.path, planned.toBlob, store);
}

async function removeIfUnchanged(workspace: Workspace, path: string, blob: Sha256 | null): Promise<void> {
  const now = await workspace.digest(path);
  if (now === null) return;
  if (now !== blob) throw changed(path);
  await workspace.remove(path);
}

/** How far a restore came, for the error that ends it. */
class Progress {
  readonly written: string[] = [];
  readonly deleted: string[] = [];

  async step(path: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const failure = toWireError(fileError(error, `restoring ${JSON.stringify(path)}`));
      const { written, deleted } = this;
      throw fromWireError({ ...failure, details: { ...failure.details, path, written, deleted } });
    }
  }
}

function select(tree: Tree, paths: readonly string[]): TreeEntry[] {
  const wanted = new Set(paths.map((path, index) => normalisePath(path, `paths[${index}]`)));
  const selected = tree.entries.filter(({ path }) => wanted.has(path));
  for (const { path } of selected) wanted.delete(path);
  const [unknown] = wanted;
  if (unknown === undefined) return selected;
  throw new ValidationError("path_not_in_tree", `the tree has no file ${JSON.stringify(unknown)}`, {
    field: "paths",
    path: unknown,
  });
}

function changed(path: string): LedgerConflictError {
  return new LedgerConflictError(
    "workspace_changed",
    `${JSON.stringify(path)} was changed while the workspace was restored; nothing was overwritten there`,
    { path },
  );
}
