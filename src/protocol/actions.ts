import * as z from "zod";
import type { Json, JsonObject } from "../proof/canonical.ts";
import { defineCommand } from "./command.ts";
import {
  anyText,
  existingActionGroupId,
  existingBranchId,
  existingRootFrameId,
  integer,
  jsonObject,
  jsonValue,
  LONG_TEXT,
  millis,
  newActionGroupId,
  newId,
  text,
  textList,
  word,
} from "./fields.ts";

/** What a group of actions is (spec/session_store 4.3). */
export const GROUP_KINDS = [
  "user",
  "native_tools",
  "finalize",
  "code",
  "cell",
  "no_action",
  "terminal",
  "permission_resolution",
  "system",
  "checkpoint",
  "branch",
  "revert",
  "recovery",
] as const;
export type GroupKind = (typeof GROUP_KINDS)[number];

export const ACTION_EVENT_TYPES = [
  "proposed",
  "permission_pending",
  "permission_resolved",
  "result",
  "observation",
  "completed",
  "failed",
  "denied",
  "timed_out",
  "cancelled",
] as const;
export type ActionEventType = (typeof ACTION_EVENT_TYPES)[number];

/** What an action may do to the world (spec/session_store 4.4). Absent counts as `unknown`: it may do anything. */
const SIDE_EFFECT_CLASSES = [
  "none",
  "read",
  "read_only",
  "workspace_write",
  "workspace_mutation",
  "runtime_mutation",
  "metadata_write",
  "external_write",
  "high_risk",
  "unknown",
] as const;
export type SideEffectClass = (typeof SIDE_EFFECT_CLASSES)[number];

export interface ActionGroup {
  readonly groupId: string;
  readonly rootFrameId: string;
  readonly branchId: string;
  readonly turnId: string;
  /** From 0 in each branch. */
  readonly ordinal: number;
  readonly kind: GroupKind;
  readonly provider: string | null;
  readonly model: string | null;
  readonly wireState: Json;
  readonly assistantContent: string | null;
  readonly assistantMessage: Json;
  readonly usage: JsonObject | null;
  readonly costUsd: number | null;
  readonly createdAt: number;
  readonly events: readonly ActionEvent[];
}

export interface ActionEvent {
  readonly eventId: string;
  readonly groupId: string;
  /** From 0 in each group. */
  readonly sequence: number;
  readonly type: ActionEventType;
  readonly actionId: string | null;
  readonly toolCallId: string | null;
  readonly wireId: string | null;
  readonly canonicalArguments: Json;
  readonly rawArguments: Json;
  readonly result: Json;
  readonly sideEffectClass: SideEffectClass | null;
  readonly resourceKeys: readonly string[];
  readonly createdAt: number;
}

const groupFields = {
  groupId: newActionGroupId().optional(),
  rootFrameId: existingRootFrameId(),
  branchId: existingBranchId().optional(),
  turnId: newId(),
  provider: text().nullish(),
  model: text().nullish(),
  wireState: jsonValue(),
  assistantContent: anyText(1_048_576).nullish(),
  assistantMessage: jsonValue(),
  usage: jsonObject().nullish(),
  costUsd: z.number("a number from 0").min(0, "a number from 0").nullish(),
  createdAt: millis(),
};

const eventFields = {
  eventId: newId().optional(),
  type: word(ACTION_EVENT_TYPES),
  actionId: text().nullish(),
  toolCallId: text().nullish(),
  wireId: text().nullish(),
  canonicalArguments: jsonValue(),
  rawArguments: jsonValue(),
  result: jsonValue(),
  sideEffectClass: word(SIDE_EFFECT_CLASSES).nullish(),
  resourceKeys: textList(),
  createdAt: millis(),
};

export const actions = {
  /**
   * Appends a group at the end of its branch (default: the main one). With the `groupId` of an equal group that one
   * is returned (spec/session_store 4.2).
   *
   * @throws RecoveryRequiredError a revert of the session is unresolved.
   * @throws LedgerConflictError the id stands for another group.
   */
  appendGroup: defineCommand<ActionGroup & { readonly created: boolean }>()(
    "write",
    z.strictObject({ ...groupFields, kind: word(GROUP_KINDS) }),
  ),
  /**
   * Appends an event to a group. While a revert is unresolved, or the group's repair can't go on, only evidence of
   * how earlier work ended is admitted: results, observations and endings.
   *
   * @throws RecoveryRequiredError a revert of the session is unresolved.
   * @throws LedgerConflictError the group is sealed, its repair can't go on, or the event's id stands for another.
   */
  appendEvent: defineCommand<ActionEvent & { readonly created: boolean }>()(
    "write",
    z.strictObject({ groupId: existingActionGroupId(), ...eventFields }),
  ),
  /** Appends a group together with its first events, all or nothing. */
  appendToolGroup: defineCommand<ActionGroup & { readonly created: boolean }>()(
    "write",
    z.strictObject({
      ...groupFields,
      kind: word(GROUP_KINDS).default("native_tools"),
      events: z
        .array(z.strictObject(eventFields), "a list of events")
        .min(1, "at least one event")
        .max(1_000, "at most 1,000 events"),
    }),
  ),
  /** @throws NotFoundError */
  getGroup: defineCommand<ActionGroup>()("read", z.strictObject({ groupId: existingActionGroupId() })),
  /** The groups that a branch shows, oldest first, with their events. */
  listGroups: defineCommand<ActionGroup[]>()(
    "read",
    z.strictObject({
      rootFrameId: existingRootFrameId(),
      branchId: existingBranchId().optional(),
      turnId: text(LONG_TEXT).optional(),
      limit: integer(1).default(1_000),
    }),
  ),
};
