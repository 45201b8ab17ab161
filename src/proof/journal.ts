import type { JsonObject } from "./canonical.ts";
import { digest, type Sha256 } from "./sha256.ts";

/** What one journal entry says about one row: its digest as it now stands, or null if it was removed. */
export interface Commitment {
  readonly table: string;
  /** The row's primary key: a canonical JSON array of its values. */
  readonly key: string;
  readonly sha256: Sha256 | null;
}

/** What a journal entry records: the act, who did it, when, and every row that it wrote. */
export interface EntryBody {
  readonly rootFrameId: string;
  /** From 1 in each root, without gaps. */
  readonly position: number;
  readonly operationId: string;
  readonly command: string;
  readonly branchId: string | null;
  readonly runId: string | null;
  /** From 1 in each run, without gaps; null when the entry concerns no run. */
  readonly runOrdinal: number | null;
  readonly ownerInstanceId: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** Why, where the command alone does not say it (an abandonment's reason and checkpoint). */
  readonly details: JsonObject | null;
  readonly commitments: readonly Commitment[];
}

/** The links of an entry: enough to walk the chain without reading what the entries say. */
export interface EntryHeader {
  readonly rootFrameId: string;
  readonly position: number;
  readonly bodySha256: Sha256;
  readonly previousSha256: Sha256;
  readonly skipSha256: Sha256;
  readonly entrySha256: Sha256;
}

/** What the first entry of a root links to. */
export const GENESIS_SHA256 = "0".repeat(64) as Sha256;

/**
 * The earlier position that `position` links to besides its predecessor: its skew-binary number (a sum of weights
 * 2^k − 1) without the smallest weight. With both links any entry is reached from any later one in at most
 * 3·log2(n) steps (the jump pointers of Myers, "An applicative random-access stack", 1983).
 */
export function skipPosition(position: number): number {
  if (!Number.isSafeInteger(position) || position < 1) throw new RangeError("position counts from 1");
  let weight = 1;
  while (weight * 2 + 1 <= position) weight = weight * 2 + 1;
  let rest = position - weight;
  while (rest > 0) {
    while (weight > rest) weight = (weight - 1) / 2;
    rest -= weight;
  }
  return position - weight;
}

/** Digest of a whole database row, as SQLite holds it. */
export function rowDigest(row: Readonly<Record<string, unknown>>): Sha256 {
  return digest(row);
}

export function entryBodyDigest(body: EntryBody): Sha256 {
  return digest({
    rootFrameId: body.rootFrameId,
    position: body.position,
    operationId: body.operationId,
    command: body.command,
    branchId: body.branchId,
    runId: body.runId,
    runOrdinal: body.runOrdinal,
    ownerInstanceId: body.ownerInstanceId,
    at: body.at,
    details: body.details,
    commitments: body.commitments,
  });
}

export function entryDigest(header: Omit<EntryHeader, "entrySha256">): Sha256 {
  return digest({
    rootFrameId: header.rootFrameId,
    position: header.position,
    bodySha256: header.bodySha256,
    previousSha256: header.previousSha256,
    skipSha256: header.skipSha256,
  });
}

/** Links a body to the chain: `previous` and `skip` are the entry digests at the two earlier positions. */
export function sealEntry(body: EntryBody, previous: Sha256, skip: Sha256): EntryHeader {
  const links = {
    rootFrameId: body.rootFrameId,
    position: body.position,
    bodySha256: entryBodyDigest(body),
    previousSha256: previous,
    skipSha256: skip,
  };
  return { ...links, entrySha256: entryDigest(links) };
}

/** Where a walk along the chain stopped. */
export class BrokenChainError extends Error {
  override readonly name = "BrokenChainError";
  readonly position: number;

  constructor(position: number, reason: string) {
    super(`journal entry ${position} ${reason}`);
    this.position = position;
  }
}

/**
 * Walks from `head` down to each of `targets` over the shortest links and checks every link on the way:
 * O(log n) steps a target. `readHeader` gives the header stored at a position.
 *
 * @param targets positions, in any order, none above the head
 * @throws BrokenChainError names the first position that does not hold.
 */
export function verifyAnchored(
  head: EntryHeader,
  targets: readonly number[],
  readHeader: (position: number) => EntryHeader | undefined,
): void {
  assertHeaderHolds(head);
  let current = head;
  for (const target of [...targets].sort((a, b) => b - a)) {
    if (target > current.position) throw new BrokenChainError(target, "lies above the head of its chain");
    while (current.position > target) current = stepDown(current, target, readHeader);
  }
}

function stepDown(
  from: EntryHeader,
  target: number,
  readHeader: (position: number) => EntryHeader | undefined,
): EntryHeader {
  const skip = skipPosition(from.position);
  const takesSkip = skip >= target;
  const position = takesSkip ? skip : from.position - 1;
  const next = readHeader(position);
  if (next === undefined) throw new BrokenChainError(position, "is missing");
  const linked = takesSkip ? from.skipSha256 : from.previousSha256;
  if (next.entrySha256 !== linked)
    throw new BrokenChainError(position, "is not the one its successor links to");
  assertHeaderHolds(next);
  return next;
}

function assertHeaderHolds(header: EntryHeader): void {
  if (entryDigest(header) !== header.entrySha256) {
    throw new BrokenChainError(header.position, "does not match its own digest");
  }
}
