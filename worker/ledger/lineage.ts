import { DamageFound } from "./damage.ts";

/** The events of one branch after one cursor (exclusive) up to another (inclusive; null: open). */
export interface Range {
  readonly branchId: string;
  readonly after: number;
  readonly upto: number | null;
}

/** What of a checkpoint decides which events are visible. */
export interface LineageCheckpoint {
  readonly checkpointId: string;
  readonly branchId: string;
  readonly parentCheckpointId: string | null;
  /** The event cursor of the session when it was taken; 0 when there was no event yet. */
  readonly cursor: number;
  /** Set on a revert: the checkpoint that history goes back to. */
  readonly revertedTo: string | null;
  /** Set on a revert: events after it count again. */
  readonly resumeAfter: number | null;
}

/**
 * The visible history of a branch as ranges, oldest first (spec/auto_mode 4.1). One step a checkpoint, without
 * recursion; no event lies in two ranges, whatever cursors the checkpoints carry.
 *
 * @param headId the branch's head checkpoint, or null
 * @param read gives a checkpoint of the session, or undefined
 * @throws DamageFound the chain of checkpoints is cyclic or broken.
 */
export function visibleRanges(
  branchId: string,
  headId: string | null,
  read: (checkpointId: string) => LineageCheckpoint | undefined,
): Range[] {
  const follow = (checkpointId: string): LineageCheckpoint => {
    const checkpoint = read(checkpointId);
    if (checkpoint === undefined)
      throw new DamageFound("session_checkpoints", checkpointId, "is missing from the history");
    return checkpoint;
  };
  const head = headId === null ? undefined : follow(headId);
  const newestFirst: Range[] = [{ branchId, after: resumePoint(head, branchId), upto: null }];
  const seen = new Set<string>();
  let current = head;
  while (current !== undefined) {
    if (seen.has(current.checkpointId)) {
      throw new DamageFound("session_checkpoints", current.checkpointId, "is its own ancestor");
    }
    seen.add(current.checkpointId);
    if (current.revertedTo !== null) {
      current = follow(current.revertedTo);
      continue;
    }
    const parent: LineageCheckpoint | undefined =
      current.parentCheckpointId === null ? undefined : follow(current.parentCheckpointId);
    newestFirst.push({
      branchId: current.branchId,
      after: resumePoint(parent, current.branchId),
      upto: current.cursor,
    });
    current = parent;
  }
  return withoutOverlap(newestFirst.reverse());
}

/** Where the events of a branch go on after a checkpoint; a checkpoint of another branch leaves them all. */
function resumePoint(checkpoint: LineageCheckpoint | undefined, branchId: string): number {
  if (checkpoint === undefined || checkpoint.branchId !== branchId) return 0;
  return checkpoint.revertedTo === null ? checkpoint.cursor : (checkpoint.resumeAfter ?? 0);
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
