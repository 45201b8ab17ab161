// The reviewer shares types with the analyst and not one line of arithmetic: the same bug can't pass twice.
import type { Candidate } from "./analyst.ts";
import type { Row } from "./data.ts";

/** Two sound computations of these numbers differ by rounding only, far below this. */
const RELATIVE_TOLERANCE = 1e-9;

/** One thing that the reviewer looked at. `analyst` is null where the check is about the data alone. */
export type Check = {
  readonly id: string;
  readonly what: string;
  readonly rule: string;
  readonly analyst: number | null;
  readonly reviewer: number;
  readonly ok: boolean;
};

export interface ReviewReport {
  readonly verdict: "pass" | "issues";
  readonly summary: string;
  readonly checks: readonly Check[];
}

/** Recomputes the result from the evidence by Householder QR and compares it with the analyst's. */
export function review(candidate: Candidate, rows: readonly Row[]): ReviewReport {
  const fit = fitByQr(rows);
  const { intercept, slope } = candidate.coefficients;
  const checks = [
    countsNone("readable", "Rows without two numbers", countUnreadable(rows)),
    countsNone("distinct", "Rows that occur twice", countRepeated(rows)),
    {
      id: "sample_size",
      what: "Number of rows used",
      rule: "equal",
      analyst: candidate.n,
      reviewer: fit.n,
      ok: candidate.n === fit.n,
    },
    agrees("intercept", "Intercept", intercept, fit.intercept),
    agrees("slope", "Slope", slope, fit.slope),
    agrees("residual_sd", "Residual standard deviation", candidate.residual_sd, fit.residualSd),
    agrees("r_squared", "R²", candidate.r_squared, fit.rSquared),
    balances(candidate, rows, fit),
  ];
  const failed = checks.filter((check) => !check.ok);
  return {
    verdict: failed.length === 0 ? "pass" : "issues",
    summary:
      failed.length === 0
        ? `Recomputed by Householder QR from ${fit.n} rows: all ${checks.length} checks hold.`
        : `Recomputed by Householder QR from ${fit.n} rows: ${failed.length} of ${checks.length} checks failed.`,
    checks,
  };
}

/** What is wrong, in a sentence, for a check that failed. */
export function claimOf({ what, rule, analyst, reviewer }: Check): string {
  const found =
    analyst === null ? `the reviewer counts ${reviewer}` : `analyst ${analyst}, reviewer ${reviewer}`;
  return `${what}: ${found}; expected: ${rule}.`;
}

function countsNone(id: string, what: string, count: number): Check {
  return { id, what, rule: "none", analyst: null, reviewer: count, ok: count === 0 };
}

function agrees(id: string, what: string, analyst: number, reviewer: number): Check {
  const scale = Math.max(Math.abs(analyst), Math.abs(reviewer));
  const ok = Math.abs(analyst - reviewer) <= RELATIVE_TOLERANCE * scale;
  return { id, what, rule: `relative difference at most ${RELATIVE_TOLERANCE}`, analyst, reviewer, ok };
}

/** Least squares with an intercept leaves residuals that sum to zero over the rows that it was given. */
function balances({ coefficients }: Candidate, rows: readonly Row[], fit: Fit): Check {
  let residualSum = 0;
  let scale = 0;
  for (const [y, x] of rows) {
    if (y === null || x === null) continue;
    residualSum += y - coefficients.intercept - coefficients.slope * x;
    scale += Math.abs(y);
  }
  return {
    id: "residual_sum",
    what: "Sum of residuals",
    rule: `at most ${RELATIVE_TOLERANCE} of the sum of |y|`,
    analyst: residualSum,
    reviewer: fit.residualSum,
    ok: Math.abs(residualSum) <= RELATIVE_TOLERANCE * scale,
  };
}

function countUnreadable(rows: readonly Row[]): number {
  return rows.filter((row) => row.some((cell) => cell === null)).length;
}

function countRepeated(rows: readonly Row[]): number {
  return rows.length - new Set(rows.map((row) => row.join(" "))).size;
}

interface Fit {
  readonly n: number;
  readonly intercept: number;
  readonly slope: number;
  readonly residualSd: number;
  readonly rSquared: number;
  readonly residualSum: number;
}

/**
 * Least squares of y on (1, x): reflections turn the design into a triangle R and y into Qᵀy. R gives the
 * coefficients by back substitution, and what is left of Qᵀy below R is the residual itself.
 */
function fitByQr(rows: readonly Row[]): Fit {
  const ones: number[] = [];
  const xs: number[] = [];
  const ys: number[] = [];
  for (const [y, x] of rows) {
    if (y === null || x === null) continue;
    ones.push(1);
    xs.push(x);
    ys.push(y);
  }
  const n = ys.length;
  const r1 = Float64Array.from(ones);
  const r2 = Float64Array.from(xs);
  const qty = Float64Array.from(ys);
  reflect(r1, 0, [r2, qty]);
  // After the first reflection the tail of Qᵀy holds all of y's variation about its mean.
  const aboutMean = squaredNorm(qty, 1);
  reflect(r2, 1, [qty]);

  const slope = at(qty, 1) / at(r2, 1);
  const intercept = (at(qty, 0) - at(r2, 0) * slope) / at(r1, 0);
  const squares = squaredNorm(qty, 2);
  let residualSum = 0;
  for (let row = 0; row < n; row++) residualSum += at(ys, row) - intercept - slope * at(xs, row);
  return {
    n,
    intercept,
    slope,
    residualSd: Math.sqrt(squares / (n - 2)),
    rSquared: 1 - squares / aboutMean,
    residualSum,
  };
}

/** Mirrors the column's tail onto its first axis, and the others along with it. */
function reflect(column: Float64Array, from: number, others: readonly Float64Array[]): void {
  const head = at(column, from);
  // The sign that adds, so that head and norm never cancel.
  const norm = -Math.sign(head || 1) * Math.sqrt(squaredNorm(column, from));
  const mirror = column.slice(from);
  mirror[0] = head - norm;
  const length = squaredNorm(mirror, 0);
  column.fill(0, from);
  column[from] = norm;
  if (length === 0) return;
  for (const other of others) {
    let product = 0;
    for (let row = 0; row < mirror.length; row++) product += at(mirror, row) * at(other, from + row);
    const factor = (2 * product) / length;
    for (let row = 0; row < mirror.length; row++) {
      other[from + row] = at(other, from + row) - factor * at(mirror, row);
    }
  }
}

function squaredNorm(column: Float64Array, from: number): number {
  let total = 0;
  for (let row = from; row < column.length; row++) total += at(column, row) ** 2;
  return total;
}

function at(column: ArrayLike<number>, row: number): number {
  const value = column[row];
  if (value === undefined) throw new RangeError(`the table has no row ${row}: two are the least for a line`);
  return value;
}
