import { expect } from "vitest";
import { minorFinding } from "../support/fields.ts";
import { buildVerified } from "../support/scenario.ts";
import { test } from "../support/session.ts";

/** The worked example of spec/auto_mode, appendix A: every digest here is the spec's. */

test("a verified run has the event chain and the digests of the worked example", async ({
  fresh: ledger,
}) => {
  const root = await rootOfExample(ledger);
  await buildVerified(ledger, root);

  const events = await ledger.testing.sql(
    `SELECT event_cursor, sequence, type, idempotency_key, request_sha256, payload_sha256, created_at
     FROM auto_mode_events WHERE run_id = 'run-1' ORDER BY event_cursor`,
  );
  expect(events.map(Object.values)).toEqual([
    [
      1,
      1,
      "auto_run_started",
      "turn-1:auto-run",
      "20bdcd02fa3336ba713bda088c714ece2bf65cdfbb7e5931eaf451e3e24aab49",
      "2995f078d3ead90a1f1a18b9ff11fa439fe7dd2bd526848c92f04e600bd8aa2f",
      100,
    ],
    [
      2,
      2,
      "candidate_ready",
      "candidate:1",
      "42ef49f5aea839de060d03e327faf5f674cb07ac147f32733ef18898c6429efe",
      "9632cf29aaa2cf9b92d3c0b073ce30b3a85087a17434054e72375521d1dc5fc5",
      110,
    ],
    [
      3,
      3,
      "auto_audit_started",
      "review:start",
      "299acb2a40b0d851ace71d99799f7db3da7c05428485900a2074ce43dd209bcc",
      "6e15a54028d3af31ee51c83e374cc1298d3c46dbf1cbc6ad57f3f9bdf7b28d39",
      120,
    ],
    [
      4,
      4,
      "auto_audit_completed",
      "review:complete",
      "f4a6508608669b24d417f108e8f1a7dbc4667db676d86289619dd1f14d8721d2",
      "932697cfea5e1ff44f2b1de571f407a4b025398cfe66cd0d0f033809430cd0d2",
      130,
    ],
    [
      5,
      5,
      "auto_run_terminal",
      "terminal:1",
      "7293b8d1bb4142eff5154a49969877800b297e34f0452104019494df1eea76a5",
      "2d3f0924a7c641599159b71e038aa0bf1203bdf92ead5f1483e7693e6948716d",
      140,
    ],
  ]);
  const [review] = await ledger.testing.sql(
    "SELECT audit_request_digest, assessment_digest, evidence_snapshot_sha256 FROM review_runs",
  );
  expect(review).toEqual({
    audit_request_digest: "f1c41ea04ae0d33397ea51e8c2c40f630a1e6d57451f23fb8305cda689723c4b",
    assessment_digest: "3d084ad22a390b59200f47632d394f6dfd0fb35bf5bc7455ebcbcebe9c3cfed2",
    evidence_snapshot_sha256: "fc5556057ccb55ca77da1104160f32640ef6bbe4767d30a89d378009804122ab",
  });
});

test("a completion with the example's finding has the example's request digest", async ({
  fresh: ledger,
}) => {
  const root = await rootOfExample(ledger);
  await buildVerified(ledger, root, [minorFinding]);

  expect(await ledger.testing.sql("SELECT completion_request_sha256 FROM review_runs")).toEqual([
    { completion_request_sha256: "b5e48c6683e0698aee310ab867b9e122147d277cf3c9e18ac896e0a22fbfc5ae" },
  ]);
});

test("the projection of the worked example, sound and after a changed cell", async ({ fresh: ledger }) => {
  const root = await rootOfExample(ledger);
  await buildVerified(ledger, root);

  const sound = await ledger.runs.project({ rootFrameId: root });
  expect(sound.run).toEqual({
    runId: "run-1",
    rootFrameId: "root-1",
    branchId: "root-1",
    turnId: "turn-1",
    executionId: "execution-1",
    mode: "auto_fix",
    selection: {
      preset: "autonomous",
      result_review_mode: "auto_fix",
      approvals_reviewer: "auto_review",
      source: "frame",
    },
    budgets: { max_review_attempts: 2, max_repair_rounds: 2 },
    status: "verified",
    startedAt: 100,
    createdAt: 100,
    startEventOrdinal: 1,
    candidateId: "candidate-1",
    candidateSnapshotSha256: "a".repeat(64),
    evidenceSnapshotSha256: "fc5556057ccb55ca77da1104160f32640ef6bbe4767d30a89d378009804122ab",
    artifactSetSha256: "b".repeat(64),
    candidateArtifactIds: ["artifact-1"],
    candidateVersionIds: ["version-1"],
    terminalReason: "review_passed",
    stopReason: null,
    terminalAt: 140,
    finishedAt: 140,
    lastEventId: sound.lastEventId,
    lastEventOrdinal: 5,
    updatedAt: 140,
    recoveryRequired: false,
    resultReviewMode: "auto_fix",
    approvalsReviewer: "auto_review",
    reviewRound: 0,
  });

  await ledger.testing.sql("UPDATE review_runs SET assessment_json='{}'");
  const broken = await ledger.runs.project({ rootFrameId: root });
  expect(broken.run).toMatchObject({
    status: "failed",
    terminalReason: "safety_boundary",
    sourceClaimedStatus: "verified",
    stopReason: null,
    finishedAt: 140,
    recoveryRequired: false,
    damage: { table: "review_runs", key: '["review-1"]' },
  });
  expect(broken.events.slice(0, 4)).toEqual(sound.events.slice(0, 4));
  expect(broken.events[4]).toMatchObject({
    type: "auto_run_terminal",
    payload: { status: "failed", terminal_reason: "safety_boundary", stop_reason: null },
    payloadSha256: "cdc95b0c397847d7b013eeeada8346357ae4427c011e39431f1de786b42ddcaf",
  });
});

async function rootOfExample(ledger: Parameters<typeof buildVerified>[0]): Promise<string> {
  const { projectId } = await ledger.projects.create({ name: "Worked example" });
  const { rootFrameId } = await ledger.frames.create({ frameId: "root-1", projectId, kind: "turn" });
  return rootFrameId;
}
