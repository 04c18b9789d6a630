/**
 * The format of an API key: `ak_live_<8 public id>_<43 secret><6 checksum>`, all in base62. Scanners can find the prefix, the public id may appear in
 * lists and logs, 43 characters hold 256 random bits, and the checksum (CRC-32 of everything before it) detects a typing error without the database.
 */
import { crc32 } from 'node:zlib';

export type KeyMode = 'live' | 'test';

export type ParsedKey = { kind: 'ok'; mode: KeyMode; publicId: string } | { kind: 'bad' };

export interface MadeKey {
  /** The whole key: shown once and never stored. */
  key: string;
  publicId: string;
}

/** Random bytes of a key: 6 for the public id, 32 for the secret. */
export const KEY_RANDOM_BYTES = 38;

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PUBLIC_BYTES = 6;
const PUBLIC_LENGTH = 8;
const SECRET_LENGTH = 43;
const CHECKSUM_LENGTH = 6;
const form = /^ak_(live|test)_([0-9A-Za-z]{8})_[0-9A-Za-z]{49}$/;

/** Makes a key from exactly KEY_RANDOM_BYTES random bytes. */
export function makeKey(mode: KeyMode, random: Buffer): MadeKey {
  if (random.length !== KEY_RANDOM_BYTES) throw new Error(`a key needs ${String(KEY_RANDOM_BYTES)} random bytes`);
  const publicId = base62(random.subarray(0, PUBLIC_BYTES), PUBLIC_LENGTH);
  const unchecked = `${keyPrefix(mode, publicId)}_${base62(random.subarray(PUBLIC_BYTES), SECRET_LENGTH)}`;
  return { key: unchecked + checksum(unchecked), publicId };
}

/** Reads a key. `bad`: it is not a key, or a character is wrong. */
export function parseKey(text: string): ParsedKey {
  const [, mode, publicId] = form.exec(text) ?? [];
  if (mode === undefined || publicId === undefined) return { kind: 'bad' };
  if (checksum(text.slice(0, -CHECKSUM_LENGTH)) !== text.slice(-CHECKSUM_LENGTH)) return { kind: 'bad' };
  return { kind: 'ok', mode: mode === 'live' ? 'live' : 'test', publicId };
}

/** Returns the part that may be shown, as in the key record. */
export const keyPrefix = (mode: KeyMode, publicId: string): string => `ak_${mode}_${publicId}`;

function checksum(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    digits = DIGITS.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

/** Returns the lowest `length` base62 digits of the bytes as a number. */
function base62(bytes: Buffer, length: number): string {
  let rest = BigInt(`0x${bytes.toString('hex')}`);
  let digits = '';
  for (let i = 0; i < length; i++) {
    digits = DIGITS.charAt(Number(rest % 62n)) + digits;
    rest /= 62n;
  }
  return digits;
}
