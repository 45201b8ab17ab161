import type { Projection } from "countersign";
import type { TestLedger } from "countersign/testing";

/** One cell of the database that was changed behind the ledger's back: a reviewer's verdict. */
export interface ChangedCell {
  readonly runId: string;
  readonly reviewRunId: string;
  readonly before: string;
  readonly after: string;
}

// Outlives a reload, so that the cell can still be changed back.
const REMEMBERED = "quickstart:changed-cell";

/** The cell that is changed at present, if one is. */
export function changedCell(): ChangedCell | undefined {
  const text = localStorage.getItem(REMEMBERED);
  return text === null ? undefined : (JSON.parse(text) as ChangedCell);
}

/** The cell that can be changed in a run: the verdict of its review. Undefined while it has none. */
export function cellOf({ events, run }: Projection): ChangedCell | undefined {
  const completed = events.findLast((event) => event.type === "auto_audit_completed");
  if (run === null || completed?.type !== "auto_audit_completed" || completed.damage !== undefined)
    return undefined;
  const { review_run_id: reviewRunId, verdict: before } = completed.payload;
  return { runId: run.runId, reviewRunId, before, after: before === "pass" ? "issues" : "pass" };
}

/** What somebody would type who has the database file and a SQLite shell. */
export function statementOf({ reviewRunId, after }: ChangedCell): string {
  return `UPDATE review_runs SET verdict = '${after}' WHERE review_run_id = '${reviewRunId}'`;
}

/** Changes the cell by raw SQL, as no command of the ledger would. */
export async function changeCell(ledger: TestLedger, cell: ChangedCell): Promise<void> {
  // Remembered first: a tab that dies in between must not lose the old value.
  localStorage.setItem(REMEMBERED, JSON.stringify(cell));
  await setVerdict(ledger, cell.reviewRunId, cell.after);
}

/** Puts the exact old value back. */
export async function changeCellBack(ledger: TestLedger, cell: ChangedCell): Promise<void> {
  await setVerdict(ledger, cell.reviewRunId, cell.before);
  localStorage.removeItem(REMEMBERED);
}

async function setVerdict(ledger: TestLedger, reviewRunId: string, verdict: string): Promise<void> {
  await ledger.testing.sql("UPDATE review_runs SET verdict = ? WHERE review_run_id = ?", [
    verdict,
    reviewRunId,
  ]);
}
