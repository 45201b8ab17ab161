import { expect } from "vitest";
import { type Delivery, LedgerError } from "../../src/index.ts";
import { digest, type JsonObject, sha256 } from "../../src/proof/index.ts";
import type { SqlValue, TestLedger } from "../../src/testing.ts";
import { commitCandidateDelivery, sessionOf } from "../support/candidates.ts";
import {
  candidateFields,
  completionFields,
  type minorFinding,
  reviewFields,
  startFields,
  terminalFields,
} from "../support/fields.ts";
import { newRoot } from "../support/session.ts";

/** What the tests of messages, deliveries and artifacts have in common. */

/** The turn and execution of the run that `startFields` starts. */
export const WORK = { turnId: "turn-1", executionId: "execution-1" };

export const encode = (text: string) => new TextEncoder().encode(text);

export interface Refusal {
  readonly name: string;
  readonly code: string;
  /** The input that is named as the cause. */
  readonly field?: string;
}

/** The ledger's refusal of a call; any other outcome fails the test. */
export async function refusalOf(answer: Promise<unknown>): Promise<LedgerError> {
  const refusal = await answer.then(
    (value) => new Error(`it was accepted: ${JSON.stringify(value)}`),
    (error: unknown) => error,
  );
  if (refusal instanceof LedgerError) return refusal;
  throw refusal;
}

/** Everything that the database holds, table by table. */
export async function everyRow(ledger: TestLedger): Promise<Record<string, unknown>> {
  const tables = await ledger.testing.sql("SELECT name FROM sqlite_schema WHERE type = 'table'");
  const rows: Record<string, unknown> = {};
  for (const { name } of tables)
    rows[String(name)] = await ledger.testing.sql(`SELECT * FROM "${String(name)}"`);
  return rows;
}

/** The call is refused exactly so, and no row is written. */
export async function expectRefused(
  ledger: TestLedger,
  call: () => Promise<unknown>,
  refusal: Refusal,
  why = "",
): Promise<void> {
  const before = await everyRow(ledger);
  const { name, code, details } = await refusalOf(call());
  const { field } = details;
  expect({ why, name, code, ...(refusal.field !== undefined && { field }) }).toEqual({ why, ...refusal });
  expect(await everyRow(ledger)).toEqual(before);
}

export const invalid = (field: string): Refusal => ({
  name: "ValidationError",
  code: "invalid_input",
  field,
});

export const conflict = (code: string, field?: string): Refusal => ({
  name: "LedgerConflictError",
  code,
  ...(field !== undefined && { field }),
});

/** Makes a write to a table fail inside of the next transaction, until `mend` is called. */
export async function breakTable(ledger: TestLedger, on: string) {
  await ledger.testing.sql(
    `CREATE TRIGGER injected_fault BEFORE ${on} BEGIN SELECT RAISE(ABORT, 'injected fault'); END`,
  );
  return { mend: () => ledger.testing.sql("DROP TRIGGER injected_fault") };
}

/** One statement of tampering, and the one that undoes it. */
export interface Tampering {
  readonly what: string;
  readonly act: string;
  readonly values?: readonly SqlValue[];
}

/** Rewrites the database past all rules, looks what is made of it, and puts every row back. */
export async function whileTampered<Result>(
  ledger: TestLedger,
  table: string,
  { act, values = [] }: Tampering,
  look: () => Promise<Result>,
): Promise<Result> {
  await ledger.testing.sql("PRAGMA foreign_keys = OFF");
  await ledger.testing.sql(`CREATE TABLE kept AS SELECT * FROM ${table}`);
  await ledger.testing.sql(act, values);
  try {
    return await look();
  } finally {
    await ledger.testing.sql(`DELETE FROM ${table}`);
    await ledger.testing.sql(`INSERT INTO ${table} SELECT * FROM kept`);
    await ledger.testing.sql("DROP TABLE kept");
    await ledger.testing.sql("PRAGMA foreign_keys = ON");
  }
}

/** The ledger's files below `files`, by path: blobs, and what is half-written. */
export async function storedFiles(ledger: TestLedger, below: "blobs" | "tmp"): Promise<string[]> {
  const directory = await (await filesOf(ledger)).getDirectoryHandle(below);
  const names: string[] = [];
  for await (const [name, handle] of directory.entries()) {
    if (!(handle instanceof FileSystemDirectoryHandle)) names.push(name);
    else for await (const inner of handle.keys()) names.push(inner);
  }
  return names.sort();
}

/** The file of a blob, as a stranger to the ledger would find it. */
export async function blobFile(ledger: TestLedger, digestOfBlob: string) {
  const blobs = await (await filesOf(ledger)).getDirectoryHandle("blobs");
  const fan = await blobs.getDirectoryHandle(digestOfBlob.slice(0, 2));
  const overwrite = async (content: Uint8Array<ArrayBuffer>) => {
    const writable = await (await fan.getFileHandle(digestOfBlob)).createWritable();
    await writable.write(content);
    await writable.close();
  };
  return { overwrite, remove: () => fan.removeEntry(digestOfBlob) };
}

