import type { LedgerError, RecoveryReport, StorageReport, VerificationReport } from "countersign";
import type { Candidate, Mistake } from "./analyst.ts";
import { residualPlot, scatterPlot } from "./chart.ts";
import { completePoints, NIST_CERTIFIED, type Row } from "./data.ts";
import { element, slot } from "./dom.ts";
import type { Snapshot } from "./ledger-session.ts";
import type { ReviewReport } from "./reviewer.ts";
import { type ChangedCell, cellOf, statementOf } from "./tamper.ts";
import {
  describeError,
  describeEvent,
  describeKey,
  describeStorage,
  describeVerification,
  formatNumber,
  formatPower,
  type Standing,
  standingOf,
} from "./words.ts";

export interface Actions {
  run(mistake: Mistake, reviewer: "quick" | "slow"): void;
  change(): void;
  restore(): void;
  verify(): void;
  retry(): void;
}

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

const content = slot("content", HTMLElement);
const failure = slot("failure", HTMLElement);
const buttons = {
  run: slot("run", HTMLButtonElement),
  change: slot("change", HTMLButtonElement),
  restore: slot("restore", HTMLButtonElement),
  verify: slot("verify", HTMLButtonElement),
  retry: slot("retry", HTMLButtonElement),
};

/** Which buttons make sense for what is shown; being busy disables them all. */
const useful = { run: true, change: false, restore: false, verify: true, retry: true };

/** Binds the page's buttons. */
export function listen(actions: Actions): void {
  buttons.run.addEventListener("click", () => actions.run(chosenMistake(), chosenReviewer()));
  buttons.change.addEventListener("click", () => actions.change());
  buttons.restore.addEventListener("click", () => actions.restore());
  buttons.verify.addEventListener("click", () => actions.verify());
  buttons.retry.addEventListener("click", () => actions.retry());
}

function chosenMistake(): Mistake {
  const chosen = document.querySelector<HTMLInputElement>("input[name=mistake]:checked")?.value;
  return chosen === "forgets_a_row" || chosen === "swaps_the_columns" ? chosen : "none";
}

function chosenReviewer(): "quick" | "slow" {
  return slot("slow", HTMLInputElement).checked ? "slow" : "quick";
}

let focusedBefore: Element | null = null;

/** Says what is going on, and takes no clicks meanwhile. */
export function showBusy(words: string): void {
  // A button loses the focus when it is disabled; the keyboard's user gets it back in `showIdle`.
  focusedBefore = document.activeElement;
  slot("main", HTMLElement).setAttribute("aria-busy", "true");
  slot("progress", HTMLElement).textContent = words;
  for (const button of Object.values(buttons)) button.disabled = true;
}

/** Whether the page is at work on something that was clicked. */
export function isBusy(): boolean {
  return slot("main", HTMLElement).getAttribute("aria-busy") === "true";
}

/** Says what the ledger closed for tabs that are gone. */
export function showRecovered(report: RecoveryReport | null): void {
  slot("recovered", HTMLElement).hidden = report === null;
  const messages = (report?.messages ?? []).map((message) => element("li", {}, message));
  slot("recovered-messages", HTMLElement).replaceChildren(...messages);
}

/** Says which tab's worker has the database open. */
export function showHost(isThisTab: boolean): void {
  slot("host", HTMLElement).textContent = isThisTab
    ? "This tab’s worker has the database open; other tabs go through it, and one of them takes over when it closes."
    : "Another tab’s worker has the database open; this tab goes through it, and takes over when it closes.";
}

/** Says what has happened, and takes clicks again. */
export function showIdle(words: string): void {
  slot("main", HTMLElement).setAttribute("aria-busy", "false");
  slot("progress", HTMLElement).textContent = words;
  for (const name of Object.keys(buttons) as (keyof typeof buttons)[]) buttons[name].disabled = !useful[name];
  const next = focusedBefore === buttons.change && !useful.change ? buttons.restore : focusedBefore;
  const back = next === buttons.restore && !useful.restore ? buttons.change : next;
  if (back instanceof HTMLElement && Object.values<Element>(buttons).includes(back))
    back.focus({ preventScroll: true });
}

/** Shows an error in place of everything else. */
export function showFailure(error: Error & Partial<Pick<LedgerError, "code">>): void {
  const { title, advice } = describeError(error);
  slot("failure-title", HTMLElement).textContent = title;
  slot("failure-advice", HTMLElement).textContent = advice;
  slot("failure-code", HTMLElement).textContent = error.code ?? "";
  slot("failure-message", HTMLElement).textContent = error.message;
  failure.hidden = false;
  content.hidden = true;
}

