import type { JsonObject } from "../../src/proof/canonical.ts";
import { sha256 } from "../../src/proof/sha256.ts";
import { IntegrityError, LedgerConflictError } from "../../src/protocol/errors.ts";
import { type Message, VERDICT_METADATA } from "../../src/protocol/messages.ts";
import type { CandidateOutcome, CandidateRecoveryReason } from "../../src/protocol/recovery.ts";
import type { Context } from "../commands/command.ts";
import { deliveryOfMessage, readDelivery } from "../commands/deliveries/rows.ts";
import { decodeMessage, metadataOf } from "../commands/messages/rows.ts";
import { assertEnvelope, isOpenCandidate, settleCandidate } from "../commands/messages/settle.ts";
import { requireRow } from "../ledger/required.ts";
import { findFrame } from "../ledger/sessions.ts";
import type { Row } from "../storage/database.ts";

/** The run that the work of a candidate belongs to, as far as recovery cares. */
type Claim = { readonly reason: CandidateRecoveryReason; readonly runId?: string };

/**
 * Settles one candidate that nobody will judge (spec/session_store 7.3), or gives undefined where it is none, or is
 * a live run's. What is malformed throws, changes nothing and is reported.
 */
export function reconcileCandidate(
  messageId: string,
  now: number,
  context: Context,
): CandidateOutcome | undefined {
  const { ledger, caller } = context;
  const message = requireRow(ledger, "messages", messageId, "messageId");
  const metadata = metadataOf(message);
  if (metadata["review_status"] !== "candidate") return undefined;
  const scope = scopeOf(context, message, metadata);
  const claim = claimOf(context, scope);
  if (claim === undefined) return undefined;
  const delivery = deliveryOfMessage(ledger, messageId);
  assertSettleable(message, metadata, delivery, now);
  assertEnvelope(message, delivery);
  if (delivery !== undefined) readDelivery(ledger, delivery);

  const content = String(message["content"]);
  const { writes } = settleCandidate(message, delivery, {
    content,
    verdict: verdictOf(scope, claim, sha256(content), now),
    at: now,
  });
  ledger.append(caller, {
    command: "recovery.settleCandidate",
    rootFrameId: scope.rootFrameId,
    branchId: scope.branchId,
    at: now,
    writes,
  });
  return {
    schemaVersion: 1,
    messageId,
    ...scope,
    reviewStatus: "review_unavailable",
    reason: claim.reason,
    contentSha256: sha256(content),
    reconciledAt: now,
    ...(claim.runId !== undefined && { runId: claim.runId }),
    ...(delivery !== undefined && {
      deliveryId: String(delivery["delivery_id"]),
      deliveryStatus: "published" as const,
    }),
  };
}

/**
 * Settles a malformed candidate as it is, because somebody has looked at it and asks for it: as `review_unavailable`,
 * with the reason for which recovery would not. Its content stays; a delivery that is sound is published.
 *
 * @throws LedgerConflictError the message is no candidate, or one that recovery settles by itself.
 */
export function settleMalformed(messageId: string, now: number, context: Context): Message {
  const { ledger, caller } = context;
  const message = requireRow(ledger, "messages", messageId, "messageId");
  const metadata = metadataOf(message);
  if (metadata["review_status"] !== "candidate") throw notMalformed(messageId, "is no open candidate");
  const problem = problemOf(messageId, now, context);
  if (problem === undefined) throw notMalformed(messageId, "is settled by reconcileCandidates or by its run");
  const delivery = deliveryOfMessage(ledger, messageId);
  const content = String(message["content"]);
  const { writes } = settleCandidate(message, delivery?.["status"] === "committed" ? delivery : undefined, {
    content,
    verdict: {
      review_status: "review_unavailable",
      user_truth: `Not reviewed, and settled by hand: ${problem}.`,
      unverified: true,
      reviewed_content_sha256: sha256(content),
      review_recovery: { schema_version: 1, reason: "candidate_malformed", reconciled_at: now },
    },
    at: now,
  });
  ledger.append(caller, {
    command: "recovery.settleCandidate",
    rootFrameId: String(message["root_frame_id"]),
    branchId: String(message["branch_id"]),
    at: now,
    writes,
  });
  return decodeMessage(requireRow(ledger, "messages", messageId, "messageId"));
}

function notMalformed(messageId: string, reason: string): LedgerConflictError {
  return new LedgerConflictError("candidate_sound", `message ${messageId} ${reason}`, { messageId });
}

/** Why recovery can't settle a candidate, found by letting it try and undoing that. */
function problemOf(messageId: string, now: number, context: Context): string | undefined {
  try {
    context.ledger.atomically(() => {
      reconcileCandidate(messageId, now, context);
      throw new Tried();
    });
  } catch (error) {
    if (error instanceof MalformedCandidate) return error.message;
    if (!(error instanceof Tried)) throw error;
  }
  return undefined;
}

