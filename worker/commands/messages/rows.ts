import type { JsonObject } from "../../../src/proof/canonical.ts";
import { IntegrityError, NotFoundError } from "../../../src/protocol/errors.ts";
import type { Message } from "../../../src/protocol/messages.ts";
import { DamageFound, findDamage } from "../../ledger/damage.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { decodeRow, withParsed } from "../../ledger/rows.ts";
import type { Row } from "../../storage/database.ts";

const DOCUMENTS = new Set(["metadata"]);

export function decodeMessage(row: Row): Message {
  return decodeRow<Message>(withParsed(row, DOCUMENTS) as Row);
}

/** The metadata of a message's row; none is an empty object. */
export function metadataOf(row: Row): JsonObject {
  return row["metadata"] === null ? {} : (JSON.parse(String(row["metadata"])) as JsonObject);
}

const selectNextSeq = "SELECT COALESCE(MAX(seq), -1) + 1 FROM messages WHERE root_frame_id = ?";

export function nextSeq(ledger: Ledger, rootFrameId: string): number {
  return Number(ledger.database.value(selectNextSeq, [rootFrameId]));
}

/** @throws NotFoundError @throws IntegrityError the message's row is damaged. */
export function requireMessage(ledger: Ledger, messageId: string, field = "messageId"): Row {
  const row = findDamage(() => ledger.row("messages", messageId));
  if (row instanceof DamageFound) {
    throw new IntegrityError("message_damaged", `message ${messageId} is damaged: ${row.message}`, {
      field,
      ...row.damage,
    });
  }
  if (row !== undefined) return row;
  throw new NotFoundError("message_not_found", `there is no message ${messageId}`, { field, messageId });
}
