/** Artifacts and their versions; the bytes lie in the content-addressed store under the checksum (spec/session_store 5.1). */
export const artifactsSchema = `
CREATE TABLE artifacts (
  artifact_id       TEXT PRIMARY KEY,
  project_id        TEXT NOT NULL,
  root_frame_id     TEXT NOT NULL,
  filename          TEXT NOT NULL,
  content_type      TEXT,
  is_user_upload    INTEGER NOT NULL DEFAULT 0 CHECK (is_user_upload IN (0, 1)),
  priority          INTEGER NOT NULL DEFAULT 0,
  latest_version_id TEXT NOT NULL,
  created_at        INTEGER NOT NULL,
  updated_at        INTEGER NOT NULL
) STRICT;
CREATE INDEX artifacts_by_session ON artifacts (root_frame_id, created_at, artifact_id);

CREATE TABLE artifact_versions (
  version_id        TEXT PRIMARY KEY,
  artifact_id       TEXT NOT NULL REFERENCES artifacts (artifact_id) DEFERRABLE INITIALLY DEFERRED,
  ordinal           INTEGER NOT NULL CHECK (ordinal >= 1),
  filename          TEXT NOT NULL,
  content_type      TEXT,
  size_bytes        INTEGER NOT NULL CHECK (size_bytes >= 0),
  checksum          TEXT NOT NULL,
  producing_cell_id TEXT,
  frame_id          TEXT NOT NULL,
  source            TEXT,
  created_at        INTEGER NOT NULL,
  UNIQUE (artifact_id, ordinal)
) STRICT;
CREATE INDEX artifact_versions_by_checksum ON artifact_versions (checksum);
`;
