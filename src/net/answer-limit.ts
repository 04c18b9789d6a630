/**
 * Limits what a server may send for one request, as it comes from the network: the length of a body does not tell what is read for it, since
 * a chunk may have extensions without end, a status line empty lines before it, and a TLS record padding.
 */
import type { Socket } from 'node:net';

/** An answer's body, of which callers take up to 64 KiB, and 16 KiB for its head and what frames both. */
export const MOST_ANSWER_BYTES = 80 * 1024;

/**
 * Breaks the connection with an error once more has come since the last request. Call it when the connection is open and its reader
 * listens. `raw` is what carries the bytes: another socket than `socket` if that one is of TLS.
 */
export function limitAnswers(socket: Socket, raw: Socket): void {
  let written = 0;
  let before = raw.bytesRead;
  let seen = before;
  const look = (): void => {
    if (socket.bytesWritten !== written) {
      written = socket.bytesWritten;
      // Bytes that came between two answers belong to the first of them.
      before = seen;
    }
    seen = raw.bytesRead;
    if (seen - before <= MOST_ANSWER_BYTES) return;
    // In the next turn: who has enough of a body ends the connection until then, and nothing failed.
    setImmediate(() =>
      socket.destroy(new Error(`more than ${String(MOST_ANSWER_BYTES / 1024)} KiB came without an end`)),
    );
  };
  // TLS can also bring tickets and handshakes without end, which are not data.
  for (const event of ['data', 'session', 'secure']) socket.on(event, look);
}
