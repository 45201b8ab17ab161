/** The journal, and where the newest commitment to each row stands. */
export const journalSchema = `
CREATE TABLE journal (
  root_frame_id     TEXT NOT NULL,
  position          INTEGER NOT NULL CHECK (position >= 1),
  operation_id      TEXT NOT NULL,
  command           TEXT NOT NULL,
  branch_id         TEXT,
  run_id            TEXT,
  run_ordinal       INTEGER,
  owner_instance_id TEXT NOT NULL,
  at                INTEGER NOT NULL,
  details_json      TEXT,
  commitments_json  TEXT NOT NULL,
  body_sha256       TEXT NOT NULL,
  previous_sha256   TEXT NOT NULL,
  skip_sha256       TEXT NOT NULL,
  entry_sha256      TEXT NOT NULL,
  PRIMARY KEY (root_frame_id, position)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX journal_by_run ON journal (run_id, run_ordinal) WHERE run_id IS NOT NULL;
CREATE INDEX journal_starts ON journal (root_frame_id, branch_id, position) WHERE run_ordinal = 1;

CREATE TABLE commitment_index (
  table_name    TEXT NOT NULL,
  row_key       TEXT NOT NULL,
  root_frame_id TEXT NOT NULL,
  position      INTEGER NOT NULL,
  PRIMARY KEY (table_name, row_key)
) STRICT, WITHOUT ROWID;
`;
