import { ValidationError } from "../../src/protocol/errors.ts";

/** Deepest path that a tree may hold, in parts. A walk or a manifest that goes deeper is refused, not followed. */
export const MAX_PATH_DEPTH = 128;

/** What most file systems take for one name (APFS and ext4: 255 bytes), so that a tree can be restored elsewhere. */
const MAX_NAME_BYTES = 255;

/** Chromium writes `<name>.crswap` beside a file and moves it into place, and names none of the user's files so. */
const SWAP_SUFFIX = ".crswap";

const EXCLUDED_DIRECTORIES = new Set([".git", ".openai4s", ".venv", "__pycache__", "node_modules"]);

const SECRET_NAMES = new Set([
  ".env",
  "credentials",
  "credentials.json",
  "service-account.json",
  "service_account.json",
]);
const SECRET_SUFFIXES = [".key", ".pem", ".p12", ".pfx"];

const utf8 = new TextEncoder();

/**
 * The one spelling of a path that a tree may hold (spec/session_store 3.6): relative, parts joined by `/`, in
 * Unicode's NFC, so that a name typed on one system and on another is the same path. Normalising twice changes nothing.
 *
 * Refused: absolute paths, empty parts, `.` and `..`, NUL and other control characters, lone surrogates, parts over
 * 255 UTF-8 bytes or ending in `.crswap`, more than 128 parts. NFC makes no separator or dot out of another character.
 *
 * @throws ValidationError `invalid_path`, with the field, the path and the reason.
 */
export function normalisePath(path: string, field = "path"): string {
  const slashed = path.replaceAll("\\", "/");
  const normal = slashed.isWellFormed() ? slashed.normalize("NFC") : slashed;
  const reason = pathProblem(normal);
  if (reason === undefined) return normal;
  throw new ValidationError("invalid_path", `the path ${JSON.stringify(path)} ${reason}`, {
    field,
    path,
    reason,
  });
}

function pathProblem(path: string): string | undefined {
  if (path === "") return "is empty";
  if (path.startsWith("/") || /^[A-Za-z]:(\/|$)/.test(path)) return "is absolute";
  const parts = path.split("/");
  if (parts.length > MAX_PATH_DEPTH) return `has more than ${MAX_PATH_DEPTH} parts`;
  for (const part of parts) {
    const problem = nameProblem(part);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Why a name, as a directory lists it, can't be a part of a stored path; undefined if it can. */
export function nameProblem(name: string): string | undefined {
  if (name === "") return "has an empty part";
  if (name === "." || name === "..") return `has a part "${name}"`;
  if (!name.isWellFormed()) return "has a lone surrogate";
  // Firefox's OPFS takes NUL and backslash into names; Chromium cuts the name at NUL and refuses the backslash.
  if (/\p{Cc}/u.test(name)) return "has a control character";
  if (/[/\\]/.test(name)) return "has a separator inside a part";
  if (utf8.encode(name).length > MAX_NAME_BYTES) return `has a part of more than ${MAX_NAME_BYTES} bytes`;
  if (isSwapFile(name)) return `has a part that ends in ${SWAP_SUFFIX}, which browsers keep for themselves`;
  return undefined;
}

/** Whether the name is that of a browser's own half-written file. */
export function isSwapFile(name: string): boolean {
  return name.toLowerCase().endsWith(SWAP_SUFFIX);
}

/**
 * Whether a file's name says that it holds secrets (spec/session_store 3.3). Only the name is looked at: a secret
 * inside another file is captured like anything else (W45).
 */
export function isSecretShaped(name: string): boolean {
  const lower = name.toLowerCase();
  return (
    SECRET_NAMES.has(lower) ||
    lower.startsWith(".env.") ||
    SECRET_SUFFIXES.some((suffix) => lower.endsWith(suffix))
  );
}

/** Whether a directory of this name is left out of captures at any depth (spec/session_store 3.3). */
export function isExcludedDirectory(name: string): boolean {
  return EXCLUDED_DIRECTORIES.has(name);
}

/** The directories that a path lies in, from the outermost: `a`, `a/b` for `a/b/c`. */
export function* ancestorsOf(path: string): Generator<string> {
  for (let end = path.indexOf("/"); end !== -1; end = path.indexOf("/", end + 1)) yield path.slice(0, end);
}

/** Order by Unicode code point. JavaScript's own order is by UTF-16 unit and puts U+E000–U+FFFF after astral ones. */
export function compareCodePoints(left: string, right: string): number {
  const shared = Math.min(left.length, right.length);
  for (let index = 0; index < shared; index++) {
    const difference = rank(left.charCodeAt(index)) - rank(right.charCodeAt(index));
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** A surrogate stands for a code point above all that fit one unit. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}
