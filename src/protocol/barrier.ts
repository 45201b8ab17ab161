import { sha256 } from "../proof/sha256.ts";

/** How the keys of all barriers begin. */
export const BARRIER_PREFIX = "session:revert-recovery:";

/**
 * The key of the setting whose presence says that a workspace revert of the session is unresolved: the barrier
 * (spec/auto_mode 0.5). While it is there, new work in the session is refused with `RecoveryRequiredError`.
 */
export function revertRecoverySettingKey(rootFrameId: string): string {
  return BARRIER_PREFIX + sha256(rootFrameId);
}
