/** Repairs, the action groups bound to them, and the seal on those (spec/auto_mode 1.6, 1.7, 1.9). */
export const repairsSchema = `
CREATE TABLE repair_runs (
  repair_run_id              TEXT PRIMARY KEY,
  run_id                     TEXT NOT NULL,
  root_frame_id              TEXT NOT NULL,
  branch_id                  TEXT NOT NULL,
  turn_id                    TEXT NOT NULL,
  execution_id               TEXT NOT NULL,
  start_idempotency_key      TEXT NOT NULL,
  start_request_sha256       TEXT NOT NULL,
  completion_idempotency_key TEXT,
  completion_request_sha256  TEXT,
  checkpoint_id              TEXT NOT NULL,
  finding_ids_json           TEXT NOT NULL,
  before_version_ids_json    TEXT NOT NULL,
  after_version_ids_json     TEXT,
  execution_group_ids_json   TEXT NOT NULL DEFAULT '[]',
  verification_review_run_id TEXT,
  status                     TEXT NOT NULL CHECK (status IN ('started', 'completed', 'failed', 'outcome_unknown')),
  started_at                 INTEGER NOT NULL,
  completed_at               INTEGER,
  UNIQUE (run_id, start_idempotency_key),
  UNIQUE (run_id, completion_idempotency_key),
  UNIQUE (repair_run_id, run_id, root_frame_id, branch_id, turn_id, execution_id),
  FOREIGN KEY (run_id, root_frame_id, branch_id, turn_id, execution_id)
    REFERENCES auto_mode_runs (run_id, root_frame_id, branch_id, turn_id, execution_id) ON DELETE CASCADE
) STRICT;
CREATE INDEX repair_runs_by_run ON repair_runs (run_id, started_at, repair_run_id);
CREATE UNIQUE INDEX repair_runs_one_open ON repair_runs (run_id) WHERE status = 'started';

CREATE TABLE repair_execution_groups (
  action_group_id    TEXT PRIMARY KEY,
  repair_run_id      TEXT NOT NULL,
  run_id             TEXT NOT NULL,
  root_frame_id      TEXT NOT NULL,
  branch_id          TEXT NOT NULL,
  turn_id            TEXT NOT NULL,
  execution_id       TEXT NOT NULL,
  ordinal            INTEGER NOT NULL CHECK (ordinal >= 0),
  group_kind         TEXT NOT NULL,
  idempotency_key    TEXT NOT NULL,
  request_sha256     TEXT NOT NULL,
  bound_at           INTEGER NOT NULL,
  ledger_event_count INTEGER,
  ledger_sha256      TEXT,
  sealed_at          INTEGER,
  UNIQUE (repair_run_id, ordinal),
  UNIQUE (repair_run_id, idempotency_key),
  CHECK ((sealed_at IS NULL) = (ledger_sha256 IS NULL) AND (sealed_at IS NULL) = (ledger_event_count IS NULL)),
  FOREIGN KEY (repair_run_id, run_id, root_frame_id, branch_id, turn_id, execution_id)
    REFERENCES repair_runs (repair_run_id, run_id, root_frame_id, branch_id, turn_id, execution_id) ON DELETE CASCADE
) STRICT;
CREATE INDEX repair_execution_groups_by_run ON repair_execution_groups (run_id, repair_run_id, ordinal);

CREATE TRIGGER action_events_sealed_insert BEFORE INSERT ON action_events
  WHEN EXISTS (SELECT 1 FROM repair_execution_groups WHERE action_group_id = NEW.group_id AND sealed_at IS NOT NULL)
  BEGIN SELECT RAISE(ABORT, 'the ledger of this repair is sealed'); END;
CREATE TRIGGER action_events_sealed_update BEFORE UPDATE ON action_events
  WHEN EXISTS (
    SELECT 1 FROM repair_execution_groups WHERE action_group_id IN (OLD.group_id, NEW.group_id) AND sealed_at IS NOT NULL)
  BEGIN SELECT RAISE(ABORT, 'the ledger of this repair is sealed'); END;
CREATE TRIGGER action_events_sealed_delete BEFORE DELETE ON action_events
  WHEN EXISTS (SELECT 1 FROM repair_execution_groups WHERE action_group_id = OLD.group_id AND sealed_at IS NOT NULL)
  BEGIN SELECT RAISE(ABORT, 'the ledger of this repair is sealed'); END;
CREATE TRIGGER execution_attempts_sealed_insert BEFORE INSERT ON execution_attempts
  WHEN EXISTS (SELECT 1 FROM repair_execution_groups WHERE action_group_id = NEW.group_id AND sealed_at IS NOT NULL)
  BEGIN SELECT RAISE(ABORT, 'the ledger of this repair is sealed'); END;
CREATE TRIGGER execution_attempts_sealed_update BEFORE UPDATE ON execution_attempts
  WHEN EXISTS (
    SELECT 1 FROM repair_execution_groups WHERE action_group_id IN (OLD.group_id, NEW.group_id) AND sealed_at IS NOT NULL)
  BEGIN SELECT RAISE(ABORT, 'the ledger of this repair is sealed'); END;
CREATE TRIGGER execution_attempts_sealed_delete BEFORE DELETE ON execution_attempts
  WHEN EXISTS (SELECT 1 FROM repair_execution_groups WHERE action_group_id = OLD.group_id AND sealed_at IS NOT NULL)
  BEGIN SELECT RAISE(ABORT, 'the ledger of this repair is sealed'); END;
`;
