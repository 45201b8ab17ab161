import { sha256 as digestBytes } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { canonicalJson } from "./canonical.ts";

/** A SHA-256 digest as 64 lower-case hex digits. */
export type Sha256 = string & { readonly __brand: "Sha256" };

const utf8 = new TextEncoder();

/** SHA-256 of bytes, or of a string's UTF-8 bytes. Synchronous, so that it can run inside a transaction. */
export function sha256(data: string | Uint8Array): Sha256 {
  return bytesToHex(digestBytes(typeof data === "string" ? utf8.encode(data) : data)) as Sha256;
}

/**
 * SHA-256 of a value's canonical JSON (`DIGEST` in spec/auto_mode 2.1).
 *
 * @throws NotCanonicalError if the value has no canonical JSON.
 */
export function digest(value: unknown): Sha256 {
  return sha256(canonicalJson(value));
}
