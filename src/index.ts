/** Countersign: a durable, tamper-evident run ledger for autonomous agents in the browser. */

/** Opens a ledger. */
export { type Ledger, type OpenOptions, openLedger } from "./ledger.ts";
export type {
  ActionEvent,
  ActionEventType,
  ActionGroup,
  GroupKind,
  SideEffectClass,
} from "./protocol/actions.ts";
export type { Artifact, ArtifactBytes, ArtifactVersion } from "./protocol/artifacts.ts";
export type { Attempt, AttemptTerminalState } from "./protocol/attempts.ts";
export type { Audit } from "./protocol/audits.ts";
/** The key of the setting that blocks a session while a revert is unresolved. */
export { revertRecoverySettingKey } from "./protocol/barrier.ts";
export type { Branch, RevertPreview, RevertResult } from "./protocol/branches.ts";
export type { HostIdentity } from "./protocol/channel.ts";
export type { Checkpoint } from "./protocol/checkpoints.ts";
export type { Delivery, Manifest, ManifestEntry } from "./protocol/deliveries.ts";
/** Every refusal is one of these; `code` is stable, `details` says what a program needs. */
export {
  type ErrorDetails,
  type FieldIssue,
  HostUnavailableError,
  IntegrityError,
  LedgerClosedError,
  LedgerConflictError,
  LedgerError,
  NotFoundError,
  RecoveryRequiredError,
  SchemaTooNewError,
  StorageFullError,
  StorageUnavailableError,
  ValidationError,
} from "./protocol/errors.ts";
export type { EventPayloads, EventType, LedgerEvent, StoredEvent } from "./protocol/events.ts";
export type { Frame } from "./protocol/frames.ts";
export type { Message, StoredMessage } from "./protocol/messages.ts";
export type { Project } from "./protocol/projects.ts";
export type {
  CandidateOutcome,
  CandidateRecoveryReason,
  ReconcileOutcome,
  RecoveryReport,
  RevertOutcome,
  StartupReport,
} from "./protocol/recovery.ts";
export type { Repair, RepairGroup, RepairOutcome } from "./protocol/repairs.ts";
export type { Finding, Review, ReviewOutcome, Severity, Verdict } from "./protocol/reviews.ts";
export type {
  Committed,
  Damage,
  ProjectedRun,
  Projection,
  Run,
  RunMode,
  RunStatus,
  TerminalStatus,
} from "./protocol/runs.ts";
export type { Setting } from "./protocol/settings.ts";
export type { RunReport, SessionReport, VerificationReport } from "./protocol/verification.ts";
export type { StorageChoice, StorageReport } from "./protocol/wire.ts";
export type {
  BlobProblem,
  RestorePlan,
  RestoreResult,
  SkippedPath,
  Tree,
  TreeDiff,
  TreeEntry,
} from "./protocol/workspace.ts";
export type { EventStore, Subscription, SubscriptionScope } from "./subscription.ts";
