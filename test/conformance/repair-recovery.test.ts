import { expect } from "vitest";
import { crashMidRepair } from "../support/repair.ts";
import { nextTurn, projectedRun } from "../support/scenario.ts";
import { test } from "../support/session.ts";

test("reconcile_seals_an_interrupted_repair_as_outcome_unknown", async ({ session: { ledger, root } }) => {
  await crashMidRepair(ledger, root, { bindLedger: true });
  expect((await projectedRun(ledger, root))?.status).toBe("repairing");

  const outcomes = await ledger.recovery.reconcileRuns({ ownerInstanceId: "daemon-NEW", now: 500 });

  expect(outcomes).toEqual([{ runId: "run-1", status: "paused", terminalReason: "outcome_unknown" }]);
  expect(
    await ledger.testing.sql("SELECT status,after_version_ids_json FROM repair_runs WHERE repair_run_id=?", [
      "repair-1",
    ]),
  ).toEqual([{ status: "outcome_unknown", after_version_ids_json: "[]" }]);
  expect(await nextTurn(ledger, root, "daemon-NEW")).toBe("running");
});

test("reconcile_releases_a_repair_whose_ledger_was_never_bound", async ({ session: { ledger, root } }) => {
  await crashMidRepair(ledger, root, { bindLedger: false });

  const outcomes = await ledger.recovery.reconcileRuns({ ownerInstanceId: "daemon-NEW", now: 500 });

  expect(outcomes).toHaveLength(1);
  expect(outcomes[0]).toMatchObject({ runId: "run-1", abandonedAt: 500 });
  expect(
    await ledger.testing.sql(
      "SELECT status,finished_at,abandoned_at,terminal_reason FROM auto_mode_runs WHERE run_id='run-1'",
    ),
  ).toEqual([{ status: "repairing", finished_at: null, abandoned_at: 500, terminal_reason: null }]);
  expect(await nextTurn(ledger, root, "daemon-NEW")).toBe("running");
});
