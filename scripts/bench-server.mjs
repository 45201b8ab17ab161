import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createServer } from "vite";

export const root = fileURLToPath(new URL("..", import.meta.url));

/** Builds the workers and serves them, with the sources, on loopback; answers the address and the server. */
export async function serveBench() {
  execFileSync(process.execPath, [join(root, "scripts/build.mjs"), "--no-types"], { stdio: "inherit" });
  const server = await createServer({
    root,
    configFile: false,
    logLevel: "warn",
    publicDir: "dist",
    optimizeDeps: { exclude: ["@sqlite.org/sqlite-wasm"], include: ["comlink"] },
    server: { host: "127.0.0.1", port: 0, hmr: false, watch: null },
  });
  await server.listen();
  return { server, url: server.resolvedUrls?.local[0] };
}

/** The machine that was measured on. */
export function describeMachine(browser) {
  return {
    browser: `Chromium ${browser.browser()?.version() ?? ""}`.trim(),
    cpu: cpus()[0]?.model,
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    measuredAt: new Date().toISOString(),
  };
}

/** Keeps figures under `test/bench/results`. */
export function keepResult(name, machine, result) {
  const directory = join(root, "test/bench/results");
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, `${name}.json`), `${JSON.stringify({ machine, result }, null, 2)}\n`);
}
