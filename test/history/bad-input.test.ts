import { describe, expect } from "vitest";
import { newSession, test } from "../support/session.ts";

describe("a checkpoint of another session is not found, and nothing is written", () => {
  const uses = {
    fork: "fromCheckpointId",
    revert: "checkpointId",
    previewRevert: "checkpointId",
  } as const;

  test.for(Object.entries(uses))(
    "by branches.%s",
    async ([command, field], { session: { ledger, root } }) => {
      const elsewhere = await newSession(ledger);
      const { checkpointId } = await ledger.checkpoints.create({ rootFrameId: elsewhere, reason: "manual" });
      await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
      const journal = await ledger.testing.sql("SELECT count(*) AS n FROM journal");
      const calls = {
        fork: () => ledger.branches.fork({ rootFrameId: root, fromCheckpointId: checkpointId }),
        revert: () => ledger.branches.revert({ rootFrameId: root, checkpointId, idempotencyKey: "k" }),
        previewRevert: () => ledger.branches.previewRevert({ rootFrameId: root, checkpointId }),
      };
      await expect(calls[command as keyof typeof uses]()).rejects.toMatchObject({
        name: "NotFoundError",
        code: "checkpoint_not_found",
        details: { field },
      });
      expect(await ledger.testing.sql("SELECT count(*) AS n FROM journal")).toEqual(journal);
    },
  );
});

test("checkpoints that were made to go in a circle are found damaged, and end no reading in a loop", async ({
  session: { ledger, root },
}) => {
  const first = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
  const second = await ledger.checkpoints.create({ rootFrameId: root, reason: "manual" });
  await ledger.testing.sql(
    "UPDATE session_checkpoints SET parent_checkpoint_id = ? WHERE checkpoint_id = ?",
    [second.checkpointId, first.checkpointId],
  );
  await expect(ledger.checkpoints.get({ checkpointId: first.checkpointId })).rejects.toMatchObject({
    name: "IntegrityError",
    code: "checkpoint_damaged",
  });
  await expect(
    ledger.branches.fork({ rootFrameId: root, fromCheckpointId: first.checkpointId }),
  ).rejects.toMatchObject({ name: "IntegrityError", details: { field: "fromCheckpointId" } });
  expect(await ledger.events.list({ rootFrameId: root })).toEqual([]);
  expect(await ledger.verify()).toMatchObject({ ok: false });
});
