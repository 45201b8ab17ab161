import type { JsonObject } from "../../../src/proof/canonical.ts";
import { digest, type Sha256, sha256 } from "../../../src/proof/sha256.ts";
import type { ParsedOf } from "../../../src/protocol/command.ts";
import { invalidInput, LedgerConflictError } from "../../../src/protocol/errors.ts";
import { RESERVED_METADATA } from "../../../src/protocol/messages.ts";
import type { runs } from "../../../src/protocol/runs.ts";
import { requireRow } from "../../ledger/required.ts";
import type { SoundRun } from "../../ledger/run-proof.ts";
import type { Row } from "../../storage/database.ts";
import type { Context } from "../command.ts";
import { deliveryOfMessage, readDelivery } from "../deliveries/rows.ts";
import { metadataOf } from "../messages/rows.ts";
import { assertEnvelope, isOpenCandidate, type Settled, settleCandidate } from "../messages/settle.ts";

type Input = ParsedOf<typeof runs.terminate>;
type Promotion = NonNullable<Input["messagePromotion"]>;

const SETTLING = new Set(["verified", "completed_with_issues", "review_unavailable"]);

/** The digest of a promotion, in the spelling in which it is hashed. */
export function promotionDigest(promotion: Promotion): Sha256 {
  return digest({
    message_id: promotion.messageId,
    delivery_id: promotion.deliveryId ?? null,
    expected_content: promotion.expectedContent,
    content: promotion.content ?? null,
    metadata: promotion.metadata,
  });
}

/**
 * Settles the candidate message of a run that ends (spec/auto_mode 3.8.1): the message must be the run's open
 * candidate, its delivery be committed, and the metadata say exactly what the terminal says.
 *
 * @throws LedgerConflictError
 * @throws ValidationError
 */
export function promote(
  context: Context,
  run: SoundRun,
  input: Input,
  promotion: Promotion,
  at: number,
): Settled {
  const { ledger } = context;
  const content = promotion.content ?? promotion.expectedContent;
  const message = requireRow(ledger, "messages", promotion.messageId, "messagePromotion.messageId");
  const delivery = deliveryOfMessage(ledger, promotion.messageId);
  assertVerdictMetadata(run, input, promotion, content);
  assertCandidateMessage(run, message, promotion);
  assertEnvelope(message, delivery);
  assertDelivery(context, delivery, promotion);
  if (input.status === "verified") assertReviewedAnswer(run, promotion, content);
  const earliest = Math.max(Number(message["created_at"]), Number(delivery?.["created_at"] ?? 0));
  if (at < earliest)
    throw invalidInput(
      "runs.terminate",
      "finishedAt",
      `a time from ${earliest}, when the message was committed`,
    );
  return settleCandidate(message, delivery, { content, verdict: promotion.metadata, at });
}

function refuse(message: string, details: Row): LedgerConflictError {
  return new LedgerConflictError("promotion_unfit", message, { field: "messagePromotion", ...details });
}

function assertVerdictMetadata(
  { run }: SoundRun,
  { status }: Input,
  promotion: Promotion,
  content: string,
): void {
  if (!SETTLING.has(status)) throw refuse(`a run that ends ${status} settles no message`, { status });
  const reserved = RESERVED_METADATA.find((key) => Object.hasOwn(promotion.metadata, key));
  if (reserved !== undefined)
    throw invalidInput(
      "runs.terminate",
      `messagePromotion.metadata.${reserved}`,
      "no such entry: only the ledger writes it",
    );
  const expected: JsonObject = {
    review_status: status,
    gates_completion: true,
    unverified: status !== "verified",
    turn_id: run.turnId,
    execution_id: run.executionId,
    candidate_content_sha256: sha256(promotion.expectedContent),
    reviewed_content_sha256: sha256(content),
  };
  for (const [key, value] of Object.entries(expected)) {
    if (promotion.metadata[key] !== value)
      throw invalidInput(
        "runs.terminate",
        `messagePromotion.metadata.${key}`,
        `${JSON.stringify(value)}, as the run ends so`,
      );
  }
}

function assertCandidateMessage({ run }: SoundRun, message: Row, promotion: Promotion): void {
  const metadata = metadataOf(message);
  const holds =
    message["root_frame_id"] === run.rootFrameId &&
    message["branch_id"] === run.branchId &&
    message["role"] === "assistant" &&
    message["content"] === promotion.expectedContent &&
    isOpenCandidate(metadata) &&
    metadata["turn_id"] === run.turnId &&
    metadata["execution_id"] === run.executionId &&
    metadata["candidate_content_sha256"] === sha256(promotion.expectedContent);
  if (!holds)
    throw refuse(`message ${promotion.messageId} is not the open candidate of run ${run.runId}`, {
      messageId: promotion.messageId,
    });
}

function assertDelivery({ ledger }: Context, delivery: Row | undefined, promotion: Promotion): void {
  const deliveryId = promotion.deliveryId ?? null;
  if ((delivery?.["delivery_id"] ?? null) !== deliveryId)
    throw refuse(`message ${promotion.messageId} has not the delivery ${String(deliveryId)}`, { deliveryId });
  if (delivery === undefined) return;
  readDelivery(ledger, delivery);
  if (delivery["status"] !== "committed")
    throw refuse(`delivery ${String(deliveryId)} is published and can't change`, { deliveryId });
}

/** What is promoted as verified is the very answer that the candidate's newest review passed (spec/auto_mode 5.3). */
function assertReviewedAnswer(
  { run, events, reviews }: SoundRun,
  promotion: Promotion,
  content: string,
): void {
  const newest = events.findLast(
    (event) => event.type === "auto_audit_completed" && event.payload.candidate_id === run.candidateId,
  );
  const reviewRunId = newest?.type === "auto_audit_completed" ? newest.payload.review_run_id : undefined;
  const review = reviews.find((each) => each["review_run_id"] === reviewRunId);
  const evidence = JSON.parse(String(review?.["evidence_snapshot_json"] ?? "{}")) as JsonObject;
  const answer = {
    candidate_answer: evidence["candidate_answer"] ?? null,
    structured_completion: evidence["structured_completion"] ?? null,
  };
  const holds =
    review?.["status"] === "completed" &&
    review["verdict"] === "pass" &&
    answer.candidate_answer === content &&
    digest(answer) === review["candidate_snapshot_sha256"] &&
    promotion.metadata["review_run_id"] === reviewRunId;
  if (!holds)
    throw refuse("the promoted content is not the answer that the candidate's newest review passed", {
      reviewRunId: reviewRunId ?? null,
    });
}
