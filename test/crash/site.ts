import { fileURLToPath } from "node:url";
import { createServer } from "vite";

/** A server of this repository's sources, with the built workers at its root. */
export interface Site {
  readonly pageUrl: string;
  close(): Promise<void>;
}

export async function serveSite(): Promise<Site> {
  const server = await createServer({
    root: fileURLToPath(new URL("../..", import.meta.url)),
    configFile: false,
    logLevel: "warn",
    publicDir: "dist",
    // The page's few dependencies are modules already. Bundling them would reload the page amid a test.
    optimizeDeps: { noDiscovery: true },
    server: { host: "127.0.0.1", port: 0, hmr: false, watch: null },
  });
  await server.listen();
  const pageUrl = `${server.resolvedUrls?.local[0]}test/crash/page.html`;
  return { pageUrl, close: () => server.close() };
}
