import { canonicalJson, type JsonObject } from "../../src/proof/canonical.ts";
import {
  BrokenChainError,
  type Commitment,
  type EntryBody,
  type EntryHeader,
  entryBodyDigest,
  entryDigest,
  GENESIS_SHA256,
  sealEntry,
  skipPosition,
  verifyAnchored,
} from "../../src/proof/journal.ts";
import type { Sha256 } from "../../src/proof/sha256.ts";
import type { Database, Row } from "../storage/database.ts";
import { DamageFound } from "./damage.ts";

/** The journal of acts that belong to no session: projects and settings. */
export const LEDGER_ROOT = "@ledger";

export type JournalEntry = EntryBody & EntryHeader;

const selectHead = "SELECT * FROM journal WHERE root_frame_id = ? ORDER BY position DESC LIMIT 1";
const selectHeader = `SELECT root_frame_id, position, body_sha256, previous_sha256, skip_sha256, entry_sha256
  FROM journal WHERE root_frame_id = ? AND position = ?`;
const selectEntry = "SELECT * FROM journal WHERE root_frame_id = ? AND position = ?";
const selectEntryDigest = "SELECT entry_sha256 FROM journal WHERE root_frame_id = ? AND position = ?";
const selectEntriesOfRun = "SELECT * FROM journal WHERE run_id = ? ORDER BY run_ordinal";
const selectEntriesAfter = "SELECT * FROM journal WHERE root_frame_id = ? AND position > ? ORDER BY position";
const selectNewestRun = `SELECT run_id FROM journal
  WHERE root_frame_id = ? AND branch_id = ? AND run_ordinal = 1 ORDER BY position DESC LIMIT 1`;
const selectIndexed =
  "SELECT root_frame_id, position FROM commitment_index WHERE table_name = ? AND row_key = ?";
const upsertIndexed = `INSERT INTO commitment_index (table_name, row_key, root_frame_id, position) VALUES (?, ?, ?, ?)
  ON CONFLICT (table_name, row_key) DO UPDATE SET root_frame_id = excluded.root_frame_id, position = excluded.position`;
