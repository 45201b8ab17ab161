import fc from "fast-check";
import { expect } from "vitest";
import type { TestLedger } from "../../src/testing.ts";
import { newSession, test } from "../support/session.ts";

/** What a branch shows: the ids of its messages, action groups and events, oldest first. */
interface View {
  readonly messages: readonly string[];
  readonly groups: readonly string[];
  readonly events: readonly string[];
}

const EMPTY: View = { messages: [], groups: [], events: [] };

/** The ledger's history as a reader would explain it: a checkpoint is a copy of what its branch showed. */
class Model {
  readonly views = new Map<string, View>();
  readonly checkpoints = new Map<string, View>();
  /** Branches whose head is a revert, with the view before it. */
  readonly undoable = new Map<string, View>();

  add(branchId: string, kind: keyof View, ...ids: string[]): void {
    const view = this.view(branchId);
    this.views.set(branchId, { ...view, [kind]: [...view[kind], ...ids] });
  }

  view(branchId: string): View {
    return this.views.get(branchId) ?? EMPTY;
  }
}

type Op =
  | { readonly do: "message" | "group" | "run" | "checkpoint" | "undo"; readonly branch: number }
  | { readonly do: "fork"; readonly checkpoint: number }
  | { readonly do: "revert"; readonly branch: number; readonly checkpoint: number };

test("property: every branch shows what a simple model says, whatever was forked, reverted and undone", async ({
  fresh: ledger,
}) => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyOp(), { minLength: 5, maxLength: 30 }), async (ops) => {
      const root = await newSession(ledger);
      const model = new Model();
      model.views.set(root, EMPTY);
      for (const [step, op] of ops.entries()) await apply(ledger, model, root, op, step);
      for (const branchId of model.views.keys()) {
        expect(await viewOf(ledger, root, branchId)).toEqual(model.view(branchId));
      }
    }),
    { numRuns: 15 },
  );
  expect(await ledger.verify()).toMatchObject({ ok: true });
}, 120_000);

async function apply(ledger: TestLedger, model: Model, root: string, op: Op, step: number): Promise<void> {
  const pick = (ids: Iterable<string>, n: number) => {
    const all = [...ids];
    return all[n % Math.max(1, all.length)];
  };
  const branchId = "branch" in op ? (pick(model.views.keys(), op.branch) ?? root) : root;
  const at = { rootFrameId: root, branchId };
  switch (op.do) {
    case "message": {
      const { messageId } = await ledger.messages.add({ ...at, role: "user", content: `step ${step}` });
      model.add(branchId, "messages", messageId);
      break;
    }
    case "group": {
      const { groupId } = await ledger.actions.appendGroup({ ...at, turnId: `turn-${step}`, kind: "user" });
      model.add(branchId, "groups", groupId);
      break;
    }
    case "run": {
      const start = {
        idempotencyKey: `run-${step}`,
        turnId: `turn-${step}`,
        executionId: "e",
        mode: "off",
      } as const;
      const run = await ledger.runs.start({ ...at, ...start });
      const end = await ledger.runs.terminate({
        runId: run.runId,
        idempotencyKey: "end",
        status: "cancelled",
        reason: "done",
      });
      model.add(branchId, "events", run.eventId, end.eventId);
      break;
    }
    case "checkpoint": {
      const { checkpointId } = await ledger.checkpoints.create({ ...at, reason: "manual" });
      model.checkpoints.set(checkpointId, model.view(branchId));
      model.undoable.delete(branchId);
      break;
    }
    case "fork": {
      const fromCheckpointId = pick(model.checkpoints.keys(), op.checkpoint);
      if (fromCheckpointId === undefined) break;
      const fork = await ledger.branches.fork({ rootFrameId: root, fromCheckpointId });
      model.views.set(fork.branchId, model.checkpoints.get(fromCheckpointId) ?? EMPTY);
      break;
    }
    case "revert": {
      const checkpointId = pick(model.checkpoints.keys(), op.checkpoint);
      if (checkpointId === undefined || !(await hasHead(ledger, branchId))) break;
      const result = await ledger.branches.revert({ ...at, checkpointId, idempotencyKey: `revert-${step}` });
      noteRevert(model, branchId, result, model.checkpoints.get(checkpointId) ?? EMPTY);
      break;
    }
    case "undo": {
      const before = model.undoable.get(branchId);
      if (before === undefined) break;
      const result = await ledger.branches.undo({ ...at, idempotencyKey: `undo-${step}` });
      noteRevert(model, branchId, result, before);
      break;
    }
  }
}

function noteRevert(
  model: Model,
  branchId: string,
  result: Awaited<ReturnType<TestLedger["branches"]["revert"]>>,
  after: View,
): void {
  if (!result.applied) throw new Error(`it was not applied: ${result.reason}`);
  const before = model.view(branchId);
  model.checkpoints.set(result.undoCheckpointId, before);
  model.checkpoints.set(result.checkpoint.checkpointId, after);
  model.undoable.set(branchId, before);
  model.views.set(branchId, after);
}

async function hasHead(ledger: TestLedger, branchId: string): Promise<boolean> {
  return (await ledger.branches.get({ branchId })).headCheckpointId !== null;
}

async function viewOf(ledger: TestLedger, root: string, branchId: string): Promise<View> {
  const at = { rootFrameId: root, branchId };
  const [messages, groups, events] = await Promise.all([
    ledger.messages.list(at),
    ledger.actions.listGroups(at),
    ledger.events.list(at),
  ]);
  return {
    messages: messages.map(({ messageId }) => messageId),
    groups: groups.map(({ groupId }) => groupId),
    events: events.map(({ eventId }) => eventId),
  };
}

function anyOp(): fc.Arbitrary<Op> {
  const branch = fc.nat({ max: 5 });
  const checkpoint = fc.nat({ max: 20 });
  return fc.oneof(
    { weight: 5, arbitrary: fc.record({ do: fc.constantFrom("message", "group", "run"), branch }) },
    { weight: 3, arbitrary: fc.record({ do: fc.constant("checkpoint" as const), branch }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("fork" as const), checkpoint }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("revert" as const), branch, checkpoint }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("undo" as const), branch }) },
  ) as fc.Arbitrary<Op>;
}
