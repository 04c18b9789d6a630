/**
 * Addresses that identify a delivery. The return path (VERP) is `b+` and a token with the delivery id and a MAC, so that a
 * bounce finds its delivery and cannot be forged; `unsub+` and such a token unsubscribes by mail. Lower-case base32, compared
 * without regard to case, since servers on the way may change it; checked without the database.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Keyring } from '../../base/keyring.ts';

/** A key that signs return paths. Its number is part of the token, so that keys can be rotated. */
export interface ReturnPathKey {
  id: number;
  secret: Buffer;
}

/** Part of the MAC: an address of one kind is not valid as the other. */
type Purpose = 'return path' | 'unsubscribe';

/**
 * The proofs that a returned mail is about a delivery: the return path, and a header field of the copy that was sent, since complaints contain the
 * header and seldom the return path. Both come from one HMAC, each from its own octets, so that one cannot be made from the other.
 */
export interface DeliveryMarks {
  returnPath: string;
  /** The value of `X-Posthorn-Delivery`. */
  copy: string;
}

export const COPY_FIELD = 'X-Posthorn-Delivery';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const MAC_BYTES = 10;
const ID_CHARACTERS = 26;
const LENGTH = 43;
/** One key number, 26 characters of the id, 16 of the MAC: 45 octets with `b+`, 49 with `unsub+`; a local part has at most 64. */
const TOKEN = /^([0-9a-hjkmnp-tv-z])([0-7][0-9a-hjkmnp-tv-z]{25})([0-9a-hjkmnp-tv-z]{16})$/;

/** Returns the keys of the installation, the current one first; older ones still verify. */
export function returnPathKeys({ keyIds, derive }: Pick<Keyring, 'keyIds' | 'derive'>): ReturnPathKey[] {
  return keyIds.map((keyId, at) => ({
    id: (keyIds.length - at) % ALPHABET.length,
    secret: derive('return path', keyId),
  }));
}

/** Returns the local part of the return path for a delivery id (`dlv_...`). `key.id` is from 0 to 31. */
export function returnPathFor(key: ReturnPathKey, deliveryId: string): string {
  return `b+${tokenFor(key, 'return path', deliveryId)}`;
}

export function marksFor(key: ReturnPathKey, deliveryId: string): DeliveryMarks {
  const id = deliveryId.slice(-ID_CHARACTERS);
  const digest = digestOf(key, 'return path', id);
  const front = `${numberOf(key)}${id}`;
  return { returnPath: `b+${front}${encode(returnPathMac(digest))}`, copy: `${front}${encode(copyMac(digest))}` };
}

/** Returns the delivery id of an `X-Posthorn-Delivery` value, or null if none of `keys` made it. */
export function deliveryOfCopy(keys: readonly ReturnPathKey[], value: string): string | null {
  return readToken(keys, 'return path', copyMac, value.toLowerCase());
}

/** Returns the local part that unsubscribes the recipient of this delivery by mail (`unsub+...`, List-Unsubscribe). */
export function unsubscribeAddressFor(key: ReturnPathKey, deliveryId: string): string {
  return `unsub+${tokenFor(key, 'unsubscribe', deliveryId)}`;
}

/** Returns the delivery id of a return path's local part, or null if none of `keys` made it. */
export function deliveryOf(keys: readonly ReturnPathKey[], localPart: string): string | null {
  return readAddress(keys, 'b+', 'return path', localPart);
}

/** Returns the delivery id of an unsubscribe address's local part, or null if none of `keys` made it. */
export function unsubscribedDelivery(keys: readonly ReturnPathKey[], localPart: string): string | null {
  return readAddress(keys, 'unsub+', 'unsubscribe', localPart);
}

function tokenFor(key: ReturnPathKey, purpose: Purpose, deliveryId: string): string {
  const id = deliveryId.slice(-ID_CHARACTERS);
  return `${numberOf(key)}${id}${encode(returnPathMac(digestOf(key, purpose, id)))}`;
}

function numberOf({ id }: ReturnPathKey): string {
  const number = ALPHABET[id];
  if (number === undefined) throw new Error(`the number of a return path key is from 0 to 31, not ${String(id)}`);
  return number;
}

function readAddress(
  keys: readonly ReturnPathKey[],
  prefix: string,
  purpose: Purpose,
  localPart: string,
): string | null {
  if (localPart.length !== prefix.length + LENGTH) return null;
  const folded = localPart.toLowerCase();
  if (!folded.startsWith(prefix)) return null;
  return readToken(keys, purpose, returnPathMac, folded.slice(prefix.length));
}

function readToken(
  keys: readonly ReturnPathKey[],
  purpose: Purpose,
  macOf: (digest: Buffer) => Buffer,
  token: string,
): string | null {
  const [, number, id, written] = TOKEN.exec(token) ?? [];
  if (number === undefined || id === undefined || written === undefined) return null;
  const key = keys.find((one) => one.id === ALPHABET.indexOf(number));
  if (key === undefined) return null;
  const good = Buffer.from(encode(macOf(digestOf(key, purpose, id))));
  return timingSafeEqual(good, Buffer.from(written)) ? `dlv_${id}` : null;
}

const digestOf = ({ secret }: ReturnPathKey, purpose: Purpose, id: string): Buffer =>
  createHmac('sha256', secret).update(`${purpose} `).update(id).digest();

const returnPathMac = (digest: Buffer): Buffer => digest.subarray(0, MAC_BYTES);
const copyMac = (digest: Buffer): Buffer => digest.subarray(MAC_BYTES, 2 * MAC_BYTES);

/** Writes 80 bits as 16 characters. */
function encode(bytes: Buffer): string {
  let text = '';
  let buffer = 0;
  let bits = 0;
  for (const byte of bytes) {
    buffer = (buffer << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET.charAt((buffer >>> bits) & 31);
    }
    buffer &= (1 << bits) - 1;
  }
  return text;
}
