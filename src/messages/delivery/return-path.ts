/**
 * Addresses that name a delivery. The return path (VERP) is `b+` and a token that names the delivery and proves that we
 * wrote it, so that a bounce finds its delivery and nobody can forge one; `unsub+` and such a token unsubscribes by mail.
 * Lower-case base32, compared without regard to case, since servers on the way may fold it; checkable without the database.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Keyring } from '../../base/keyring.ts';

/** A key that signs return paths; its number travels with the token so that keys can be exchanged. */
export interface ReturnPathKey {
  id: number;
  secret: Buffer;
}

/** Goes into the MAC: an address of one kind is none of the other. */
type Purpose = 'return path' | 'unsubscribe';

/**
 * What proves, in mail that comes back, that it is about a delivery: the return path, and a field in the head of the copy that was
 * sent, since complaints bring the head and seldom the return path. Both are from one HMAC, each from octets of its own, so that
 * whoever has the one cannot make the other.
 */
export interface DeliveryMarks {
  /** The local part of the return path. */
  returnPath: string;
  /** The value of `X-Posthorn-Delivery`. */
  copy: string;
}

/** The field that carries `DeliveryMarks.copy`. */
export const COPY_FIELD = 'X-Posthorn-Delivery';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const MAC_BYTES = 10;
const ID_CHARACTERS = 26;
const LENGTH = 43;
/** One key number, 26 characters of the id, 16 of the MAC: 45 octets with `b+`, 49 with `unsub+`, within the 64 of a local part. */
const TOKEN = /^([0-9a-hjkmnp-tv-z])([0-7][0-9a-hjkmnp-tv-z]{25})([0-9a-hjkmnp-tv-z]{16})$/;

/** The keys of an installation, the current one first: older ones still open what they signed. */
export function returnPathKeys({ keyIds, derive }: Pick<Keyring, 'keyIds' | 'derive'>): ReturnPathKey[] {
  return keyIds.map((keyId, at) => ({
    id: (keyIds.length - at) % ALPHABET.length,
    secret: derive('return path', keyId),
  }));
}

/** The local part for a delivery id (`dlv_...`). `key.id` is from 0 to 31. */
export function returnPathFor(key: ReturnPathKey, deliveryId: string): string {
  return `b+${tokenFor(key, 'return path', deliveryId)}`;
}

/** Both marks of a delivery for the price of one HMAC. */
export function marksFor(key: ReturnPathKey, deliveryId: string): DeliveryMarks {
  const id = deliveryId.slice(-ID_CHARACTERS);
  const digest = digestOf(key, 'return path', id);
  const front = `${numberOf(key)}${id}`;
  return { returnPath: `b+${front}${encode(returnPathMac(digest))}`, copy: `${front}${encode(copyMac(digest))}` };
}

/** The delivery id that the value of `X-Posthorn-Delivery` proves, or null if none of `keys` made it. */
export function deliveryOfCopy(keys: readonly ReturnPathKey[], value: string): string | null {
  return readToken(keys, 'return path', copyMac, value.toLowerCase());
}

/** The local part that unsubscribes the recipient of this delivery by mail (`unsub+...`, List-Unsubscribe). */
export function unsubscribeAddressFor(key: ReturnPathKey, deliveryId: string): string {
  return `unsub+${tokenFor(key, 'unsubscribe', deliveryId)}`;
}

/** The delivery id that a return path's local part names, or null if none of `keys` made it. */
export function deliveryOf(keys: readonly ReturnPathKey[], localPart: string): string | null {
  return readAddress(keys, 'b+', 'return path', localPart);
}

/** The delivery id whose recipient unsubscribes by mail to this local part, or null if none of `keys` made it. */
export function unsubscribedDelivery(keys: readonly ReturnPathKey[], localPart: string): string | null {
  return readAddress(keys, 'unsub+', 'unsubscribe', localPart);
}

function tokenFor(key: ReturnPathKey, purpose: Purpose, deliveryId: string): string {
  const id = deliveryId.slice(-ID_CHARACTERS);
  return `${numberOf(key)}${id}${encode(returnPathMac(digestOf(key, purpose, id)))}`;
}

function numberOf({ id }: ReturnPathKey): string {
  const number = ALPHABET[id];
  if (number === undefined) throw new Error(`a return path key has a number from 0 to 31, not ${String(id)}`);
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

/** 80 bits as 16 characters. */
function encode(bytes: Buffer): string {
  let text = '';
  let held = 0;
  let bits = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET.charAt((held >>> bits) & 31);
    }
    held &= (1 << bits) - 1;
  }
  return text;
}
