import { expose } from "comlink";
import { Host } from "./host.ts";

/** The worker that owns the database. */
expose(new Host({ now: Date.now, faults: { reach() {}, async hold() {} } }));
