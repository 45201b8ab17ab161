import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LedgerError } from "../../src/index.ts";
import type { CommandDefinition } from "../../src/protocol/command.ts";
import { commandNames, findCommand } from "../../src/protocol/registry.ts";
import type { TestLedger } from "../../src/testing.ts";
import { badInputs, goodInput, type Known, schemaOf } from "../support/bad-input.ts";
import { commitCandidateDelivery } from "../support/candidates.ts";
import { reviewFields } from "../support/fields.ts";
import { bindNewGroup, reachRepair } from "../support/repair.ts";
import { freshName, newSession, openBuilt, removeLedger, type SessionFixture } from "../support/session.ts";

type Method = (input?: unknown) => Promise<unknown>;

let session: SessionFixture;
let known: Known;

beforeAll(async () => {
  const ledger = await openBuilt(freshName());
  session = { ledger, root: await newSession(ledger) };
  known = await everythingIn(session);
});

afterAll(async () => {
  await session.ledger.close();
  await removeLedger(session.ledger.name);
});

describe("every command refuses every bad field by its name and writes nothing", () => {
  for (const name of commandNames) {
    // One ledger for all of them: what is refused leaves it as it was.
    test(name, async () => {
      const before = await everyRow(session.ledger);
      const schema = schemaOf(definitionOf(name));
      const call = methodOf(session.ledger, name);

      for (const { input, field, why, refusal } of badInputs(schema, goodInput(schema, known), known)) {
        const error = await refusalOf(call(input));
        expect({ why, field, name: error.name, named: error.details["field"] }).toEqual({
          why,
          field,
          name: refusal,
          named: field,
        });
      }
      expect(await everyRow(session.ledger)).toEqual(before);
    });
  }
});

test("property: whatever a page sends, a command answers or refuses; nothing fails inside", async () => {
  const anyField = fc.oneof(
    fc.constantFrom(...Object.values(known)),
    fc.jsonValue(),
    fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true, withTypedArray: true }),
    fc.string({ unit: "binary" }),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...commandNames),
      fc.infiniteStream(anyField),
      fc.infiniteStream(fc.boolean()),
      async (name, values, choices) => {
        const schema = schemaOf(definitionOf(name));
        const input = goodInput(schema, known) as Record<string, unknown>;
        for (const field of Object.keys(input)) {
          if (choices.next().value === true) input[field] = values.next().value;
        }
        const code = await methodOf(
          session.ledger,
          name,
        )(input).then(
          () => "answered",
          (error: unknown) => (error instanceof LedgerError ? error.code : String(error)),
        );
        expect(code).not.toBe("internal_error");
      },
    ),
    { numRuns: 300 },
  );
  expect(await session.ledger.verify()).toMatchObject({ ok: true });
});

/** A session in which there is one of everything that an id can point to. */
async function everythingIn({ ledger, root }: SessionFixture): Promise<Known> {
  const [project] = await ledger.projects.list();
  const projectId = project?.projectId ?? "";
  const { directory, checkpoint, repair } = await reachRepair(ledger, root);
  await ledger.repairs.start(repair);
  const group = await bindNewGroup(ledger, root, "code");
  const attempt = await ledger.attempts.allocate({ groupId: group.groupId, producingCellId: "cell-1" });
  const delivery = await commitCandidateDelivery(
    ledger,
    root,
    { turnId: "turn-1", executionId: "execution-1" },
    projectId,
  );
  const [entry] = delivery.manifest.artifacts;
  return {
    project: projectId,
    frame: root,
    session: root,
    branch: root,
    run: repair.runId,
    review: reviewFields.reviewRunId,
    repair: repair.repairRunId,
    checkpoint: checkpoint.checkpointId,
    "action group": group.groupId,
    attempt: attempt.attemptId,
    message: delivery.messageId,
    delivery: delivery.deliveryId,
    artifact: entry?.artifact_id,
    version: entry?.version_id,
    tree: checkpoint.workspaceTreeId,
    directory,
  };
}

function definitionOf(name: string): CommandDefinition {
  const definition = findCommand(name);
  if (definition === undefined) throw new Error(`${name} is not in the registry`);
  return definition;
}

function methodOf(ledger: TestLedger, name: string): Method {
  if (name === "verification.verify") {
    // The client offers it without an input; what a page might pass is not sent.
    return ledger.verify as Method;
  }
  const [family = "", method = ""] = name.split(".");
  const found = (ledger as unknown as Record<string, Record<string, Method>>)[family]?.[method];
  if (found === undefined) throw new Error(`the client lacks ${name}`);
  return found;
}

async function refusalOf(answer: Promise<unknown>): Promise<LedgerError> {
  const refusal = await answer.then(
    (value) => new Error(`it was accepted: ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
  if (refusal instanceof LedgerError) return refusal;
  throw refusal;
}

/** Everything that the database holds, table by table. */
async function everyRow(ledger: TestLedger): Promise<Record<string, unknown>> {
  const tables = await ledger.testing.sql("SELECT name FROM sqlite_schema WHERE type = 'table'");
  const rows: Record<string, unknown> = {};
  for (const { name } of tables)
    rows[String(name)] = await ledger.testing.sql(`SELECT * FROM "${String(name)}"`);
  return rows;
}
