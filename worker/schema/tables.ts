/** A table whose rows the journal commits to. `scope` says how its commitments are found again. */
export interface ProofTable {
  readonly name: string;
  readonly key: string;
  readonly columns: readonly string[];
  /** `run`: through the journal entries of the row's run; `index`: through the commitment index. */
  readonly scope: "run" | "index";
}

function table(name: string, scope: "run" | "index", key: string, others: string): ProofTable {
  return { name, scope, key, columns: [key, ...others.trim().split(/\s+/)] };
}

const IDENTITY = "run_id root_frame_id branch_id turn_id execution_id";

export const proofTables = {
  projects: table("projects", "index", "project_id", "name description created_at updated_at"),
  frames: table(
    "frames",
    "index",
    "frame_id",
    "parent_id project_id root_frame_id kind name status depth created_at updated_at",
  ),
  settings: table("settings", "index", "key", "value updated_at"),
  session_branches: table(
    "session_branches",
    "index",
    "branch_id",
    "root_frame_id parent_branch_id base_checkpoint_id head_checkpoint_id name created_at updated_at",
  ),
  session_checkpoints: table(
    "session_checkpoints",
    "index",
    "checkpoint_id",
    `root_frame_id branch_id parent_checkpoint_id source_kind source_id internal reason action_cursor message_cursor
     cell_cursor auto_event_cursor workspace_tree_id artifact_versions environment_pins generation_refs capability_state
     permission_state recovery_recipe metadata lineage created_at`,
  ),
  action_groups: table(
    "action_groups",
    "index",
    "group_id",
    `root_frame_id branch_id turn_id ordinal kind provider model wire_state assistant_content assistant_message usage
     cost_usd created_at`,
  ),
  action_events: table(
    "action_events",
    "index",
    "event_id",
    `group_id sequence type action_id tool_call_id wire_id canonical_arguments raw_arguments result side_effect_class
     resource_keys created_at`,
  ),
  execution_attempts: table(
    "execution_attempts",
    "index",
    "attempt_id",
    `group_id producing_cell_id attempt_ordinal state_revision generation_id owner_instance_id allocated_at started_at
     response_at capture_at finished_at terminal_state error replayed_from_cell_id`,
  ),
  artifacts: table(
    "artifacts",
    "index",
    "artifact_id",
    `project_id root_frame_id filename content_type is_user_upload priority latest_version_id created_at updated_at`,
  ),
  artifact_versions: table(
    "artifact_versions",
    "index",
    "version_id",
    `artifact_id ordinal filename content_type size_bytes checksum producing_cell_id frame_id source created_at`,
  ),
  messages: table(
    "messages",
    "index",
    "message_id",
    "root_frame_id branch_id frame_id seq role content metadata created_at",
  ),
  completion_deliveries: table(
    "completion_deliveries",
    "index",
    "delivery_id",
    `idempotency_key root_frame_id branch_id frame_id message_id request_sha256 manifest_json manifest_sha256
     content_sha256 status created_at published_at`,
  ),
  auto_mode_runs: table(
    "auto_mode_runs",
    "run",
    "run_id",
    `idempotency_key root_frame_id branch_id turn_id execution_id mode selection_json budgets_json request_sha256
     owner_instance_id trust_state status state_revision candidate_id candidate_snapshot_sha256
     evidence_snapshot_sha256 artifact_set_sha256 candidate_artifact_ids_json candidate_version_ids_json
     terminal_reason stop_reason terminal_idempotency_key terminal_request_sha256 source_claimed_status
     source_terminal_reason abandoned_at abandoned_by_checkpoint_id created_at updated_at finished_at`,
  ),
  auto_mode_events: table(
    "auto_mode_events",
    "run",
    "event_id",
    `root_frame_id event_cursor run_id branch_id turn_id execution_id sequence idempotency_key type request_sha256
     payload_json payload_sha256 created_at`,
  ),
  review_runs: table(
    "review_runs",
    "run",
    "review_run_id",
    `audit_id ${IDENTITY} start_idempotency_key start_request_sha256 completion_idempotency_key
     completion_request_sha256 candidate_id candidate_snapshot_sha256 evidence_snapshot_json
     evidence_snapshot_sha256 round_index attempt reviewer_json audit_request_digest status verdict assessment_json
     assessment_envelope_json assessment_digest usage_json public_summary started_at completed_at`,
  ),
  review_findings: table(
    "review_findings",
    "run",
    "finding_id",
    `review_run_id ${IDENTITY} candidate_id finding_ordinal fingerprint severity category claim evidence_refs_json
     artifact_ids_json version_ids_json cell_ids_json status created_at updated_at`,
  ),
  repair_runs: table(
    "repair_runs",
    "run",
    "repair_run_id",
    `${IDENTITY} start_idempotency_key start_request_sha256 completion_idempotency_key completion_request_sha256
     checkpoint_id finding_ids_json before_version_ids_json after_version_ids_json execution_group_ids_json
     verification_review_run_id status started_at completed_at`,
  ),
  repair_execution_groups: table(
    "repair_execution_groups",
    "run",
    "action_group_id",
    `repair_run_id ${IDENTITY} ordinal group_kind idempotency_key request_sha256 bound_at ledger_event_count
     ledger_sha256 sealed_at`,
  ),
} as const satisfies Record<string, ProofTable>;

export type ProofTableName = keyof typeof proofTables;

/** The tables whose rows make up a run's proof, besides its journal entries. */
export const runTables: readonly ProofTable[] = Object.values(proofTables).filter(
  (each) => each.scope === "run",
);

/** The tables of the action ledger: rows of a group that is bound to a repair belong to the proof of its run as well. */
export const boundTables: readonly ProofTable[] = [
  proofTables.action_groups,
  proofTables.action_events,
  proofTables.execution_attempts,
];
