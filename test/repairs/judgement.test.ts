import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../../src/proof/index.ts";
import {
  ACTION_EVENT_TYPES,
  type ActionEvent,
  type ActionEventType,
  GROUP_KINDS,
  type GroupKind,
  type SideEffectClass,
} from "../../src/protocol/actions.ts";
import type { Attempt, AttemptTerminalState } from "../../src/protocol/attempts.ts";
import type { RepairOutcome } from "../../src/protocol/repairs.ts";
import {
  type GroupLedger,
  hasCommittedEffect,
  hasKnownFailure,
  isUncertain,
  refusalOf,
} from "../../worker/commands/repairs/judge.ts";

/** What the ledger of one bound group proves about how its repair ended (spec/auto_mode 6.3). */

type Case = readonly [
  name: string,
  events: readonly ActionEvent[],
  attempts: readonly Attempt[],
  provable: readonly RepairOutcome[],
];

const BATCHES = ["native_tools", "finalize"] as const;
const CELLS = ["code", "cell"] as const;
const OTHERS = GROUP_KINDS.filter((kind) => ![...BATCHES, ...CELLS].some((each) => each === kind));
const EFFECTS = [
  "workspace_write",
  "workspace_mutation",
  "runtime_mutation",
  "metadata_write",
  "external_write",
  "high_risk",
  "unknown",
  null,
] as const;
const NO_EFFECTS = ["none", "read", "read_only"] as const;
const SUCCESS_WORDS = ["ok", "completed", "succeeded", "success", "allowed"];
const FAILURE_WORDS = ["error", "failed", "denied", "cancelled", "timed_out"];
const FAILED_WITHOUT_EFFECT = { status: "error", output_committed: false };

