import type * as z from "zod";

/** A read changes nothing; a write is one transaction and one journal entry. */
export type CommandKind = "read" | "write";

/** The contract of one command: the schema of its input and, as a type only, its result. */
export interface CommandDefinition<Schema extends z.ZodType = z.ZodType, Result = unknown> {
  readonly kind: CommandKind;
  readonly input: Schema;
  /** Never set: carries the result's type. */
  readonly result?: Result;
}

/** Declares a command: `defineCommand<Result>()("write", schema)`. */
export function defineCommand<Result>() {
  return <Schema extends z.ZodType>(kind: CommandKind, input: Schema): CommandDefinition<Schema, Result> => ({
    kind,
    input,
  });
}

/** What a caller passes in: nothing of it is ever changed, so readonly lists and objects will do. */
export type InputOf<C> = C extends CommandDefinition<infer Schema, unknown> ? Given<z.input<Schema>> : never;

type Handed = Uint8Array | Blob | ReadableStream | FileSystemDirectoryHandle;
type Given<Value> = Value extends Handed
  ? Value
  : Value extends readonly (infer Item)[]
    ? readonly Given<Item>[]
    : Value extends object
      ? { readonly [Name in keyof Value]: Given<Value[Name]> }
      : Value;
/** What the worker works with: trimmed, defaulted, checked. */
export type ParsedOf<C> = C extends CommandDefinition<infer Schema, unknown> ? z.output<Schema> : never;
export type ResultOf<C> = C extends CommandDefinition<z.ZodType, infer Result> ? Result : never;
