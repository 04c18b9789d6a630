/**
 * Verifies webhook calls by Standard Webhooks 1.0: an HMAC-SHA256 over id, time and raw body, base64, one of several in `webhook-signature` while a
 * secret is rotated. WebCrypto, which all runtimes have, compares in constant time.
 */
import { WebhookError } from './errors.ts';
import type { MailEvent } from './event.ts';
import { surroundings } from './surroundings.ts';

/** The headers of a Request or of Node.js. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface VerifyOptions {
  /** How far the call's time may differ from ours, in milliseconds; 5 minutes by default. */
  toleranceMs?: number | undefined;
  /** Milliseconds since the epoch; by default the clock's time. */
  now?: number | undefined;
}

const TOLERANCE_MS = 300_000;
/** Signatures that are checked: more than a rotation needs, and a limit for hostile calls. */
const MOST_SIGNATURES = 10;

/**
 * Returns the event of a verified call. `rawBody` must be the body as it arrived, before any parsing; `secret` is that of the
 * endpoint, or several. Throws WebhookError. The same event may come more than once, with the same `id`.
 */
export async function verifyWebhook(
  rawBody: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  { toleranceMs = TOLERANCE_MS, now = surroundings.now() }: VerifyOptions = {},
): Promise<MailEvent> {
  const [id, timestamp, signature] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    needed(headers, name),
  ) as [string, string, string];
  checkTime(timestamp, now, toleranceMs);
  const body = typeof rawBody === 'string' ? new TextEncoder().encode(rawBody) : rawBody;
  const signed = joined(new TextEncoder().encode(`${id}.${timestamp}.`), body);
  const secrets = typeof secret === 'string' ? [secret] : secret;
  if (!(await isSigned(signed, signature, secrets.map(bytesOfSecret))))
    throw new WebhookError('bad_signature', 'No signature of the call was made with this secret');
  return eventOf(body);
}

function needed(headers: WebhookHeaders, name: string): string {
  const value = headers instanceof Headers ? headers.get(name) : fromRecord(headers, name);
  if (value === null || value === '') throw new WebhookError('missing_header', `The call has no header ${name}`);
  return value;
}

/** Finds a header, whatever its case. */
function fromRecord(headers: Exclude<WebhookHeaders, Headers>, name: string): string | null {
  const found = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  return typeof found === 'string' ? found : (found?.[0] ?? null);
}

/** Refuses old calls, which could be genuine ones sent again by an attacker. */
function checkTime(timestamp: string, now: number, toleranceMs: number): void {
  if (!/^\d{1,12}$/.test(timestamp)) throw new WebhookError('bad_timestamp', 'webhook-timestamp is not a Unix time');
  const age = now - Number(timestamp) * 1000;
  if (age > toleranceMs) throw new WebhookError('too_old', `The call was signed ${Math.round(age / 1000)} s ago`);
  if (-age > toleranceMs)
    throw new WebhookError('too_new', `The call is from ${Math.round(-age / 1000)} s ahead: is the clock right?`);
}

/** Reads a secret. An unreadable one is a mistake of the caller, not of the call. */
function bytesOfSecret(secret: string): Uint8Array<ArrayBuffer> {
  const bytes = fromBase64(secret.replace(/^whsec_/, ''));
  if (bytes === null || bytes.length === 0) throw new TypeError('A webhook secret must be `whsec_` and base64');
  return bytes;
}

async function isSigned(
  signed: Uint8Array<ArrayBuffer>,
  header: string,
  secrets: readonly Uint8Array<ArrayBuffer>[],
): Promise<boolean> {
  const offered = header
    .split(' ')
    .filter((one) => one.startsWith('v1,'))
    .slice(0, MOST_SIGNATURES);
  const algorithm = { name: 'HMAC', hash: 'SHA-256' };
  for (const secret of secrets) {
    const key = await crypto.subtle.importKey('raw', secret, algorithm, false, ['verify']);
    for (const one of offered) {
      const bytes = fromBase64(one.slice(3));
      if (bytes !== null && (await crypto.subtle.verify('HMAC', key, bytes, signed))) return true;
    }
  }
  return false;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

function joined(head: Uint8Array, tail: Uint8Array): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(head.length + tail.length);
  all.set(head);
  all.set(tail, head.length);
  return all;
}

/** Reads the event. The signature proves that the service wrote it; only its form is checked. */
function eventOf(body: Uint8Array): MailEvent {
  try {
    const event = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)) as Partial<MailEvent> | null;
    if (typeof event?.type === 'string' && typeof event.data === 'object') return event as MailEvent;
  } catch {
    // Reported below, like a JSON body that is not an event.
  }
  throw new WebhookError('unreadable_body', 'The body is not an event');
}
