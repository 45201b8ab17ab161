import fc from "fast-check";
import { sha256 } from "../../src/proof/index.ts";
import type { TreeEntry } from "../../src/protocol/workspace.ts";
import { treeEntry } from "../../worker/files/tree.ts";
import type { Contents } from "./place.ts";

const utf8 = new TextEncoder();

/** Small trees: a few names at a few depths, so that two of them often share paths and contents. */
export function anyContents(): fc.Arbitrary<Contents> {
  const name = fc.constantFrom("a", "b", "c.txt", "é", "\uffee", "\u{1f600}", " x ", "CON");
  const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join("/"));
  const content = fc.oneof(fc.constantFrom("", "one", "two"), fc.string({ unit: "grapheme" }));
  return fc.dictionary(path, content, { maxKeys: 5, noNullPrototype: true }).map(withoutClashes);
}

/** The entries that a capture of these files has. */
export function entriesOf(contents: Contents): TreeEntry[] {
  return Object.entries(contents).map(([path, content]) =>
    treeEntry(path, sha256(content), utf8.encode(content).length),
  );
}

/** A path can't be a file and a directory. */
function withoutClashes(contents: Contents): Contents {
  const paths = Object.keys(contents);
  const fits = (path: string) => !paths.some((other) => other.startsWith(`${path}/`));
  return Object.fromEntries(Object.entries(contents).filter(([path]) => fits(path)));
}
