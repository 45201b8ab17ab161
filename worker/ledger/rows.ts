import { canonicalJson, type Json, type JsonObject, NotCanonicalError } from "../../src/proof/canonical.ts";
import { digest } from "../../src/proof/sha256.ts";
import type { Branch } from "../../src/protocol/branches.ts";
import type { Checkpoint } from "../../src/protocol/checkpoints.ts";
import type { LedgerEvent, StoredEvent } from "../../src/protocol/events.ts";
import type { Finding, Review } from "../../src/protocol/reviews.ts";
import type { Run } from "../../src/protocol/runs.ts";
import type { Row } from "../storage/database.ts";
import { DamageFound } from "./damage.ts";

/** From database rows to what the API speaks of. Types are asserted here, where rows enter, and nowhere else. */

/** Column names in camelCase; `*_json` columns parsed under their short name. */
export function decodeRow<Entity>(row: Row): Entity {
  const entity: Record<string, unknown> = {};
  for (const [column, value] of Object.entries(row)) {
    if (column.endsWith("_json")) entity[camelCase(column.slice(0, -"_json".length))] = parseJson(value);
    else entity[camelCase(column)] = value;
  }
  return entity as Entity;
}

const camelNames = new Map<string, string>();

function camelCase(column: string): string {
  let name = camelNames.get(column);
  if (name === undefined) {
    name = column.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
    camelNames.set(column, name);
  }
  return name;
}

function parseJson(value: Row[string]): Json {
  return value === null ? null : (JSON.parse(String(value)) as Json);
}

export function decodeRun(row: Row): Run {
  return decodeRow<Run>(row);
}

export function decodeBranch(row: Row): Branch {
  return decodeRow<Branch>(row);
}

function decodeFinding(row: Row): Finding {
  return decodeRow<Finding>(row);
}

/** A review with its findings. The envelope stays out: its digest and its parts are there. */
export function decodeReview(row: Row, findings: readonly Row[]): Review {
  const { assessmentEnvelope: _, ...review } = decodeRow<Record<string, unknown>>(row);
  const reviewer = review["reviewer"] as JsonObject;
  return {
    ...review,
    usage: review["usage"] ?? {},
    findings: findings.map(decodeFinding),
    modelProfileId: reviewer["profile_id"],
    modelProfileRevision: reviewer["profile_revision"],
    modelFingerprint: reviewer["model_fingerprint"],
    round: review["roundIndex"],
    createdAt: review["startedAt"],
    finishedAt: review["completedAt"],
  } as unknown as Review;
}

/** The event of a row that was just made from this payload. */
export function newEvent(row: Row, payload: LedgerEvent["payload"]): LedgerEvent {
  const { payload_json: _, ...columns } = row;
  const frame = decodeRow<Omit<LedgerEvent, "payload">>(columns);
  return { ...frame, eventOrdinal: frame.eventCursor, occurredAt: frame.createdAt, payload } as LedgerEvent;
}

/** An event row, its payload checked against its digest (spec/auto_mode 2.2). Never throws: see `damage`. */
export function decodeEvent(row: Row): StoredEvent {
  const { payload_json: text, ...columns } = row;
  const frame = decodeRow<Omit<StoredEvent, "payload">>(columns);
  const decoded = decodePayload(String(text), String(row["payload_sha256"]));
  return {
    ...frame,
    eventOrdinal: frame.eventCursor,
    occurredAt: frame.createdAt,
    ...decoded,
  } as StoredEvent;
}

function decodePayload(text: string, expected: string): { payload: JsonObject | null; damage?: string } {
  let payload: unknown;
  try {
    payload = JSON.parse(text);
  } catch {
    return { payload: null, damage: "the payload is not JSON" };
  }
  if (typeof payload !== "object" || payload === null || Array.isArray(payload)) {
    return { payload: null, damage: "the payload is not an object" };
  }
  const sound = { payload: payload as JsonObject };
  return canonicalDigest(payload) === expected
    ? sound
    : { ...sound, damage: "the payload does not match its digest" };
}

function canonicalDigest(value: unknown): string | null {
  try {
    return digest(value);
  } catch (error) {
    if (error instanceof NotCanonicalError) return null;
    throw error;
  }
}

/** The event, or damage: for where only sound events may go on. */
export function soundEvent(row: Row): LedgerEvent {
  const event = decodeEvent(row);
  if (event.damage !== undefined) throw new DamageFound("auto_mode_events", event.eventId, event.damage);
  return event;
}

const CHECKPOINT_DOCUMENTS = new Set([
  "artifact_versions",
  "environment_pins",
  "generation_refs",
  "capability_state",
  "permission_state",
  "recovery_recipe",
  "metadata",
]);

export function decodeCheckpoint(row: Row): Checkpoint {
  const { internal, lineage: _, ...columns } = withParsed(row, CHECKPOINT_DOCUMENTS);
  return { ...decodeRow<Checkpoint>(columns as Row), internal: internal === 1 };
}

/** The row with some of its text columns parsed; what the journal vouches for is JSON. */
export function withParsed(row: Row, columns: ReadonlySet<string>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([column, value]) => [column, columns.has(column) ? parseJson(value) : value]),
  );
}

/** A row's primary key as the journal names it. */
export function rowKey(value: Row[string]): string {
  return canonicalJson([value]);
}
