import type { actions } from "../../../src/protocol/actions.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import { requireRow, soundRow } from "../../ledger/required.ts";
import type { Row } from "../../storage/database.ts";
import type { Handler } from "../command.ts";
import { admit, isTerminalEvidence, writeToGroup } from "./admission.ts";
import { decodeActionEvent, differingColumn, eventColumns } from "./rows.ts";

const selectNextSequence = "SELECT COALESCE(MAX(sequence), -1) + 1 FROM action_events WHERE group_id = ?";

export const appendActionEvent: Handler<typeof actions.appendEvent> = (input, context) => {
  const { ledger, now, newId } = context;
  const { groupId } = input;
  const wanted: Row = { group_id: groupId, ...eventColumns(input) };
  requireRow(ledger, "action_groups", groupId, "groupId");
  const existing =
    input.eventId === undefined ? undefined : soundRow(ledger, "action_events", input.eventId, "eventId");
  if (existing !== undefined) return sameEvent(existing, wanted);

  const admission = admit(context, groupId, isTerminalEvidence(input) ? "evidence" : "work");
  const at = input.createdAt ?? now();
  const row: Row = {
    event_id: input.eventId ?? newId("ae-"),
    ...wanted,
    sequence: ledger.database.value(selectNextSequence, [groupId]) ?? 0,
    created_at: at,
  };
  writeToGroup(context, admission, "actions.appendEvent", at, [
    { act: "insert", table: "action_events", row },
  ]);
  return { ...decodeActionEvent(row), created: true };
};

function sameEvent(existing: Row, wanted: Row) {
  const differs = differingColumn(existing, wanted);
  if (differs === undefined) return { ...decodeActionEvent(existing), created: false };
  const eventId = existing["event_id"];
  throw new LedgerConflictError(
    "id_taken",
    `action event ${String(eventId)} exists with another ${differs}`,
    {
      field: "eventId",
      eventId,
    },
  );
}
