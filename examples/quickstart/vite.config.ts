import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const source = (path: string) => fileURLToPath(new URL(`../../src/${path}`, import.meta.url));

/** The example runs against the library's source, under the names that an application imports. */
export default defineConfig({
  resolve: {
    alias: [
      { find: "countersign/testing", replacement: source("testing.ts") },
      { find: "countersign/proof", replacement: source("proof/index.ts") },
      { find: "countersign", replacement: source("index.ts") },
    ],
  },
  // SQLite's loader finds its WebAssembly by its own URL, which pre-bundling would break.
  optimizeDeps: { exclude: ["@sqlite.org/sqlite-wasm"] },
  worker: { format: "es" },
  server: { host: "127.0.0.1", fs: { allow: [fileURLToPath(new URL("../..", import.meta.url))] } },
});
