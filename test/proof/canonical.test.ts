import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalJson, digest, type Json, NotCanonicalError } from "../../src/proof/index.ts";

describe("canonical JSON", () => {
  test("keys are sorted by UTF-16 code unit (RFC 8785, 3.2.3)", () => {
    const value = {
      "\u20ac": "Euro Sign",
      "\r": "Carriage Return",
      "\ufb33": "Hebrew Letter Dalet With Dagesh",
      "1": "One",
      "\ud83d\ude00": "Emoji: Grinning Face",
      "\u0080": "Control",
      "\u00f6": "Latin Small Letter O With Diaeresis",
    };
    expect(Object.keys(JSON.parse(canonicalJson(value)))).toEqual(
      // JSON.parse puts the integer-like key first; the text itself is compared below.
      ["1", "\r", "\u0080", "\u00f6", "\u20ac", "\ud83d\ude00", "\ufb33"],
    );
    expect(canonicalJson(value)).toBe(
      '{"\\r":"Carriage Return","1":"One","\u0080":"Control","ö":"Latin Small Letter O With Diaeresis",' +
        '"€":"Euro Sign","😀":"Emoji: Grinning Face","\ufb33":"Hebrew Letter Dalet With Dagesh"}',
    );
  });

  test("numbers and strings are written as RFC 8785, 3.2.2 shows", () => {
    const value = {
      numbers: [Number("333333333.33333329"), 4.5, 2e-3, 0.000000000000000000000000001, -0],
      string: "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"/",
      literals: [null, true, false],
    };
    expect(canonicalJson(value)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,4.5,0.002,1e-27,0],' +
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    );
  });

  test.each<[string, unknown, string, string]>([
    ["NaN", { a: [1, Number.NaN] }, "a[1]", "is not a finite number"],
    ["infinity", { a: { b: Number.POSITIVE_INFINITY } }, "a.b", "is not a finite number"],
    ["an unsafe integer", { n: 2 ** 53 }, "n", "is an integer beyond ±(2^53-1)"],
    ["a negative unsafe integer", [-(2 ** 53)], "[0]", "is an integer beyond ±(2^53-1)"],
    ["a lone surrogate", { s: "\ud800" }, "s", "contains a lone surrogate"],
    ["a lone surrogate in a key", { "\udc00": 1 }, "\udc00", "has a lone surrogate in its key"],
    ["undefined", { a: undefined }, "a", "is of type undefined, which JSON can't hold"],
    ["a bigint", { a: 1n }, "a", "is of type bigint, which JSON can't hold"],
    ["a function", { a: () => 1 }, "a", "is of type function, which JSON can't hold"],
    ["a date", { a: new Date(0) }, "a", "is not a plain object"],
    ["a map", new Map(), "", "is not a plain object"],
    ["a hole in an array", new Array(1), "[0]", "is of type undefined, which JSON can't hold"],
    ["a symbol key", { [Symbol("s")]: 1 }, "", "has a symbol for a key"],
  ])("%s is refused by its path", (_, value, path, reason) => {
    const refusal = refusalOf(value);
    expect(refusal).toMatchObject({ path, reason });
  });

  test("a cycle is refused, and so is what is nested deeper than 512", () => {
    const cyclic: Record<string, unknown> = {};
    cyclic["self"] = cyclic;
    expect(refusalOf(cyclic).reason).toBe("is cyclic or nested too deeply");
    expect(refusalOf(nested(513)).reason).toBe("is cyclic or nested too deeply");
    expect(canonicalJson(nested(512))).toBe("[".repeat(512) + "]".repeat(512));
  });

  test("property: the text parses back to the value, and does not depend on the order of keys", () => {
    fc.assert(
      fc.property(canonicalValue(), (value) => {
        const text = canonicalJson(value);
        expect(canonicalJson(JSON.parse(text))).toBe(text);
        expect(canonicalJson(reversedKeys(value))).toBe(text);
      }),
    );
  });
});

describe("digests", () => {
  test.each<[unknown, string]>([
    [{}, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"],
    [[], "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"],
    [
      { candidate_id: "candidate-1", complete: true },
      "fc5556057ccb55ca77da1104160f32640ef6bbe4767d30a89d378009804122ab",
    ],
    [
      {
        root_frame_id: "root-1",
        branch_id: "root-1",
        turn_id: "turn-1",
        execution_id: "execution-1",
        mode: "auto_fix",
        selection: {
          preset: "autonomous",
          result_review_mode: "auto_fix",
          approvals_reviewer: "auto_review",
          source: "frame",
        },
        budgets: { max_review_attempts: 2, max_repair_rounds: 2 },
      },
      "20bdcd02fa3336ba713bda088c714ece2bf65cdfbb7e5931eaf451e3e24aab49",
    ],
    [
      { status: "failed", terminal_reason: "safety_boundary", stop_reason: null },
      "cdc95b0c397847d7b013eeeada8346357ae4427c011e39431f1de786b42ddcaf",
    ],
  ])("of %j", (value, expected) => {
    expect(digest(value)).toBe(expected);
  });

  test("a text longer than the kept buffer has the digest that Web Crypto gives", async () => {
    for (const length of [0, 1, 21_845, 21_846, 100_000]) {
      const text = "é".repeat(length);
      const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(text)));
      expect(digest(text)).toBe(Buffer.from(bytes).toString("hex"));
    }
  });
});

function refusalOf(value: unknown): NotCanonicalError {
  try {
    canonicalJson(value);
  } catch (error) {
    if (error instanceof NotCanonicalError) return error;
    throw error;
  }
  throw new Error("it was accepted");
}

function nested(depth: number): Json {
  let value: Json = [];
  for (let level = 1; level < depth; level++) value = [value];
  return value;
}

function canonicalValue(): fc.Arbitrary<Json> {
  const number = fc
    .double({ noDefaultInfinity: true, noNaN: true })
    .filter((n) => !Number.isInteger(n) || Number.isSafeInteger(n));
  const { value } = fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      fc.constant(null),
      fc.boolean(),
      number,
      fc.string({ unit: "grapheme" }),
      fc.array(tie("value")),
      fc.dictionary(fc.string({ unit: "grapheme" }), tie("value")),
    ),
  }));
  return value;
}

function reversedKeys(value: Json): Json {
  if (Array.isArray(value)) return value.map(reversedKeys);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, reversedKeys(member)]),
  );
}
