import fc from "fast-check";
import { describe, expect } from "vitest";
import { LedgerError } from "../../src/index.ts";
import type { CommandDefinition } from "../../src/protocol/command.ts";
import { commandNames, findCommand } from "../../src/protocol/registry.ts";
import type { TestLedger } from "../../src/testing.ts";
import { badInputs, goodInput, type KnownIds, schemaOf } from "../support/bad-input.ts";
import { reviewFields, startFields } from "../support/fields.ts";
import { crashMidReview } from "../support/scenario.ts";
import { type SessionFixture, test } from "../support/session.ts";

type Method = (input?: unknown) => Promise<unknown>;

describe("every command refuses every bad field by its name and writes nothing", () => {
  for (const name of commandNames) {
    test(name, async ({ session }) => {
      const known = await knownIds(session);
      const before = await everyRow(session.ledger);
      const schema = schemaOf(definitionOf(name));
      const call = methodOf(session.ledger, name);

      for (const { input, field, why, refusal } of badInputs(schema, goodInput(schema, known))) {
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

test("property: whatever a page sends, a command answers or refuses; nothing fails inside", async ({
  session,
}) => {
  const known = await knownIds(session);
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
        const error = await methodOf(session.ledger, name)(input).then(() => undefined, String);
        expect(error ?? "").not.toMatch(/unexpected|internal/);
      },
    ),
    { numRuns: 300 },
  );
  expect(await session.ledger.verify()).toMatchObject({ ok: true });
});

/** A session with a run that is under review, so that every kind of id has one that exists. */
async function knownIds({ ledger, root }: SessionFixture): Promise<KnownIds> {
  await crashMidReview(ledger, root);
  const [project] = await ledger.projects.list();
  return {
    project: project?.projectId ?? "",
    frame: root,
    session: root,
    branch: root,
    run: startFields(root).runId,
    review: reviewFields.reviewRunId,
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
