import { expect } from "vitest";
import { commandNames, findCommand } from "../../src/protocol/registry.ts";
import type { TestLedger } from "../../src/testing.ts";
import { proofTables } from "../../worker/schema/tables.ts";
import { buildEverything } from "../support/everything.ts";
import { startFields } from "../support/fields.ts";
import { newSession, openBuilt, test } from "../support/session.ts";

type Method = (input?: unknown) => Promise<unknown>;

/** The ledger, with each command's worker ended when it had committed and not yet answered. */
function dyingAtEveryAnswer(ledger: TestLedger, used: Set<string>): TestLedger {
  const families: Record<string, Record<string, Method>> = {};
  for (const name of commandNames) {
    const [family = "", method = ""] = name.split(".");
    const call = (ledger as unknown as typeof families)[family]?.[method];
    if (call === undefined) continue;
    const die: Method = async (input) => {
      const held = ledger.testing.holdNext("host.answer").catch(() => {});
      const answer = call(input);
      await Promise.race([held, answer]).catch(() => {});
      await ledger.testing.crash();
      const result = await answer;
      used.add(name);
      return result;
    };
    families[family] = { ...families[family], [method]: die };
  }
  return { ...ledger, ...families } as unknown as TestLedger;
}

/** A session in which every command that writes is used at least once. */
async function useEverything(ledger: TestLedger): Promise<void> {
  const root = await newSession(ledger);
  await buildEverything(ledger, root);
  await ledger.settings.delete({ key: "k" });
  const message = await ledger.messages.add({ rootFrameId: root, role: "user", content: "x" });
  await ledger.messages.updateMetadata({ messageId: message.messageId, metadata: { seen: true } });
  await ledger.actions.appendGroup({ rootFrameId: root, turnId: "t", kind: "system" });
  await ledger.actions.appendToolGroup({ rootFrameId: root, turnId: "t", events: [{ type: "observation" }] });
  const [artifact] = await ledger.artifacts.list({ rootFrameId: root });
  if (artifact === undefined) throw new Error("the session has an artifact");
  const { projectId, latestVersionId } = artifact;
  const manifest = await ledger.deliveries.buildManifest({
    rootFrameId: root,
    projectId,
    versions: [latestVersionId],
  });
  const { deliveryId } = await ledger.deliveries.commit({
    idempotencyKey: "delivery-2",
    rootFrameId: root,
    content: "done",
    manifest: manifest.value,
  });
  await ledger.deliveries.publish({ deliveryId });
  const other = await newSession(ledger);
  const work = { runId: "run-2", turnId: "turn-2", executionId: "execution-2" };
  await ledger.runs.start(startFields(other, { ...work, ownerInstanceId: "tab-gone" }));
  await ledger.runs.takeOver({ runId: "run-2", fromInstanceId: "tab-gone" });
  await ledger.recovery.reconcileRuns();
  await ledger.recovery.reconcileCandidates();
  await ledger.recovery.reconcileStartup();
  await ledger.recovery.reconcileReverts({ rootFrameId: root });
  await ledger.workspace.collect();
}

async function counts(ledger: TestLedger): Promise<Record<string, unknown>> {
  const counted: Record<string, unknown> = {};
  for (const table of [...Object.keys(proofTables), "journal"]) {
    const [row] = await ledger.testing.sql(`SELECT COUNT(*) AS n FROM ${table}`);
    counted[table] = row?.["n"];
  }
  return counted;
}

/** What a person does by hand, with a damaged ledger before them; their repetitions are tested where they are. */
const BY_HAND = ["recovery.releaseBarrier", "recovery.settleCandidate"];

test("each command whose worker dies between its commit and its answer takes effect once, and is answered", async ({
  fresh: ledger,
}) => {
  const used = new Set<string>();
  const control = await openBuilt(`${ledger.name}-control`);
  await useEverything(control);
  await useEverything(dyingAtEveryAnswer(ledger, used));
  expect(await counts(ledger)).toEqual(await counts(control));
  expect(await ledger.verify()).toMatchObject({ ok: true });
  const writing = commandNames.filter((name) => findCommand(name)?.kind === "write");
  expect(writing.filter((name) => !used.has(name) && !BY_HAND.includes(name))).toEqual([]);
  await control.close();
}, 180_000);
