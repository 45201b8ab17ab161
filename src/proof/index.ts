/**
 * Canonical JSON, digests and journal entries: pure, without the browser and without SQLite, so that a page,
 * a worker or Node can check a proof on its own.
 */
export { canonicalJson, type Json, type JsonObject, NotCanonicalError } from "./canonical.ts";
export {
  BrokenChainError,
  type Commitment,
  type EntryBody,
  type EntryHeader,
  entryBodyDigest,
  entryDigest,
  GENESIS_SHA256,
  rowDigest,
  sealEntry,
  skipPosition,
  verifyAnchored,
} from "./journal.ts";
export { digest, type Sha256, sha256 } from "./sha256.ts";
