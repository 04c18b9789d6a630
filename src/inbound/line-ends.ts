/**
 * Gives every line of a mail the line end of SMTP before anything reads it: a bare CR or LF ends a line for one reader and not for the next,
 * and what stands between them could be a field, a boundary or a mail of its own. Such mail is not refused, since a bounce would be lost.
 * What a signature covered as it was, it covers no longer, and so proves nothing. Pure.
 */
import { withCrlf } from '../mail/re-encode.ts';
import type { ReadMail } from './mail-intake.ts';

const CR = Buffer.from('\r');

/** Reads the same mail, each line end as CRLF. */
export const withCrlfLines =
  (read: ReadMail): ReadMail =>
  async (take) => {
    // A CR at the end of a piece waits for what follows it.
    let isHeld = false;
    await read((piece) => {
      const octets = isHeld ? Buffer.concat([CR, piece]) : piece;
      isHeld = octets.at(-1) === CR[0];
      take(withCrlf(isHeld ? octets.subarray(0, -1) : octets));
    });
    if (isHeld) take(withCrlf(CR));
  };
