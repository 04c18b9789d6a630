/** The state of one request, which each layer of the HTTP server fills in, and what the layers share. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type Koa from 'koa';
import type { UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import { newId } from '../base/id.ts';
import type { Log } from '../base/log.ts';
import type { AuditLog } from '../accounts/audit-log.ts';
import type { Authenticate, Caller } from '../keys/caller.ts';
import type { Notifier } from '../scheduling/notifier.ts';
import type { Rate, RateWindows } from '../scheduling/rate-windows.ts';
import type { Answer } from './answer.ts';
import type { KeptBodies, StrangerLines } from './audit.ts';
import type { Intake } from '../messages/accept/intake.ts';
import type { BodyMemory, BodyLimits } from './body.ts';
import type { IdempotencySettings, IdempotencyUse, InFlight } from './idempotency.ts';
import type { Inside } from './inside.ts';
import type { JsonBody, JsonReader } from './json-reader.ts';
import type { Newcomers } from './newcomers.ts';
import type { Route } from './route.ts';

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

/** Returns the caller with a valid key, or null; an invalid key gives none, even if no key is needed. */
export function callerOf({ key }: Pick<Exchange, 'key'>): Caller | null {
  return key.kind === 'known' && key.standing === 'good' && key.isAddressAllowed ? key.caller : null;
}

/** Returns the account whose valid key came with the request, or null. */
export const ownerOf = (exchange: Pick<Exchange, 'key'>): string | null => callerOf(exchange)?.accountId ?? null;

export type ApiLog = Pick<Log, 'error' | 'warn' | 'debug'>;

export interface ApiSettings {
  /** Address under which clients reach the API, without a trailing slash: `servers` of the OpenAPI document. */
  publicUrl: string;
  /** Version of the product, for the OpenAPI document. */
  version: string;
  /** Addresses and CIDR ranges of proxies whose `X-Forwarded-For` is trusted. */
  trustedProxies: readonly string[];
  /** PEM certificate and key: the API speaks HTTPS. */
  tls?: { cert: string; key: string };
  /** Requests a minute for one IPv4 address or IPv6 /64 without a valid key. Default 60. */
  anonymousPerMinute?: number;
  body?: Partial<BodyLimits>;
  /** Most milliseconds for a request's head. Default 30 s. */
  headMs?: number;
  /** Most milliseconds for a whole request, its body included. Default 300 s. */
  requestMs?: number;
  /** How long an idle connection is kept. Default 72 s: longer than the usual 60 s of proxies, so that they close first. */
  keepAliveMs?: number;
  /** How long a client may take nothing of its answer. Default 60 s. */
  unreadMs?: number;
  /** How long running requests may take to end when the service stops. Default 10 s. */
  drainMs?: number;
}
export interface Readiness {
  /** `degraded`: another program has a port for mail. `starting`: those are not open yet. `draining`: an operator takes the node out. */
  status: 'ok' | 'degraded' | 'starting' | 'draining' | 'unavailable';
  checks: Record<string, boolean>;
  /** The listeners whose port cannot be had. */
  degraded?: string[];
}

export interface ApiDeps {
  clock: Clock;
  log: ApiLog;
  authenticate: Authenticate;
  /** Is called for every use of a valid key from an allowed address. */
  noteUse(keyId: string, ip: string, endpoint: string): void;
  /** Notifies that a key was revoked or changed, so that its open answers end; `authenticate` must know of it by then. */
  keyChanges: Notifier;
  /** Counts the requests of accounts; shared with submission by SMTP. */
  accountWindows?: RateWindows;
  /** The memory for bodies; shared with the dashboard. */
  bodyMemory?: BodyMemory;
  /** The turns of mails; shared with submission by SMTP. */
  intake?: Intake;
  /** Is called when a budget for strangers is used up. */
  usedUp?: UsedUp;
  /** Budgets for connections without a key or a session; shared with the dashboard's port. */
  newcomers?: Newcomers;
  /** Returns the requests a minute that a plan allows. */
  planLimit(plan: string): number;
  /** For writes and refusals, before the answer; for reads, within 100 ms; for details of a row that was written elsewhere. */
  audit: Pick<AuditLog, 'write' | 'later' | 'note'>;
  /** The bodies that the request log keeps; none if it is absent. */
  keepBodies?: KeptBodies;
  /** The budget for lines about unknown keys; shared with the operator, who is shown how many were not kept. */
  strangerLines?: StrangerLines;
  /** Addresses that have sent X-Forwarded-For without being trusted; shared with the operator. */
  unknownProxies?: Set<string>;
  idempotency: IdempotencySettings;
  /** Is called for every request that was answered. */
  answered?(request: { operation: string | null; status: number; ms: number }): void;
  /** Answers requests that are not for the API, such as the operator's metrics; returns whether it did. */
  beside?(request: IncomingMessage, response: ServerResponse): boolean;
  /** Calls operations for the tools of the Model Context Protocol, which is not served without it. */
  inside?: Inside;
  /** Returns whether the service can work, with the single checks by name. */
  ready(): Promise<Readiness>;
  settings: ApiSettings;
}

/** State of a stop of the service, and the listeners that are called when it begins. */
export interface Stop {
  begun: boolean;
  readonly listeners: Set<() => void>;
}

/** The dependencies of the server with the parts that it makes itself: each layer gets all of them. */
export interface Shell extends ApiDeps {
  accountWindows: RateWindows;
  /** Counts the requests of addresses without a valid key. */
  addressWindows: RateWindows;
  /** Requests a minute for an address without a valid key. */
  anonymous: number;
  bodyMemory: BodyMemory;
  intake: Intake;
  newcomers: Newcomers;
  strangerLines: StrangerLines;
  limits: BodyLimits;
  stop: Stop;
  reader: JsonReader;
  inFlight: InFlight;
}

export interface ShellState {
  exchange: Exchange;
}

export type Middleware = Koa.Middleware<ShellState>;
export type Context = Koa.ParameterizedContext<ShellState>;

/**
 * Returns `whenOver` of a call: listeners are called once when it is over, or at once if `isOver` says so. One `watch` serves them all, since
 * a streamed answer alone has nearly as many `close` listeners as Node takes for a leak; it returns the function that ends the watch.
 */
export function overWatch(
  isOver: () => boolean,
  watch: (end: () => void) => () => void,
): (listener: () => void) => void {
  const listeners: (() => void)[] = [];
  let hasEnded = false;
  let unwatch = (): void => undefined;
  const end = (): void => {
    if (hasEnded) return;
    hasEnded = true;
    unwatch();
    for (const listener of listeners) listener();
  };
  return (listener) => {
    if (hasEnded || isOver()) listener();
    else if (listeners.push(listener) === 1) unwatch = watch(end);
  };
}
