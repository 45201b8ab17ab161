import { describe, expect } from "vitest";
import {
  HostUnavailableError,
  LedgerConflictError,
  StorageUnavailableError,
  ValidationError,
} from "../../src/index.ts";
import { candidateFields, startFields } from "../support/fields.ts";
import { freshName, openBuilt, removeLedger, test } from "../support/session.ts";

describe("commands that are issued together", () => {
  test("keep their order, and a refused one undoes only itself", async ({ session: { ledger, root } }) => {
    const outcomes = await Promise.allSettled([
      ledger.settings.set({ key: "k", value: "first" }),
      ledger.runs.start(startFields(root)),
      ledger.runs.start(startFields(root, { runId: "run-2", turnId: "turn-2" })),
      ledger.runs.start(startFields(root)),
      ledger.settings.set({ key: "k", value: "last" }),
    ]);

    expect(outcomes.map(({ status }) => status)).toEqual([
      "fulfilled",
      "fulfilled",
      "rejected",
      "fulfilled",
      "fulfilled",
    ]);
    expect(reasonOf(outcomes[2])).toBeInstanceOf(LedgerConflictError);
    expect(resultOf(outcomes[1])).toMatchObject({ runId: "run-1", created: true });
    expect(resultOf(outcomes[3])).toMatchObject({ runId: "run-1", created: false });
    expect(await ledger.settings.get({ key: "k" })).toMatchObject({ value: "last" });
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("one that fails after it has written leaves nothing of itself, and the others all of theirs", async ({
    session: { ledger, root },
  }) => {
    await ledger.runs.start(startFields(root));
    await ledger.testing.sql(`CREATE TRIGGER no_candidates BEFORE INSERT ON auto_mode_events
      WHEN new.type = 'candidate_ready' BEGIN SELECT RAISE(ABORT, 'the disk has a hole here'); END`);

    const outcomes = await Promise.allSettled([
      ledger.settings.set({ key: "before", value: "1" }),
      ledger.runs.recordCandidate(candidateFields),
      ledger.settings.set({ key: "after", value: "2" }),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(String(reasonOf(outcomes[1]))).toContain("the disk has a hole here");
    expect(
      await ledger.testing.sql("SELECT status, candidate_id, state_revision FROM auto_mode_runs"),
    ).toEqual([{ status: "running", candidate_id: null, state_revision: 1 }]);

    await ledger.testing.sql("DROP TRIGGER no_candidates");
    expect(await ledger.runs.recordCandidate(candidateFields)).toMatchObject({
      created: true,
      eventCursor: 2,
    });
    expect(await ledger.verify()).toMatchObject({ ok: true });
  });

  test("more than one commit takes are all answered in order", async ({ fresh: ledger }) => {
    const answers = await Promise.all(
      Array.from({ length: 600 }, (_, n) => ledger.settings.set({ key: "k", value: String(n) })),
    );
    expect(answers.map(({ value }) => value)).toEqual(Array.from({ length: 600 }, (_, n) => String(n)));
    expect(await ledger.settings.get({ key: "k" })).toMatchObject({ value: "599" });
    const [entries] = await ledger.testing.sql(
      "SELECT COUNT(*) AS n, MAX(position) AS last FROM journal WHERE command = 'settings.set'",
    );
    expect(entries).toEqual({ n: 600, last: 600 });
  });
});

describe("what can't be sent", () => {
  test("names its field and holds nothing else back", async ({ fresh: ledger }) => {
    const [sent, unsendable] = await Promise.allSettled([
      ledger.settings.set({ key: "k", value: "v" }),
      ledger.settings.set({ key: "k", value: (() => "v") as unknown as string }),
    ]);
    expect(sent.status).toBe("fulfilled");
    expect(reasonOf(unsendable)).toBeInstanceOf(ValidationError);
    expect(reasonOf(unsendable)).toMatchObject({ details: { field: "value", command: "settings.set" } });
  });
});

test("a command is sent as it was when it was issued", async ({ fresh: ledger }) => {
  const input = { key: "k", value: "as issued" };
  const issued = ledger.settings.set(input);
  input.value = "changed later";
  expect(await issued).toMatchObject({ value: "as issued" });
});

describe("a worker that hangs", () => {
  test("rejects what waits for it at the deadline, and can be left", async () => {
    const name = freshName();
    const ledger = await openBuilt(name, { deadlineMs: 400 });
    const endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n";
    const hung = ledger.testing.sql(endless);
    const waiting = ledger.settings.set({ key: "k", value: "v" });

    await expect(hung).rejects.toThrow(HostUnavailableError);
    await expect(waiting).rejects.toMatchObject({ code: "host_timeout", details: { limitMs: 400 } });
    await expect(ledger.close()).rejects.toThrow(HostUnavailableError);

    await using again = await openBuilt(name);
    expect(await again.settings.get({ key: "k" })).toBeNull();
    await again.close();
    await removeLedger(name);
  });
});

test("a database error is a storage error, not an integrity failure", async ({
  session: { ledger, root },
}) => {
  await ledger.runs.start(startFields(root, { ownerInstanceId: "gone" }));
  await ledger.testing.sql("ALTER TABLE auto_mode_events RENAME TO elsewhere");
  await expect(ledger.runs.project({ rootFrameId: root })).rejects.toThrow(StorageUnavailableError);
  await ledger.testing.sql("ALTER TABLE elsewhere RENAME TO auto_mode_events");
  expect((await ledger.runs.project({ rootFrameId: root })).run?.status).toBe("running");
});

function resultOf<Value>(outcome: PromiseSettledResult<Value> | undefined): Value | undefined {
  return outcome?.status === "fulfilled" ? outcome.value : undefined;
}

function reasonOf(outcome: PromiseSettledResult<unknown> | undefined): unknown {
  return outcome?.status === "rejected" ? outcome.reason : undefined;
}
