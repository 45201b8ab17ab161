import { expose } from "comlink";
import { Endpoint } from "./hosting/endpoint.ts";

/** The worker of a page. */
expose(new Endpoint({ now: Date.now, faults: { reach() {}, async hold() {} } }));
