/** Messages, and deliveries of completed work (spec/session_store 1.5 and 6.1). */
export const messagesSchema = `
CREATE TABLE messages (
  message_id    TEXT PRIMARY KEY,
  root_frame_id TEXT NOT NULL,
  branch_id     TEXT NOT NULL,
  frame_id      TEXT,
  seq           INTEGER NOT NULL CHECK (seq >= 0),
  role          TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
  content       TEXT NOT NULL,
  metadata      TEXT,
  created_at    INTEGER NOT NULL,
  UNIQUE (root_frame_id, seq)
) STRICT;
CREATE INDEX messages_by_branch ON messages (root_frame_id, branch_id, seq);
CREATE INDEX messages_candidates ON messages (created_at, message_id)
  WHERE role = 'assistant' AND json_valid(metadata) AND metadata ->> 'review_status' = 'candidate';

CREATE TABLE completion_deliveries (
  delivery_id     TEXT PRIMARY KEY,
  idempotency_key TEXT NOT NULL,
  root_frame_id   TEXT NOT NULL,
  branch_id       TEXT NOT NULL,
  frame_id        TEXT,
  message_id      TEXT NOT NULL UNIQUE REFERENCES messages (message_id) ON DELETE CASCADE,
  request_sha256  TEXT NOT NULL,
  manifest_json   TEXT NOT NULL,
  manifest_sha256 TEXT NOT NULL,
  content_sha256  TEXT NOT NULL,
  status          TEXT NOT NULL CHECK (status IN ('committed', 'published')),
  created_at      INTEGER NOT NULL,
  published_at    INTEGER,
  UNIQUE (root_frame_id, branch_id, idempotency_key),
  CHECK ((published_at IS NULL) = (status = 'committed'))
) STRICT;

CREATE TABLE completion_delivery_artifacts (
  delivery_id TEXT NOT NULL REFERENCES completion_deliveries (delivery_id) ON DELETE CASCADE,
  ordinal     INTEGER NOT NULL CHECK (ordinal >= 0),
  artifact_id TEXT NOT NULL REFERENCES artifacts (artifact_id) ON DELETE RESTRICT,
  version_id  TEXT NOT NULL REFERENCES artifact_versions (version_id) ON DELETE RESTRICT,
  size_bytes  INTEGER NOT NULL,
  sha256      TEXT NOT NULL,
  PRIMARY KEY (delivery_id, ordinal),
  UNIQUE (delivery_id, version_id)
) STRICT;
`;
