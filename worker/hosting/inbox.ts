import { fieldsOf, fromPort, portsIn } from "../../src/protocol/stream-port.ts";
import type { Envelope } from "../../src/protocol/wire.ts";
import { chunksOf } from "../files/digest.ts";
import { writeDurably } from "../files/durable-file.ts";
import { readingSource } from "../files/source-error.ts";
import { directoryOf } from "../storage/directory.ts";

/** Above this many bytes travel to another tab as a Blob, by reference. */
const INLINE_BYTES = 65_536;

/** An envelope whose input can be read where it stands, and what must be done when its command is over. */
export interface Unpacked {
  readonly envelope: Envelope;
  readonly release: () => Promise<void>;
}

/** The envelope with streams in place of the ports behind which its page has them. */
export function unpack(envelope: Envelope): Unpacked {
  const ports = portsIn(envelope.input);
  if (ports.length === 0) return { envelope, release: async () => {} };
  const streams = ports.map(([name, port]) => [name, fromPort(port)] as const);
  return {
    envelope: withFields(envelope, streams),
    // A stream that nobody began to read is given up, so that its source is let go; one that failed has ended.
    release: async () => {
      for (const [, stream] of streams) if (!stream.locked) await stream.cancel().catch(() => {});
    },
  };
}

/** Whether nothing of the envelope must be prepared before it goes to another tab. */
export function isPortable({ input }: Envelope): boolean {
  return portsIn(input).length === 0 && largeBytesIn(input).length === 0;
}

/**
 * The envelope as it can go to another tab, again and again: streams are written to files of this tab first, which the
 * host reads, and bytes become blobs, which pass by reference.
 */
export async function packForTravel(
  ledgerName: string,
  workerId: string,
  envelope: Envelope,
): Promise<Unpacked> {
  const blobs = largeBytesIn(envelope.input).map(([name, bytes]) => [name, new Blob([bytes])] as const);
  const written: string[] = [];
  const files: (readonly [string, File])[] = [];
  const release = async () => {
    for (const name of written)
      await (await directoryOf(ledgerName, "inbox")).removeEntry(name).catch(() => {});
  };
  try {
    for (const [field, port] of portsIn(envelope.input)) {
      const name = `${workerId}.${crypto.randomUUID()}`;
      const handle = await (await directoryOf(ledgerName, "inbox")).getFileHandle(name, { create: true });
      written.push(name);
      await readingSource(envelope.command, field, () => writeDurably(handle, chunksOf(fromPort(port))));
      files.push([field, await handle.getFile()]);
    }
  } catch (error) {
    await release();
    throw error;
  }
  return { envelope: withFields(envelope, [...blobs, ...files]), release };
}

/** Removes what workers that died left in the inbox. */
export async function emptyInbox(ledgerName: string, isAlive: (workerId: string) => boolean): Promise<void> {
  const directory = await directoryOf(ledgerName, "inbox");
  const names: string[] = [];
  for await (const name of directory.keys()) names.push(name);
  for (const name of names) {
    const [workerId = ""] = name.split(".");
    if (!isAlive(workerId)) await directory.removeEntry(name).catch(() => {});
  }
}

function largeBytesIn(input: unknown): [string, Uint8Array<ArrayBuffer>][] {
  return fieldsOf(input).filter(
    (field): field is [string, Uint8Array<ArrayBuffer>] =>
      field[1] instanceof Uint8Array && field[1].byteLength > INLINE_BYTES,
  );
}

function withFields(envelope: Envelope, fields: readonly (readonly [string, unknown])[]): Envelope {
  return { ...envelope, input: { ...(envelope.input as object), ...Object.fromEntries(fields) } };
}
