import canonicalize from "canonicalize";

/** A value that has exactly one canonical JSON text (RFC 8785). */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** Largest canonical text that is accepted, in UTF-8 bytes (32 MiB; spec/auto_mode 2.1). */
export const MAX_CANONICAL_BYTES = 33_554_432;

const MAX_DEPTH = 512;

/** A value that has no canonical JSON text. `path` leads to the offending part, e.g. `evidence.rows[3]`. */
export class NotCanonicalError extends Error {
  override readonly name = "NotCanonicalError";
  readonly path: string;
  readonly reason: string;

  constructor(path: string, reason: string) {
    super(path === "" ? reason : `${path}: ${reason}`);
    this.path = path;
    this.reason = reason;
  }
}

/**
 * The canonical JSON text of a value, as RFC 8785 (JCS) defines it: keys sorted by UTF-16 code unit,
 * no white space, ECMAScript number format.
 *
 * Refuses what JSON would silently change or what does not survive a round trip: NaN, infinities,
 * integers beyond ±(2^53−1), lone surrogates, `undefined`, bigints, functions, symbols, sparse arrays,
 * class instances, cycles and nesting deeper than 512.
 *
 * @throws NotCanonicalError names the path and the reason.
 */
export function canonicalJson(value: unknown): string {
  const problem = findProblem(value, 0);
  if (problem !== undefined) throw new NotCanonicalError(problem.path, problem.reason);
  return canonicalize(value) as string;
}

interface Problem {
  readonly path: string;
  readonly reason: string;
}

function findProblem(value: unknown, depth: number): Problem | undefined {
  switch (typeof value) {
    case "string":
      return value.isWellFormed() ? undefined : here("contains a lone surrogate");
    case "number":
      return findNumberProblem(value);
    case "boolean":
      return undefined;
    case "object":
      if (value === null) return undefined;
      if (depth >= MAX_DEPTH) return here("is cyclic or nested too deeply");
      return Array.isArray(value) ? findArrayProblem(value, depth) : findObjectProblem(value, depth);
    default:
      return here(`is of type ${typeof value}, which JSON can't hold`);
  }
}

function here(reason: string): Problem {
  return { path: "", reason };
}

function findNumberProblem(value: number): Problem | undefined {
  if (!Number.isFinite(value)) return here("is not a finite number");
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) return here("is an integer beyond ±(2^53-1)");
  return undefined;
}

function findArrayProblem(value: readonly unknown[], depth: number): Problem | undefined {
  for (let index = 0; index < value.length; index++) {
    const problem = findProblem(value[index], depth + 1);
    if (problem !== undefined) return within(`[${index}]`, problem);
  }
  return undefined;
}

function findObjectProblem(value: object, depth: number): Problem | undefined {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) return here("is not a plain object");
  if (Object.getOwnPropertySymbols(value).length > 0) return here("has a symbol for a key");
  for (const [key, member] of Object.entries(value)) {
    const problem = key.isWellFormed()
      ? findProblem(member, depth + 1)
      : here("has a lone surrogate in its key");
    if (problem !== undefined) return within(key, problem);
  }
  return undefined;
}

function within(step: string, problem: Problem): Problem {
  const joint = problem.path === "" || problem.path.startsWith("[") ? "" : ".";
  return { path: `${step}${joint}${problem.path}`, reason: problem.reason };
}
