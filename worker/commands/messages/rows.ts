import type { JsonObject } from "../../../src/proof/canonical.ts";
import type { Message } from "../../../src/protocol/messages.ts";
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
