import * as z from "zod";
import {
  canonicalJson,
  type Json,
  type JsonObject,
  MAX_CANONICAL_BYTES,
  NotCanonicalError,
} from "../proof/canonical.ts";
import type { Sha256 } from "../proof/sha256.ts";

/** Fields that commands are made of (spec/auto_mode 0.3). Each says in words what it expects. */

/** Longest id, in code points. */
const ID_LENGTH = 512;

/** Longest idempotency key, reason or list item, in code points. */
export const LONG_TEXT = 1024;

/** A string that is trimmed, then not blank, at most `max` code points, without NUL and lone surrogates. */
export function text(max: number = ID_LENGTH) {
  return z
    .string(`a non-blank string of at most ${max} characters`)
    .trim()
    .min(1, "a string that is not blank")
    .refine((value) => value.isWellFormed(), "a string without lone surrogates")
    .refine((value) => !value.includes("\0"), "a string without NUL characters")
    .refine((value) => codePoints(value) <= max, `at most ${max} characters`)
    .meta({ maxLength: max });
}

function codePoints(value: string): number {
  let count = 0;
  for (const _ of value) count++;
  return count;
}

/** Ids that the caller chooses, or refers to. `references` names what must exist already. */
function id<Id extends string>(references?: string) {
  return text()
    .transform((value) => value as Id)
    .meta(references === undefined ? { maxLength: ID_LENGTH } : { maxLength: ID_LENGTH, references });
}

export type RootFrameId = string & { readonly __brand: "RootFrameId" };
export type BranchId = string & { readonly __brand: "BranchId" };
export type RunId = string & { readonly __brand: "RunId" };
export type CheckpointId = string & { readonly __brand: "CheckpointId" };
export type ActionGroupId = string & { readonly __brand: "ActionGroupId" };
export type AttemptId = string & { readonly __brand: "AttemptId" };
export type RepairRunId = string & { readonly __brand: "RepairRunId" };
export type MessageId = string & { readonly __brand: "MessageId" };
export type DeliveryId = string & { readonly __brand: "DeliveryId" };
export type ArtifactId = string & { readonly __brand: "ArtifactId" };
export type VersionId = string & { readonly __brand: "VersionId" };
export type ReviewRunId = string & { readonly __brand: "ReviewRunId" };

export const newId = () => id<string>();
export const newRunId = () => id<RunId>();
export const newCheckpointId = () => id<CheckpointId>();
export const existingCheckpointId = () => id<CheckpointId>("checkpoint");
export const newActionGroupId = () => id<ActionGroupId>();
export const existingActionGroupId = () => id<ActionGroupId>("action group");
export const newAttemptId = () => id<AttemptId>();
export const existingAttemptId = () => id<AttemptId>("attempt");
export const newRepairRunId = () => id<RepairRunId>();
export const existingRepairRunId = () => id<RepairRunId>("repair");
export const newMessageId = () => id<MessageId>();
export const existingMessageId = () => id<MessageId>("message");
export const existingDeliveryId = () => id<DeliveryId>("delivery");
export const existingArtifactId = () => id<ArtifactId>("artifact");
export const existingVersionId = () => id<VersionId>("version");
export const newReviewRunId = () => id<ReviewRunId>();
export const newBranchId = () => id<BranchId>();
export const existingProjectId = () => id<string>("project");
export const existingFrameId = () => id<string>("frame");
export const existingRootFrameId = () => id<RootFrameId>("session");
export const existingBranchId = () => id<BranchId>("branch");
export const existingRunId = () => id<RunId>("run");
export const existingReviewRunId = () => id<ReviewRunId>("review");

export const idempotencyKey = () => text(LONG_TEXT);

/** 64 lower-case hex digits. */
export function sha256() {
  return z
    .string("a SHA-256 digest of 64 lower-case hex digits")
    .regex(/^[0-9a-f]{64}$/, "a SHA-256 digest of 64 lower-case hex digits")
    .transform((value) => value as Sha256);
}

