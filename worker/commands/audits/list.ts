import type { Audit, audits } from "../../../src/protocol/audits.ts";
import { invalidInput } from "../../../src/protocol/errors.ts";
import type { StoredEvent } from "../../../src/protocol/events.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import type { Range } from "../../ledger/lineage.ts";
import { decodeEvent } from "../../ledger/rows.ts";
import { requireSession, soundHistoryOf } from "../../ledger/sessions.ts";
import type { Handler } from "../command.ts";

const MAX_AUDITS = 501;

const selectAuditEvents = `SELECT * FROM auto_mode_events
  WHERE root_frame_id = ? AND branch_id = ? AND type IN ('auto_audit_started', 'auto_audit_completed')
    AND event_cursor > ? AND event_cursor <= ? ORDER BY event_cursor`;

export const listAudits: Handler<typeof audits.list> = (input, { ledger }) => {
  const { rootFrameId } = input;
  requireSession(ledger.database, rootFrameId);
  const ranges = soundHistoryOf(ledger, rootFrameId, input.branchId ?? rootFrameId);
  const newestFirst = pairAudits(auditEvents(ledger, rootFrameId, ranges))
    .map(toAudit)
    .filter((audit) => input.subjectKind == null || audit.subjectKind === input.subjectKind)
    .sort((a, b) => b.eventOrdinal - a.eventOrdinal || (a.auditId < b.auditId ? 1 : -1));
  const page = input.before == null ? newestFirst : newestFirst.slice(indexAfter(newestFirst, input.before));
  return page.slice(0, Math.min(input.limit, MAX_AUDITS)).map((audit) => withheldIfDamaged(ledger, audit));
};

function auditEvents(ledger: Ledger, rootFrameId: string, ranges: readonly Range[]): StoredEvent[] {
  return ranges.flatMap(({ branchId, after, upto }) =>
    ledger.database
      .all(selectAuditEvents, [rootFrameId, branchId, after, upto ?? Number.MAX_SAFE_INTEGER])
      .map(decodeEvent),
  );
}

/** The events of one audit: normally a start and perhaps a completion, each of which tampering may have taken. */
interface AuditPair {
  readonly auditId: string;
  readonly start: StoredEvent | undefined;
  readonly completion: StoredEvent | undefined;
}

function pairAudits(events: readonly StoredEvent[]): AuditPair[] {
  const pairs = new Map<string, AuditPair>();
  for (const event of events) {
    const auditId = String(event.payload?.["audit_id" as never] ?? event.eventId);
    const pair = pairs.get(auditId) ?? { auditId, start: undefined, completion: undefined };
    const side = event.type === "auto_audit_started" ? "start" : "completion";
    pairs.set(auditId, { ...pair, [side]: event });
  }
  return [...pairs.values()];
}

/** What the events say of the audit (spec/auto_mode 9.2), not yet checked. */
function toAudit({ auditId, start, completion }: AuditPair): Audit {
  const first = (start ?? completion) as StoredEvent;
  const last = (completion ?? start) as StoredEvent;
  const started = textsOf(start);
  const final = textsOf(last);
  const audit = {
    auditId,
    runId: first.runId,
    rootFrameId: first.rootFrameId,
    branchId: first.branchId,
    turnId: first.turnId,
    executionId: first.executionId,
    subjectKind: started["subject_kind"] ?? final["subject_kind"] ?? "result_review",
    subjectEntityKind: started["subject_entity_kind"] ?? final["subject_entity_kind"] ?? "",
    subjectEntityId: final["subject_entity_id"] ?? started["subject_entity_id"],
    auditRequestDigest: started["audit_request_digest"] ?? final["audit_request_digest"] ?? "",
    status: final["status"] ?? "started",
    assessmentDigest: final["assessment_digest"],
    candidateId: final["candidate_id"],
    verdict: final["verdict"],
    publicSummary: final["public_summary"],
    createdAt: first.createdAt,
    completedAt: completion?.createdAt,
    eventOrdinal: last.eventCursor,
  };
  return Object.fromEntries(
    Object.entries(audit).filter(([, value]) => value !== undefined),
  ) as unknown as Audit;
}

/** The texts in an event's payload; whatever else tampering put there is left out. */
function textsOf(event: StoredEvent | undefined): Partial<Record<string, string>> {
  const entries = Object.entries(event?.payload ?? {}).filter(([, value]) => typeof value === "string");
  return Object.fromEntries(entries);
}

function indexAfter(newestFirst: readonly Audit[], before: string): number {
  if (/^[0-9]+$/.test(before)) {
    const index = newestFirst.findIndex((audit) => audit.eventOrdinal < Number(before));
    return index === -1 ? newestFirst.length : index;
  }
  const index = newestFirst.findIndex((audit) => audit.auditId === before);
  if (index !== -1) return index + 1;
  throw invalidInput(
    "audits.list",
    "before",
    `an event ordinal, or the id of an audit on this branch, unlike ${before}`,
  );
}

/** An audit of a run that failed its check says so, and nothing that it claims. */
function withheldIfDamaged(ledger: Ledger, audit: Audit): Audit {
  if (ledger.findRun(audit.runId)?.sound) return audit;
  const { assessmentDigest: _, verdict: __, publicSummary: ___, ...facts } = audit;
  return {
    ...facts,
    status: "failed",
    risk: "unknown",
    errorKind: "integrity_failure",
    publicSummary:
      "The record of this review was changed after it was written; its verdict can't be trusted.",
  };
}
