import { canonicalJson } from "../../src/proof/canonical.ts";
import { BARRIER_PREFIX, revertRecoverySettingKey } from "../../src/protocol/barrier.ts";
import type { Context } from "../commands/command.ts";
import { LEDGER_ROOT } from "../ledger/journal.ts";
import type { RowWrite } from "../ledger/ledger.ts";
import type { Database, Row } from "../storage/database.ts";

/**
 * The text of the barrier: what an unresolved revert was about to do (spec/session_store 2.9.1). Commands look only at
 * whether there is one; recovery reads it.
 *
 * - `preparing`: nothing was touched yet.
 * - `reverting`: the state before is kept under `undoCheckpointId`; files may be half-way.
 *
 * The commit of a revert takes the barrier away in the same transaction.
 */
export type RevertMarker = {
  readonly schema_version: 1;
  readonly operation_id: string;
  readonly branch_id: string;
  readonly owner_instance_id?: string;
  readonly current_checkpoint_id: string;
  readonly target_checkpoint_id: string;
} & (
  | { readonly state: "preparing" }
  | {
      readonly state: "reverting" | "recovery_required" | "committed_reconciled";
      readonly undo_checkpoint_id: string;
      readonly revert_checkpoint_id: string;
      readonly undo_tree_id: string | null;
      readonly target_tree_id: string | null;
    }
);

/** Reverts that this worker is carrying out right now: they are not for recovery. */
export const underWay = new Set<string>();

/** The prefix of the keys is followed by hex digits, all of which come before "g". */
const selectMarkers = "SELECT value FROM settings WHERE key >= ?1 AND key < ?1 || 'g'";
const selectRoot = "SELECT root_frame_id FROM session_branches WHERE branch_id = ?";

/** The unresolved reverts that can be read and say whose they are, by their sessions. */
export function ownedMarkers(database: Database): { rootFrameId: string; owner: string }[] {
  return database.all(selectMarkers, [BARRIER_PREFIX]).flatMap(({ value }) => {
    const marker = parseMarker(String(value));
    const rootFrameId = marker && database.value(selectRoot, [marker.branch_id]);
    if (typeof rootFrameId !== "string" || marker?.owner_instance_id === undefined) return [];
    return [{ rootFrameId, owner: marker.owner_instance_id }];
  });
}

export function readMarkerRow({ ledger }: Context, rootFrameId: string): Row | undefined {
  return ledger.database.get("SELECT * FROM settings WHERE key = ?", [revertRecoverySettingKey(rootFrameId)]);
}

/** The marker of a text, or undefined where it is not one that a revert writes. */
export function parseMarker(text: string): RevertMarker | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const marker = value as Record<string, unknown>;
  const needed =
    marker["state"] === "preparing"
      ? ["operation_id", "branch_id", "current_checkpoint_id", "target_checkpoint_id"]
      : ["operation_id", "branch_id", "target_checkpoint_id", "undo_checkpoint_id", "revert_checkpoint_id"];
  const states = ["preparing", "reverting", "recovery_required", "committed_reconciled"];
  const isWhole =
    marker["schema_version"] === 1 &&
    states.includes(String(marker["state"])) &&
    needed.every((field) => typeof marker[field] === "string");
  return isWhole ? (value as RevertMarker) : undefined;
}

/** Puts the barrier up, or changes what it says. */
export function writeMarker(context: Context, rootFrameId: string, marker: RevertMarker, at: number): void {
  const { ledger, caller } = context;
  const row = { key: revertRecoverySettingKey(rootFrameId), value: canonicalJson(marker), updated_at: at };
  const before = readMarkerRow(context, rootFrameId);
  const write: RowWrite =
    before === undefined
      ? { act: "insert", table: "settings", row }
      : { act: "update", table: "settings", before, row };
  ledger.append(caller, {
    command: "branches.revert.barrier",
    rootFrameId: LEDGER_ROOT,
    at,
    writes: [write],
  });
}

/** Takes the barrier away, if it still says exactly that. False if it does not. */
export function clearMarker(context: Context, rootFrameId: string, text: string, at: number): boolean {
  const { ledger, caller } = context;
  const row = readMarkerRow(context, rootFrameId);
  if (row?.["value"] !== text) return false;
  ledger.append(caller, {
    command: "branches.revert.barrier",
    rootFrameId: LEDGER_ROOT,
    at,
    writes: [{ act: "delete", table: "settings", row }],
  });
  return true;
}
