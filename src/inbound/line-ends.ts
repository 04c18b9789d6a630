/**
 * Gives every line of a mail the line end of SMTP before anything reads it: a bare CR or LF ends a line for one reader and not for the next,
 * and what stands between them could be a field, a boundary or a mail of its own. Such mail is not refused, since a bounce would be lost.
 * What a signature covered as it was, it covers no longer, and so proves nothing. Pure.
 */
import { withCrlf } from '../mail/re-encode.ts';

const CR = Buffer.from('\r');

/** Yields the octets of a mail in chunks, each line end as CRLF. */
export async function* withCrlfLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  // A CR at the end of a chunk waits for what follows it.
  let held = Buffer.alloc(0);
  for await (const chunk of chunks) {
    const bytes = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    const isOpen = bytes.at(-1) === CR[0];
    held = isOpen ? CR : Buffer.alloc(0);
    yield withCrlf(isOpen ? bytes.subarray(0, -1) : bytes);
  }
  if (held.length > 0) yield withCrlf(held);
}
