import type { LedgerError, ProjectedRun, StorageReport, StoredEvent, VerificationReport } from "countersign";

type Tone = "good" | "warning" | "bad" | "neutral";

/** How a run is shown: its badge, and what that means. */
export interface Standing {
  readonly tone: Tone;
  readonly badge: string;
  readonly meaning: string;
}

/** What the status of a run means to somebody who wants to use its result. */
export function standingOf(run: ProjectedRun): Standing {
  if (run.damage !== undefined) {
    return {
      tone: "bad",
      badge: `${run.status} · safety boundary`,
      meaning:
        "Stored rows no longer match what was committed when the run was recorded. The ledger shows this instead of what the run claims.",
    };
  }
  switch (run.status) {
    case "verified":
      return {
        tone: "good",
        badge: "verified",
        meaning:
          "An independent recomputation agreed with the analyst, and every stored row still matches its record.",
      };
    case "completed_with_issues": {
      const count = run.unresolvedFindingCount ?? 0;
      return {
        tone: "warning",
        badge: "completed with issues",
        meaning: `The review found ${counted(count, "problem")} in the analyst’s work. The ledger would have refused “verified”.`,
      };
    }
    case "review_unavailable":
      return {
        tone: "neutral",
        badge: "review unavailable",
        meaning: "The tab was closed before the review was through. Nothing was made up in its place.",
      };
    case "reviewing":
      return {
        tone: "neutral",
        badge: "reviewing",
        meaning: "The reviewer is at work, in this tab or another. Until it is done nothing is verified.",
      };
    default:
      return {
        tone: "neutral",
        badge: run.status.replaceAll("_", " "),
        meaning: "The run did not come to its end.",
      };
  }
}

/** An event in words. */
export function describeEvent(event: StoredEvent): string {
  if (event.damage !== undefined) return `${event.type.replaceAll("_", " ")} (${event.damage})`;
  switch (event.type) {
    case "auto_run_started":
      return "The run started";
    case "candidate_ready":
      return "The analyst handed in a candidate";
    case "auto_audit_started":
      return "The reviewer started, with the evidence frozen";
    case "auto_audit_completed":
      return `The reviewer finished: ${verdictWords(event.payload.verdict, event.payload.finding_count)}`;
    case "auto_run_terminal":
      return `The run ended: ${endWords(event.payload.status, event.payload.terminal_reason)}`;
    case "repair_started":
      return "A repair started";
    case "repair_completed":
      return "A repair ended";
  }
}

function endWords(status: string, reason: string): string {
  const words = status.replaceAll("_", " ");
  return reason === "safety_boundary" ? `${words} · safety boundary` : words;
}

function verdictWords(verdict: string, findings: number): string {
  return findings === 0
    ? verdict.replaceAll("_", " ")
    : `${verdict.replaceAll("_", " ")}, ${counted(findings, "finding")}`;
}

/** What a verification of the whole ledger found: one sentence, then one for each damage. */
export function describeVerification(report: VerificationReport): { headline: string; damages: string[] } {
  const runs = report.sessions.flatMap((session) => session.runs);
  const entries = report.sessions.reduce((total, session) => total + session.entries, 0);
  const scope = `${counted(report.sessions.length, "journal")} with ${counted(entries, "entry", "entries")}, ${counted(runs.length, "run")}`;
  const damages = [
    ...report.sessions.flatMap((session) =>
      session.damage.map((damage) => `${damage.table}: row ${describeKey(damage.key)} ${damage.reason}.`),
    ),
    ...runs.flatMap(({ damage, claimedStatus, runId }) =>
      damage === null
        ? []
        : [
            `${runId} claims to be ${claimedStatus.replaceAll("_", " ")}, but in ${damage.table} the row ${describeKey(damage.key)} ${damage.reason}.`,
          ],
    ),
  ];
  const headline = report.ok
    ? `The whole ledger agrees with its journals: ${scope}.`
    : `The ledger does not agree with its journals (${scope}):`;
  return { headline, damages };
}

/** The key of a damaged row, without the JSON around it. */
export function describeKey(key: string | null): string {
  return key === null ? "unknown" : key.replace(/^\["?|"?\]$/g, "").replaceAll('","', ", ");
}

/** Where the ledger lives, in one line. */
export function describeStorage(storage: StorageReport): string {
  const place = storage.kind === "opfs" ? "this browser’s private file system (OPFS)" : "memory only";
  const lasting = storage.durable ? "survives a crash" : "gone when the tab closes";
  const persisted = storage.persisted ? ", protected from eviction" : "";
  return `Stored in ${place}: ${lasting}${persisted}. SQLite ${storage.sqliteVersion}, ${storage.journalMode.toUpperCase()} journal, synchronous ${storage.synchronous}, schema ${storage.schemaVersion}.`;
}

/** What went wrong, for people: a title and, where there is one, what to do. */
export function describeError(error: Error & Partial<Pick<LedgerError, "code">>): {
  title: string;
  advice: string;
} {
  if (error.name === "HostUnavailableError") {
    return {
      title: "The tab that has the ledger open does not answer",
      advice: "It may be frozen or stopped in a debugger. Close it, then try again.",
    };
  }
  if (error.name === "StorageUnavailableError") {
    return {
      title: "This browser can’t keep the ledger here",
      advice:
        "A private window or blocked site data is the usual reason. Countersign won’t pretend to store what it can’t.",
    };
  }
  return { title: "Something went wrong", advice: "Nothing that was recorded is lost. Try again." };
}

/** A number with at most nine significant digits and a real minus sign. */
export function formatNumber(value: number): string {
  if (value !== 0 && Math.abs(value) < 1e-6) return formatPower(value);
  return String(Number(value.toPrecision(9))).replace("-", "−");
}

/** A difference with two digits, as a power of ten where it is small: 1.7 × 10⁻¹³. */
export function formatPower(value: number): string {
  if (value === 0 || Math.abs(value) >= 0.01) return formatNumber(Number(value.toPrecision(2)));
  const [mantissa = "", exponent = ""] = value
    .toExponential(1)
    .replaceAll("-", "−")
    .replace("+", "")
    .split("e");
  const digits = [...exponent].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)] ?? "⁻").join("");
  return `${mantissa}\u202f×\u202f10${digits}`;
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
