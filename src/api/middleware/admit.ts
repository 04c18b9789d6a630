/**
 * Refusals that need no body, in their fixed order: unreadable 400/417, stopping 503, path 404, method 405, key 401
 * (429 only for a request without any key whose address has used up its rate), address 403, rate 429, ended endpoint 410,
 * type 406.
 */
import type { IncomingMessage } from 'node:http';
import { Problem } from '../../base/problem.ts';
import { serviceAt } from '../compat/services.ts';
import type { Exchange } from '../exchange.ts';
import { forbids } from '../negotiate.ts';
import type { Route } from '../route.ts';
import type { Middleware, Stop } from '../request-state.ts';
import { secondsLeft } from '../../scheduling/rate-windows.ts';

/** `known` returns what is known of a path: its methods, none if it does not exist, and its pattern. */
export function admit(deps: { stop: Stop; known(path: string): KnownPath }): Middleware {
  return async (ctx, next) => {
    const { exchange } = ctx.state;
    const { methods, pattern } = exchange.route === null ? deps.known(exchange.path) : noPath;
    exchange.pattern = pattern;
    refuseUnreadable(exchange, ctx.req);
    if (deps.stop.begun) throw new Problem('service_unavailable', 'The service is stopping.');
    if (exchange.method === 'OPTIONS') {
      exchange.answer = {
        status: 204,
        code: null,
        headers: { Allow: allow(methods, exchange) },
        body: '',
      };
      return;
    }
    const route = exchange.route ?? refusePath(methods, exchange);
    if (route.scope !== null) refuseKey(exchange);
    refuseRate(exchange);
    refuseEnded(route, exchange.at);
    refuseType(route, exchange.header('accept'));
    await next();
  };
}

export interface KnownPath {
  methods: readonly string[];
  pattern: string | null;
}

const noPath: KnownPath = { methods: [], pattern: null };

function refuseUnreadable(exchange: Exchange, request: IncomingMessage): void {
  if (!isDecodable(exchange.path)) throw new Problem('invalid_request', 'The path is not percent-encoded UTF-8.');
  // RFC 9112 section 3.2: exactly one Host in HTTP/1.1.
  const hosts = request.rawHeaders.filter(
    (name, index) => index % 2 === 0 && name.length === 4 && name.toLowerCase() === 'host',
  ).length;
  if (hosts > 1 || (hosts === 0 && request.httpVersion !== '1.0')) {
    throw new Problem('invalid_request', 'The request must have one Host header.', { field: 'Host' });
  }
  const expected = request.headers.expect;
  if (expected !== undefined && expected.toLowerCase() !== '100-continue') {
    throw new Problem('expectation_failed', 'The only expectation known here is 100-continue.', { field: 'Expect' });
  }
}

function isDecodable(path: string): boolean {
  if (!path.includes('%')) return true;
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}

const notFound = ({ path }: Exchange): Problem =>
  new Problem(
    'not_found',
    serviceAt(path) === null
      ? 'There is no such path. Those of the API begin with /v1/.'
      : 'This request has no counterpart here: docs/migrating.md names those that have.',
  );

function allow(methods: readonly string[], exchange: Exchange): string {
  // `OPTIONS *` asks about the server as a whole (RFC 9110 section 9.3.7).
  if (exchange.path === '*') return 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS';
  if (methods.length === 0) throw notFound(exchange);
  return [...methods, 'OPTIONS'].join(', ');
}

function refusePath(methods: readonly string[], exchange: Exchange): never {
  if (methods.length === 0) throw notFound(exchange);
  throw new Problem('method_not_allowed', `This path has no method ${exchange.method}.`, {
    headers: { Allow: allow(methods, exchange) },
  });
}

function refuseKey(exchange: Exchange): void {
  const { key } = exchange;
  if (key.kind === 'known' && key.standing === 'good') {
    if (key.isAddressAllowed) return;
    throw new Problem('ip_not_allowed', `This key may not be used from ${exchange.ip}.`);
  }
  if (key.kind === 'none') {
    refuseRate(exchange);
    throw new Problem('missing_api_key', 'Send `Authorization: Bearer <API_KEY>`.');
  }
  // Always 401, however many such requests the address has made: a client that gets 429 tries the same key for ever, and
  // 429 would protect nothing, since it costs the same look-up and 256 random bits cannot be guessed.
  if (key.kind === 'unknown')
    throw new Problem('invalid_api_key', 'There is no such API key. Check that the whole key was copied.');
  if (key.standing === 'expired')
    throw new Problem('key_expired', 'The lifetime of this API key has ended. Create a new key.');
  throw new Problem('key_revoked', 'This API key was revoked. Create a new key.');
}

function refuseRate({ rate, at }: Exchange): void {
  if (!rate.over) return;
  const seconds = secondsLeft(rate, at);
  throw new Problem('rate_limited', `More than ${rate.limit} requests in a minute. Wait ${seconds} s.`, {
    retryAfter: seconds,
  });
}

function refuseEnded({ deprecated }: Route, now: number): void {
  if (deprecated === undefined || now < Date.parse(deprecated.sunset)) return;
  throw new Problem('version_gone', `This endpoint has ended: use ${deprecated.successor}.`);
}

function refuseType(route: Route, accept: string | undefined): void {
  if (accept === undefined) return;
  const others = Object.values(route.responses).flatMap((response) => response.types ?? []);
  if (forbids(accept, ['application/json', ...others])) {
    throw new Problem('not_acceptable', 'The Accept header forbids every type this endpoint has.', { field: 'Accept' });
  }
}
