import * as z from "zod";
import { defineCommand } from "./command.ts";
import { anyText, LONG_TEXT, millis, text } from "./fields.ts";

export interface Setting {
  readonly key: string;
  readonly value: string;
  readonly updatedAt: number;
}

const settingKey = () => text(LONG_TEXT);

const settingValue = () => anyText(1_048_576);

export const settings = {
  /** Stores a text under a key, in place of what was there. */
  set: defineCommand<Setting>()(
    "write",
    z.strictObject({ key: settingKey(), value: settingValue(), updatedAt: millis() }),
  ),
  /** The setting, or null. */
  get: defineCommand<Setting | null>()("read", z.strictObject({ key: settingKey() })),
  /**
   * Removes a setting. With `onlyIfValue` it is removed only while its value is exactly that: the safe way to
   * release a barrier.
   */
  delete: defineCommand<{ readonly deleted: boolean }>()(
    "write",
    z.strictObject({ key: settingKey(), onlyIfValue: settingValue().optional() }),
  ),
};
