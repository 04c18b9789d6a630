/** DKIM canonicalization: RFC 6376 section 3.4. We sign relaxed/relaxed; simple is there to check others. */
import { hash } from 'node:crypto';
import { survey, type Survey } from '../body-facts.ts';

/** Returns a relaxed header field (section 3.4.2): name in lower case, unfolded, white space reduced; ended by CRLF. Takes a whole field as written. */
export function relaxedHeader(field: string): string {
  const colon = field.indexOf(':');
  const name = field.slice(0, colon).trimEnd().toLowerCase();
  return `${name}:${relaxedValue(field.slice(colon + 1))}\r\n`;
}

function relaxedValue(value: string): string {
  const unfolded = value.replace(/\r\n/g, '');
  const reduced = /[ \t][ \t]|\t/.test(unfolded) ? unfolded.replace(/[ \t]+/g, ' ') : unfolded;
  const start = reduced.startsWith(' ') ? 1 : 0;
  return reduced.slice(start, reduced.endsWith(' ') ? -1 : undefined);
}

/** Returns the relaxed body (section 3.4.4): no white space at line ends, one space for every run, no empty lines at the end. */
export function relaxedBody(given: Buffer, { isRelaxed }: Pick<Survey, 'isRelaxed'> = survey(given)): Buffer {
  return (isRelaxed ? withOneLineEnd(given) : null) ?? relaxed(given);
}

function relaxed(body: Buffer): Buffer {
  // Octet by octet: a regular expression takes memory for each space, of which a large mail may have millions.
  const made = Buffer.allocUnsafe(body.length + 2);
  let to = 0;
  let isAfterSpace = false;
  for (let at = 0; at < body.length; at++) {
    const octet = body[at] ?? 0;
    if (octet === SPACE || octet === TAB) {
      isAfterSpace = true;
      continue;
    }
    if (isAfterSpace && !(octet === CR && body[at + 1] === LF)) made[to++] = SPACE;
    isAfterSpace = false;
    made[to++] = octet;
  }
  while (to >= 2 && made[to - 2] === CR && made[to - 1] === LF) to -= 2;
  if (to === 0) return Buffer.alloc(0);
  made[to++] = CR;
  made[to++] = LF;
  return made.subarray(0, to);
}

const [SPACE, TAB, CR, LF] = [0x20, 0x09, 0x0d, 0x0a];

/** Returns the body with one line end at its end; null if it has none or nothing else. */
function withOneLineEnd(body: Buffer): Buffer | null {
  let end = body.length;
  while (isLineEnd(body, end) && isLineEnd(body, end - 2)) end -= 2;
  return isLineEnd(body, end) && end > 2 ? body.subarray(0, end) : null;
}

const isLineEnd = (body: Buffer, end: number): boolean => body[end - 2] === CR && body[end - 1] === LF;

/** Returns the simple body (section 3.4.3): nothing changes but the empty lines at the end; a body without any line has one empty line. */
export function simpleBody(body: Buffer): Buffer {
  let end = body.length;
  while (isLineEnd(body, end)) end -= 2;
  return Buffer.concat([body.subarray(0, end), Buffer.from('\r\n')]);
}

/** Returns the `bh=` of a body: SHA-256 of its relaxed form, base64. */
export const relaxedBodyHash = (body: Buffer, found?: Pick<Survey, 'isRelaxed'>): string =>
  hash('sha256', relaxedBody(body, found), 'base64');
