import { sha256 as digestBytes } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { canonicalJson } from "./canonical.ts";

/** A SHA-256 digest as 64 lower-case hex digits. */
export type Sha256 = string & { readonly __brand: "Sha256" };

const utf8 = new TextEncoder();

/** Encoding into one kept buffer is several times faster than into a new one for each text. */
const scratch = new Uint8Array(65_536);

/** SHA-256 of bytes, or of a string's UTF-8 bytes. Synchronous, so that it can run inside a transaction. */
export function sha256(data: string | Uint8Array): Sha256 {
  return bytesToHex(digestBytes(typeof data === "string" ? utf8Bytes(data) : data)) as Sha256;
}

function utf8Bytes(text: string): Uint8Array {
  // A UTF-16 unit takes at most three bytes of UTF-8.
  if (text.length * 3 > scratch.length) return utf8.encode(text);
  return scratch.subarray(0, utf8.encodeInto(text, scratch).written);
}

/**
 * SHA-256 of a value's canonical JSON (`DIGEST` in spec/auto_mode 2.1).
 *
 * @throws NotCanonicalError if the value has no canonical JSON.
 */
export function digest(value: unknown): Sha256 {
  return sha256(canonicalJson(value));
}
