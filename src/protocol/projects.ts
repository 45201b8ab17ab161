import * as z from "zod";
import { defineCommand } from "./command.ts";
import { millis, newId, text } from "./fields.ts";

export interface Project {
  readonly projectId: string;
  readonly name: string;
  readonly description: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
}

export const projects = {
  /**
   * Makes a project. Repeating it with the same id and name returns the first one (`created: false`).
   *
   * @throws LedgerConflictError the id is taken by a project of another name or description.
   */
  create: defineCommand<Project & { readonly created: boolean }>()(
    "write",
    z.strictObject({
      projectId: newId().optional(),
      name: text(),
      description: text(20_000).nullish(),
      createdAt: millis(),
    }),
  ),
  /** All projects, the most recently changed first. */
  list: defineCommand<Project[]>()("read", z.strictObject({})),
};
