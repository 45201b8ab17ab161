import { sha256 } from "../proof/sha256.ts";

const PREFIX = "session:revert-recovery:";

/**
 * The key of the setting whose presence says that a workspace revert of the session is unresolved: the barrier
 * (spec/auto_mode 0.5). While it is there, new work in the session is refused with `RecoveryRequiredError`.
 */
export function revertRecoverySettingKey(rootFrameId: string): string {
  return PREFIX + sha256(rootFrameId);
}
