/**
 * Gives every line of a mail the line end of SMTP before anything reads it: a bare CR or LF ends a line for one reader and not for the next,
 * and what stands between them could be a field, a boundary or a mail of its own. Such mail is not refused, since a bounce would be lost.
 * What a signature covered as it was, it covers no longer, and so proves nothing. Pure.
 */
import { withCrlf } from '../mail/re-encode.ts';
import type { ReadMail } from './mail-intake.ts';

const CR = Buffer.from('\r');
const NOTHING = Buffer.alloc(0);

/** Reads the same mail, each line end as CRLF. */
export const withCrlfLines =
  (read: ReadMail): ReadMail =>
  async (take) => {
    // A CR at the end of a piece waits for what follows it.
    let held = NOTHING;
    await read((piece) => {
      const octets = held.length === 0 ? piece : Buffer.concat([held, piece]);
      held = octets.at(-1) === CR[0] ? CR : NOTHING;
      take(withCrlf(octets.subarray(0, octets.length - held.length)));
    });
    if (held.length > 0) take(withCrlf(held));
  };
