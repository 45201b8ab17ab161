import { playwright } from "@vitest/browser-playwright";
import { defineConfig } from "vitest/config";
import { chromiumOptions, firefoxOptions } from "./scripts/browsers.mjs";

const chromium = playwright({ launchOptions: chromiumOptions });
const firefox = playwright({ launchOptions: firefoxOptions });

export default defineConfig({
  // No COOP/COEP headers: the ledger must do without them.
  optimizeDeps: {
    include: [
      "@noble/hashes/sha2.js",
      "@noble/hashes/utils.js",
      "canonicalize",
      "comlink",
      "fast-check",
      "zod",
    ],
  },
  // The built workers are served as they are.
  publicDir: "dist",
  test: {
    globalSetup: "test/support/build.ts",
    projects: [
      {
        extends: true,
        test: {
          name: "browser",
          include: [
            "test/{conformance,properties,host,tabs,tamper,history,files,repairs,deliveries}/**/*.test.ts",
          ],
          testTimeout: 60_000,
          browser: {
            enabled: true,
            headless: true,
            screenshotFailures: false,
            provider: chromium,
            instances: [{ browser: "chromium" }, { browser: "firefox", provider: firefox }],
          },
        },
      },
      {
        extends: true,
        test: {
          name: "node",
          include: ["test/{proof,crash,chaos}/**/*.test.ts"],
          environment: "node",
          testTimeout: 300_000,
        },
      },
    ],
  },
});
