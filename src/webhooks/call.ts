/** Makes one call of an endpoint: signs and posts it. Every answer of the endpoint is a value; only our own faults are thrown. */
import type { Clock } from '../base/clock.ts';
import { LONGEST_URL } from '../net/safe-url.ts';
import type { Fetched, SafeFetch } from '../net/safe-fetch.ts';
import { validSecrets, type Endpoint } from './endpoint.ts';
import { retryAfterMs } from './retry.ts';
import { sign, type SignatureHeaders } from './signature.ts';
import type { WebhookDeliveryRow } from '../storage/tables.ts';

export interface CallRequest {
  eventId: string;
  body: string;
  /** 1 for the first. */
  attempt: number;
}

export interface CallResult {
  /** `gone`: the endpoint answered 410 and wants no more calls. `closed`: we stopped, so the end is unknown. */
  kind: 'delivered' | 'failed' | 'gone' | 'closed';
  /** When the call began, milliseconds since the epoch. */
  at: number;
  ms: number;
  statusCode: number | null;
  /** Why it failed, for people; null if it was delivered. */
  error: string | null;
  /** The first 4 KiB of the answer, or null if there was none. */
  answer: string | null;
  signature: SignatureHeaders;
  /** The wait that the endpoint asks for. */
  retryAfterMs: number | null;
}

const KEPT_ANSWER_BYTES = 4096;
const USER_AGENT = 'posthorn-webhooks/1';

export async function callEndpoint(
  { fetch, clock }: { fetch: SafeFetch; clock: Clock },
  endpoint: Endpoint,
  { eventId, body, attempt }: CallRequest,
): Promise<CallResult> {
  const at = clock.now();
  const began = clock.monotonic();
  const signature = sign(validSecrets(endpoint.secrets, at), { id: eventId, timestamp: Math.floor(at / 1000), body });
  const fetched = await fetch.send({
    method: 'POST',
    url: endpoint.url,
    headers: { ...Object.fromEntries(endpoint.headers), ...callHeaders(signature, attempt, body) },
    body,
  });
  const common = { at, ms: Math.round(clock.monotonic() - began), signature };
  if (fetched.kind === 'answered') return Object.assign(common, judged(fetched, clock.now()));
  // This says nothing about the endpoint, so it uses none of its attempts.
  if (fetched.why === 'own') throw new Error(fetched.text);
  return {
    ...common,
    kind: fetched.why === 'closed' ? 'closed' : 'failed',
    statusCode: null,
    error: fetched.text,
    answer: null,
    retryAfterMs: null,
  };
}

export function callHeaders(signature: SignatureHeaders, attempt: number, body: string): Record<string, string> {
  return {
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(body)),
    'User-Agent': USER_AGENT,
    'webhook-attempt': String(attempt),
    ...signature,
  };
}

type Judged = Pick<CallResult, 'kind' | 'statusCode' | 'error' | 'answer' | 'retryAfterMs'>;

/** Judges the answer: only 2xx is a success; a redirect is a failure and not followed. */
function judged({ status, headers, body }: Extract<Fetched, { kind: 'answered' }>, now: number): Judged {
  const isDelivered = status >= 200 && status <= 299;
  const target = status >= 300 && status <= 399 ? headers.location : undefined;
  const redirect = target === undefined ? '' : `: it redirects to ${target.slice(0, LONGEST_URL)}`;
  return {
    kind: isDelivered ? 'delivered' : status === 410 ? 'gone' : 'failed',
    statusCode: status,
    error: isDelivered ? null : `the endpoint answered ${String(status)}${redirect}`,
    answer: body.length === 0 ? null : printable(body),
    retryAfterMs: status === 429 || status === 503 ? retryAfterMs(headers['retry-after'], now) : null,
  };
}

/** Returns the answer as text. Bytes that are not UTF-8, a character cut in two and NUL (which SQLite's own tools end a text at) become U+FFFD. */
const printable = (body: Buffer): string =>
  body.subarray(0, KEPT_ANSWER_BYTES).toString('utf8').replaceAll('\u0000', '\ufffd');

/** Writes the command. A received mail has no text in it, which the signature covers, so it comes without one. Values of custom headers are secrets of the customer, and are shown as `<hidden>`. */
export function curlOf(
  line: WebhookDeliveryRow,
  call: { url: string; headerNames: readonly string[]; body: string },
): string {
  const isWithoutText = line.event_type === 'received' && line.sample === null;
  const own = callHeaders(
    {
      'webhook-id': line.event_id,
      'webhook-timestamp': String(Math.floor(line.at / 1000)),
      'webhook-signature': line.signature,
    },
    line.attempt,
    call.body,
  );
  const headers = [
    ...call.headerNames.map((name) => `${name}: <hidden>`),
    ...Object.entries(own)
      .filter(([name]) => name !== 'Content-Length' && !(isWithoutText && name === 'webhook-signature'))
      .map((pair) => pair.join(': ')),
  ];
  return [
    `curl ${quoted(call.url)}`,
    ...headers.map((header) => `-H ${quoted(header)}`),
    `--data-raw ${quoted(call.body)}`,
  ].join(' \\\n  ');
}

const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`;
