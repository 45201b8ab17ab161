import type { ActionGroup, actions } from "../../../src/protocol/actions.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { requireRow } from "../../ledger/required.ts";
import { requireSession, soundHistoryOf } from "../../ledger/sessions.ts";
import type { Row } from "../../storage/database.ts";
import type { Handler } from "../command.ts";
import { decodeGroup } from "./rows.ts";

const MAX_GROUPS = 10_000;

const selectEvents = "SELECT event_id FROM action_events WHERE group_id = ? ORDER BY sequence";
const selectRange = `SELECT group_id FROM action_groups WHERE root_frame_id = ? AND branch_id = ? AND ordinal >= ? AND ordinal < ?
  AND (?5 IS NULL OR turn_id = ?5) ORDER BY ordinal LIMIT ?6`;

export const getGroup: Handler<typeof actions.getGroup> = ({ groupId }, { ledger }) =>
  readGroup(ledger, groupId);

export const listGroups: Handler<typeof actions.listGroups> = (input, { ledger }) => {
  const { rootFrameId } = input;
  requireSession(ledger.database, rootFrameId);
  const limit = Math.min(input.limit, MAX_GROUPS);
  const groups: Row[] = [];
  for (const range of soundHistoryOf(ledger, rootFrameId, input.branchId ?? rootFrameId, "actions")) {
    // A position is an ordinal plus one, so the ordinals of a range run from `after` to below `upto`.
    const upto = range.upto ?? Number.MAX_SAFE_INTEGER;
    const left = limit - groups.length;
    const bounds = [rootFrameId, range.branchId, range.after, upto, input.turnId ?? null, left];
    groups.push(...ledger.database.all(selectRange, bounds));
  }
  return groups.map((group) => readGroup(ledger, String(group["group_id"])));
};

/** @throws NotFoundError @throws IntegrityError the group, or one of its events, was changed. */
function readGroup(ledger: Ledger, groupId: string): ActionGroup {
  const group = requireRow(ledger, "action_groups", groupId, "groupId");
  const events = ledger.database
    .all(selectEvents, [groupId])
    .map((row) => requireRow(ledger, "action_events", String(row["event_id"]), "groupId"));
  return decodeGroup(group, events);
}
