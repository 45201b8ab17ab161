import { canonicalJson } from "../../../src/proof/canonical.ts";
import { invalidInput, LedgerConflictError } from "../../../src/protocol/errors.ts";
import { CANDIDATE_METADATA, type messages, RESERVED_METADATA } from "../../../src/protocol/messages.ts";
import { requireRow } from "../../ledger/required.ts";
import type { Handler } from "../command.ts";
import { decodeMessage, metadataOf } from "./rows.ts";

const PROTECTED: readonly string[] = [...RESERVED_METADATA, ...CANDIDATE_METADATA];

export const updateMessageMetadata: Handler<typeof messages.updateMetadata> = (input, context) => {
  const { ledger, caller, now } = context;
  const { messageId, metadata } = input;
  const key = PROTECTED.find((each) => Object.hasOwn(metadata, each));
  if (key !== undefined) {
    const expected = "no such entry: only what settles a candidate changes it";
    throw invalidInput("messages.updateMetadata", `metadata.${key}`, expected);
  }
  const before = requireRow(ledger, "messages", messageId, "messageId");
  const rootFrameId = String(before["root_frame_id"]);
  ledger.assertNoBarrier(rootFrameId);
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
