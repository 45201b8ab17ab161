import { execFileSync } from "node:child_process";
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
