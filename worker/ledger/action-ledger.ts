import { digest, type Sha256 } from "../../src/proof/sha256.ts";
import type { Row } from "../storage/database.ts";

/** Action groups with their events and attempts, each in its order. */
export interface ActionLedger {
  readonly groups: readonly Row[];
  /** By group and sequence. */
  readonly events: readonly Row[];
  /** By group and ordinal. */
  readonly attempts: readonly Row[];
}

export const EMPTY_LEDGER: ActionLedger = { groups: [], events: [], attempts: [] };

/** The part of a ledger that belongs to one group. */
export function ledgerOfGroup(ledger: ActionLedger, groupId: string): ActionLedger {
  const ofGroup = (row: Row) => row["group_id"] === groupId;
  return {
    groups: ledger.groups.filter(ofGroup),
    events: ledger.events.filter(ofGroup),
    attempts: ledger.attempts.filter(ofGroup).sort(byOrdinal),
  };
}

/** What a seal covers, version 1: these fields and no others, so that a later schema leaves old seals whole. */
const SEALED_FIELDS = {
  group:
    "group_id root_frame_id branch_id turn_id ordinal kind provider model wire_state assistant_content assistant_message usage created_at",
  event:
    "event_id group_id sequence type action_id tool_call_id wire_id canonical_arguments raw_arguments result side_effect_class resource_keys created_at",
  attempt:
    "attempt_id group_id producing_cell_id attempt_ordinal state_revision generation_id owner_instance_id allocated_at started_at response_at capture_at finished_at terminal_state error replayed_from_cell_id",
} as const;

/** The seal of one group's ledger: how many events it has, and the digest of all that the seal covers. */
export function sealOf({ groups, events, attempts }: ActionLedger): { eventCount: number; sha256: Sha256 } {
  const sealed = {
    version: 1,
    group: pick(groups[0] ?? {}, SEALED_FIELDS.group),
    events: events.map((row) => pick(row, SEALED_FIELDS.event)),
    attempts: attempts.map((row) => pick(row, SEALED_FIELDS.attempt)),
  };
  return { eventCount: events.length, sha256: digest(sealed) };
}

function pick(row: Row, fields: string): Row {
  return Object.fromEntries(fields.split(" ").map((field) => [field, row[field] ?? null]));
}

/** Ordinals count within a cell, so attempts of several cells are not in order as they were allocated. */
function byOrdinal(a: Row, b: Row): number {
  const ordinals = Number(a["attempt_ordinal"]) - Number(b["attempt_ordinal"]);
  return ordinals !== 0 ? ordinals : String(a["attempt_id"]) < String(b["attempt_id"]) ? -1 : 1;
}
