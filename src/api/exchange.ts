/** The state of one request; each middleware fills in its part. */
import type { IncomingMessage } from 'node:http';
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import type { Caller } from '../keys/caller.ts';
import type { Answer } from './answer.ts';
import type { JsonBody } from './json-reader.ts';
import type { IdempotencyUse } from './idempotency.ts';
import type { Route } from './route.ts';
import type { Rate } from '../scheduling/rate-windows.ts';

/** The key of the Authorization header. */
export type KeyUse =
  | { kind: 'none' }
  | { kind: 'unknown' }
  | { kind: 'known'; caller: Caller; standing: 'good' | 'expired' | 'revoked'; isAddressAllowed: boolean };

export interface Exchange {
  readonly requestId: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** The same moment on the clock for durations. */
  readonly started: number;
  readonly method: string;
  readonly path: string;
  /** The query string after the `?`, undecoded. */
  readonly search: string;
  readonly ip: string;
  readonly isSecure: boolean;
  /** The value of a header by its lower-case name. */
  readonly header: (name: string) => string | undefined;

  route: Route | null;
  /** The pattern of the path if its route has another method; null if there is none, or `route` is known. */
  pattern: string | null;
  params: Readonly<Record<string, string>>;
  key: KeyUse;
  rate: Rate;
  body: JsonBody | null;
  /** The body of a form, undecoded. */
  form: string;
  bodyBytes: number;
  idempotency: IdempotencyUse | null;
  replay: 'same' | 'mismatch' | null;
  /** The status a handler took an audit line for and wrote with its work, or null. */
  auditedStatus: number | null;
  answer: Answer | null;
}

export function openExchange(
  clock: Clock,
  request: IncomingMessage,
  { ip, rate, isSecure }: Pick<Exchange, 'ip' | 'rate' | 'isSecure'>,
): Exchange {
  const at = clock.now();
  const url = request.url ?? '/';
  const question = url.indexOf('?');
  return {
    requestId: newId('req', at),
    at,
    started: clock.monotonic(),
    method: request.method ?? 'GET',
    path: question < 0 ? url : url.slice(0, question),
    search: question < 0 ? '' : url.slice(question + 1),
    ip,
    isSecure,
    header: (name) => {
      const value = request.headers[name];
      return typeof value === 'string' ? value : undefined;
    },
    route: null,
    pattern: null,
    params: {},
    key: { kind: 'none' },
    rate,
    body: null,
    form: '',
    bodyBytes: 0,
    idempotency: null,
    replay: null,
    auditedStatus: null,
    answer: null,
  };
}

/** Returns the account whose valid key came with the request, or null. */
export function ownerOf({ key }: Pick<Exchange, 'key'>): string | null {
  return key.kind === 'known' && key.standing === 'good' && key.isAddressAllowed ? key.caller.accountId : null;
}
