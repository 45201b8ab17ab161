import { playwright } from "@vitest/browser-playwright";
import { defineConfig } from "vitest/config";

const chromium = playwright({
  launchOptions: {
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    chromiumSandbox: false,
    args: [
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  },
});
const firefox = playwright({
  // Playwright drives a stock Firefox over WebDriver BiDi under this channel.
  launchOptions: { channel: "moz-firefox", executablePath: process.env["FIREFOX"] ?? "/usr/bin/firefox-esr" },
});

export default defineConfig({
  // No COOP/COEP headers: the ledger must do without them.
  optimizeDeps: { include: ["comlink", "fast-check", "zod"] },
  // The built workers are served as they are.
  publicDir: "dist",
  test: {
    globalSetup: "test/support/build.ts",
    projects: [
      {
        extends: true,
        test: {
          name: "browser",
          include: ["test/{conformance,properties,host}/**/*.test.ts"],
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
          include: ["test/{proof,crash}/**/*.test.ts"],
          environment: "node",
          testTimeout: 300_000,
        },
      },
    ],
  },
});
