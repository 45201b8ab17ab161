import { canonicalJson } from "../../../src/proof/canonical.ts";
import { LedgerConflictError, ValidationError } from "../../../src/protocol/errors.ts";
import { CANDIDATE_METADATA, type messages, RESERVED_METADATA } from "../../../src/protocol/messages.ts";
import type { Handler } from "../command.ts";
import { assertNoBarrier } from "../runs/guards.ts";
import { decodeMessage, metadataOf, requireMessage } from "./rows.ts";

const PROTECTED: readonly string[] = [...RESERVED_METADATA, ...CANDIDATE_METADATA];

export const updateMessageMetadata: Handler<typeof messages.updateMetadata> = (input, context) => {
  const { ledger, caller, now } = context;
  const { messageId, metadata } = input;
  const key = PROTECTED.find((each) => Object.hasOwn(metadata, each));
  if (key !== undefined) {
    const field = `metadata.${key}`;
    const expected = "no such entry: only what settles a candidate changes it";
    throw new ValidationError("invalid_input", `messages.updateMetadata: ${field}: expected ${expected}`, {
      field,
      issues: [{ field, expected }],
    });
  }
  const before = requireMessage(ledger, messageId);
  const rootFrameId = String(before["root_frame_id"]);
  assertNoBarrier(ledger, rootFrameId);
  if (metadataOf(before)["candidate_verdict_metadata_sha256"] !== undefined) {
    throw new LedgerConflictError(
      "message_settled",
      `message ${messageId} carries a verdict and can't change`,
      {
        messageId,
      },
    );
  }
  const row = { ...before, metadata: canonicalJson({ ...metadataOf(before), ...metadata }) };
  if (row.metadata === before["metadata"]) return decodeMessage(before);
  ledger.append(caller, {
    command: "messages.updateMetadata",
    rootFrameId,
    branchId: String(before["branch_id"]),
    at: input.at ?? now(),
    writes: [{ act: "update", table: "messages", before, row }],
  });
  return decodeMessage(row);
};
