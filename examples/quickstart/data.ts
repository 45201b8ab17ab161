/** One line of the table. A cell that holds no number is null: JSON, which the ledger hashes, has no NaN. */
export type Row = readonly [y: number | null, x: number | null];

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** NIST's certified values for this data set, to hold the run's result against. */
export const NIST_CERTIFIED = {
  intercept: -0.262323073774029,
  slope: 1.00211681802045,
  residualSd: 0.884796396144373,
  rSquared: 0.999993745883712,
  rows: 36,
} as const;

/** Fetches the table that lies beside the page. */
export async function loadTable(): Promise<readonly Row[]> {
  // Without `no-inline` the bundler would turn so small a file into a data URL, which content policies refuse.
  const response = await fetch(new URL("./norris.csv?no-inline", import.meta.url));
  if (!response.ok) throw new Error(`the data table could not be loaded: HTTP status ${response.status}`);
  return parseTable(await response.text());
}

/** Reads a CSV of two columns, y and x, below one line of headings. */
function parseTable(csv: string): readonly Row[] {
  const [heading, ...lines] = csv.trim().split(/\r?\n/);
  if (heading !== "y,x") throw new Error(`the data table starts with "${heading}" instead of "y,x"`);
  return lines.map((line) => {
    const [y = "", x = ""] = line.split(",");
    return [parseCell(y), parseCell(x)];
  });
}

function parseCell(cell: string): number | null {
  // Number("") is 0, which would turn a gap into a measurement.
  const value = cell.trim() === "" ? Number.NaN : Number(cell);
  return Number.isFinite(value) ? value : null;
}

/** The lines of the table that hold both numbers. */
export function completePoints(rows: readonly Row[]): readonly Point[] {
  return rows.flatMap(([y, x]) => (y === null || x === null ? [] : [{ x, y }]));
}
