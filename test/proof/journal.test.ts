import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  BrokenChainError,
  type EntryBody,
  type EntryHeader,
  GENESIS_SHA256,
  rowDigest,
  type Sha256,
  sealEntry,
  skipPosition,
  verifyAnchored,
} from "../../src/proof/index.ts";

const CHAIN = chain(700);

describe("the chain of journal entries", () => {
  test("every position links to its skew-binary number without the smallest weight", () => {
    const links = [1, 2, 3, 4, 5, 6, 7, 8, 12, 14, 15, 16, 2 ** 53 - 1].map(skipPosition);
    expect(links).toEqual([0, 1, 0, 3, 4, 3, 0, 7, 11, 7, 0, 15, 0]);
    for (const position of [0, -1, 0.5, 2 ** 53]) expect(() => skipPosition(position)).toThrow(RangeError);
  });

  test("property: any entries are reached from any head in at most 3·log2(n) steps each", () => {
    fc.assert(
      fc.property(headAndTargets(), ({ head, targets }) => {
        let steps = 0;
        verifyAnchored(at(CHAIN, head), targets, (position) => {
          steps += 1;
          return CHAIN[position - 1];
        });
        expect(steps).toBeLessThanOrEqual(3 * Math.log2(head + 1) * targets.length);
      }),
    );
  });

  test("property: whatever is changed in a target entry, or put in its place, the walk refuses it", () => {
    const fields = [
      "rootFrameId",
      "position",
      "bodySha256",
      "previousSha256",
      "skipSha256",
      "entrySha256",
    ] as const;
    fc.assert(
      fc.property(headAndTargets(), fc.constantFrom(...fields), ({ head, targets }, field) => {
        const [target = 1] = targets;
        const original = at(CHAIN, target);
        const replacement =
          field === "position" ? target + 1 : field === "rootFrameId" ? "other" : ("f".repeat(64) as Sha256);
        const changed = { ...original, [field]: replacement };
        const read = (position: number) => (position === target ? changed : CHAIN[position - 1]);
        expect(() => verifyAnchored(at(CHAIN, head, read), [target], read)).toThrow(BrokenChainError);
      }),
    );
  });

  test("an entry sealed again with another body does not fit the entries that link to it", () => {
    const forged = sealEntry(body(40, "forged"), at(CHAIN, 39).entrySha256, at(CHAIN, 32).entrySha256);
    const read = (position: number) => (position === 40 ? forged : CHAIN[position - 1]);
    expect(() => verifyAnchored(at(CHAIN, 41), [40], read)).toThrow(/entry 40 is not the one/);
  });

  test("a missing entry and a target above the head are named", () => {
    expect(() => verifyAnchored(at(CHAIN, 9), [8], () => undefined)).toThrow(/entry 8 is missing/);
    expect(() => verifyAnchored(at(CHAIN, 9), [10], () => undefined)).toThrow(/entry 10 lies above/);
  });
});

test("a row's digest tells types apart: 1, '1' and null", () => {
  const digests = [1, "1", null, 0].map((value) => rowDigest({ id: "a", value }));
  expect(new Set(digests).size).toBe(4);
});

function chain(length: number): EntryHeader[] {
  const headers: EntryHeader[] = [];
  for (let position = 1; position <= length; position++) {
    const linked = (to: number) => (to === 0 ? GENESIS_SHA256 : at(headers, to).entrySha256);
    headers.push(sealEntry(body(position), linked(position - 1), linked(skipPosition(position))));
  }
  return headers;
}

function body(position: number, command = "test.write"): EntryBody {
  return {
    rootFrameId: "root-1",
    position,
    operationId: `operation-${position}`,
    command,
    branchId: null,
    runId: null,
    runOrdinal: null,
    ownerInstanceId: "tab-1",
    at: 1_000 + position,
    details: null,
    commitments: [{ table: "settings", key: `["k${position}"]`, sha256: rowDigest({ position }) }],
  };
}

function at(
  headers: readonly EntryHeader[],
  position: number,
  read?: (p: number) => EntryHeader | undefined,
) {
  const header = read === undefined ? headers[position - 1] : read(position);
  if (header === undefined) throw new Error(`the chain has no entry ${position}`);
  return header;
}

function headAndTargets() {
  return fc.integer({ min: 1, max: CHAIN.length }).chain((head) =>
    fc.record({
      head: fc.constant(head),
      targets: fc.array(fc.integer({ min: 1, max: head }), { minLength: 1, maxLength: 6 }),
    }),
  );
}
