import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Tests run against the built workers: what users get, and one request a worker instead of a hundred. */
export default function build(): void {
  execFileSync(
    process.execPath,
    [fileURLToPath(new URL("../../scripts/build.mjs", import.meta.url)), "--no-types"],
    {
      stdio: "inherit",
    },
  );
}
