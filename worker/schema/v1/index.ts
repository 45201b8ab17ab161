import { actionsSchema } from "./actions.ts";
import { artifactsSchema } from "./artifacts.ts";
import { hostingSchema } from "./hosting.ts";
import { journalSchema } from "./journal.ts";
import { messagesSchema } from "./messages.ts";
import { repairsSchema } from "./repairs.ts";
import { runsSchema } from "./runs.ts";
import { sessionsSchema } from "./sessions.ts";

/** Schema version 1. */
export const schemaV1 = [
  sessionsSchema,
  actionsSchema,
  runsSchema,
  repairsSchema,
  artifactsSchema,
  messagesSchema,
  journalSchema,
  hostingSchema,
].join("\n");