async function filesOf(ledger: TestLedger): Promise<FileSystemDirectoryHandle> {
  const root = await navigator.storage.getDirectory();
  const ledgers = await root.getDirectoryHandle("countersign");
  return (await ledgers.getDirectoryHandle(ledger.name)).getDirectoryHandle("files");
}

/** A session of `project-1` with one artifact version, and the commit of its delivery, which is no candidate. */
export async function readyToDeliver(ledger: TestLedger) {
  const root = await sessionOf(ledger, "project-1");
  const version = await ledger.artifacts.save({
    filename: "candidate.csv",
    contentType: "text/csv",
    bytes: encode("orphaned-candidate-artifact"),
    frameId: root,
    createdAt: 90,
  });
  const manifest = await ledger.deliveries.buildManifest({
    rootFrameId: root,
    projectId: "project-1",
    versions: [version.versionId],
  });
  const [entry] = manifest.value.artifacts;
  if (entry === undefined) throw new Error("the manifest is empty");
  const request = {
    idempotencyKey: "delivery:1",
    rootFrameId: root,
    frameId: root,
    content: `Done: ${entry.url}`,
    manifest: manifest.value,
    expectedManifestSha256: manifest.sha256,
    messageMetadata: { note: "plain" },
    createdAt: 100,
  };
  return { root, version, manifest, entry, request };
}

/** Another session of the project, with one artifact version. */
export async function versionElsewhere(ledger: TestLedger, projectId: string) {
  const root =
    projectId === "project-1" ? await newRoot(ledger, projectId) : await sessionOf(ledger, projectId);
  const version = await ledger.artifacts.save({
    filename: "other.csv",
    contentType: "text/csv",
    bytes: encode("other"),
    frameId: root,
  });
  const manifest = await ledger.deliveries.buildManifest({
    rootFrameId: root,
    projectId,
    versions: [version.versionId],
  });
  return { root, version, manifest };
}

/** What is hashed of the answer that a review looks at (spec/auto_mode 5.3). */
export function answerDigest(evidence: JsonObject) {
  return digest({
    candidate_answer: evidence["candidate_answer"] ?? null,
    structured_completion: evidence["structured_completion"] ?? null,
  });
}

/** Records a candidate whose evidence is `evidence`, and has it reviewed. */
export async function review(
  ledger: TestLedger,
  evidence: JsonObject,
  {
    id = "1",
    verdict = "pass",
    snapshot = answerDigest(evidence),
    findings = [],
  }: { id?: string; verdict?: string; snapshot?: string; findings?: (typeof minorFinding)[] } = {},
): Promise<void> {
  const candidate = {
    candidateId: `candidate-${id}`,
    candidateSnapshotSha256: snapshot,
    evidenceSnapshotSha256: digest(evidence),
  };
  await ledger.runs.recordCandidate({ ...candidateFields, ...candidate, idempotencyKey: `candidate:${id}` });
  await ledger.reviews.start({
    ...reviewFields,
    ...candidate,
    evidenceSnapshot: evidence,
    reviewRunId: `review-${id}`,
    auditId: `audit-${id}`,
    idempotencyKey: `review:start:${id}`,
  });
  await ledger.reviews.complete({
    ...completionFields,
    reviewRunId: `review-${id}`,
    idempotencyKey: `review:complete:${id}`,
    verdict,
    findings,
  });
}

/** A run on a session of `project-1`, with the delivery that is its candidate; all at 100 ms. Nobody has reviewed it. */
export async function unreviewedCandidate(ledger: TestLedger) {
  await ledger.testing.setClock(100);
  const root = await sessionOf(ledger, "project-1");
  await ledger.runs.start(startFields(root));
  const { created: _, ...committed } = await commitCandidateDelivery(ledger, root, WORK);
  return { root, committed };
}

/** The same, reviewed with a pass. */
export async function reviewedCandidate(ledger: TestLedger) {
  const { root, committed } = await unreviewedCandidate(ledger);
  await review(ledger, { candidate_answer: committed.messageContent });
  return { root, committed };
}

type SettlingStatus = "verified" | "completed_with_issues" | "review_unavailable";

/** What the metadata of a settled message says (spec/auto_mode 3.8.1). */
export function verdictMetadata(status: SettlingStatus, candidate: string, content = candidate) {
  return {
    review_status: status,
    user_truth: `It ended as ${status}.`,
    gates_completion: true,
    unverified: status !== "verified",
    turn_id: WORK.turnId,
    execution_id: WORK.executionId,
    candidate_content_sha256: sha256(candidate),
    reviewed_content_sha256: sha256(content),
    review_run_id: "review-1",
  };
}

/** The terminal that settles a committed candidate. */
export function settling(
  { messageId, deliveryId, messageContent }: Delivery,
  status: SettlingStatus = "verified",
  content?: string,
) {
  return {
    ...terminalFields,
    status,
    messagePromotion: {
      messageId,
      deliveryId,
      expectedContent: messageContent,
      ...(content !== undefined && { content }),
      metadata: verdictMetadata(status, messageContent, content),
    },
  };
}