/** The digest by which a workspace tree is found. */
export const existingTreeId = () => sha256().meta({ references: "tree" });

/** A safe integer, at least `min`. */
export function integer(min: number) {
  const expected = `an integer from ${min} to 2^53-1`;
  return z.int(expected).min(min, expected);
}

/** Integer milliseconds since the epoch; absent or null means the ledger's clock. */
export function millis() {
  return integer(0)
    .nullish()
    .transform((value) => value ?? null);
}

/** A plain object with a canonical JSON form of at most 32 MiB. */
export function jsonObject() {
  return z
    .record(z.string(), z.unknown(), "a plain object of JSON values")
    .superRefine(refuseNonCanonical)
    .transform((value) => value as JsonObject);
}

/** Any JSON value with a canonical form of at most 32 MiB; null and absent are the same. */
export function jsonValue() {
  return z
    .unknown()
    .superRefine(refuseNonCanonical)
    .nullish()
    .transform((value) => (value ?? null) as Json)
    .meta({ holds: "json" });
}

/** As `jsonObject`, with some members that must be there; others are kept as they are. */
export function jsonObjectWith<Shape extends z.ZodRawShape>(shape: Shape) {
  return z
    .looseObject(shape, "a plain object of JSON values")
    .superRefine(refuseNonCanonical)
    .transform((value) => value as z.output<z.ZodObject<Shape>> & JsonObject);
}

function refuseNonCanonical(value: unknown, context: z.RefinementCtx): void {
  const problem = canonicalProblem(value);
  if (problem !== undefined)
    context.addIssue({ code: "custom", path: problem.path, message: problem.expected });
}

function canonicalProblem(value: unknown): { path: string[]; expected: string } | undefined {
  try {
    const tooBig = new TextEncoder().encode(canonicalJson(value)).length > MAX_CANONICAL_BYTES;
    return tooBig ? { path: [], expected: "at most 32 MiB of canonical JSON" } : undefined;
  } catch (error) {
    if (!(error instanceof NotCanonicalError)) throw error;
    const path = error.path === "" ? [] : [error.path];
    return { path, expected: `a JSON value; it ${error.reason}` };
  }
}

/** A list of texts; null or absent is the empty list, duplicates are dropped, the first one wins. */
export function textList(limit = 10_000) {
  return z
    .array(text(LONG_TEXT), "a list of strings")
    .max(limit, `at most ${limit} items`)
    .nullish()
    .transform((items) => [...new Set(items ?? [])]);
}

/** A message's or a file's text: not blank, at most 4,194,304 characters, without lone surrogates. */
export function contentText() {
  return anyText(4_194_304)
    .min(1, "a string that is not blank")
    .refine((value) => value.trim() !== "", "a string that is not blank");
}

/** As `textList`, with at least one item. */
export function someTexts() {
  return z
    .array(text(LONG_TEXT), "a list of strings")
    .min(1, "at least one item")
    .max(10_000, "at most 10,000 items")
    .transform((items) => [...new Set(items)]);
}

/** Any string of at most `max` UTF-16 units, blank or not, without NUL and lone surrogates. */
export function anyText(max: number) {
  return z
    .string("a string")
    .refine((value) => value.isWellFormed(), "a string without lone surrogates")
    .refine((value) => !value.includes("\0"), "a string without NUL characters")
    .max(max, `at most ${max} characters`);
}

/** One of the given words. */
export function word<const Words extends readonly [string, ...string[]]>(words: Words) {
  return z.enum(words, `one of ${words.join(", ")}`);
}

/** As `word`, but the input is trimmed and lower-cased first. */
export function wordAnyCase<const Words extends readonly [string, ...string[]]>(words: Words) {
  return z
    .string(`one of ${words.join(", ")}`)
    .trim()
    .toLowerCase()
    .pipe(word(words))
    .meta({ enum: words });
}
