import type { Json } from "../../../src/proof/canonical.ts";
import type { ActionEvent } from "../../../src/protocol/actions.ts";
import type { Attempt } from "../../../src/protocol/attempts.ts";
import type { RepairOutcome } from "../../../src/protocol/repairs.ts";

/** What the ledger of one bound group says about how its repair ended (spec/auto_mode 6.3): pure. */

export interface GroupLedger {
  readonly kind: string;
  readonly events: readonly ActionEvent[];
  readonly attempts: readonly Attempt[];
}

const NO_EFFECT = new Set<unknown>(["none", "read", "read_only"]);
const FAILURES = new Set<unknown>(["error", "failed", "denied", "cancelled", "timed_out"]);
const SUCCESSES = new Set<unknown>(["ok", "completed", "succeeded", "success", "allowed"]);
const UNKNOWNS = new Set<unknown>(["timed_out", "unknown", "outcome_unknown"]);
const ENDED_BADLY = new Set<string>(["failed", "denied", "cancelled"]);
const REFUSED = new Set<unknown>(["denied", "timed_out", "cancelled"]);

/** Everything that one identity (a tool call or an action) went through. */
interface Action {
  proposed: number;
  terminal: number;
  hasEffect: boolean;
  failed: boolean;
  unknown: boolean;
  /** Whether something says for sure that its output was committed, or that it was not. */
  commitKnown: boolean;
}

/** Why the ledger does not bear the outcome out, or undefined. */
export function refusalOf(outcome: RepairOutcome, ledger: GroupLedger): string | undefined {
  const unidentified = ledger.events.find((event) => event.type === "proposed" && identityOf(event) === null);
  if (unidentified !== undefined)
    return `proposal ${unidentified.eventId} names neither an action nor a tool call`;
  if (outcome === "completed") return completionRefusal(ledger);
  const open = ledger.attempts.find((attempt) => attempt.finishedAt === null);
  if (open !== undefined) return `attempt ${open.attemptId} is not finished`;
  return outcome === "failed" ? failureRefusal(ledger) : undefined;
}

function completionRefusal(ledger: GroupLedger): string | undefined {
  const { kind, events, attempts } = ledger;
  const bad = events.find((event) => ENDED_BADLY.has(event.type));
  if (bad !== undefined) return `event ${bad.eventId} says ${bad.type}`;
  const attempt = attempts.find((each) => each.terminalState !== "completed");
  if (attempt !== undefined) return `attempt ${attempt.attemptId} is not completed`;
  const actions = actionsOf(events);
  switch (kind) {
    case "native_tools":
    case "finalize":
      if (actions.some((action) => action.failed || action.unknown)) return "an action failed or is unknown";
      if (!actions.some((action) => action.proposed > 0)) return "nothing was proposed";
      return isUnderTerminated(actions) ? "a proposed action has no result" : undefined;
    case "code":
    case "cell":
      if (!events.some((event) => event.type === "observation" || event.type === "completed"))
        return "nothing was observed";
      return attempts.length === 0 ? "nothing was attempted" : undefined;
    default:
      return events.some((event) => event.type === "completed")
        ? undefined
        : "nothing says that it was completed";
  }
}

function failureRefusal({ kind, events, attempts }: GroupLedger): string | undefined {
  const actions = actionsOf(events);
  if ((kind === "code" || kind === "cell") && attempts.some((each) => SUCCESSES.has(each.terminalState)))
    return "an attempt succeeded";
  if (isUnderTerminated(actions)) return "a proposed action has no result";
  if (actions.some((action) => action.unknown)) return "how an action ended is unknown";
  return actions.some(mayHaveCommitted)
    ? "an action may have had an effect: its result does not say whether the output was committed"
    : undefined;
}

/** What was proposed could have an effect, and nothing says whether it had. */
function mayHaveCommitted({ proposed, hasEffect, commitKnown }: Action): boolean {
  return proposed > 0 && hasEffect && !commitKnown;
}

/** Whether something in the group is known to have failed. */
export function hasKnownFailure({ events, attempts }: GroupLedger): boolean {
  return (
    events.some((event) => ENDED_BADLY.has(event.type) || saysFailure(event.result)) ||
    attempts.some(({ terminalState }) =>
      ["failed", "denied", "cancelled", "abandoned"].includes(terminalState ?? ""),
    )
  );
}

function saysFailure(result: Json): boolean {
  const fields = fieldsOf(result);
  return fields["is_error"] === true || FAILURES.has(fields["status"]) || FAILURES.has(fields["state"]);
}

