import { expect, onTestFinished } from "vitest";
import { channelName, type HostAnnouncement, type Message } from "../../src/protocol/channel.ts";
import { holdLock, locks } from "../../src/protocol/locks.ts";
import { WIRE_VERSION } from "../../src/protocol/wire.ts";
import { openBuilt, test } from "../support/session.ts";

/** Tabs with older and newer code. There is only one version to run, so the other one is played by the test. */

/** A tab of another version that is the host, until it closes. */
async function playHost(name: string, version: Pick<HostAnnouncement, "wireVersion" | "storage">) {
  const channel = new BroadcastChannel(channelName(name));
  const announcement: HostAnnouncement = { kind: "host", instanceId: "other-tab", epoch: 7, ...version };
  const asked = new Promise<void>((resolve) => {
    channel.onmessage = ({ data }: MessageEvent<Message>) => {
      if (data.kind === "who-is-host") channel.postMessage(announcement);
      if (data.kind === "version-change") resolve();
    };
  });
  const { release } = await holdLock(locks.host(name));
  const close = () => {
    channel.close();
    return release();
  };
  onTestFinished(close);
  return { asked, close };
}

test("a newer page asks the older host to close, and opens the ledger when it has", async ({
  fresh: { name, storage },
}) => {
  const host = await playHost(`${name}-old`, { wireVersion: WIRE_VERSION - 1, storage });
  const opening = openBuilt(`${name}-old`);
  await host.asked;
  host.close();
  await using ledger = await opening;
  expect(ledger.host()).toEqual({ instanceId: ledger.instanceId, epoch: 1 });
});

test("a newer page gives up on an older host that stays, and says which tab it is", async ({
  fresh: { name, storage },
}) => {
  await playHost(`${name}-old`, { wireVersion: WIRE_VERSION, storage: { ...storage, schemaVersion: 0 } });
  await expect(openBuilt(`${name}-old`, { hostWaitMs: 200 })).rejects.toMatchObject({
    name: "HostUnavailableError",
    code: "other_version",
    details: { hostInstanceId: "other-tab", host: { schemaVersion: 0 } },
  });
});

test("an older page does not join a newer host", async ({ fresh: { name, storage } }) => {
  await playHost(`${name}-new`, { wireVersion: WIRE_VERSION + 1, storage });
  await expect(openBuilt(`${name}-new`)).rejects.toMatchObject({ code: "other_version" });
});

test("host and standbys are told when a newer page asks for the ledger", async ({ fresh: { name } }) => {
  const told: Promise<void>[] = [];
  const open = () => {
    let onVersionChange = () => {};
    told.push(
      new Promise((resolve) => {
        onVersionChange = resolve;
      }),
    );
    return openBuilt(`${name}-told`, { onVersionChange });
  };
  await using _host = await open();
  await using _standby = await open();
  const channel = new BroadcastChannel(channelName(`${name}-told`));
  channel.postMessage({
    kind: "version-change",
    wireVersion: WIRE_VERSION + 1,
    schemaVersion: 1,
  } satisfies Message);
  await Promise.all(told);
  channel.close();
});
