import type { actions } from "../../../src/protocol/actions.ts";
import type { ParsedOf } from "../../../src/protocol/command.ts";
import { LedgerConflictError } from "../../../src/protocol/errors.ts";
import type { RowWrite } from "../../ledger/ledger.ts";
import { requireRow } from "../../ledger/required.ts";
import { requireSession, requireSoundBranch } from "../../ledger/sessions.ts";
import type { Row } from "../../storage/database.ts";
import type { Context, Handler } from "../command.ts";
import { decodeGroup, differingColumn, eventColumns, groupColumns } from "./rows.ts";

const selectNextOrdinal =
  "SELECT COALESCE(MAX(ordinal), -1) + 1 FROM action_groups WHERE root_frame_id = ? AND branch_id = ?";
const selectEvents = "SELECT * FROM action_events WHERE group_id = ? ORDER BY sequence";

export const appendGroup: Handler<typeof actions.appendGroup> = (input, context) =>
  appendWithEvents(context, "actions.appendGroup", { ...input, events: [] });

export const appendToolGroup: Handler<typeof actions.appendToolGroup> = (input, context) =>
  appendWithEvents(context, "actions.appendToolGroup", input);

function appendWithEvents(
  context: Context,
  command: string,
  input: ParsedOf<typeof actions.appendToolGroup>,
) {
  const { ledger, caller, now, newId } = context;
  const { rootFrameId } = input;
  const branchId = input.branchId ?? rootFrameId;
  requireSession(ledger.database, rootFrameId);
  requireSoundBranch(ledger, branchId, rootFrameId);
  ledger.assertNoBarrier(rootFrameId);
  const wanted = groupColumns(input, branchId);
  const events = input.events.map(eventColumns);
  const groupId = input.groupId ?? newId("ag-");
  if (ledger.database.value("SELECT 1 FROM action_groups WHERE group_id = ?", [groupId]) !== undefined) {
    return sameGroup(context, groupId, wanted, events);
  }

  const at = input.createdAt ?? now();
  const group: Row = {
    group_id: groupId,
    ...wanted,
    ordinal: ledger.database.value(selectNextOrdinal, [rootFrameId, branchId]) ?? 0,
    created_at: at,
  };
  const eventRows = events.map(
    (columns, sequence): Row => ({
      event_id: input.events[sequence]?.eventId ?? newId("ae-"),
      group_id: groupId,
      sequence,
      ...columns,
      created_at: input.events[sequence]?.createdAt ?? at,
    }),
  );
  assertEventIdsFree(context, eventRows);
  const writes: RowWrite[] = [
    { act: "insert", table: "action_groups", row: group },
    ...eventRows.map((row): RowWrite => ({ act: "insert", table: "action_events", row })),
  ];
  ledger.append(caller, { command, rootFrameId, branchId, at, writes });
  return { ...decodeGroup(group, eventRows), created: true };
}

function sameGroup(context: Context, groupId: string, wanted: Row, events: readonly Row[]) {
  const group = requireRow(context.ledger, "action_groups", groupId, "groupId");
  const stored = context.ledger.database.all(selectEvents, [groupId]);
  const first = stored.slice(0, events.length);
  const differs =
    differingColumn(group, wanted) ??
    events
      .map((event, index) => differingColumn(first[index] ?? {}, event))
      .find((each) => each !== undefined);
  if (differs === undefined) return { ...decodeGroup(group, stored), created: false };
  throw new LedgerConflictError("id_taken", `action group ${groupId} exists with another ${differs}`, {
    field: "groupId",
    groupId,
  });
}

function assertEventIdsFree({ ledger }: Context, rows: readonly Row[]): void {
  const seen = new Set<unknown>();
  for (const { event_id: eventId } of rows) {
    const isTaken =
      seen.has(eventId) ||
      ledger.database.value("SELECT 1 FROM action_events WHERE event_id = ?", [eventId ?? null]) !==
        undefined;
    if (isTaken) {
      throw new LedgerConflictError("id_taken", `the action event id ${String(eventId)} is taken`, {
        field: "eventId",
        eventId,
      });
    }
    seen.add(eventId);
  }
}
