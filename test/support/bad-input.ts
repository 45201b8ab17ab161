import * as z from "zod";
import type { CommandDefinition } from "../../src/protocol/command.ts";

/** Inputs of a command, good and bad, derived from its schema: a new command is covered without new code. */

interface Schema {
  readonly type?: string;
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | false;
  readonly items?: Schema;
  readonly enum?: readonly string[];
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly const?: unknown;
  /** What a value is that JSON can't hold, or that can be any of it. */
  readonly holds?: "json" | "bytes" | "directory";
  /** What an id must point to: a run, a session, … */
  readonly references?: string;
}

export interface BadInput {
  readonly input: unknown;
  /** The field that the refusal must name. */
  readonly field: string;
  readonly why: string;
  readonly refusal: "ValidationError" | "NotFoundError";
}

/** What exists in the ledger under test, by what it is: ids, and a directory. */
export type Known = Readonly<Record<string, unknown>>;

const SHA256_OF_EMPTY_OBJECT = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

export function schemaOf(definition: CommandDefinition): Schema {
  return z.toJSONSchema(definition.input, { io: "input", unrepresentable: "any" }) as Schema;
}

/** An input that the schema accepts: every field set, every reference to something that exists. */
export function goodInput(schema: Schema, known: Known): unknown {
  if (schema.anyOf !== undefined && schema.holds === undefined)
    return goodInput(firstAlternative(schema), known);
  if (schema.references !== undefined) return known[schema.references];
  if (schema.enum !== undefined) return schema.enum[0];
  if (schema.const !== undefined) return schema.const;
  switch (schema.holds) {
    case "json":
      return null;
    case "bytes":
      return new Uint8Array([1, 2, 3]);
    case "directory":
      return known["directory"];
  }
  switch (schema.type) {
    case "boolean":
      return false;
    case "number":
    case "integer":
      return schema.minimum ?? 0;
    case "array":
      return schema.minItems === undefined ? [] : [goodInput(schema.items ?? {}, known)];
    case "object":
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, property]) => [name, goodInput(property, known)]),
      );
    default:
      return schema.pattern === undefined ? "completed" : SHA256_OF_EMPTY_OBJECT;
  }
}

/** Every way to spoil one field of an input that is good otherwise. */
export function* badInputs(schema: Schema, good: unknown, known: Known, path = ""): Generator<BadInput> {
  if (schema.anyOf !== undefined && schema.holds === undefined) {
    yield* badInputs(firstAlternative(schema), good, known, path);
    return;
  }
  for (const [why, value] of badValues(schema)) {
    yield { input: value, field: path, why, refusal: "ValidationError" };
  }
  if (schema.references !== undefined) {
    yield {
      input: schema.pattern === undefined ? "there-is-no-such-thing" : "0".repeat(64),
      field: path,
      why: `unknown ${schema.references}`,
      refusal: "NotFoundError",
    };
  }
  if (schema.items !== undefined) {
    for (const bad of badInputs(schema.items, goodInput(schema.items, known), known, `${path}[0]`)) {
      yield { ...bad, input: [bad.input] };
    }
  }
  if (schema.properties !== undefined)
    yield* badMembers(schema, good as Record<string, unknown>, known, path);
}

function* badMembers(
  schema: Schema,
  good: Record<string, unknown>,
  known: Known,
  path: string,
): Generator<BadInput> {
  const inside = (name: string) => (path === "" ? name : `${path}.${name}`);
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const { [name]: value, ...others } = good;
    if (schema.required?.includes(name)) {
      yield { input: others, field: inside(name), why: "missing", refusal: "ValidationError" };
    }
    for (const bad of badInputs(property, value, known, inside(name))) {
      yield { ...bad, input: { ...good, [name]: bad.input } };
    }
  }
  if (schema.additionalProperties === false) {
    yield {
      input: { ...good, surplus: 1 },
      field: inside("surplus"),
      why: "unknown field",
      refusal: "ValidationError",
    };
  }
}

function badValues(schema: Schema): [string, unknown][] {
  if (schema.const !== undefined) return [["another constant", "x"]];
  switch (schema.holds) {
    case "json":
      return [
        ["not a number", Number.NaN],
        ["a lone surrogate", "a\ud800b"],
        ["a bigint", 7n],
      ];
    case "bytes":
    case "directory":
      return [
        ["a string", "x"],
        ["a plain object", {}],
      ];
  }
  switch (schema.type) {
    case "boolean":
      return [["a string", "yes"]];
    case "number":
      return [
        ["a string", "7"],
        ["below the least", (schema.minimum ?? 0) - 1],
        ["infinity", Number.POSITIVE_INFINITY],
      ];
    case "integer":
      return [
        ["a string", "7"],
        ["below the least", (schema.minimum ?? 0) - 1],
        ["a fraction", 1.5],
        ["an unsafe integer", 2 ** 53],
        ["not a number", Number.NaN],
        ["a bigint", 7n],
      ];
    case "string":
      return badStrings(schema);
    case "array":
      return [
        ["not a list", { 0: "x", length: 1 }],
        ["too many", Array.from({ length: (schema.maxItems ?? 0) + 1 }, () => "x")],
      ];
    case "object":
      return schema.properties === undefined
        ? [
            ["a list", ["x"]],
            ["a number", 17],
            ["a date", new Date(0)],
          ]
        : [
            ["a list", ["x"]],
            ["a string", "x"],
          ];
    default:
      throw new Error(`a schema of type ${schema.type} is new here`);
  }
}

function badStrings(schema: Schema): [string, unknown][] {
  const bad: [string, unknown][] = [
    ["a number", 17],
    ["a list", ["x"]],
    ["a NUL", "a\0b"],
    ["a lone surrogate", "a\ud800b"],
  ];
  if (schema.pattern !== undefined) {
    bad.push(["an upper-case digest", "A".repeat(64)], ["a digest too short", "a".repeat(63)]);
    bad.push(["a digest with a line break", `${"a".repeat(64)}\n`]);
  }
  if (schema.enum !== undefined) bad.push(["an unknown word", "whatever"]);
  if (schema.maxLength !== undefined) bad.push(["too long", "x".repeat(schema.maxLength + 1)]);
  if (schema.minLength !== undefined) bad.push(["empty", ""], ["blank", " \t\n"]);
  return bad;
}

function firstAlternative(schema: Schema): Schema {
  const [first] = schema.anyOf ?? [];
  if (first === undefined) throw new Error("an alternative of nothing");
  return first;
}
