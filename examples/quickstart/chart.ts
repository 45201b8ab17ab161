import type { Point } from "./data.ts";
import { svg } from "./dom.ts";

export interface Line {
  readonly intercept: number;
  readonly slope: number;
}

interface Axis {
  readonly from: number;
  readonly to: number;
  readonly ticks: readonly number[];
}

const WIDTH = 440;
const LEFT = 46;
const RIGHT = 20;
const TOP = 28;
const BOTTOM = 40;

/** The measurements and, where there is one, the line through them. */
export function scatterPlot(points: readonly Point[], line: Line | undefined): SVGSVGElement {
  const x = axisOver(points.map((point) => point.x));
  const y = axisOver(points.map((point) => point.y));
  const title = line
    ? `Scatter plot of ${points.length} measurements with the fitted line`
    : `Scatter plot of ${points.length} measurements`;
  const plot = frame({
    id: "scatter",
    title,
    x,
    y,
    height: 290,
    xLabel: "x: NIST’s instrument",
    yLabel: "y: the monitor",
  });
  const fitted = line && plot.segment(x.from, heightAt(line, x.from), x.to, heightAt(line, x.to), "line");
  plot.root.append(...(fitted ? [fitted] : []), ...points.map(plot.dot));
  return plot.root;
}

/** How far each measurement lies from the line. */
export function residualPlot(points: readonly Point[], line: Line): SVGSVGElement {
  const residuals = points.map((point) => ({ x: point.x, y: point.y - heightAt(line, point.x) }));
  const reach = Math.max(...residuals.map((residual) => Math.abs(residual.y)));
  const x = axisOver(points.map((point) => point.x));
  const y = axisOver([-reach, reach]);
  const title = `Plot of ${residuals.length} residuals, the largest of them ${reach.toPrecision(3)}`;
  const plot = frame({
    id: "residuals",
    title,
    x,
    y,
    height: 290,
    xLabel: "x: NIST’s instrument",
    yLabel: "residual",
  });
  plot.root.append(plot.segment(x.from, 0, x.to, 0, "line"), ...residuals.map(plot.dot));
  return plot.root;
}

function heightAt({ intercept, slope }: Line, x: number): number {
  return intercept + slope * x;
}

interface FrameOptions {
  readonly id: string;
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly height: number;
  readonly xLabel: string;
  readonly yLabel: string;
}

/** An empty plot with axes and grid, and how to draw in it. */
function frame({ id, title, x, y, height, xLabel, yLabel }: FrameOptions) {
  const bottom = height - BOTTOM;
  const toX = scale(x, LEFT, WIDTH - RIGHT);
  const toY = scale(y, bottom, TOP);
  const segment = (x1: number, y1: number, x2: number, y2: number, className: string) =>
    svg("line", { x1: toX(x1), y1: toY(y1), x2: toX(x2), y2: toY(y2), class: className });
  const root = svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-labelledby": `${id}-title` },
    svg("title", { id: `${id}-title` }, title),
    ...y.ticks.flatMap((tick) => [
      segment(x.from, tick, x.to, tick, "grid"),
      svg("text", { x: LEFT - 8, y: toY(tick) + 4, "text-anchor": "end" }, tickText(tick)),
    ]),
    ...x.ticks.map((tick) =>
      svg("text", { x: toX(tick), y: bottom + 18, "text-anchor": "middle" }, tickText(tick)),
    ),
    svg("text", { x: WIDTH - RIGHT, y: height - 4, "text-anchor": "end", class: "axis-label" }, xLabel),
    svg("text", { x: 4, y: 14, class: "axis-label" }, yLabel),
  );
  const dot = (point: Point) => svg("circle", { cx: toX(point.x), cy: toY(point.y), r: 3.4, class: "dot" });
  return { root, segment, dot };
}

function scale({ from, to }: Axis, start: number, end: number): (value: number) => number {
  return (value) => Number((start + ((value - from) / (to - from)) * (end - start)).toFixed(2));
}

/** A range that holds all values and ends on round numbers, with four to seven ticks. */
function axisOver(values: readonly number[]): Axis {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const rough = (high - low) / 4 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5].findLast((factor) => factor * power <= rough) ?? 1);
  const first = Math.floor(low / step);
  const last = Math.ceil(high / step);
  const ticks = Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
  return { from: first * step, to: last * step, ticks };
}

function tickText(tick: number): string {
  return String(Number(tick.toPrecision(6))).replace("-", "−");
}
