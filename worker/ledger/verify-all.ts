import type { Damage } from "../../src/protocol/runs.ts";
import type { RunReport, SessionReport } from "../../src/protocol/verification.ts";
import { type ProofTable, proofTables } from "../schema/tables.ts";
import type { Database, Row } from "../storage/database.ts";
import { DamageFound, findDamage } from "./damage.ts";
import { Journal, LEDGER_ROOT } from "./journal.ts";
import { rowKey } from "./rows.ts";
import { proveRun, storedDigest } from "./run-proof.ts";

const indexedTables: readonly ProofTable[] = Object.values(proofTables).filter(
  (table) => table.scope === "index",
);

const selectRoots = `SELECT root_frame_id FROM journal UNION SELECT root_frame_id FROM auto_mode_runs
  UNION SELECT root_frame_id FROM frames ORDER BY 1`;
const selectRunsOfRoot = `SELECT run_id FROM auto_mode_runs WHERE root_frame_id = ?
  UNION SELECT run_id FROM journal WHERE root_frame_id = ? AND run_id IS NOT NULL
  UNION SELECT run_id FROM auto_mode_events WHERE root_frame_id = ?`;

/** The newest commitment to each row of a table: its digest (null: removed), and the entry that holds it. */
type Committed = Map<
  string,
  { readonly sha256: string | null; readonly rootFrameId: string; readonly position: number }
>;

const selectIndex = "SELECT table_name, row_key, root_frame_id, position FROM commitment_index";

/** Checks every session from the database alone, remembering nothing from before (see `verification.verify`). */
export function verifyAll(database: Database): SessionReport[] {
  const journal = new Journal(database);
  const committed = new Map<string, Committed>(indexedTables.map((table) => [table.name, new Map()]));
  const known = database.all(selectRoots).map((row) => String(row["root_frame_id"]));
  const roots = [...new Set([LEDGER_ROOT, ...known])];
  const sessions = roots.map((root) => verifySession(database, journal, root, committed));
  const misplaced = indexedTables.flatMap((table) =>
    findMisplacedRows(database, table, committed.get(table.name)),
  );
  return attribute(sessions, [
    ...misplaced,
    ...findMisplacedIndex(database, committed),
    ...findMisplacedRelations(database),
  ]);
}

function verifySession(
  database: Database,
  journal: Journal,
  rootFrameId: string,
  committed: ReadonlyMap<string, Committed>,
): SessionReport {
  let entries = 0;
  const broken = findDamage(() => {
    for (const entry of journal.chain(rootFrameId)) {
      entries += 1;
      for (const { table, key, sha256 } of entry.commitments)
        committed.get(table)?.set(key, { sha256, rootFrameId, position: entry.position });
    }
  });
  const runIds = database.all(selectRunsOfRoot, [rootFrameId, rootFrameId, rootFrameId]);
  return {
    rootFrameId,
    entries,
    headSha256: journal.head(rootFrameId)?.entrySha256 ?? null,
    damage: broken instanceof DamageFound ? [broken.damage] : [],
    runs: runIds.map((row) => verifyRun(database, journal, rootFrameId, String(row["run_id"]))),
  };
}

function verifyRun(database: Database, journal: Journal, rootFrameId: string, runId: string): RunReport {
  const proof = proveRun(database, journal, runId);
  const row = proof?.row;
  return {
    runId,
    rootFrameId,
    branchId: String(row?.["branch_id"] ?? ""),
    claimedStatus: String(row?.["status"] ?? "failed"),
    damage: proof === undefined || proof.sound ? null : proof.damage,
  };
}

interface MisplacedRow {
  readonly rootFrameId: string;
  readonly damage: Damage;
}

/** Rows outside of runs that do not stand as the journals left them. */
function findMisplacedRows(
  database: Database,
  table: ProofTable,
  committed: Committed = new Map(),
): MisplacedRow[] {
  const misplaced: MisplacedRow[] = [];
  const missing = new Map(committed);
  for (const row of database.all(`SELECT * FROM ${table.name}`)) {
    const key = rowKey(row[table.key] ?? null);
    const commitment = missing.get(key);
    missing.delete(key);
    const stored = findDamage(() => storedDigest(row, table, key));
    const reason =
      stored instanceof DamageFound ? stored.damage.reason : judgeRow(stored, commitment?.sha256 ?? null);
    if (reason === undefined) continue;
    const rootFrameId = commitment?.rootFrameId ?? String(row["root_frame_id"] ?? LEDGER_ROOT);
    misplaced.push({ rootFrameId, damage: { table: table.name, key, reason } });
  }
  for (const [key, { sha256, rootFrameId }] of missing) {
    if (sha256 !== null)
      misplaced.push({ rootFrameId, damage: { table: table.name, key, reason: "is missing" } });
  }
  return misplaced;
}

