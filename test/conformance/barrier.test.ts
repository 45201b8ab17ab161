import { expect } from "vitest";
import { LedgerConflictError, revertRecoverySettingKey } from "../../src/index.ts";
import { canonicalJson } from "../../src/proof/index.ts";
import { candidateFields, startFields } from "../support/fields.ts";
import { test } from "../support/session.ts";

test("unresolved_revert_barrier_denies_new_auto_and_action_work_but_keeps_evidence", async ({
  session: { ledger, root },
}) => {
  await ledger.runs.start(startFields(root));
  const group = await ledger.actions.appendGroup({
    rootFrameId: root,
    branchId: root,
    turnId: "turn-1",
    kind: "native_tools",
  });
  await ledger.settings.set({
    key: revertRecoverySettingKey(root),
    value: canonicalJson({
      schema_version: 1,
      state: "recovery_required",
      operation_id: "revert-fault",
      branch_id: root,
    }),
  });

  await expectRecoveryRequired(ledger.runs.recordCandidate(candidateFields));
  await expectRecoveryRequired(
    ledger.runs.start(startFields(root, { runId: "run-2", turnId: "turn-2", executionId: "execution-2" })),
  );
  await expectRecoveryRequired(
    ledger.actions.appendGroup({ rootFrameId: root, branchId: root, turnId: "turn-2", kind: "native_tools" }),
  );
  await expectRecoveryRequired(
    ledger.actions.appendEvent({ groupId: group.groupId, type: "proposed", actionId: "blocked-proposal" }),
  );

  const terminal = await ledger.actions.appendEvent({
    groupId: group.groupId,
    type: "failed",
    actionId: "admitted-before-revert",
    result: { error: "late terminal evidence" },
  });
  expect(terminal.type).toBe("failed");
});

async function expectRecoveryRequired(answer: Promise<unknown>): Promise<void> {
  await expect(answer).rejects.toThrow(LedgerConflictError);
  await expect(answer).rejects.toThrow("requires recovery");
}
