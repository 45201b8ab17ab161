import { canonicalJson, type JsonObject } from "../../../src/proof/canonical.ts";
import { sha256 } from "../../../src/proof/sha256.ts";
import { invalidInput, LedgerConflictError, NotFoundError } from "../../../src/protocol/errors.ts";
import { type messages, RESERVED_METADATA, VERDICT_METADATA } from "../../../src/protocol/messages.ts";
import { requireRow } from "../../ledger/required.ts";
import { findFrame, requireSession, requireSoundBranch } from "../../ledger/sessions.ts";
import type { Row } from "../../storage/database.ts";
import { differingColumn } from "../actions/rows.ts";
import type { Context, Handler } from "../command.ts";
import { decodeMessage, nextSeq } from "./rows.ts";

export const addMessage: Handler<typeof messages.add> = (input, context) => {
  const { ledger, caller, now, newId } = context;
  const { rootFrameId, content } = input;
  const branchId = input.branchId ?? rootFrameId;
  requireSession(ledger.database, rootFrameId);
  requireSoundBranch(ledger, branchId, rootFrameId);
  requireFrameOfSession(context, input.frameId ?? null, rootFrameId);
  const metadata =
    input.metadata == null ? null : checkedMetadata("messages.add", "metadata", input.metadata, content);
  const wanted: Row = {
    root_frame_id: rootFrameId,
    branch_id: branchId,
    frame_id: input.frameId ?? null,
    role: input.role,
    content,
    metadata: metadata === null ? null : canonicalJson(metadata),
  };
  const isKnown =
    input.messageId !== undefined &&
    ledger.database.value("SELECT 1 FROM messages WHERE message_id = ?", [input.messageId]) !== undefined;
  const existing = isKnown ? requireRow(ledger, "messages", input.messageId ?? "", "messageId") : undefined;
  if (existing !== undefined) return sameMessage(existing, wanted);

  ledger.assertNoBarrier(rootFrameId);
  const at = input.createdAt ?? now();
  const row: Row = {
    message_id: input.messageId ?? newId("m-"),
    ...wanted,
    seq: nextSeq(ledger, rootFrameId),
    created_at: at,
  };
  ledger.append(caller, {
    command: "messages.add",
    rootFrameId,
    branchId,
    at,
    writes: [{ act: "insert", table: "messages", row }],
  });
  return { ...decodeMessage(row), created: true };
};

function sameMessage(existing: Row, wanted: Row) {
  const differs = differingColumn(existing, wanted);
  if (differs === undefined) return { ...decodeMessage(existing), created: false };
  const messageId = existing["message_id"];
  throw new LedgerConflictError("id_taken", `message ${String(messageId)} exists with another ${differs}`, {
    field: "messageId",
    messageId,
  });
}

/** @throws NotFoundError the frame is unknown, or of another session. */
export function requireFrameOfSession(
  { ledger }: Context,
  frameId: string | null,
  rootFrameId: string,
): void {
  if (frameId === null || findFrame(ledger.database, frameId)?.["root_frame_id"] === rootFrameId) return;
  throw new NotFoundError("frame_not_found", `there is no frame ${frameId} in session ${rootFrameId}`, {
    field: "frameId",
    frameId,
  });
}

/**
 * What a caller may say of a new message: nothing that only the ledger says, no verdict, and of a candidate the true
 * digest of its content.
 *
 * @throws ValidationError
 */
export function checkedMetadata(
  command: string,
  field: string,
  metadata: JsonObject,
  content: string,
): JsonObject {
  const invalid = (key: string, expected: string) => invalidInput(command, `${field}.${key}`, expected);
  const reserved = RESERVED_METADATA.find((key) => Object.hasOwn(metadata, key));
  if (reserved !== undefined) throw invalid(reserved, "no such entry: only the ledger writes it");
  const status = metadata["review_status"];
  if (status === undefined) return metadata;
  if (status !== "candidate")
    throw invalid("review_status", "candidate, as a verdict comes from a run or from recovery");
  const settled = VERDICT_METADATA.find((key) => Object.hasOwn(metadata, key));
  if (settled !== undefined) throw invalid(settled, "no such entry on a candidate: a verdict brings it");
  const given = metadata["candidate_content_sha256"];
  if (given !== undefined && given !== sha256(content))
    throw invalid("candidate_content_sha256", "the SHA-256 of the content");
  return metadata;
}