describe.each(BATCHES)("a batch of tool calls of kind %s", (kind) => {
  test.each<Case>([
    ["whose calls all went well completed", [writes(), result("ok")], [], ["completed"]],
    ["in which nothing was proposed proves nothing", [], [], []],
    ["with an observation alone proves nothing", [event("observation")], [], []],
    ["that only says completed proves nothing", [event("completed")], [], []],
    ["with a result that nobody proposed proves nothing", [result("ok")], [], []],
    ["with a proposal that names no call proves nothing", [event("proposed", { toolCallId: null })], [], []],
    [
      "with a proposal that names no call proves nothing, however well the others went",
      [writes(), result("ok"), event("proposed", { toolCallId: null })],
      [],
      [],
    ],
    ["with an effectful call without a result is unknown", [writes()], [], ["outcome_unknown"]],
    ["with a reading call without a result proves nothing", [reads()], [], []],
    [
      "with a reading call without a result, beside an effectful one that ended, is unknown",
      [writes(), result("ok"), reads("b")],
      [],
      ["outcome_unknown"],
    ],
    [
      "with an effectful call whose failure says that nothing was committed failed",
      [writes(), result(FAILED_WITHOUT_EFFECT)],
      [],
      ["failed"],
    ],
    [
      "with an effectful call whose failure says that something was committed failed",
      [writes(), result({ status: "error", output_committed: true })],
      [],
      ["failed"],
    ],
    [
      "with an effectful call whose failure says nothing of its effect is unknown",
      [writes(), result("error")],
      [],
      ["outcome_unknown"],
    ],
    [
      "with one failed call, and one of whose effect nothing is said, is unknown",
      [writes(), result(FAILED_WITHOUT_EFFECT), writes("b"), result("ok", "b")],
      [],
      ["outcome_unknown"],
    ],
    [
      "with one failed call, and one that says it committed, failed",
      [
        writes(),
        result(FAILED_WITHOUT_EFFECT),
        writes("b"),
        result({ status: "ok", output_committed: true }, "b"),
      ],
      [],
      ["failed"],
    ],
    ["with a reading call that failed failed", [reads(), result("error")], [], ["failed"]],
    [
      "with a reading call that went well, and one that failed, failed",
      [reads(), result("ok"), reads("b"), result("error", "b")],
      [],
      ["failed"],
    ],
    [
      "with a call that is proposed twice and ended once is unknown",
      [writes(), writes(), result("ok")],
      [],
      ["outcome_unknown"],
    ],
    [
      "with a call that is proposed twice and ended twice completed",
      [writes(), result("ok"), writes(), result("ok")],
      [],
      ["completed"],
    ],
    [
      "with two results of one call, a good one and a bad one, proves no success",
      [reads(), result("ok"), result("error")],
      [],
      ["failed"],
    ],
    [
      "tells calls apart by the tool call before the action: same action, no tool call",
      [
        writes("a", { actionId: "x" }),
        event("result", { toolCallId: null, actionId: "x", result: { status: "ok" } }),
      ],
      [],
      ["outcome_unknown"],
    ],
    [
      "tells calls apart by the tool call before the action: same tool call, another action",
      [writes("a", { actionId: "x" }), result("ok", "a", { actionId: "y" })],
      [],
      ["completed"],
    ],
    [
      "tells calls apart by the action where there is no tool call",
      [
        writes("a", { toolCallId: null, actionId: "x" }),
        event("result", { toolCallId: null, actionId: "x", result: { status: "ok" } }),
      ],
      [],
      ["completed"],
    ],
    [
      "with a result that names no call is as if it had none",
      [writes(), event("result", { toolCallId: null, result: { status: "ok" } })],
      [],
      ["outcome_unknown"],
    ],
    [
      "with a call that failed, nobody knows with what effect, is unknown",
      [writes(), event("failed")],
      [],
      ["outcome_unknown"],
    ],
    // An ending that is no result does not count as one where uncertainty is judged.
    ["with a call that was denied failed", [writes(), event("denied")], [], ["failed", "outcome_unknown"]],
    [
      "with a call that was cancelled failed",
      [writes(), event("cancelled")],
      [],
      ["failed", "outcome_unknown"],
    ],
    ["with a reading call that was denied failed", [reads(), event("denied")], [], ["failed"]],
    ["with a reading call that failed for good failed", [reads(), event("failed")], [], ["failed"]],
    ["with a call that timed out is unknown", [writes(), event("timed_out")], [], ["outcome_unknown"]],
    ["with a reading call that timed out proves nothing", [reads(), event("timed_out")], [], []],
    [
      "whose calls went well, and that says failed without naming a call, failed",
      [reads(), result("ok"), event("failed", { toolCallId: null })],
      [],
      ["failed"],
    ],
    [
      "whose result says that its call timed out without an effect both failed and is unknown",
      [writes(), result({ status: "timed_out", output_committed: false })],
      [],
      ["failed", "outcome_unknown"],
    ],
    ["with a result that says neither proves nothing", [writes(), result({ note: "no status" })], [], []],
    [
      "with an unknown result that stands before its proposal is unknown",
      [result("unknown"), writes(), result("ok")],
      [],
      ["outcome_unknown"],
    ],
    [
      "whose permission is pending is as if it had no end",
      [writes(), event("permission_pending")],
      [],
      ["outcome_unknown"],
    ],
    [
      "whose permission was given is as if it had no end",
      [writes(), event("permission_resolved", { result: { state: "allowed" } })],
      [],
      ["outcome_unknown"],
    ],
    [
      "whose call and attempt went well completed",
      [writes(), result("ok")],
      [attempt("completed")],
      ["completed"],
    ],
    [
      "whose attempt failed, its call without effect, failed",
      [reads(), result("ok")],
      [attempt("failed")],
      ["failed"],
    ],
    [
      "whose attempt failed, its call with an effect, proves nothing",
      [writes(), result("ok")],
      [attempt("failed")],
      [],
    ],
    [
      "whose attempt completed, its reading call failed, failed",
      [reads(), result("error")],
      [attempt("completed")],
      ["failed"],
    ],
    ["whose attempt is not finished proves nothing", [writes(), result("ok")], [attempt(null)], []],
    ["whose attempt is not finished proves nothing, even unknown", [writes()], [attempt(null)], []],
    ["whose attempt timed out proves nothing", [reads(), result("ok")], [attempt("timed_out")], []],
    ["with an attempt that speaks for its open call proves nothing", [writes()], [attempt("completed")], []],
    [
      "with an attempt of unknown outcome is unknown",
      [writes()],
      [attempt("outcome_unknown")],
      ["outcome_unknown"],
    ],
    [
      "with an attempt that was given up after it started is unknown",
      [writes()],
      [attempt("abandoned")],
      ["outcome_unknown"],
    ],
    [
      "with an attempt that was given up before it started proves nothing",
      [writes()],
      [unstarted("abandoned")],
      [],
    ],
  ])("%s", (_, events, attempts, outcomes) => {
    expect(provable({ kind, events, attempts })).toEqual(outcomes);
  });

  test.each(SUCCESS_WORDS)("completed when the result says %s", (status) => {
    expect(provable(ledger(kind, [writes(), result(status)]))).toEqual(["completed"]);
  });

  test("completed when the result is no error, whatever its status says", () => {
    expect(provable(ledger(kind, [writes(), result({ is_error: false })]))).toEqual(["completed"]);
    expect(provable(ledger(kind, [writes(), result({ is_error: false, status: "done" })]))).toEqual([
      "completed",
    ]);
  });

  test.each(FAILURE_WORDS)("failed when the result of a reading call says %s", (status) => {
    expect(provable(ledger(kind, [reads(), result(status)]))).toEqual(["failed"]);
  });

  test("failed when the result is an error, whatever its status says", () => {
    expect(provable(ledger(kind, [reads(), result({ is_error: true })]))).toEqual(["failed"]);
    expect(provable(ledger(kind, [reads(), result({ is_error: true, status: "ok" })]))).toEqual(["failed"]);
  });

  test.each<[string, Json]>([
    ["nothing", null],
    ["a text", "done"],
    ["a number", 0],
    ["true", true],
    ["a list", [{ status: "ok" }]],
    ["status unknown", { status: "unknown" }],
    ["status outcome_unknown", { status: "outcome_unknown" }],
    ["status timed_out, without a word on its effect", { status: "timed_out" }],
  ])("is unknown when the result of an effectful call is %s", (_, value) => {
    expect(provable(ledger(kind, [writes(), result(value)]))).toEqual(["outcome_unknown"]);
    expect(provable(ledger(kind, [reads(), result(value)]))).not.toContain("outcome_unknown");
  });

  test.each(["denied", "timed_out", "cancelled"])("failed when the permission was %s", (state) => {
    const refused = event("permission_resolved", { result: { state } });
    expect(provable(ledger(kind, [writes(), refused]))).toEqual(["failed"]);
  });

  test.each(EFFECTS)("is unknown when a call of class %s has no result", (sideEffectClass) => {
    expect(provable(ledger(kind, [writes("a", { sideEffectClass })]))).toEqual(["outcome_unknown"]);
  });

  test.each(NO_EFFECTS)("proves nothing when a call of class %s has no result", (sideEffectClass) => {
    expect(provable(ledger(kind, [writes("a", { sideEffectClass })]))).toEqual([]);
  });

  test.each<[AttemptTerminalState, RepairOutcome[]]>([
    ["failed", ["failed"]],
    ["denied", ["failed"]],
    ["cancelled", ["failed"]],
    ["abandoned", ["failed", "outcome_unknown"]],
    ["outcome_unknown", ["outcome_unknown"]],
    ["timed_out", []],
    ["completed", ["completed"]],
  ])("whose calls went well is judged by its attempt, which ended as %s", (state, outcomes) => {
    expect(provable(ledger(kind, [reads(), result("ok")], [attempt(state)]))).toEqual(outcomes);
  });
});

