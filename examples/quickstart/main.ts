import type { TestLedger } from "countersign/testing";
import { loadTable, type Row } from "./data.ts";
import { openSession, readSnapshot, recordRun, watchSession } from "./ledger-session.ts";
import { cellOf, changeCell, changeCellBack, changedCell } from "./tamper.ts";
import {
  isBusy,
  listen,
  showBusy,
  showFailure,
  showHost,
  showIdle,
  showRecovered,
  showSnapshot,
  showVerification,
} from "./view.ts";
import { standingOf } from "./words.ts";

interface Opened {
  readonly ledger: TestLedger;
  readonly rows: readonly Row[];
}

let opened: Opened | undefined;

/** Opens the ledger, anew if it was open, and shows what it knows. */
async function start(): Promise<void> {
  showBusy("Opening the ledger…");
  try {
    // A ledger that failed can fail to close as well; its worker and its locks are gone either way.
    await opened?.ledger.close().catch(() => undefined);
    opened = undefined;
    const rows = await loadTable();
    opened = { ledger: await openSession(), rows };
    follow(opened);
    showIdle(await refresh(opened));
  } catch (error) {
    fail(error);
  }
}

/** Keeps the page true to what other tabs do, and says what was closed for a tab that is gone. */
function follow(session: Opened): void {
  const { ledger } = session;
  watchSession(ledger, () => {
    refresh(session).then((words) => {
      if (!isBusy()) showIdle(words);
    }, fail);
  });
  showRecovered(ledger.recovery.lastReport);
  ledger.recovery.onReport(showRecovered);
}

/** Does something with the ledger, then says what the run reads as, or what the action says itself. */
async function act(words: string, action: (opened: Opened) => Promise<string | undefined>): Promise<void> {
  if (opened === undefined) return;
  showBusy(words);
  try {
    const outcome = await action(opened);
    showIdle(outcome ?? (await refresh(opened)));
  } catch (error) {
    fail(error);
  }
}

function fail(error: unknown): void {
  showFailure(error instanceof Error ? error : new Error(String(error)));
  showIdle("");
}

async function refresh({ ledger, rows }: Opened): Promise<string> {
  const snapshot = await readSnapshot(ledger);
  showSnapshot(snapshot, rows, changedCell(), ledger.storage);
  showHost(ledger.host()?.instanceId === ledger.instanceId);
  const { run } = snapshot.projection;
  return run === null ? "The ledger is open." : `The run reads: ${standingOf(run).badge}.`;
}

listen({
  run: (mistake, reviewer) =>
    act("The analyst works, then the reviewer…", async ({ ledger, rows }) => {
      await recordRun(ledger, rows, mistake, reviewer);
      return undefined;
    }),
  change: () =>
    act("Changing one cell…", async ({ ledger }) => {
      const cell = cellOf((await readSnapshot(ledger)).projection);
      if (cell !== undefined) await changeCell(ledger, cell);
      return undefined;
    }),
  restore: () =>
    act("Changing it back…", async ({ ledger }) => {
      const cell = changedCell();
      if (cell !== undefined) await changeCellBack(ledger, cell);
      return undefined;
    }),
  verify: () =>
    act("Verifying the whole ledger…", async ({ ledger }) => {
      const report = await ledger.verify();
      showVerification(report);
      return report.ok ? "The whole ledger is sound." : "The ledger is damaged.";
    }),
  retry: start,
});
await start();
