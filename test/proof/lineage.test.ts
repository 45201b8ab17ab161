import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  clipRanges,
  isVisible,
  type LineagePoint,
  pointAt,
  pointOfRevert,
  type Range,
  visibleRanges,
} from "../../worker/ledger/lineage.ts";

describe("the visible history of a branch", () => {
  test("without checkpoints it is the whole branch", () => {
    expect(rangesOf("main", null, [])).toEqual([{ branchId: "main", after: 0, upto: null }]);
  });

  test("checkpoints of one branch join into one range", () => {
    const checkpoints = [checkpoint("c1", "main", null, 3), checkpoint("c2", "main", "c1", 7)];
    expect(rangesOf("main", "c2", checkpoints)).toEqual([{ branchId: "main", after: 0, upto: null }]);
  });

  test("a fork sees its parent up to the checkpoint it was forked from, then its own", () => {
    const checkpoints = [checkpoint("c1", "main", null, 3)];
    expect(rangesOf("fork", "c1", checkpoints)).toEqual([
      { branchId: "main", after: 0, upto: 3 },
      { branchId: "fork", after: 0, upto: null },
    ]);
  });

  test("a revert cuts out what lies between the checkpoint it goes back to and itself", () => {
    const checkpoints = [
      checkpoint("c1", "main", null, 3),
      checkpoint("c2", "main", "c1", 7),
      { ...checkpoint("r", "main", "c2", 3), revertedTo: "c1", resumeAfter: 9 },
    ];
    expect(rangesOf("main", "r", checkpoints)).toEqual([
      { branchId: "main", after: 0, upto: 3 },
      { branchId: "main", after: 9, upto: null },
    ]);
  });

  test("a checkpoint taken before any event shows none of its branch", () => {
    expect(rangesOf("fork", "c1", [checkpoint("c1", "main", null, 0)])).toEqual([
      { branchId: "fork", after: 0, upto: null },
    ]);
  });

  test("100,000 checkpoints in a row leave one range", () => {
    const checkpoints = Array.from({ length: 100_000 }, (_, index) =>
      checkpoint(`c${index}`, "main", index === 0 ? null : `c${index - 1}`, index),
    );
    expect(rangesOf("main", "c99999", checkpoints)).toHaveLength(1);
  });

  test("property: no event lies in two ranges, whatever the cursors; clipping is the same as filtering", () => {
    fc.assert(
      fc.property(anyCheckpoints(), fc.integer({ min: 0, max: 40 }), (checkpoints, cursor) => {
        const ranges = rangesOf("b0", checkpoints.at(-1)?.checkpointId ?? null, checkpoints);
        for (const event of everyEvent()) {
          const holders = ranges.filter((range) => isVisible([range], event));
          expect(holders.length).toBeLessThanOrEqual(1);
          const clipped = isVisible(clipRanges(ranges, cursor), event);
          expect(clipped).toBe(holders.length === 1 && event.eventCursor <= cursor);
        }
      }),
    );
  });
});

/** A checkpoint as it is asked for; its point follows from those before it. */
interface Draft {
  readonly checkpointId: string;
  readonly branchId: string;
  readonly parentCheckpointId: string | null;
  readonly cursor: number;
  readonly revertedTo: string | null;
  readonly resumeAfter: number | null;
}

function checkpoint(
  checkpointId: string,
  branchId: string,
  parentCheckpointId: string | null,
  cursor: number,
): Draft {
  return { checkpointId, branchId, parentCheckpointId, cursor, revertedTo: null, resumeAfter: null };
}

function rangesOf(branchId: string, headId: string | null, drafts: readonly Draft[]): Range[] {
  const points = new Map<string, LineagePoint>();
  for (const {
    checkpointId,
    branchId: branch,
    parentCheckpointId,
    cursor,
    revertedTo,
    resumeAfter,
  } of drafts) {
    const target = revertedTo === null ? undefined : points.get(revertedTo);
    const parent = parentCheckpointId === null ? undefined : points.get(parentCheckpointId);
    points.set(
      checkpointId,
      target === undefined
        ? pointAt(branch, parent, cursor)
        : pointOfRevert(branch, target, resumeAfter ?? 0),
    );
  }
  return visibleRanges(branchId, headId === null ? undefined : points.get(headId));
}

/** Checkpoints of three branches, each with an earlier one for its parent, and any cursors at all. */
function anyCheckpoints(): fc.Arbitrary<Draft[]> {
  const cursor = fc.integer({ min: 0, max: 30 });
  const draft = fc.record({
    branchId: fc.constantFrom("b0", "b1", "b2"),
    parent: fc.nat(),
    cursor,
    reverts: fc.boolean(),
    target: fc.nat(),
    resumeAfter: cursor,
  });
  return fc.array(draft, { maxLength: 12 }).map((drafts) =>
    drafts.map((each, index) => {
      const earlier = (n: number) => (index === 0 ? null : `c${n % index}`);
      const revertedTo = each.reverts ? earlier(each.target) : null;
      return {
        checkpointId: `c${index}`,
        branchId: each.branchId,
        parentCheckpointId: earlier(each.parent),
        cursor: each.cursor,
        revertedTo,
        resumeAfter: revertedTo === null ? null : each.resumeAfter,
      };
    }),
  );
}

function everyEvent() {
  return ["b0", "b1", "b2"].flatMap((branchId) =>
    Array.from({ length: 40 }, (_, index) => ({ branchId, eventCursor: index + 1 })),
  );
}
