/**
 * A stream of bytes between page and worker, through a port and one buffer that goes to and fro. Transferring the
 * stream itself would copy each chunk twice and leave both copies to the collector, which was measured to cost as much
 * memory as a large file is long.
 */

/** How much is on its way at a time. */
const BUFFER_BYTES = 1_048_576;

/** Asks for more, giving the buffer back; or says that no more is wanted, and why. */
type Request = { readonly buffer: ArrayBuffer } | { readonly cancelled: unknown };

/** A length of 0 is the end. `unfit`: the source gave something else than bytes. */
type Answer =
  | { readonly buffer: ArrayBuffer; readonly length: number }
  | { readonly unfit: unknown }
  | { readonly error: unknown };

/** The named fields of an input, if it has any. */
export function fieldsOf(input: unknown): [string, unknown][] {
  return typeof input === "object" && input !== null ? Object.entries(input) : [];
}

/** The fields of an input behind which streams are: ports can't be copied, only handed over. */
export function portsIn(input: unknown): [string, MessagePort][] {
  return fieldsOf(input).filter((field): field is [string, MessagePort] => field[1] instanceof MessagePort);
}

/**
 * Takes the stream over and gives the port from which `fromPort` reads it.
 *
 * @throws TypeError the stream is locked.
 */
export function toPort(stream: ReadableStream<unknown>): MessagePort {
  const reader = stream.getReader();
  const { port1: port, port2: remote } = new MessageChannel();
  let rest: Uint8Array = new Uint8Array();
  const fill = async (buffer: ArrayBuffer): Promise<Answer> => {
    const bytes = new Uint8Array(buffer);
    let length = 0;
    while (length < bytes.length) {
      if (rest.length === 0) {
        const { done, value } = await reader.read();
        if (done) break;
        if (!(value instanceof Uint8Array)) return { unfit: String(value) };
        rest = value;
      }
      const part = rest.subarray(0, bytes.length - length);
      bytes.set(part, length);
      length += part.length;
      rest = rest.subarray(part.length);
    }
    return { buffer, length };
  };
  port.onmessage = async ({ data }: MessageEvent<Request>) => {
    if ("cancelled" in data) {
      port.close();
      await reader.cancel(data.cancelled).catch(() => {});
      return;
    }
    const answer = await fill(data.buffer).catch((error: unknown): Answer => ({ error: cloneable(error) }));
    port.postMessage(answer, "buffer" in answer ? [answer.buffer] : []);
  };
  return remote;
}

/** The stream behind a port. Its chunks share one buffer: each is good until the next is asked for. */
export function fromPort(port: MessagePort): ReadableStream<Uint8Array<ArrayBuffer>> {
  let buffer = new ArrayBuffer(BUFFER_BYTES);
  const ask = () =>
    new Promise<Answer>((resolve) => {
      port.onmessage = ({ data }: MessageEvent<Answer>) => resolve(data);
      port.postMessage({ buffer } satisfies Request, [buffer]);
    });
  return new ReadableStream(
    {
      async pull(controller) {
        const answer = await ask();
        if ("error" in answer) throw answer.error;
        if ("unfit" in answer) {
          controller.enqueue(answer.unfit as Uint8Array<ArrayBuffer>);
          return;
        }
        buffer = answer.buffer;
        if (answer.length > 0) controller.enqueue(new Uint8Array(buffer, 0, answer.length));
        else end(controller);
      },
      cancel(reason) {
        port.postMessage({ cancelled: cloneable(reason) } satisfies Request);
        port.close();
      },
    },
    { highWaterMark: 0 },
  );

  function end(controller: ReadableStreamDefaultController) {
    controller.close();
    port.close();
  }
}

function cloneable(reason: unknown): unknown {
  try {
    return structuredClone(reason);
  } catch {
    return String(reason);
  }
}