describe.each(CELLS)("a group of kind %s", (kind) => {
  test.each<Case>([
    [
      "that was observed, its attempt completed, completed",
      [event("observation")],
      [attempt("completed")],
      ["completed"],
    ],
    [
      "that says completed, its attempt completed, completed",
      [event("completed")],
      [attempt("completed")],
      ["completed"],
    ],
    ["that was not observed proves nothing", [], [attempt("completed")], []],
    ["that was observed, but not attempted, proves nothing", [event("observation")], [], []],
    ["in which nothing happened proves nothing", [], [], []],
    ["whose attempt is not finished proves nothing", [event("observation")], [attempt(null)], []],
    ["whose attempt failed failed", [event("observation")], [attempt("failed")], ["failed"]],
    ["whose attempt was denied failed", [event("observation")], [attempt("denied")], ["failed"]],
    ["whose attempt was cancelled failed", [], [unstarted("cancelled")], ["failed"]],
    ["whose attempt timed out proves nothing", [event("observation")], [attempt("timed_out")], []],
    [
      "whose attempt has an unknown outcome is unknown",
      [],
      [attempt("outcome_unknown")],
      ["outcome_unknown"],
    ],
    [
      "whose attempt was given up after it started is unknown",
      [],
      [attempt("abandoned")],
      ["failed", "outcome_unknown"],
    ],
    ["whose attempt was given up before it started failed", [], [unstarted("abandoned")], ["failed"]],
    [
      "with an attempt that completed after one that failed proves nothing",
      [event("observation")],
      [attempt("failed"), attempt("completed")],
      [],
    ],
    [
      "with an attempt that completed beside one of unknown outcome is unknown",
      [event("observation")],
      [attempt("completed"), attempt("outcome_unknown")],
      ["outcome_unknown"],
    ],
    ["that says failed failed", [event("failed", { toolCallId: null })], [], ["failed"]],
    [
      "that says failed, its attempt completed, proves nothing",
      [event("observation"), event("failed", { toolCallId: null })],
      [attempt("completed")],
      [],
    ],
    [
      "that was cancelled, its attempt completed, proves nothing",
      [event("observation"), event("cancelled", { toolCallId: null })],
      [attempt("completed")],
      [],
    ],
    [
      "with a call that has no result, its attempt failed, proves nothing",
      [writes(), event("observation")],
      [attempt("failed")],
      [],
    ],
    [
      "with a call that failed without an effect, its attempt failed, failed",
      [writes(), result(FAILED_WITHOUT_EFFECT)],
      [attempt("failed")],
      ["failed"],
    ],
    [
      "with a call that failed with who knows what effect, its attempt failed, is unknown",
      [writes(), result("error")],
      [attempt("failed")],
      ["outcome_unknown"],
    ],
    ["with an effectful call without result or attempt is unknown", [writes()], [], ["outcome_unknown"]],
    [
      "with a call that has an unknown result, its attempt failed, is unknown",
      [writes(), result("unknown")],
      [attempt("failed")],
      ["outcome_unknown"],
    ],
    [
      "with a proposal that names no call proves nothing",
      [event("proposed", { toolCallId: null }), event("observation")],
      [attempt("completed")],
      [],
    ],
  ])("%s", (_, events, attempts, outcomes) => {
    expect(provable({ kind, events, attempts })).toEqual(outcomes);
  });
});

