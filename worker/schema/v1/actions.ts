/** What agents proposed and did, in groups (spec/session_store 4.1). */
export const actionsSchema = `
CREATE TABLE action_groups (
  group_id          TEXT PRIMARY KEY,
  root_frame_id     TEXT NOT NULL,
  branch_id         TEXT NOT NULL,
  turn_id           TEXT NOT NULL,
  ordinal           INTEGER NOT NULL CHECK (ordinal >= 0),
  kind              TEXT NOT NULL,
  provider          TEXT,
  model             TEXT,
  wire_state        TEXT,
  assistant_content TEXT,
  assistant_message TEXT,
  usage             TEXT,
  cost_usd          REAL,
  created_at        INTEGER NOT NULL,
  UNIQUE (root_frame_id, branch_id, ordinal)
) STRICT;

CREATE TABLE action_events (
  event_id            TEXT PRIMARY KEY,
  group_id            TEXT NOT NULL,
  sequence            INTEGER NOT NULL CHECK (sequence >= 0),
  type                TEXT NOT NULL,
  action_id           TEXT,
  tool_call_id        TEXT,
  wire_id             TEXT,
  canonical_arguments TEXT,
  raw_arguments       TEXT,
  result              TEXT,
  side_effect_class   TEXT,
  resource_keys       TEXT NOT NULL DEFAULT '[]',
  created_at          INTEGER NOT NULL,
  UNIQUE (group_id, sequence)
) STRICT;

CREATE TABLE execution_attempts (
  attempt_id             TEXT PRIMARY KEY,
  group_id               TEXT NOT NULL,
  producing_cell_id      TEXT NOT NULL,
  attempt_ordinal        INTEGER NOT NULL CHECK (attempt_ordinal >= 0),
  state_revision         INTEGER CHECK (state_revision >= 1),
  generation_id          TEXT,
  owner_instance_id      TEXT NOT NULL,
  allocated_at           INTEGER NOT NULL,
  started_at             INTEGER,
  response_at            INTEGER,
  capture_at             INTEGER,
  finished_at            INTEGER,
  terminal_state         TEXT,
  error                  TEXT,
  replayed_from_cell_id  TEXT,
  UNIQUE (producing_cell_id, attempt_ordinal),
  CHECK ((finished_at IS NULL) = (terminal_state IS NULL))
) STRICT;
CREATE INDEX execution_attempts_by_group ON execution_attempts (group_id, attempt_ordinal, attempt_id);
CREATE INDEX execution_attempts_unfinished ON execution_attempts (allocated_at, attempt_id) WHERE finished_at IS NULL;
`;
