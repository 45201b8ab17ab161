import { canonicalJson, type Json } from "../../../src/proof/canonical.ts";
import type { ActionEvent, ActionGroup, actions } from "../../../src/protocol/actions.ts";
import type { Attempt } from "../../../src/protocol/attempts.ts";
import type { ParsedOf } from "../../../src/protocol/command.ts";
import { decodeRow, withParsed } from "../../ledger/rows.ts";
import type { Row } from "../../storage/database.ts";

/** Between the rows of the action ledger and what the API speaks of. */

const GROUP_DOCUMENTS = new Set(["wire_state", "assistant_message", "usage"]);
const EVENT_DOCUMENTS = new Set(["canonical_arguments", "raw_arguments", "result", "resource_keys"]);
const ATTEMPT_DOCUMENTS = new Set(["error"]);

export function decodeGroup(row: Row, events: readonly Row[]): ActionGroup {
  const group = decodeRow<Omit<ActionGroup, "events">>(withParsed(row, GROUP_DOCUMENTS) as Row);
  return { ...group, events: events.map(decodeActionEvent) };
}

export function decodeActionEvent(row: Row): ActionEvent {
  return decodeRow<ActionEvent>(withParsed(row, EVENT_DOCUMENTS) as Row);
}

export function decodeAttempt(row: Row): Attempt {
  return decodeRow<Attempt>(withParsed(row, ATTEMPT_DOCUMENTS) as Row);
}

type EventInput = ParsedOf<typeof actions.appendToolGroup>["events"][number];

/** The columns of an event that its input sets. */
export function eventColumns(input: EventInput): Row {
  return {
    type: input.type,
    action_id: input.actionId ?? null,
    tool_call_id: input.toolCallId ?? null,
    wire_id: input.wireId ?? null,
    canonical_arguments: textOf(input.canonicalArguments),
    raw_arguments: textOf(input.rawArguments),
    result: textOf(input.result),
    side_effect_class: input.sideEffectClass ?? null,
    resource_keys: canonicalJson(input.resourceKeys),
  };
}

/** The columns of a group that its input sets. */
export function groupColumns(
  input: Omit<ParsedOf<typeof actions.appendGroup>, "groupId" | "createdAt">,
  branchId: string,
): Row {
  return {
    root_frame_id: input.rootFrameId,
    branch_id: branchId,
    turn_id: input.turnId,
    kind: input.kind,
    provider: input.provider ?? null,
    model: input.model ?? null,
    wire_state: textOf(input.wireState),
    assistant_content: input.assistantContent ?? null,
    assistant_message: textOf(input.assistantMessage),
    usage: textOf(input.usage ?? null),
    cost_usd: input.costUsd ?? null,
  };
}

export function textOf(value: Json): string | null {
  return value === null ? null : canonicalJson(value);
}

/** The first of the wanted columns that a row does not have as wanted. */
export function differingColumn(row: Row, wanted: Row): string | undefined {
  return Object.keys(wanted).find((column) => row[column] !== wanted[column]);
}