/** Whether a result says that an effect was committed. */
export function hasCommittedEffect({ events }: GroupLedger): boolean {
  return events.some(
    (event) =>
      event.type === "result" &&
      !NO_EFFECT.has(event.sideEffectClass) &&
      fieldsOf(event.result)["output_committed"] === true,
  );
}

/**
 * Whether nobody can say what the group did: an attempt ended unknown or was cut off after it had started, or an
 * effectful action has an unknown result, or none at all and no attempt that would speak for it. Nor can anybody where
 * something failed and nothing says whether such an action was committed: the repair could not end at all otherwise.
 */
export function isUncertain({ events, attempts }: GroupLedger): boolean {
  if (attempts.some(isCutOff)) return true;
  const actions = actionsOf(events);
  if (actions.some(({ failed }) => failed) && actions.some(mayHaveCommitted)) return true;
  const effectful = new Set<string>();
  const proposed = new Map<string, number>();
  const ended = new Map<string, number>();
  const unknown = new Set<string>();
  for (const event of events) {
    const identity = identityOf(event);
    if (identity === null) continue;
    if (event.type === "proposed") {
      count(proposed, identity);
      if (!NO_EFFECT.has(event.sideEffectClass)) effectful.add(identity);
    } else if (endsForUncertainty(event)) {
      count(ended, identity);
      if (isUnknownResult(event)) unknown.add(identity);
    }
  }
  if (effectful.size === 0) return false;
  const hasOpen = [...proposed].some(([identity, times]) => (ended.get(identity) ?? 0) < times);
  return [...unknown].some((identity) => effectful.has(identity)) || (hasOpen && attempts.length === 0);
}

/** An attempt that boot found unfinished and gave up is as unknown as one that was left open until now. */
function isCutOff({ terminalState, startedAt }: Attempt): boolean {
  return terminalState === "outcome_unknown" || (terminalState === "abandoned" && startedAt !== null);
}

function endsForUncertainty(event: ActionEvent): boolean {
  return event.type === "result" || event.type === "timed_out" || isRefusedPermission(event);
}

function isUnknownResult({ type, result }: ActionEvent): boolean {
  if (type === "timed_out") return true;
  if (type !== "result") return false;
  const isDocument = typeof result === "object" && result !== null && !Array.isArray(result);
  return !isDocument || UNKNOWNS.has(fieldsOf(result)["status"]);
}

function isRefusedPermission({ type, result }: ActionEvent): boolean {
  return type === "permission_resolved" && REFUSED.has(fieldsOf(result)["state"]);
}

function actionsOf(events: readonly ActionEvent[]): Action[] {
  const actions = new Map<string, Action>();
  for (const event of events) {
    const identity = identityOf(event);
    if (identity === null) continue;
    const action = actions.get(identity) ?? newAction();
    actions.set(identity, action);
    note(action, event);
  }
  return [...actions.values()];
}

function newAction(): Action {
  return { proposed: 0, terminal: 0, hasEffect: false, failed: false, unknown: false, commitKnown: false };
}

function note(action: Action, event: ActionEvent): void {
  const fields = fieldsOf(event.result);
  switch (event.type) {
    case "proposed":
      action.proposed += 1;
      action.hasEffect ||= !NO_EFFECT.has(event.sideEffectClass);
      break;
    case "result": {
      action.terminal += 1;
      const isFailure = fields["is_error"] === true || FAILURES.has(fields["status"]);
      const isSuccess = fields["is_error"] === false || SUCCESSES.has(fields["status"]);
      action.failed ||= isFailure;
      action.unknown ||= !isFailure && !isSuccess;
      action.commitKnown ||= typeof fields["output_committed"] === "boolean";
      break;
    }
    case "failed":
    case "denied":
    case "cancelled":
      action.terminal += 1;
      action.failed = true;
      action.commitKnown ||= event.type !== "failed";
      break;
    case "timed_out":
      action.terminal += 1;
      action.unknown = true;
      break;
    case "permission_resolved":
      if (!isRefusedPermission(event)) break;
      action.terminal += 1;
      action.failed = true;
      action.commitKnown = true;
      break;
    case "permission_pending":
    case "observation":
    case "completed":
      break;
  }
}

function isUnderTerminated(actions: readonly Action[]): boolean {
  return actions.some((action) => action.terminal < action.proposed);
}

function identityOf(event: ActionEvent): string | null {
  return event.toolCallId ?? event.actionId;
}

function fieldsOf(value: Json): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : {};
}

function count(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