const insertEntry = `INSERT INTO journal (root_frame_id, position, operation_id, command, branch_id, run_id, run_ordinal,
  owner_instance_id, at, details_json, commitments_json, body_sha256, previous_sha256, skip_sha256, entry_sha256)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

/**
 * The hash-chained record of every act, one chain a session (ARCHITECTURE.md, The journal). Remembers each chain's head
 * between commands; `forget` drops that when somebody else may have written.
 */
export class Journal {
  readonly #database: Database;
  readonly #heads = new Map<string, EntryHeader>();
  /** By root and position, the digests that the next entries will link to. */
  readonly #linkable = new Map<string, Map<number, Sha256>>();

  constructor(database: Database) {
    this.#database = database;
  }

  forget(): void {
    this.#heads.clear();
    this.#linkable.clear();
  }

  /** Appends one entry at the end of its root's chain. */
  append(entry: Omit<EntryBody, "position">): void {
    const head = this.head(entry.rootFrameId);
    const position = (head?.position ?? 0) + 1;
    const skip = skipPosition(position);
    const body: EntryBody = { ...entry, position };
    const header = sealEntry(
      body,
      head?.entrySha256 ?? GENESIS_SHA256,
      this.#linkableDigest(entry.rootFrameId, skip),
    );
    this.#database.run(insertEntry, [
      body.rootFrameId,
      position,
      body.operationId,
      body.command,
      body.branchId,
      body.runId,
      body.runOrdinal,
      body.ownerInstanceId,
      body.at,
      body.details === null ? null : canonicalJson(body.details),
      canonicalJson(body.commitments),
      header.bodySha256,
      header.previousSha256,
      header.skipSha256,
      header.entrySha256,
    ]);
    this.#heads.set(body.rootFrameId, header);
    this.#keepLinkable(header, skip);
  }

  /** Notes where the newest commitment to a row stands, for rows that belong to no run. */
  index(table: string, key: string, rootFrameId: string): void {
    const position = this.#heads.get(rootFrameId)?.position ?? 0;
    this.#database.run(upsertIndexed, [table, key, rootFrameId, position]);
  }

  head(rootFrameId: string): EntryHeader | undefined {
    const known = this.#heads.get(rootFrameId);
    if (known !== undefined) return known;
    const row = this.#database.get(selectHead, [rootFrameId]);
    if (row === undefined) return undefined;
    const header = decodeHeader(row);
    this.#heads.set(rootFrameId, header);
    return header;
  }

  /** The run that the journal says was started last on a branch. */
  newestRun(rootFrameId: string, branchId: string): string | undefined {
    const runId = this.#database.value(selectNewestRun, [rootFrameId, branchId]);
    return typeof runId === "string" ? runId : undefined;
  }

  /**
   * The entries of a run, checked: each is whole, they follow each other without a gap, and each hangs in the chain.
   *
   * @throws DamageFound
   */
  entriesOfRun(runId: string, rootFrameId: string): JournalEntry[] {
    const entries = this.#database.all(selectEntriesOfRun, [runId]).map(soundEntry);
    entries.forEach((entry, index) => {
      if (entry.runOrdinal !== index + 1)
        throw damagedEntry(entry.position, "breaks the order of its run's entries");
      if (entry.rootFrameId !== rootFrameId)
        throw damagedEntry(entry.position, "belongs to another session than its run");
    });
    this.#assertAnchored(
      rootFrameId,
      entries.map((entry) => entry.position),
    );
    return entries;
  }

  /** Whether no entry after a position concerns the run: nobody hid its newest acts. */
  assertNothingAfter(runId: string, rootFrameId: string, position: number): void {
    let expected = position;
    for (const row of this.#database.all(selectEntriesAfter, [rootFrameId, position])) {
      const entry = soundEntry(row);
      expected += 1;
      if (entry.position !== expected) throw damagedEntry(expected, "is missing");
      if (entry.runId === runId) throw damagedEntry(entry.position, "was taken from its run");
    }
  }

  /** What the journal last committed to for a row outside of runs; undefined when it never did. */
  indexedCommitment(table: string, key: string): Commitment | undefined {
    const place = this.#database.get(selectIndexed, [table, key]);
    if (place === undefined) return undefined;
    const row = this.#database.get(selectEntry, [place["root_frame_id"] ?? null, place["position"] ?? null]);
    if (row === undefined) throw new DamageFound("commitment_index", key, "points to no journal entry");
    const entry = soundEntry(row);
    this.#assertAnchored(entry.rootFrameId, [entry.position]);
    const commitment = entry.commitments.find((each) => each.table === table && each.key === key);
    if (commitment === undefined)
      throw new DamageFound("commitment_index", key, "points to an entry that does not name it");
    return commitment;
  }

  /** Every entry of a root from the first to the head, checked one by one and linked. For whole-database verification. */
  *chain(rootFrameId: string): Generator<JournalEntry> {
    const digests: Sha256[] = [GENESIS_SHA256];
    let position = 0;
    for (const row of this.#database.all(selectEntriesAfter, [rootFrameId, 0])) {
      const entry = soundEntry(row);
      position += 1;
      if (entry.position !== position) throw damagedEntry(position, "is missing");
      const linked = [digests[position - 1], digests[skipPosition(position)]];
      if (entry.previousSha256 !== linked[0] || entry.skipSha256 !== linked[1])
        throw damagedEntry(position, "is not linked to its predecessors");
      if (entryDigest(entry) !== entry.entrySha256)
        throw damagedEntry(position, "does not match its own digest");
      digests.push(entry.entrySha256);
      yield entry;
    }
  }

  #assertAnchored(rootFrameId: string, positions: readonly number[]): void {
    const head = this.head(rootFrameId);
    if (head === undefined) throw damagedEntry(0, "is missing: the session has no journal");
    try {
      verifyAnchored(head, positions, (position) => this.#header(rootFrameId, position));
    } catch (error) {
      if (error instanceof BrokenChainError)
        throw new DamageFound("journal", String(error.position), error.message);
      throw error;
    }
  }

  #header(rootFrameId: string, position: number): EntryHeader | undefined {
    const row = this.#database.get(selectHeader, [rootFrameId, position]);
    return row === undefined ? undefined : decodeHeader(row);
  }

  /** The digest of the entry that a new one skips back to. */
  #linkableDigest(rootFrameId: string, position: number): Sha256 {
    if (position === 0) return GENESIS_SHA256;
    const known = this.#linkable.get(rootFrameId)?.get(position);
    if (known !== undefined) return known;
    const stored = this.#database.value(selectEntryDigest, [rootFrameId, position]);
    // A link to a missing entry would never verify; the damage is found where the chain is read.
    return typeof stored === "string" ? (stored as Sha256) : GENESIS_SHA256;
  }

  /** Later entries link only to this one, or to what it skips back to and what that skips back to, and so on. */
  #keepLinkable({ rootFrameId, position, entrySha256 }: EntryHeader, skip: number): void {
    const digests = this.#linkable.get(rootFrameId) ?? new Map<number, Sha256>();
    for (const known of digests.keys()) if (known > skip) digests.delete(known);
    digests.set(position, entrySha256);
    this.#linkable.set(rootFrameId, digests);
  }
}

function decodeHeader(row: Row): EntryHeader {
  return {
    rootFrameId: row["root_frame_id"],
    position: row["position"],
    bodySha256: row["body_sha256"],
    previousSha256: row["previous_sha256"],
    skipSha256: row["skip_sha256"],
    entrySha256: row["entry_sha256"],
  } as EntryHeader;
}

/** The entry of a row whose content matches the digest in its header. */
function soundEntry(row: Row): JournalEntry {
  const position = Number(row["position"]);
  const entry = {
    ...decodeHeader(row),
    operationId: row["operation_id"],
    command: row["command"],
    branchId: row["branch_id"],
    runId: row["run_id"],
    runOrdinal: row["run_ordinal"],
    ownerInstanceId: row["owner_instance_id"],
    at: row["at"],
    details: parseOrDamage(row["details_json"] ?? null, position) as JsonObject | null,
    commitments: parseOrDamage(row["commitments_json"] ?? null, position) as unknown as readonly Commitment[],
  } as JournalEntry;
  if (!matchesItsDigest(entry)) throw damagedEntry(position, "does not match its digest");
  return entry;
}

function matchesItsDigest(entry: JournalEntry): boolean {
  try {
    return entryBodyDigest(entry) === entry.bodySha256;
  } catch {
    return false;
  }
}

function parseOrDamage(text: Row[string], position: number): unknown {
  if (text === null) return null;
  try {
    return JSON.parse(String(text));
  } catch {
    throw damagedEntry(position, "holds text that is not JSON");
  }
}

function damagedEntry(position: number, reason: string): DamageFound {
  return new DamageFound("journal", String(position), reason);
}
