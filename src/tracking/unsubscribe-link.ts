/**
 * The token of a hosted unsubscribe link. It names the address and the stream itself, so that it works for as long as the
 * mail is in a mailbox, and is encrypted, since it goes through the logs of others and names an address. AES-256-GCM with
 * a nonce made of the text (as in RFC 8452, of an HMAC here): the same delivery has the same link at each try.
 */
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto';
import { keysTagged, type TrackingKey } from './token.ts';

export interface Unsubscription {
  deliveryId: string;
  accountId: string;
  /** Slug of the stream that the mail belongs to. */
  stream: string;
  /** The sending domain, for the page. */
  fromDomain: string;
  email: string;
}

const TAG_BYTES = 3;
const NONCE_BYTES = 12;
const SEAL_BYTES = 16;
const LONGEST_TOKEN = 1600;

export function unsubscribeToken(key: TrackingKey, request: Unsubscription): string {
  const plain = JSON.stringify([
    request.deliveryId,
    request.accountId,
    request.stream,
    request.fromDomain,
    request.email,
  ]);
  const nonce = createHmac('sha256', key.sign).update(`nonce ${plain}`).digest().subarray(0, NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key.seal, nonce);
  const sealed = [cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()];
  return Buffer.concat([key.tag, nonce, ...sealed]).toString('base64url');
}

/** Reads a token; null if none of `keys` made it. */
export function readUnsubscribeToken(keys: readonly TrackingKey[], token: string): Unsubscription | null {
  const bytes = token.length > LONGEST_TOKEN ? Buffer.alloc(0) : Buffer.from(token, 'base64url');
  if (bytes.length <= TAG_BYTES + NONCE_BYTES + SEAL_BYTES || bytes.toString('base64url') !== token) return null;
  for (const key of keysTagged(keys, bytes.subarray(0, TAG_BYTES))) {
    const plain = opened(key, bytes.subarray(TAG_BYTES));
    if (plain === null) continue;
    const [deliveryId = '', accountId = '', stream = '', fromDomain = '', email = ''] = JSON.parse(plain) as string[];
    return { deliveryId, accountId, stream, fromDomain, email };
  }
  return null;
}

function opened(key: TrackingKey, bytes: Buffer): string | null {
  const decipher = createDecipheriv('aes-256-gcm', key.seal, bytes.subarray(0, NONCE_BYTES), {
    authTagLength: SEAL_BYTES,
  });
  decipher.setAuthTag(bytes.subarray(-SEAL_BYTES));
  try {
    const plain = decipher.update(bytes.subarray(NONCE_BYTES, -SEAL_BYTES));
    return Buffer.concat([plain, decipher.final()]).toString('utf8');
  } catch {
    return null;
  }
}