describe.each(OTHERS)("a group of kind %s", (kind) => {
  test.each<Case>([
    ["that says completed completed", [event("completed")], [], ["completed"]],
    ["in which nothing happened proves nothing", [], [], []],
    ["that was observed proves nothing", [event("observation")], [], []],
    ["whose call went well proves nothing", [reads(), result("ok")], [], []],
    ["that says failed failed", [event("failed")], [], ["failed"]],
    ["that says completed and failed failed", [event("completed"), event("failed")], [], ["failed"]],
    [
      "that says completed, its attempt unfinished, proves nothing",
      [event("completed")],
      [attempt(null)],
      [],
    ],
    [
      "that says completed, its attempt completed, completed",
      [event("completed")],
      [attempt("completed")],
      ["completed"],
    ],
    ["with an effectful call without a result is unknown", [writes()], [], ["outcome_unknown"]],
  ])("%s", (_, events, attempts, outcomes) => {
    expect(provable({ kind, events, attempts })).toEqual(outcomes);
  });
});

describe("an effect was committed", () => {
  const committed = { status: "error", output_committed: true };

  test.each(EFFECTS)("by a result of class %s that says so", (sideEffectClass) => {
    expect(hasCommittedEffect(ledger("native_tools", [result(committed, "a", { sideEffectClass })]))).toBe(
      true,
    );
  });

  test.each(NO_EFFECTS)("by no result of class %s, even if its proposal was effectful", (sideEffectClass) => {
    const events = [writes(), result(committed, "a", { sideEffectClass })];
    expect(hasCommittedEffect(ledger("native_tools", events))).toBe(false);
  });

  test.each<[string, ActionEvent]>([
    ["a result that says nothing of it", result("ok")],
    ["a result that denies it", result(FAILED_WITHOUT_EFFECT)],
    ["a result that says so in another word", result({ status: "ok", output_committed: "true" })],
    ["an event that is no result", event("observation", { result: committed })],
  ])("by no %s", (_, said) => {
    expect(hasCommittedEffect(ledger("native_tools", [said]))).toBe(false);
  });

  test("by a result that names no call, too", () => {
    expect(hasCommittedEffect(ledger("code", [result(committed, "a", { toolCallId: null })]))).toBe(true);
  });
});

