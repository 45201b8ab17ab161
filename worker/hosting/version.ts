import type { HostAnnouncement, VersionChange } from "../../src/protocol/channel.ts";
import { HostUnavailableError } from "../../src/protocol/errors.ts";
import { WIRE_VERSION } from "../../src/protocol/wire.ts";
import { SCHEMA_VERSION } from "../schema/migrate.ts";

/** The version of the code that runs here. */
export const OUR_VERSION: VersionChange = {
  kind: "version-change",
  wireVersion: WIRE_VERSION,
  schemaVersion: SCHEMA_VERSION,
};

type Version = Pick<VersionChange, "wireVersion" | "schemaVersion">;

export function isNewer(one: Version, other: Version): boolean {
  return one.wireVersion > other.wireVersion || one.schemaVersion > other.schemaVersion;
}

/** The host's code against ours. One with an older schema would keep us from bringing the database up to date. */
export function ageOf({ wireVersion, storage }: HostAnnouncement): "same" | "newer" | "older" {
  const theirs = { wireVersion, schemaVersion: storage.schemaVersion };
  if (isNewer(theirs, OUR_VERSION)) return "newer";
  return isNewer(OUR_VERSION, theirs) ? "older" : "same";
}

/** The refusal to work with a host of another version. */
export function otherVersion(host: HostAnnouncement, advice: string): HostUnavailableError {
  return new HostUnavailableError(
    "other_version",
    `the ledger is open in a tab with another version of Countersign: ${advice}`,
    {
      hostInstanceId: host.instanceId,
      host: { wireVersion: host.wireVersion, schemaVersion: host.storage.schemaVersion },
      here: { wireVersion: WIRE_VERSION, schemaVersion: SCHEMA_VERSION },
    },
  );
}
