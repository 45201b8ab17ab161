import * as z from "zod";
import { defineCommand } from "./command.ts";
import { existingFrameId, existingProjectId, millis, newId, text } from "./fields.ts";

export interface Frame {
  readonly frameId: string;
  /** A frame without a parent is a session: its own root. */
  readonly parentId: string | null;
  readonly rootFrameId: string;
  readonly projectId: string;
  readonly kind: string;
  readonly name: string | null;
  readonly depth: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

export const frames = {
  /**
   * Makes a frame. Without `parentId` it is a session, and its id is the session's `rootFrameId`; with one it
   * joins the parent's session and project.
   *
   * @throws NotFoundError the project or the parent is unknown.
   * @throws LedgerConflictError the id is taken by a frame with another parent, project or kind.
   */
  create: defineCommand<Frame & { readonly created: boolean }>()(
    "write",
    z.strictObject({
      frameId: newId().optional(),
      projectId: existingProjectId(),
      parentId: existingFrameId().nullish(),
      kind: text(64).default("turn"),
      name: text().nullish(),
      createdAt: millis(),
    }),
  ),
};