/** Shows what the ledger knows of the session's newest run. */
export function showSnapshot(
  snapshot: Snapshot,
  rows: readonly Row[],
  changed: ChangedCell | undefined,
  storage: StorageReport,
): void {
  const { projection, candidate, report } = snapshot;
  const isDamaged = projection.run?.damage !== undefined;
  content.classList.toggle("unvouched", isDamaged);
  showStanding(snapshot);
  showCell(snapshot, changed);
  showResult(candidate, rows, projection.run === null, isDamaged);
  showChecks(report, isDamaged);
  showEvents(snapshot, isDamaged);
  slot("verification", HTMLElement).replaceChildren();
  slot("storage", HTMLElement).textContent = describeStorage(storage);
  buttons.run.textContent = projection.run === null ? "Run the analysis" : "Run the analysis again";
  failure.hidden = true;
  content.hidden = false;
}

/** Shows what a check of the whole ledger found. */
export function showVerification(report: VerificationReport): void {
  const { headline, damages } = describeVerification(report);
  const badge = report.ok ? "✓" : "✕";
  slot("verification", HTMLElement).replaceChildren(
    element(
      "div",
      { class: `report ${report.ok ? "good" : "bad"}` },
      element("p", {}, element("span", { class: "mark", "aria-hidden": "true" }, badge), ` ${headline}`),
      ...damages.map((damage) => element("p", { class: "long" }, damage)),
    ),
  );
}

const MARKS: Record<Standing["tone"], string> = { good: "✓", warning: "!", bad: "✕", neutral: "–" };

function showStanding({ projection: { run } }: Snapshot): void {
  const box = slot("standing", HTMLElement);
  const factsBox = slot("facts", HTMLElement);
  if (run === null) {
    box.replaceChildren(
      badgeOf("neutral", "nothing recorded yet"),
      element(
        "p",
        {},
        "The ledger is open and empty. The first run takes a blink: a fit, a review, five events.",
      ),
    );
    factsBox.replaceChildren();
    return;
  }
  const { tone, badge, meaning } = standingOf(run);
  const facts: [string, string][] = [["Run", run.runId]];
  if (run.damage === undefined) {
    facts.push(
      ["Ended", run.finishedAt === undefined ? "not yet" : clock.format(run.finishedAt)],
      ["Candidate", digestWords(run.candidateSnapshotSha256)],
      ["Evidence", digestWords(run.evidenceSnapshotSha256)],
    );
  }
  if (run.damage !== undefined) {
    facts.unshift(
      ["Claims to be", (run.sourceClaimedStatus ?? "").replaceAll("_", " ")],
      ["Table", run.damage.table],
      ["Row", describeKey(run.damage.key)],
      ["What is wrong", run.damage.reason],
    );
  }
  box.replaceChildren(badgeOf(tone, badge), element("p", {}, meaning));
  factsBox.replaceChildren(
    ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
  );
}

function digestWords(sha: string | null | undefined): string {
  return sha ? `SHA-256 ${sha.slice(0, 16)}…` : "none";
}

function badgeOf(tone: Standing["tone"], words: string): HTMLElement {
  const mark = element("span", { class: "mark", "aria-hidden": "true" }, MARKS[tone]);
  return element("p", { class: `badge ${tone}`, id: "badge" }, mark, words);
}

function showCell({ projection }: Snapshot, changed: ChangedCell | undefined): void {
  const cell = changed ?? cellOf(projection);
  // A run that is under way, in whichever tab, is let come to its end first.
  const { run } = projection;
  useful.run = run === null || run.damage !== undefined || run.finishedAt !== undefined;
  useful.change = changed === undefined && cell !== undefined;
  useful.restore = changed !== undefined;
  const isEarlier = changed !== undefined && changed.runId !== projection.run?.runId;
  const state = isEarlier
    ? "This SQL was run on an earlier run:"
    : changed === undefined
      ? "The button runs this SQL:"
      : "This SQL was run behind the ledger’s back:";
  slot("cell", HTMLElement).replaceChildren(
    ...(cell === undefined
      ? [element("p", { class: "fine" }, "No review is recorded here, so there is no verdict to change.")]
      : [element("p", { class: "fine" }, state), element("code", { class: "statement" }, statementOf(cell))]),
  );
}

