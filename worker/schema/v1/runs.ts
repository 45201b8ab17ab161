/** Runs with their events, reviews and findings (spec/auto_mode 1.2 to 1.5). */
export const runsSchema = `
CREATE TABLE auto_mode_runs (
  run_id                       TEXT PRIMARY KEY,
  idempotency_key              TEXT NOT NULL,
  root_frame_id                TEXT NOT NULL,
  branch_id                    TEXT NOT NULL,
  turn_id                      TEXT NOT NULL,
  execution_id                 TEXT NOT NULL,
  mode                         TEXT NOT NULL CHECK (mode IN ('off', 'review_only', 'auto_fix')),
  selection_json               TEXT NOT NULL,
  budgets_json                 TEXT NOT NULL,
  request_sha256               TEXT NOT NULL,
  owner_instance_id            TEXT NOT NULL,
  trust_state                  TEXT NOT NULL DEFAULT 'local' CHECK (trust_state IN ('local', 'quarantined_import')),
  status                       TEXT NOT NULL CHECK (status IN (
    'running', 'candidate', 'reviewing', 'repairing', 'verified', 'completed_with_issues', 'review_unavailable',
    'blocked_by_guardian', 'cancelled', 'failed', 'paused', 'unverified_import')),
  state_revision               INTEGER NOT NULL DEFAULT 1 CHECK (state_revision >= 1),
  candidate_id                 TEXT,
  candidate_snapshot_sha256    TEXT,
  evidence_snapshot_sha256     TEXT,
  artifact_set_sha256          TEXT,
  candidate_artifact_ids_json  TEXT NOT NULL DEFAULT '[]',
  candidate_version_ids_json   TEXT NOT NULL DEFAULT '[]',
  terminal_reason              TEXT,
  stop_reason                  TEXT,
  terminal_idempotency_key     TEXT,
  terminal_request_sha256      TEXT,
  source_claimed_status        TEXT,
  source_terminal_reason       TEXT,
  abandoned_at                 INTEGER,
  abandoned_by_checkpoint_id   TEXT,
  created_at                   INTEGER NOT NULL,
  updated_at                   INTEGER NOT NULL,
  finished_at                  INTEGER,
  UNIQUE (root_frame_id, idempotency_key),
  UNIQUE (root_frame_id, branch_id, turn_id, execution_id),
  UNIQUE (run_id, root_frame_id, branch_id, turn_id, execution_id)
) STRICT;
CREATE UNIQUE INDEX auto_mode_runs_one_active ON auto_mode_runs (root_frame_id, branch_id)
  WHERE trust_state = 'local' AND finished_at IS NULL AND abandoned_at IS NULL;
CREATE INDEX auto_mode_runs_by_branch ON auto_mode_runs (root_frame_id, branch_id, created_at, run_id);
CREATE INDEX auto_mode_runs_unfinished ON auto_mode_runs (created_at, run_id)
  WHERE trust_state = 'local' AND finished_at IS NULL AND abandoned_at IS NULL;

CREATE TABLE auto_mode_events (
  event_id        TEXT PRIMARY KEY,
  root_frame_id   TEXT NOT NULL,
  event_cursor    INTEGER NOT NULL CHECK (event_cursor >= 1),
  run_id          TEXT NOT NULL,
  branch_id       TEXT NOT NULL,
  turn_id         TEXT NOT NULL,
  execution_id    TEXT NOT NULL,
  sequence        INTEGER NOT NULL CHECK (sequence >= 1),
  idempotency_key TEXT NOT NULL,
  type            TEXT NOT NULL CHECK (type IN (
    'auto_run_started', 'candidate_ready', 'auto_audit_started', 'auto_audit_completed', 'repair_started',
    'repair_completed', 'auto_run_terminal')),
  request_sha256  TEXT NOT NULL,
  payload_json    TEXT NOT NULL,
  payload_sha256  TEXT NOT NULL,
  created_at      INTEGER NOT NULL,
  UNIQUE (root_frame_id, event_cursor),
  UNIQUE (run_id, sequence),
  UNIQUE (run_id, idempotency_key),
  FOREIGN KEY (run_id, root_frame_id, branch_id, turn_id, execution_id)
    REFERENCES auto_mode_runs (run_id, root_frame_id, branch_id, turn_id, execution_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX auto_mode_events_one_terminal ON auto_mode_events (run_id) WHERE type = 'auto_run_terminal';
CREATE INDEX auto_mode_events_by_branch ON auto_mode_events (root_frame_id, branch_id, event_cursor);
CREATE INDEX auto_mode_events_starts ON auto_mode_events (root_frame_id, branch_id, event_cursor)
  WHERE type = 'auto_run_started';
CREATE INDEX auto_mode_events_audits ON auto_mode_events (root_frame_id, branch_id, event_cursor)
  WHERE type IN ('auto_audit_started', 'auto_audit_completed');

CREATE TABLE review_runs (
  review_run_id              TEXT PRIMARY KEY,
  audit_id                   TEXT NOT NULL UNIQUE,
  run_id                     TEXT NOT NULL,
  root_frame_id              TEXT NOT NULL,
  branch_id                  TEXT NOT NULL,
  turn_id                    TEXT NOT NULL,
  execution_id               TEXT NOT NULL,
  start_idempotency_key      TEXT NOT NULL,
  start_request_sha256       TEXT NOT NULL,
  completion_idempotency_key TEXT,
  completion_request_sha256  TEXT,
  candidate_id               TEXT NOT NULL,
  candidate_snapshot_sha256  TEXT NOT NULL,
  evidence_snapshot_json     TEXT NOT NULL,
  evidence_snapshot_sha256   TEXT NOT NULL,
  round_index                INTEGER NOT NULL CHECK (round_index >= 0),
  attempt                    INTEGER NOT NULL CHECK (attempt >= 1),
  reviewer_json              TEXT NOT NULL,
  audit_request_digest       TEXT NOT NULL,
  status                     TEXT NOT NULL CHECK (status IN (
    'started', 'completed', 'unavailable', 'failed', 'unverified_import')),
  verdict                    TEXT CHECK (verdict IN (
    'pass', 'completed_with_issues', 'issues', 'fail', 'failed', 'incomplete', 'needs_repair', 'review_unavailable',
    'unavailable')),
  assessment_json            TEXT,
  assessment_envelope_json   TEXT,
  assessment_digest          TEXT,
  usage_json                 TEXT,
  public_summary             TEXT,
  started_at                 INTEGER NOT NULL,
  completed_at               INTEGER,
  UNIQUE (run_id, start_idempotency_key),
  UNIQUE (run_id, completion_idempotency_key),
  UNIQUE (review_run_id, run_id, root_frame_id, branch_id, turn_id, execution_id),
  FOREIGN KEY (run_id, root_frame_id, branch_id, turn_id, execution_id)
    REFERENCES auto_mode_runs (run_id, root_frame_id, branch_id, turn_id, execution_id) ON DELETE CASCADE
) STRICT;
CREATE INDEX review_runs_by_run ON review_runs (run_id, started_at);

CREATE TABLE review_findings (
  finding_id         TEXT PRIMARY KEY,
  review_run_id      TEXT NOT NULL,
  run_id             TEXT NOT NULL,
  root_frame_id      TEXT NOT NULL,
  branch_id          TEXT NOT NULL,
  turn_id            TEXT NOT NULL,
  execution_id       TEXT NOT NULL,
  candidate_id       TEXT NOT NULL,
  finding_ordinal    INTEGER NOT NULL CHECK (finding_ordinal >= 0),
  fingerprint        TEXT NOT NULL,
  severity           TEXT NOT NULL CHECK (severity IN ('info', 'minor', 'major', 'material', 'high', 'critical')),
  category           TEXT NOT NULL,
  claim              TEXT NOT NULL,
  evidence_refs_json TEXT NOT NULL,
  artifact_ids_json  TEXT NOT NULL,
  version_ids_json   TEXT NOT NULL,
  cell_ids_json      TEXT NOT NULL,
  status             TEXT NOT NULL DEFAULT 'open' CHECK (status IN (
    'open', 'claimed', 'addressed_pending_review', 'unaddressed', 'resolved', 'accepted')),
  created_at         INTEGER NOT NULL,
  updated_at         INTEGER NOT NULL,
  UNIQUE (review_run_id, fingerprint),
  UNIQUE (review_run_id, finding_ordinal),
  FOREIGN KEY (review_run_id, run_id, root_frame_id, branch_id, turn_id, execution_id)
    REFERENCES review_runs (review_run_id, run_id, root_frame_id, branch_id, turn_id, execution_id) ON DELETE CASCADE
) STRICT;
CREATE INDEX review_findings_by_run ON review_findings (run_id, status);
`;
