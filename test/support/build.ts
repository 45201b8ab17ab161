import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/**
 * Tests run against the built workers: what users get, and one request a worker instead of a hundred. Every
 * project of a run calls this; the first call builds.
 */
export default function build(): void {
  if (process.env["COUNTERSIGN_BUILT"] === String(process.pid)) return;
  process.env["COUNTERSIGN_BUILT"] = String(process.pid);
  execFileSync(
    process.execPath,
    [fileURLToPath(new URL("../../scripts/build.mjs", import.meta.url)), "--no-types"],
    {
      stdio: "inherit",
    },
  );
}