describe("property:", () => {
  test("a ledger never proves both success and failure", () => {
    check(anyLedger(), (each) => {
      if (!saysFailureOutsideOfCalls(each))
        expect(provable(each)).not.toEqual(expect.arrayContaining(["completed", "failed"]));
    });
  });

  test("a cell never proves both success and failure, whatever its events say", () => {
    check(anyLedger(CELLS), (each) => {
      expect(provable(each)).not.toEqual(expect.arrayContaining(["completed", "failed"]));
    });
  });

  test("a batch never proves both success and an unknown outcome", () => {
    check(anyLedger(BATCHES), (each) => {
      expect(provable(each)).not.toEqual(expect.arrayContaining(["completed", "outcome_unknown"]));
    });
  });

  test("one more unknown result never makes success provable", () => {
    check(fc.tuple(anyLedger(), anyUnknownResult(), fc.nat()), ([each, unknown, place]) => {
      const at = place % (each.events.length + 1);
      const more = { ...each, events: each.events.toSpliced(at, 0, unknown) };
      if (!provable(each).includes("completed")) expect(provable(more)).not.toContain("completed");
    });
  });

  test("one more unknown result of one of its calls takes success away from a batch", () => {
    check(fc.tuple(anyLedger(BATCHES), fc.constantFrom("a", "b")), ([each, call]) => {
      const more = { ...each, events: [...each.events, result("unknown", call)] };
      expect(provable(more)).not.toContain("completed");
      expect(provable(more)).not.toContain("failed");
    });
  });

  test("an unfinished attempt leaves nothing provable", () => {
    check(fc.tuple(anyLedger(), fc.nat()), ([each, place]) => {
      const at = place % (each.attempts.length + 1);
      const more = { ...each, attempts: each.attempts.toSpliced(at, 0, attempt(null)) };
      expect(provable(more)).toEqual([]);
    });
  });

  test("the order of unrelated events, and of attempts, does not matter", () => {
    const shuffled = anyLedger().chain((each) =>
      fc.tuple(
        fc.constant(each),
        fc.shuffledSubarray([...each.events.keys()], { minLength: each.events.length }),
        fc.shuffledSubarray([...each.attempts], { minLength: each.attempts.length }),
      ),
    );
    check(shuffled, ([each, order, attempts]) => {
      const events = interleave(each.events, order);
      expect(judgementOf({ ...each, events, attempts })).toEqual(judgementOf(each));
    });
  });

  test("reading calls alone, their attempts seen to the end, leave nothing unknown", () => {
    check(anyLedger(), (each) => {
      const events = each.events.map((one) =>
        one.type === "proposed" ? { ...one, sideEffectClass: "read_only" as const } : one,
      );
      const attempts = each.attempts.filter(
        ({ terminalState }) => terminalState !== "outcome_unknown" && terminalState !== "abandoned",
      );
      expect(isUncertain({ ...each, events, attempts })).toBe(false);
    });
  });
});

/** What the ledger of a single group proves: what `repairs.complete` would accept. */
function provable(each: GroupLedger): RepairOutcome[] {
  const isBorneOut = {
    completed: true,
    failed: hasKnownFailure(each),
    outcome_unknown: isUncertain(each),
  };
  return (["completed", "failed", "outcome_unknown"] as const).filter(
    (outcome) => isBorneOut[outcome] && refusalOf(outcome, each) === undefined,
  );
}

function judgementOf(each: GroupLedger) {
  return { provable: provable(each), hasCommittedEffect: hasCommittedEffect(each) };
}

function ledger(
  kind: GroupKind,
  events: readonly ActionEvent[],
  attempts: readonly Attempt[] = [],
): GroupLedger {
  return { kind, events, attempts };
}

/** An event of the call `a`, if nothing else is said. */
function event(type: ActionEventType, changes: Partial<ActionEvent> = {}): ActionEvent {
  return {
    eventId: "event",
    groupId: "ag-1",
    sequence: 0,
    type,
    actionId: null,
    toolCallId: "a",
    wireId: null,
    canonicalArguments: null,
    rawArguments: null,
    result: null,
    sideEffectClass: null,
    resourceKeys: [],
    createdAt: 0,
    ...changes,
  };
}

function writes(toolCallId = "a", changes: Partial<ActionEvent> = {}): ActionEvent {
  return event("proposed", { toolCallId, sideEffectClass: "workspace_write", ...changes });
}

function reads(toolCallId = "a"): ActionEvent {
  return event("proposed", { toolCallId, sideEffectClass: "read_only" });
}

/** A result: a word that is neither "done" nor a document is its status. */
function result(value: Json, toolCallId = "a", changes: Partial<ActionEvent> = {}): ActionEvent {
  const isStatus = typeof value === "string" && value !== "done";
  return event("result", { toolCallId, result: isStatus ? { status: value } : value, ...changes });
}