class Tried extends Error {}

interface Scope {
  readonly rootFrameId: string;
  readonly projectId: string;
  readonly branchId: string;
  readonly turnId: string;
  readonly executionId: string;
}

/** A candidate that no recovery will ever settle by itself: trying again finds the same. */
export class MalformedCandidate extends LedgerConflictError {
  constructor(message: Row, reason: string) {
    const messageId = message["message_id"];
    super("candidate_malformed", `candidate ${String(messageId)} ${reason}`, { messageId });
  }
}

function malformed(message: Row, reason: string): MalformedCandidate {
  return new MalformedCandidate(message, reason);
}

const selectBranch = "SELECT 1 FROM session_branches WHERE branch_id = ? AND root_frame_id = ?";

function scopeOf({ ledger }: Context, message: Row, metadata: JsonObject): Scope {
  const rootFrameId = String(message["root_frame_id"]);
  const branchId = String(message["branch_id"]);
  const { turn_id: turnId, execution_id: executionId } = metadata;
  if (typeof turnId !== "string" || typeof executionId !== "string" || turnId === "" || executionId === "")
    throw malformed(message, "names no turn or no execution");
  if (message["frame_id"] !== rootFrameId)
    throw malformed(message, "does not stand in its session's root frame");
  const frame = findFrame(ledger.database, rootFrameId);
  if (frame?.["root_frame_id"] !== rootFrameId) throw malformed(message, "belongs to no session");
  if (ledger.database.value(selectBranch, [branchId, rootFrameId]) === undefined)
    throw malformed(message, "belongs to no branch of its session");
  return { rootFrameId, projectId: String(frame["project_id"]), branchId, turnId, executionId };
}

const selectRun = `SELECT run_id FROM auto_mode_runs
  WHERE root_frame_id = ? AND branch_id = ? AND turn_id = ? AND execution_id = ?`;

/** No run at all, or one that recovery closed, leaves the candidate to us; any other run answers for it. */
function claimOf(
  { ledger }: Context,
  { rootFrameId, branchId, turnId, executionId }: Scope,
): Claim | undefined {
  const runId = ledger.database.value(selectRun, [rootFrameId, branchId, turnId, executionId]);
  if (typeof runId !== "string") return { reason: "daemon_restart_before_auto_run" };
  const proof = ledger.run(runId);
  const wasClosedByRecovery =
    proof.sound &&
    proof.run.status === "review_unavailable" &&
    proof.run.terminalReason === "daemon_restart" &&
    proof.run.trustState === "local" &&
    proof.run.abandonedAt === null;
  return wasClosedByRecovery ? { reason: "daemon_restart_before_candidate_promotion", runId } : undefined;
}

function assertSettleable(message: Row, metadata: JsonObject, delivery: Row | undefined, now: number): void {
  if (message["role"] !== "assistant" || !isOpenCandidate(metadata))
    throw malformed(message, "is not an open candidate");
  if (metadata["candidate_content_sha256"] !== sha256(String(message["content"])))
    throw malformed(message, "has other content than its digest says");
  const verdict = VERDICT_METADATA.find((key) => Object.hasOwn(metadata, key));
  if (verdict !== undefined) throw malformed(message, `carries ${verdict} already`);
  if (metadata["completion_delivery_import_pending"] !== undefined)
    throw malformed(message, "is half-way imported");
  const latest = Math.max(Number(message["created_at"]), Number(delivery?.["created_at"] ?? 0));
  if (now < latest) {
    throw new LedgerConflictError(
      "clock_behind",
      `the candidate was made at ${latest}, after this recovery`,
      {
        messageId: message["message_id"],
      },
    );
  }
  if (delivery !== undefined && delivery["status"] !== "committed")
    throw new IntegrityError("delivery_published", "the delivery of a candidate is published", {
      deliveryId: delivery["delivery_id"],
    });
}

function verdictOf(scope: Scope, { reason, runId }: Claim, contentSha256: string, now: number): JsonObject {
  return {
    review_status: "review_unavailable",
    user_truth: `Not reviewed: the tab that worked on this exited before a reviewer answered (${reason}).`,
    gates_completion: true,
    unverified: true,
    turn_id: scope.turnId,
    execution_id: scope.executionId,
    candidate_content_sha256: contentSha256,
    reviewed_content_sha256: contentSha256,
    review_recovery: {
      schema_version: 1,
      reason,
      reconciled_at: now,
      ...(runId !== undefined && { run_id: runId }),
    },
  };
}
