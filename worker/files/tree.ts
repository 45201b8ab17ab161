import * as z from "zod";
import { canonicalJson } from "../../src/proof/canonical.ts";
import { type Sha256, sha256 as sha256OfText } from "../../src/proof/sha256.ts";
import {
  IntegrityError,
  type LedgerError,
  NotFoundError,
  ValidationError,
} from "../../src/protocol/errors.ts";
import { integer, sha256 } from "../../src/protocol/fields.ts";
import type { BlobProblem, SkippedPath, Tree, TreeEntry } from "../../src/protocol/workspace.ts";
import type { BlobState, BlobStore, Hold, IsReferenced } from "./blob-store.ts";
import { fileError } from "./file-error.ts";
import { ancestorsOf, compareCodePoints, normalisePath } from "./paths.ts";

/**
 * The permission bits of every entry, 0644. Browsers know no modes; the format keeps the field so that ids stay those
 * of spec/session_store 3.1, and a tree with another mode is refused instead of restored without it.
 */
const FILE_MODE = 420;

/** Largest manifest that is read into memory; some 150,000 files. */
const MAX_MANIFEST_BYTES = 33_554_432;

export interface EncodedTree extends Tree {
  /** The canonical JSON of which the id is the digest. */
  readonly manifest: string;
}

/** A skipped path only says what was there, however it was named; no file is ever opened by it. */
const skippedPath = z.strictObject({
  path: z
    .string("a string")
    .min(1, "not empty")
    .refine((text) => text.isWellFormed(), "no lone surrogates"),
  reason: z.string("a word").regex(/^[a-z_]{1,40}$/, "a word of a-z and _"),
});

const manifest = z.strictObject({
  version: z.literal(1, "1"),
  entries: z.array(
    z.strictObject({
      path: z.string("a string").refine(isNormal, "a normal relative path"),
      blob: sha256(),
      size: integer(0),
      mode: z.literal(FILE_MODE, "420, the only mode that browsers have"),
    }),
  ),
  skipped: z.array(skippedPath),
});

/** An entry of a tree under construction, with the mode that all of them have. */
export function treeEntry(path: string, blob: Sha256, size: number): TreeEntry {
  return { path, blob, size, mode: FILE_MODE };
}

/**
 * The canonical manifest of a tree, in code-point order of the paths, and its id.
 *
 * @throws ValidationError `invalid_tree` a field is malformed, two entries have one path, one entry's path leads through
 *   another's file; `tree_too_large` over 32 MiB.
 */
export function encodeTree(entries: readonly TreeEntry[], skipped: readonly SkippedPath[]): EncodedTree {
  const problem = bodyProblem({ version: 1, entries, skipped });
  if (problem !== undefined) throw new ValidationError("invalid_tree", `the tree's ${problem}`, { problem });
  const tree = encodeValid(entries, skipped);
  if (new TextEncoder().encode(tree.manifest).length > MAX_MANIFEST_BYTES)
    throw new ValidationError("tree_too_large", "the tree has more than 32 MiB of paths and digests", {
      maxBytes: MAX_MANIFEST_BYTES,
    });
  return tree;
}

/**
 * The tree that a stored manifest says. Nothing in it is trusted: only the very text that `encodeTree` makes is accepted.
 *
 * @throws IntegrityError `tree_malformed`, with the problem.
 */
export function parseTree(text: string): Tree {
  const body = parseJson(text);
  const problem = bodyProblem(body);
  if (problem !== undefined) throw malformed(problem);
  const { entries, skipped } = body as z.output<typeof manifest>;
  const { manifest: canonical, ...tree } = encodeValid(entries, skipped);
  if (canonical !== text) throw malformed("manifest is not in canonical form");
  return tree;
}

/** The blobs that the tree's files need, each once; the manifest's own is not among them. */
export function blobsOfTree(tree: Pick<Tree, "entries">): Set<Sha256> {
  return new Set(tree.entries.map((entry) => entry.blob));
}

/**
 * Stores a tree (spec/session_store 3.2). Blobs that the hold has not put itself are kept and read first.
 *
 * @throws ValidationError as `encodeTree`.
 * @throws NotFoundError `blob_missing` and IntegrityError `blob_damaged`: an entry's blob is not there as it says.
 * @throws StorageFullError, StorageUnavailableError as `Hold.put`.
 */
export async function putTree(
  hold: Hold,
  entries: readonly TreeEntry[],
  skipped: readonly SkippedPath[],
): Promise<Tree> {
  const { manifest, ...tree } = encodeTree(entries, skipped);
  for (const entry of tree.entries) await requireBlob(hold, entry);
  await hold.put(new TextEncoder().encode(manifest));
  return tree;
}

/**
 * Reads a tree's manifest; the blobs of its files are not looked at.
 *
 * @throws NotFoundError `tree_missing`.
 * @throws IntegrityError `tree_damaged` the bytes are not those of the id; `tree_malformed` they are no manifest.
 * @throws StorageUnavailableError the files failed.
 */
export async function getTree(store: BlobStore, treeId: Sha256): Promise<Tree> {
  const text = await manifestText(store, treeId);
  if (sha256OfText(text) !== treeId) {
    throw new IntegrityError("tree_damaged", `the manifest of the tree ${treeId} was changed or cut`, {
      field: "treeId",
      treeId,
    });
  }
  return parseTree(text);
}