/** An attempt that was started; null: it is not finished. */
function attempt(terminalState: AttemptTerminalState | null): Attempt {
  return {
    attemptId: "attempt",
    groupId: "ag-1",
    producingCellId: "cell-1",
    attemptOrdinal: 0,
    stateRevision: null,
    generationId: null,
    ownerInstanceId: "tab",
    allocatedAt: 0,
    startedAt: 1,
    responseAt: null,
    captureAt: null,
    finishedAt: terminalState === null ? null : 2,
    terminalState,
    error: null,
    replayedFromCellId: null,
  };
}

function unstarted(terminalState: AttemptTerminalState): Attempt {
  return { ...attempt(terminalState), startedAt: null };
}

function check<Value>(values: fc.Arbitrary<Value>, holds: (value: Value) => void): void {
  fc.assert(fc.property(values, holds), { numRuns: 2_000, seed: 20_240_607 });
}

function anyLedger(
  kinds: readonly GroupKind[] = [...BATCHES, ...CELLS, ...OTHERS],
): fc.Arbitrary<GroupLedger> {
  return fc.record({
    kind: fc.constantFrom(...kinds),
    events: fc.array(anyEvent(), { maxLength: 7 }),
    attempts: fc.array(anyAttempt(), { maxLength: 3 }),
  });
}

function anyEvent(): fc.Arbitrary<ActionEvent> {
  const weighted = [...ACTION_EVENT_TYPES, "proposed", "proposed", "result", "result", "result"] as const;
  return fc
    .record({
      type: fc.constantFrom(...weighted),
      toolCallId: fc.constantFrom("a", "a", "b", null),
      actionId: fc.constantFrom("a", "x", null),
      sideEffectClass: fc.constantFrom<SideEffectClass | null>(...EFFECTS, ...NO_EFFECTS),
      result: anyResult(),
    })
    .map(({ type, ...fields }) => event(type, fields));
}

function anyResult(): fc.Arbitrary<Json> {
  const words = [...SUCCESS_WORDS, ...FAILURE_WORDS, "unknown", "outcome_unknown", "whatever"];
  return fc.oneof(
    fc.constantFrom<Json>(null, "text", 1, [], ["ok"]),
    fc.record(
      {
        status: fc.constantFrom<Json>(...words),
        state: fc.constantFrom<Json>(...words),
        is_error: fc.boolean(),
        output_committed: fc.boolean(),
      },
      { requiredKeys: [] },
    ) as fc.Arbitrary<Json>,
  );
}

function anyUnknownResult(): fc.Arbitrary<ActionEvent> {
  return fc
    .record({
      toolCallId: fc.constantFrom("a", "b", null),
      result: fc.constantFrom<Json>(
        null,
        "done",
        [],
        {},
        { status: "unknown" },
        { status: "outcome_unknown" },
      ),
    })
    .map((fields) => event("result", fields));
}

function anyAttempt(): fc.Arbitrary<Attempt> {
  const states: readonly (AttemptTerminalState | null)[] = [
    "completed",
    "completed",
    "failed",
    "denied",
    "cancelled",
    "timed_out",
    "outcome_unknown",
    "abandoned",
    null,
  ];
  return fc
    .record({ state: fc.constantFrom(...states), isStarted: fc.boolean() })
    .map(({ state, isStarted }) => ({ ...attempt(state), startedAt: isStarted ? 1 : null }));
}

/** Whether a failure is told by something else than the end of a call; such a batch is not judged by it alone. */
function saysFailureOutsideOfCalls({ kind, events }: GroupLedger): boolean {
  const isBatch = (BATCHES as readonly string[]).includes(kind);
  return events.some((each) => {
    const isEnd = ["result", "permission_resolved"].includes(each.type) && callOf(each) !== null;
    return !(isBatch && isEnd) && hasKnownFailure(ledger("native_tools", [each]));
  });
}

/** The events in another order, in which those of one call keep theirs. */
function interleave(events: readonly ActionEvent[], order: readonly number[]): ActionEvent[] {
  const left = new Map<string | null, ActionEvent[]>();
  for (const each of events) left.set(callOf(each), [...(left.get(callOf(each)) ?? []), each]);
  return order.flatMap((index) => {
    const place = events[index];
    return place === undefined ? [] : (left.get(callOf(place))?.splice(0, 1) ?? []);
  });
}

function callOf({ toolCallId, actionId }: ActionEvent): string | null {
  return toolCallId ?? actionId;
}
