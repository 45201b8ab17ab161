/** The events of one branch after one cursor (exclusive) up to another (inclusive; null: open). */
export interface Range {
  readonly branchId: string;
  readonly after: number;
  readonly upto: number | null;
}

/** Where the history of a branch stands at a checkpoint. Kept with the checkpoint, so that no chain need be walked. */
export interface LineagePoint {
  /** The branch that the checkpoint was recorded on. */
  readonly branchId: string;
  /** What was visible then, oldest first. */
  readonly shown: readonly Range[];
  /** Where the history of that branch goes on. */
  readonly resumeAfter: number;
}

/** The visible history of a branch as ranges, oldest first (spec/auto_mode 4.1), from its head checkpoint, if any. */
export function visibleRanges(branchId: string, head: LineagePoint | undefined): Range[] {
  const tail: Range = { branchId, after: resumePoint(head, branchId), upto: null };
  return withoutOverlap([...(head?.shown ?? []), tail]);
}

/** The point of an ordinary checkpoint: all that its branch showed, up to the cursor (0: nothing yet). */
export function pointAt(branchId: string, parent: LineagePoint | undefined, cursor: number): LineagePoint {
  const since: Range = { branchId, after: resumePoint(parent, branchId), upto: cursor };
  return { branchId, shown: withoutOverlap([...(parent?.shown ?? []), since]), resumeAfter: cursor };
}

/** The point of a revert: what its target showed; what the branch has after `resumeAfter` counts again. */
export function pointOfRevert(branchId: string, target: LineagePoint, resumeAfter: number): LineagePoint {
  return { branchId, shown: target.shown, resumeAfter };
}

/** Where the events of a branch go on after a checkpoint; a checkpoint of another branch leaves them all. */
function resumePoint(head: LineagePoint | undefined, branchId: string): number {
  return head?.branchId === branchId ? head.resumeAfter : 0;
}

/** Cuts each range to what no earlier one of its branch has shown; joins neighbours. */
function withoutOverlap(ranges: readonly Range[]): Range[] {
  const shownUpto = new Map<string, number>();
  const result: Range[] = [];
  for (const range of ranges) {
    const shown = shownUpto.get(range.branchId) ?? 0;
    const after = Math.max(range.after, shown);
    if (range.upto !== null && range.upto <= after) continue;
    shownUpto.set(range.branchId, range.upto ?? Number.MAX_SAFE_INTEGER);
    const last = result.at(-1);
    if (last !== undefined && last.branchId === range.branchId && last.upto === after) {
      result[result.length - 1] = { ...last, upto: range.upto };
    } else {
      result.push({ branchId: range.branchId, after, upto: range.upto });
    }
  }
  return result;
}

/** The ranges as of a cursor (inclusive). */
export function clipRanges(ranges: readonly Range[], uptoCursor: number): Range[] {
  return ranges
    .filter((range) => range.after < uptoCursor)
    .map((range) => ({
      ...range,
      upto: range.upto === null ? uptoCursor : Math.min(range.upto, uptoCursor),
    }));
}

export function isVisible(
  ranges: readonly Range[],
  event: { branchId: string; eventCursor: number },
): boolean {
  return ranges.some(
    (range) =>
      range.branchId === event.branchId &&
      event.eventCursor > range.after &&
      (range.upto === null || event.eventCursor <= range.upto),
  );
}