/** Where the index, through which single rows are checked, does not point to the newest entry of a row. */
function findMisplacedIndex(database: Database, committed: ReadonlyMap<string, Committed>): MisplacedRow[] {
  const misplaced: MisplacedRow[] = [];
  const found = new Set<string>();
  for (const row of database.all(selectIndex)) {
    const [table, key, rootFrameId] = [row["table_name"], row["row_key"], row["root_frame_id"]].map(String);
    const newest = committed.get(table ?? "")?.get(key ?? "");
    found.add(`${table} ${key}`);
    if (newest?.rootFrameId === rootFrameId && newest?.position === row["position"]) continue;
    const reason = `does not point to the newest entry of ${table} ${key}`;
    misplaced.push({
      rootFrameId: newest?.rootFrameId ?? LEDGER_ROOT,
      damage: { table: "commitment_index", key: key ?? null, reason },
    });
  }
  for (const [table, rows] of committed) {
    for (const [key, { rootFrameId }] of rows) {
      if (found.has(`${table} ${key}`)) continue;
      const reason = `does not know ${table} ${key}`;
      misplaced.push({ rootFrameId, damage: { table: "commitment_index", key, reason } });
    }
  }
  return misplaced;
}

const selectManifests = "SELECT delivery_id, root_frame_id, manifest_json FROM completion_deliveries";
const selectRelations = `SELECT delivery_id, artifact_id, version_id, size_bytes, sha256
  FROM completion_delivery_artifacts ORDER BY delivery_id, ordinal`;

/** Deliveries whose relations to artifacts are not what their manifest says, which the journal vouches for. */
function findMisplacedRelations(database: Database): MisplacedRow[] {
  const relations = new Map<string, Row[]>();
  for (const { delivery_id: id, ...relation } of database.all(selectRelations))
    relations.set(String(id), [...(relations.get(String(id)) ?? []), relation]);
  const misplaced = (deliveryId: string, rootFrameId: string): MisplacedRow => {
    const reason = "are not what the delivery's manifest says";
    return {
      rootFrameId,
      damage: { table: "completion_delivery_artifacts", key: rowKey(deliveryId), reason },
    };
  };
  const found: MisplacedRow[] = [];
  for (const row of database.all(selectManifests)) {
    const deliveryId = String(row["delivery_id"]);
    const stored = relations.get(deliveryId) ?? [];
    relations.delete(deliveryId);
    if (!sameAsManifest(String(row["manifest_json"]), stored))
      found.push(misplaced(deliveryId, String(row["root_frame_id"])));
  }
  return [...found, ...[...relations.keys()].map((id) => misplaced(id, LEDGER_ROOT))];
}

function sameAsManifest(manifestJson: string, stored: readonly Row[]): boolean {
  try {
    const { artifacts } = JSON.parse(manifestJson) as { artifacts: readonly Row[] };
    const named = artifacts.map((each) => [
      each["artifact_id"],
      each["version_id"],
      each["size_bytes"],
      each["sha256"],
    ]);
    return JSON.stringify(named) === JSON.stringify(stored.map((row) => Object.values(row)));
  } catch {
    return false;
  }
}

function judgeRow(stored: string, committed: string | null): string | undefined {
  if (committed === null) return "is a row that no command wrote";
  return stored === committed ? undefined : "was changed after it was written";
}

/** Gives each misplaced row to its session; rows of an unknown one go to the journal of what belongs to no session. */
function attribute(sessions: readonly SessionReport[], misplaced: readonly MisplacedRow[]): SessionReport[] {
  const known = new Set(sessions.map((session) => session.rootFrameId));
  const ownerOf = ({ rootFrameId }: MisplacedRow) => (known.has(rootFrameId) ? rootFrameId : LEDGER_ROOT);
  return sessions.map((session) => {
    const own = misplaced.filter((each) => ownerOf(each) === session.rootFrameId).map(({ damage }) => damage);
    return { ...session, damage: [...session.damage, ...own] };
  });
}
