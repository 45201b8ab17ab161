import type { Sha256 } from "../../../src/proof/sha256.ts";
import { IntegrityError, NotFoundError } from "../../../src/protocol/errors.ts";
import type { workspace } from "../../../src/protocol/workspace.ts";
import { capture } from "../../files/capture.ts";
import { normalisePath } from "../../files/paths.ts";
import { previewRestore, restore } from "../../files/restore.ts";
import { checkTree, getTree, markTrees } from "../../files/tree.ts";
import { diffTrees } from "../../files/tree-diff.ts";
import type { Task } from "../command.ts";

export const captureWorkspace: Task<typeof workspace.capture> = async (
  { directory, ...options },
  { files },
) => {
  // Kept until the ledger closes: the caller is yet to name the tree in a checkpoint.
  const hold = (await files.store()).hold();
  try {
    const { treeId, entries, skipped } = await capture(directory, hold, given(options));
    return { treeId, entries, skipped };
  } catch (error) {
    hold.release();
    throw error;
  }
};

export const previewWorkspace: Task<typeof workspace.preview> = async (input, { files }) => {
  const { directory, treeId, baselineTreeId, ...options } = input;
  return previewRestore(await files.store(), directory, treeId, baselineTreeId ?? null, given(options));
};

export const restoreWorkspace: Task<typeof workspace.restore> = async (input, { files }) => {
  const { directory, treeId, baselineTreeId, ...options } = input;
  return restore(await files.store(), directory, treeId, baselineTreeId ?? null, given(options));
};

export const diffWorkspace: Task<typeof workspace.diff> = async ({ fromTreeId, toTreeId }, { files }) => {
  const store = await files.store();
  return diffTrees(await getTree(store, fromTreeId), await getTree(store, toTreeId));
};

export const verifyWorkspace: Task<typeof workspace.verify> = async ({ treeId }, { files }) => {
  const store = await files.store();
  const problems = await checkTree(store, treeId);
  return { ok: problems.length === 0, problems };
};

export const readTree: Task<typeof workspace.tree> = async ({ treeId }, { files }) =>
  getTree(await files.store(), treeId);

export const readFile: Task<typeof workspace.read> = async ({ treeId, path }, { files }) => {
  const store = await files.store();
  const { entries } = await getTree(store, treeId);
  const wanted = normalisePath(path);
  const entry = entries.find((each) => each.path === wanted);
  if (entry === undefined) {
    throw new NotFoundError("path_not_in_tree", `the tree has no file ${JSON.stringify(wanted)}`, {
      field: "path",
      path: wanted,
    });
  }
  if ((await store.check(entry.blob, entry.size)) === "damaged") {
    throw new IntegrityError("blob_damaged", `the bytes of ${JSON.stringify(wanted)} are damaged`, {
      path: wanted,
      sha256: entry.blob,
    });
  }
  return new File([await store.open(entry.blob)], wanted.split("/").at(-1) ?? wanted);
};

const selectTrees =
  "SELECT DISTINCT workspace_tree_id AS id FROM session_checkpoints WHERE workspace_tree_id IS NOT NULL";
const selectChecksums = "SELECT DISTINCT checksum AS id FROM artifact_versions";

export const collectGarbage: Task<typeof workspace.collect> = async (_, { files, transact }) => {
  const store = await files.store();
  const idsOf = (sql: string) =>
    transact(({ ledger }) => ledger.database.all(sql).map((row) => String(row["id"]) as Sha256));
  return store.collect(async () => {
    const isInTree = await markTrees(store, await idsOf(selectTrees));
    const checksums = new Set(await idsOf(selectChecksums));
    return (sha256) => checksums.has(sha256) || isInTree(sha256);
  });
};

/** The options that were given: one that is absent takes its default. */
function given<Options extends object>(options: Options) {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    readonly [Name in keyof Options]?: NonNullable<Options[Name]>;
  };
}