/**
 * What of a tree is missing or damaged, blob by blob; an empty list means that all of it can be restored. Reads every
 * byte of the tree (W37).
 *
 * @throws IntegrityError `tree_malformed` the bytes under the id are intact and no manifest: the id is not a tree's.
 * @throws StorageUnavailableError the files failed.
 */
export async function checkTree(store: BlobStore, treeId: Sha256): Promise<BlobProblem[]> {
  const state = await store.check(treeId);
  if (state !== "ok") return [{ path: null, blob: treeId, state }];
  return checkEntries((await getTree(store, treeId)).entries, (blob, size) => store.check(blob, size));
}

/** The entries whose blobs are missing or damaged, by a check that is made once for each blob. */
export async function checkEntries(
  entries: readonly Pick<TreeEntry, "path" | "blob" | "size">[],
  check: (blob: Sha256, size: number) => Promise<BlobState>,
): Promise<BlobProblem[]> {
  const states = new Map<string, BlobState>();
  const problems: BlobProblem[] = [];
  for (const { path, blob, size } of entries) {
    const claim = `${blob} ${size}`;
    const state = states.get(claim) ?? (await check(blob, size));
    states.set(claim, state);
    if (state !== "ok") problems.push({ path, blob, state });
  }
  return problems;
}

/** Whether the whole tree is there, byte for byte (spec/session_store 3.2). Never throws: what can't be read isn't. */
export async function verifyTree(store: BlobStore, treeId: Sha256): Promise<boolean> {
  try {
    return (await checkTree(store, treeId)).length === 0;
  } catch {
    return false;
  }
}

/**
 * What the trees need, for `BlobStore.collect`: their manifests and the blobs of their files.
 *
 * One bad manifest does not stop collection for ever (W36): whatever still looks like a digest in it counts as needed.
 */
export async function markTrees(store: BlobStore, treeIds: Iterable<Sha256>): Promise<IsReferenced> {
  const needed = new Set<Sha256>();
  for (const treeId of treeIds) {
    needed.add(treeId);
    for (const blob of await namedBlobs(store, treeId)) needed.add(blob);
  }
  return (blob) => needed.has(blob);
}

async function namedBlobs(store: BlobStore, treeId: Sha256): Promise<Iterable<Sha256>> {
  let text = "";
  try {
    text = await manifestText(store, treeId);
    return blobsOfTree(parseTree(text));
  } catch (error) {
    if (error instanceof NotFoundError || error instanceof IntegrityError)
      return (text.match(/[0-9a-f]{64}/g) ?? []) as Sha256[];
    throw error;
  }
}

async function manifestText(store: BlobStore, treeId: Sha256): Promise<string> {
  const file = await openManifest(store, treeId);
  // A blob of any size can pass for a tree until it is read.
  if (file.size > MAX_MANIFEST_BYTES) throw malformed("manifest is larger than any that is made");
  try {
    return await file.text();
  } catch (error) {
    throw fileError(error, `reading the tree ${treeId}`);
  }
}

async function openManifest(store: BlobStore, treeId: Sha256): Promise<File> {
  try {
    return await store.open(treeId);
  } catch (error) {
    if (!(error instanceof NotFoundError)) throw error;
    throw new NotFoundError("tree_missing", `the tree ${treeId} is not in the store`, {
      field: "treeId",
      treeId,
    });
  }
}

async function requireBlob(hold: Hold, { path, blob, size }: TreeEntry): Promise<void> {
  const state = hold.has(blob, size) ? "ok" : await hold.keep(blob, size);
  if (state === "ok") return;
  throw blobError(state, `the blob of ${JSON.stringify(path)} is ${state}`, { field: "entries", path, blob });
}

function blobError(state: BlobProblem["state"], message: string, details: object): LedgerError {
  return state === "missing"
    ? new NotFoundError("blob_missing", message, { ...details })
    : new IntegrityError("blob_damaged", message, { ...details });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw malformed("manifest is not JSON");
  }
}

function malformed(problem: string): IntegrityError {
  return new IntegrityError("tree_malformed", `the tree's ${problem}`, { field: "treeId", problem });
}

function encodeValid(entries: readonly TreeEntry[], skipped: readonly SkippedPath[]): EncodedTree {
  const body = {
    version: 1,
    entries: entries.toSorted((left, right) => compareCodePoints(left.path, right.path)),
    skipped: skipped.toSorted(
      (left, right) =>
        compareCodePoints(left.path, right.path) || compareCodePoints(left.reason, right.reason),
    ),
  };
  const text = canonicalJson(body);
  return { treeId: sha256OfText(text), entries: body.entries, skipped: body.skipped, manifest: text };
}

/** The first thing wrong with a manifest's body, apart from the order of its lists. */
function bodyProblem(body: unknown): string | undefined {
  const parsed = manifest.safeParse(body);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return `${issue?.path.join(".")}: expected ${issue?.message}`;
  }
  return clashProblem(parsed.data.entries);
}

/** Paths are NFC already, so equal means equal as Unicode means it. */
function clashProblem(entries: readonly TreeEntry[]): string | undefined {
  const files = new Set<string>();
  for (const { path } of entries) {
    if (files.has(path)) return `entries: ${JSON.stringify(path)} is there twice`;
    files.add(path);
  }
  for (const { path } of entries) {
    for (const ancestor of ancestorsOf(path)) {
      if (files.has(ancestor)) return `entries: ${JSON.stringify(ancestor)} is a file and a directory`;
    }
  }
  return undefined;
}

function isNormal(path: string): boolean {
  try {
    return normalisePath(path) === path;
  } catch {
    return false;
  }
}
