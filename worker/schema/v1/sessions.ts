/** Projects, frames, settings, branches and checkpoints (spec/session_store 1 and 2.1). */
export const sessionsSchema = `
CREATE TABLE projects (
  project_id  TEXT PRIMARY KEY,
  name        TEXT NOT NULL,
  description TEXT,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE frames (
  frame_id      TEXT PRIMARY KEY,
  parent_id     TEXT,
  project_id    TEXT NOT NULL,
  root_frame_id TEXT NOT NULL,
  kind          TEXT NOT NULL,
  name          TEXT,
  status        TEXT NOT NULL DEFAULT 'processing',
  depth         INTEGER NOT NULL DEFAULT 0,
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX frames_by_root ON frames (root_frame_id);
CREATE INDEX frames_by_project ON frames (project_id);

CREATE TABLE settings (
  key        TEXT PRIMARY KEY,
  value      TEXT NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE session_branches (
  branch_id          TEXT PRIMARY KEY,
  root_frame_id      TEXT NOT NULL,
  parent_branch_id   TEXT,
  base_checkpoint_id TEXT,
  head_checkpoint_id TEXT,
  name               TEXT,
  created_at         INTEGER NOT NULL,
  updated_at         INTEGER NOT NULL
) STRICT;
CREATE INDEX session_branches_by_root ON session_branches (root_frame_id, created_at, branch_id);

CREATE TABLE session_checkpoints (
  checkpoint_id        TEXT PRIMARY KEY,
  root_frame_id        TEXT NOT NULL,
  branch_id            TEXT NOT NULL,
  parent_checkpoint_id TEXT,
  source_kind          TEXT CHECK (source_kind IN ('cell', 'message')),
  source_id            TEXT,
  internal             INTEGER NOT NULL DEFAULT 0 CHECK (internal IN (0, 1)),
  reason               TEXT NOT NULL,
  action_cursor        INTEGER NOT NULL CHECK (action_cursor >= -1),
  message_cursor       INTEGER NOT NULL CHECK (message_cursor >= 0),
  cell_cursor          INTEGER NOT NULL CHECK (cell_cursor >= 0),
  auto_event_cursor    INTEGER NOT NULL CHECK (auto_event_cursor >= 0),
  workspace_tree_id    TEXT,
  artifact_versions    TEXT NOT NULL DEFAULT '[]',
  environment_pins     TEXT NOT NULL DEFAULT '{}',
  generation_refs      TEXT NOT NULL DEFAULT '{}',
  capability_state     TEXT NOT NULL DEFAULT '{}',
  permission_state     TEXT NOT NULL DEFAULT '{}',
  recovery_recipe      TEXT NOT NULL DEFAULT '{}',
  metadata             TEXT NOT NULL DEFAULT '{}',
  lineage              TEXT NOT NULL,
  created_at           INTEGER NOT NULL,
  CHECK ((source_kind IS NULL) = (source_id IS NULL))
) STRICT;
CREATE INDEX session_checkpoints_by_branch ON session_checkpoints (root_frame_id, branch_id, created_at, checkpoint_id);
CREATE UNIQUE INDEX session_checkpoints_by_source ON session_checkpoints (root_frame_id, source_kind, source_id)
  WHERE source_id IS NOT NULL;
`;
