/**
 * Sortable ids with a prefix (TypeID): `msg_` + a UUIDv7 (RFC 9562 section 5.7) as 26 characters of lower-case Crockford base32. They sort by time,
 * which keeps b-tree inserts at the right edge of the index.
 */
import { randomFillSync } from 'node:crypto';
import { words } from './words.ts';

export const idPrefixes = words(
  'acc msg bat tpl sup whk evt dom key req dlv str att cnt dkm aud whd whr rep rcv hld mem ses sgn',
);
export type IdPrefix = (typeof idPrefixes)[number];

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
/** The two characters for each ten bits: a message takes a dozen ids, and one by one they would cost twice as much. */
const PAIRS = Array.from({ length: 1024 }, (_, bits) => `${ALPHABET.charAt(bits >>> 5)}${ALPHABET.charAt(bits & 31)}`);
/** Random bytes are drawn in blocks: a system call for each id would cost more than the id. */
const pool = Buffer.alloc(4096);
let poolAt = pool.length;
const bytes = Buffer.alloc(16);
let lastMs = 0;
/** 12 bits that count up inside one millisecond, so that ids made by one process ascend strictly. */
let counter = 0;

/** The limit in ms by which ids may run ahead of the clock. If it is set back further, ids follow it: lists narrowed to a time read a range of ids. */
export const MOST_AHEAD_MS = 1000;

/** Makes a new id. Ids of one process ascend strictly while the clock does not step back further than MOST_AHEAD_MS. */
export function newId(prefix: IdPrefix, now: number): string {
  if (poolAt + 10 > pool.length) {
    randomFillSync(pool);
    poolAt = 0;
  }
  if (now > lastMs || now < lastMs - MOST_AHEAD_MS) {
    lastMs = now;
    counter = pool.readUInt16BE(poolAt) & 0x07ff;
  } else if (++counter > 0x0fff) {
    lastMs += 1;
    counter = 0;
  }
  bytes.writeUIntBE(lastMs, 0, 6);
  bytes.writeUInt16BE(0x7000 | counter, 6);
  pool.copy(bytes, 8, poolAt + 2, poolAt + 10);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  poolAt += 10;
  return `${prefix}_${encode(bytes)}`;
}

/** Writes 128 bits as 26 characters of 5 bits: two zero bits are put in front, so the first character is at most `7`. */
function encode(id: Buffer): string {
  let text = '';
  let held = 0;
  let bits = 2;
  for (const byte of id) {
    held = (held << 8) | byte;
    bits += 8;
    if (bits < 10) continue;
    bits -= 10;
    text += PAIRS[held >>> bits] ?? '';
    held &= (1 << bits) - 1;
  }
  return text;
}

const pattern = /^([a-z]{3})_([0-7][0-9a-hjkmnp-tv-z]{25})$/;

/** Returns whether `text` is an id with this prefix, which does not mean that it exists. */
export const isId = (prefix: IdPrefix, text: string): boolean => pattern.exec(text)?.[1] === prefix;

/** Returns the time an id was made, in milliseconds since the epoch, at most MOST_AHEAD_MS late; null for other text. */
export function idTime(id: string): number | null {
  const text = pattern.exec(id)?.[2];
  if (text === undefined) return null;
  let time = 0;
  for (let at = 0; at < 10; at++) time = time * 32 + ALPHABET.indexOf(text.charAt(at));
  return time;
}

/** Returns the smallest id that can have been made at `ms`: turns a time into a bound of an id range. */
export function idFloor(prefix: IdPrefix, ms: number): string {
  const floor = Buffer.alloc(16);
  floor.writeUIntBE(Math.max(0, Math.min(ms, 2 ** 48 - 1)), 0, 6);
  return `${prefix}_${encode(floor)}`;
}
