import { completePoints, type Point, type Row } from "./data.ts";

/** What the analyst may get wrong, on request. */
export type Mistake = "none" | "forgets_a_row" | "swaps_the_columns";

/** The analyst's result, as it is hashed. A type, not an interface, so that it passes as a JSON object. */
export type Candidate = {
  readonly method: string;
  readonly model: string;
  readonly coefficients: { readonly intercept: number; readonly slope: number };
  readonly residual_sd: number;
  readonly r_squared: number;
  readonly n: number;
};

/** Fits a straight line by least squares and writes the result down. */
export function analyse(rows: readonly Row[], mistake: Mistake): Candidate {
  const points = misread(completePoints(rows), mistake);
  const { intercept, slope } = solveNormalEquations(points);
  const residuals = points.map(({ x, y }) => y - (intercept + slope * x));
  const yMean = mean(points.map(({ y }) => y));
  const squares = sum(residuals.map((residual) => residual ** 2));
  const total = sum(points.map(({ y }) => (y - yMean) ** 2));
  return {
    method: "ordinary least squares, centred normal equations",
    model: "y = intercept + slope * x",
    coefficients: { intercept, slope },
    residual_sd: Math.sqrt(squares / (points.length - 2)),
    r_squared: 1 - squares / total,
    n: points.length,
  };
}

/** Centring first keeps the sums small, so that no digits cancel. */
function solveNormalEquations(points: readonly Point[]): { intercept: number; slope: number } {
  const xMean = mean(points.map(({ x }) => x));
  const yMean = mean(points.map(({ y }) => y));
  const sxy = sum(points.map(({ x, y }) => (x - xMean) * (y - yMean)));
  const sxx = sum(points.map(({ x }) => (x - xMean) ** 2));
  const slope = sxy / sxx;
  return { intercept: yMean - slope * xMean, slope };
}

/** The table as a careless analyst sees it. */
function misread(points: readonly Point[], mistake: Mistake): readonly Point[] {
  switch (mistake) {
    case "none":
      return points;
    case "forgets_a_row":
      return points.slice(0, -1);
    case "swaps_the_columns":
      return points.map(({ x, y }) => ({ x: y, y: x }));
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function mean(values: readonly number[]): number {
  return sum(values) / values.length;
}
