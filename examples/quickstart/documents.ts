import { canonicalJson, digest, type JsonObject, type Sha256, sha256 } from "countersign/proof";

// The ledger keeps digests; the documents are the application's own. Here they lie beside it, named by digest.
const PREFIX = "quickstart:document:";

/** Keeps a document for later visits and gives the digest under which the ledger shall know it. */
export function keepDocument(document: JsonObject): Sha256 {
  const sha = digest(document);
  localStorage.setItem(PREFIX + sha, canonicalJson(document));
  return sha;
}

/** The document that a digest stands for, or undefined where it is gone or is not that document any more. */
export function findDocument<Document extends JsonObject>(
  sha: string | null | undefined,
): Document | undefined {
  const text = localStorage.getItem(`${PREFIX}${sha}`);
  return text === null || sha256(text) !== sha ? undefined : (JSON.parse(text) as Document);
}