function showResult(
  candidate: Candidate | undefined,
  rows: readonly Row[],
  isEmpty: boolean,
  isDamaged: boolean,
): void {
  const points = completePoints(rows);
  const line = candidate?.coefficients;
  slot("charts", HTMLElement).replaceChildren(
    scatterPlot(points, line),
    line === undefined
      ? element("p", { class: "placeholder" }, "No fitted line, so no residuals.")
      : residualPlot(points, line),
  );
  slot("result-note", HTMLElement).textContent = resultNote(candidate !== undefined, isEmpty, isDamaged);
  slot("numbers", HTMLElement).replaceChildren(...(candidate === undefined ? [] : [numbersTable(candidate)]));
  slot("data", HTMLElement).replaceChildren(
    ...rows.map(([y, x]) => element("li", {}, `x ${x ?? "missing"}, y ${y ?? "missing"}`)),
  );
}

function resultNote(isKnown: boolean, isEmpty: boolean, isDamaged: boolean): string {
  if (isEmpty) return "No result yet: these are the measurements that the analyst will fit.";
  if (!isKnown)
    return "The ledger has no result of this run, or only the digest of one that is not kept here.";
  return isDamaged
    ? "The ledger no longer vouches for these numbers."
    : "Read from the analyst’s document, which has the digest that the ledger recorded.";
}

function numbersTable({ coefficients, residual_sd, r_squared, n }: Candidate): HTMLElement {
  const compared = (name: string, value: number, certified: number) => [
    name,
    formatNumber(value),
    formatNumber(certified),
    formatPower(Math.abs(value - certified) / Math.abs(certified)),
  ];
  return tableOf(
    ["", "This run", "NIST certified", "Relative difference"],
    [
      compared("Intercept", coefficients.intercept, NIST_CERTIFIED.intercept),
      compared("Slope", coefficients.slope, NIST_CERTIFIED.slope),
      compared("Residual sd", residual_sd, NIST_CERTIFIED.residualSd),
      compared("R²", r_squared, NIST_CERTIFIED.rSquared),
      compared("Rows", n, NIST_CERTIFIED.rows),
    ],
  );
}

function showChecks(report: ReviewReport | undefined, isDamaged: boolean): void {
  slot("checks-card", HTMLElement).hidden = report === undefined;
  if (report === undefined) return;
  slot("checks-note", HTMLElement).textContent = isDamaged
    ? "Repeated from the documents kept beside the ledger. It no longer vouches for them."
    : report.summary;
  slot("checks", HTMLElement).replaceChildren(
    tableOf(
      ["What", "Analyst", "Reviewer", "OK"],
      report.checks.map(({ what, rule, analyst, reviewer, ok }) => [
        element("span", {}, what, element("small", {}, rule)),
        analyst === null ? "–" : formatNumber(analyst),
        formatNumber(reviewer),
        element("span", { class: ok ? "ok" : "not-ok" }, ok ? "✓ yes" : "✕ no"),
      ]),
    ),
  );
}

function tableOf(headings: readonly string[], rows: readonly (readonly (string | Node)[])[]): HTMLElement {
  const line = ([first = "", ...others]: readonly (string | Node)[]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, first),
      ...others.map((cell) => element("td", {}, cell)),
    );
  return element(
    "table",
    {},
    element(
      "thead",
      {},
      element("tr", {}, ...headings.map((heading) => element("th", { scope: "col" }, heading))),
    ),
    element("tbody", {}, ...rows.map(line)),
  );
}

function showEvents({ projection: { events } }: Snapshot, isDamaged: boolean): void {
  slot("events-card", HTMLElement).hidden = events.length === 0;
  slot("events-note", HTMLElement).textContent = isDamaged
    ? "The events are shown as they are stored; the last one is replaced by the safety boundary."
    : "Each step is an entry of a chained journal, which commits to every row that the step wrote.";
  slot("events", HTMLElement).replaceChildren(
    ...events.map((event) =>
      element(
        "li",
        {},
        element("span", { class: "ordinal" }, `#${event.eventOrdinal}`),
        element("span", { class: "what" }, describeEvent(event)),
        element(
          "code",
          { title: `SHA-256 of the event’s payload: ${event.payloadSha256}` },
          event.payloadSha256.slice(0, 10),
        ),
        element(
          "time",
          { datetime: new Date(event.occurredAt).toISOString() },
          clock.format(event.occurredAt),
        ),
      ),
    ),
  );
}
