// Builds dist/: the page's side and both workers, each one file, with SQLite's WebAssembly beside them.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, renameSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const root = fileURLToPath(new URL("..", import.meta.url));
/** Built aside and put in place when it is whole: whoever is served from dist never finds it empty. */
const building = `${root}.dist-${process.pid}`;

/** From the source tree's worker entries to the files that stand beside each other in dist. */
const WORKER_FILES = { "../worker/index.ts": "./worker.js", "../worker/testing.ts": "./testing-worker.js" };

const pointToBuiltWorkers = {
  name: "point-to-built-workers",
  transform(code, id) {
    if (!id.startsWith(`${root}src/`)) return null;
    let result = code;
    for (const [source, built] of Object.entries(WORKER_FILES))
      result = result.replaceAll(`"${source}"`, `"${built}"`);
    return { code: result, map: null };
  },
};

/** SQLite's loader names two more scripts that are never used; bundlers of our users would look for them. */
let sidecars = 0;
const dropSqliteSidecars = {
  name: "drop-sqlite-sidecars",
  transform(code, id) {
    if (!/sqlite-wasm[\\/]dist[\\/]index\.mjs$/.test(id)) return null;
    const pattern = /new URL\("sqlite3-(worker1\.mjs|opfs-async-proxy\.js)", import\.meta\.url\)/g;
    const stripped = code.replace(pattern, () => {
      sidecars += 1;
      return 'new URL("data:,")';
    });
    return { code: stripped, map: null };
  },
};

async function bundle(entries, plugins, minify) {
  for (const [name, input] of Object.entries(entries)) {
    const build = await rolldown({ input: { [name]: `${root}${input}` }, platform: "browser", plugins });
    await build.write({
      dir: building,
      entryFileNames: "[name].js",
      format: "esm",
      minify,
      codeSplitting: false,
    });
    await build.close();
  }
}

await bundle(
  { index: "src/index.ts", testing: "src/testing.ts", proof: "src/proof/index.ts" },
  [pointToBuiltWorkers],
  false,
);
await bundle(
  { worker: "worker/index.ts", "testing-worker": "worker/testing.ts" },
  [dropSqliteSidecars],
  true,
);
if (sidecars !== 4)
  throw new Error(`expected to drop 2 sidecars from each of 2 workers, dropped ${sidecars}`);
copyFileSync(`${root}node_modules/@sqlite.org/sqlite-wasm/dist/sqlite3.wasm`, `${building}/sqlite3.wasm`);
if (!process.argv.includes("--no-types")) {
  const typescript = ["-p", `${root}tsconfig.build.json`, "--outDir", `${building}/types`];
  execFileSync(`${root}node_modules/.bin/tsc`, typescript, { stdio: "inherit" });
}
putInPlace(building, `${root}dist`);

function putInPlace(from, to) {
  const old = `${from}-old`;
  if (existsSync(to)) renameSync(to, old);
  renameSync(from, to);
  rmSync(old, { recursive: true, force: true });
}
