/** Facts about a refusal that a program can use: `field`, ids, what was expected. */
export type ErrorDetails = Readonly<Record<string, unknown>>;

/** An error as plain data, so that it crosses a worker or a channel whole. */
export interface WireError {
  readonly name: string;
  readonly code: string;
  readonly message: string;
  readonly details: ErrorDetails;
}

/** Every refusal of the ledger. `code` is stable; `message` is for people. */
export class LedgerError extends Error {
  override readonly name: string = "LedgerError";
  readonly code: string;
  readonly details: ErrorDetails;

  constructor(code: string, message: string, details: ErrorDetails = {}) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** What was wrong with one field of a command's input. */
export interface FieldIssue {
  readonly field: string;
  readonly expected: string;
}

/** The input is malformed. `details.field` names the first offending field, `details.issues` all of them. */
export class ValidationError extends LedgerError {
  override readonly name = "ValidationError";
}

/** The refusal of one field of an input of a command, or of the function `command`. */
export function invalidInput(command: string, field: string, expected: string): ValidationError {
  return new ValidationError("invalid_input", `${command}: ${field}: expected ${expected}`, {
    field,
    issues: [{ field, expected }],
    command,
  });
}

/** An identity, idempotency, state or branch-head rule was broken. Nothing was written. */
export class LedgerConflictError extends LedgerError {
  override readonly name: string = "LedgerConflictError";
}

/** An unresolved workspace revert blocks the session until it is recovered. */
export class RecoveryRequiredError extends LedgerConflictError {
  override readonly name = "RecoveryRequiredError";
}

/** No such run, review, branch or session. `details.field` names the input that pointed to it. */
export class NotFoundError extends LedgerError {
  override readonly name = "NotFoundError";
}

/** Stored rows contradict the journal: they were changed from outside, or the storage is damaged. */
export class IntegrityError extends LedgerError {
  override readonly name = "IntegrityError";
}

/** The database can't be opened, read or written here. `details.reason` says why. */
export class StorageUnavailableError extends LedgerError {
  override readonly name = "StorageUnavailableError";
}

/** No space is left. The command was rolled back. */
export class StorageFullError extends LedgerError {
  override readonly name = "StorageFullError";
}

/** The database was written by a newer version of Countersign. It was left as it is. */
export class SchemaTooNewError extends LedgerError {
  override readonly name = "SchemaTooNewError";
}

/** The ledger was closed. */
export class LedgerClosedError extends LedgerError {
  override readonly name = "LedgerClosedError";
}

/** The worker that owns the database can't be reached: another tab holds it, it failed to load, or it is hung. */
export class HostUnavailableError extends LedgerError {
  override readonly name = "HostUnavailableError";
}

const classes = new Map(
  [
    LedgerError,
    ValidationError,
    LedgerConflictError,
    RecoveryRequiredError,
    NotFoundError,
    IntegrityError,
    StorageUnavailableError,
    StorageFullError,
    SchemaTooNewError,
    LedgerClosedError,
    HostUnavailableError,
  ].map((errorClass) => [errorClass.name, errorClass] as const),
);

/** The error as plain data. An error that is not ours becomes code `internal_error`, with its name and stack kept. */
export function toWireError(error: unknown): WireError {
  if (error instanceof LedgerError) {
    return { name: error.name, code: error.code, message: error.message, details: error.details };
  }
  const cause = error instanceof Error ? error : new Error(String(error));
  return {
    name: "LedgerError",
    code: "internal_error",
    message: `unexpected ${cause.name}: ${cause.message}`,
    details: { stack: cause.stack ?? null },
  };
}

/** The error that the wire form stands for, of its own class. */
export function fromWireError(wire: WireError): LedgerError {
  const errorClass = classes.get(wire.name) ?? LedgerError;
  return new errorClass(wire.code, wire.message, wire.details);
}
