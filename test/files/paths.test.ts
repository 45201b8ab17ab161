import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ValidationError } from "../../src/index.ts";
import {
  compareCodePoints,
  isExcludedDirectory,
  isSecretShaped,
  nameProblem,
  normalisePath,
} from "../../worker/files/paths.ts";

describe("a stored path", () => {
  test.for([
    ["result.txt", "result.txt"],
    ["a\\b\\c.txt", "a/b/c.txt"],
    [".hidden/...", ".hidden/..."],
    ["a:b/c d/é*?<>|", "a:b/c d/é*?<>|"],
    ["cafe\u0301/x", "caf\u00e9/x"],
    ["\u212b", "\u00e5".toUpperCase()],
    ["👩‍🔬/नमस्ते/\u{10ffff}", "👩‍🔬/नमस्ते/\u{10ffff}"],
    ["x".repeat(255), "x".repeat(255)],
    [Array(128).fill("d").join("/"), Array(128).fill("d").join("/")],
  ])("%j is %j", ([path = "", normal]) => {
    expect(normalisePath(path)).toBe(normal);
  });

  test.for([
    ["", "is empty"],
    ["/etc/passwd", "is absolute"],
    ["\\\\server\\share", "is absolute"],
    ["C:\\Windows", "is absolute"],
    ["c:", "is absolute"],
    ["a//b", "has an empty part"],
    ["a/", "has an empty part"],
    ["./a", 'has a part "."'],
    ["a/../b", 'has a part ".."'],
    ["a\\..\\b", 'has a part ".."'],
    ["..", 'has a part ".."'],
    ["a\0b", "has a control character"],
    ["a/b\n", "has a control character"],
    ["a\u0085", "has a control character"],
    ["a\u007f/b", "has a control character"],
    ["a/\ud800", "has a lone surrogate"],
    ["\udc00\ud800/a", "has a lone surrogate"],
    ["é".repeat(128), "has a part of more than 255 bytes"],
    ["a/b.crswap", "has a part that ends in .crswap, which browsers keep for themselves"],
    [Array(129).fill("d").join("/"), "has more than 128 parts"],
  ])("%j is refused: %s", ([path, reason]) => {
    expect(() => normalisePath(path ?? "", "target")).toThrow(
      expect.objectContaining({
        name: "ValidationError",
        code: "invalid_path",
        details: { field: "target", path, reason },
      }),
    );
  });

  test("never leads out of its directory, whatever it is made of, and normalising again changes nothing", () => {
    fc.assert(
      fc.property(anyPath(), (path) => {
        const normal = normalOrRefused(path);
        if (normal === undefined) return;
        expect(normalisePath(normal)).toBe(normal);
        const above = "https://host/root/";
        const resolved = new URL(normal.split("/").map(encodeURIComponent).join("/"), above);
        expect(resolved.href.startsWith(above)).toBe(true);
        expect(resolved.href.length).toBeGreaterThan(above.length);
        expect(
          normal.split("/").every((part) => part !== "" && !/^\.\.?$/.test(part) && !/[\\\0]/.test(part)),
        ).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });

  test("is a name that the browser itself takes as it is, part by part", async () => {
    const directory = await (await navigator.storage.getDirectory()).getDirectoryHandle(
      `names-${crypto.randomUUID()}`,
      { create: true },
    );
    await fc.assert(
      fc.asyncProperty(anyPath(), async (path) => {
        const name = normalOrRefused(path)?.split("/")[0];
        if (name === undefined) return;
        const handle = await directory.getFileHandle(name, { create: true });
        expect(handle.name).toBe(name);
        await directory.removeEntry(name);
      }),
      { numRuns: 60 },
    );
  });
});

test("names that capture leaves out", () => {
  const secret = [
    ".env",
    ".ENV",
    ".env.local",
    "a.key",
    "A.PEM",
    "x.p12",
    "x.pfx",
    "credentials",
    "Credentials.json",
  ];
  secret.push("service-account.json", "service_account.json");
  const plain = ["env", ".environment", "key", "a.keys", "credentials.txt", "pem", "my-credentials"];
  expect(secret.filter((name) => !isSecretShaped(name))).toEqual([]);
  expect(plain.filter(isSecretShaped)).toEqual([]);
  const excluded = [".git", ".openai4s", ".venv", "__pycache__", "node_modules"];
  expect(excluded.filter((name) => !isExcludedDirectory(name))).toEqual([]);
  expect([".github", "venv", "Node_modules"].filter(isExcludedDirectory)).toEqual([]);
});

test("names as a directory lists them can hold what no stored path may", () => {
  expect(nameProblem("a\\b")).toBe("has a separator inside a part");
  expect(nameProblem("a/b")).toBe("has a separator inside a part");
  expect(nameProblem("plain")).toBeUndefined();
});

test("the order is that of code points, not of UTF-16 units", () => {
  const paths = ["a", "\u{1f600}", "\uffee", "b", "\ue000", "a/b", "a.b", ""];
  expect(paths.sort(compareCodePoints)).toEqual([
    "",
    "a",
    "a.b",
    "a/b",
    "b",
    "\ue000",
    "\uffee",
    "\u{1f600}",
  ]);
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (left, right) => {
      expect(Math.sign(compareCodePoints(left, right))).toBe(Math.sign(compareByPoints(left, right)));
    }),
  );
});

function compareByPoints(left: string, right: string): number {
  const [a, b] = [left, right].map((text) => Array.from(text, (each) => each.codePointAt(0) ?? 0));
  for (const [index, point] of (a ?? []).entries()) {
    const other = b?.[index];
    if (other === undefined) return 1;
    if (point !== other) return point - other;
  }
  return (a?.length ?? 0) - (b?.length ?? 0);
}

function normalOrRefused(path: string): string | undefined {
  try {
    return normalisePath(path);
  } catch (error) {
    expect(error).toBeInstanceOf(ValidationError);
    return undefined;
  }
}

/** Paths that are made of what paths are attacked with, and of anything else. */
function anyPath(): fc.Arbitrary<string> {
  const nasty = [
    "..",
    ".",
    "/",
    "\\",
    "\0",
    "C:",
    "%2e%2e",
    "\u2024\u2024",
    "\u2215",
    "\uff0f",
    "\ud800",
    "\u0301",
    "~",
    " ",
  ];
  const piece = fc.oneof(
    fc.constantFrom(...nasty),
    fc.string({ unit: "binary", maxLength: 3 }),
    fc.string({ maxLength: 3 }),
  );
  return fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(""));
}
