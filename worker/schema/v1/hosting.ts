/** Who may write, and what was answered: the journal does not commit to them, as no proof rests on them. */
export const hostingSchema = `
CREATE TABLE host_epoch (
  singleton   INTEGER PRIMARY KEY CHECK (singleton = 1),
  epoch       INTEGER NOT NULL,
  instance_id TEXT NOT NULL,
  since       INTEGER NOT NULL
) STRICT;
INSERT INTO host_epoch VALUES (1, 0, '', 0);

CREATE TABLE receipts (
  operation_id      TEXT PRIMARY KEY,
  owner_instance_id TEXT NOT NULL,
  sequence          INTEGER NOT NULL,
  value             TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX receipts_by_owner ON receipts (owner_instance_id, sequence);
`;
