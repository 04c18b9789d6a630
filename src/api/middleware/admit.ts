/** Refuses what needs no body, in order: 400/417, stopping 503, 404, 405, 401 (429 without any key beyond the rate), 403, 429, ended 410, 406. */
import type { IncomingMessage } from 'node:http';
import { Problem } from '../../base/problem.ts';
import { serviceAt } from '../compat/services.ts';
import { callerOf, ownerOf, type Exchange, type KeyUse, type Middleware, type Shell } from '../exchange.ts';
import { forbids } from '../negotiate.ts';
import type { Route } from '../route.ts';
import { secondsLeft, type Rate } from '../../scheduling/rate-windows.ts';
import { scopeAllows, scopeChallenge, type Scope } from '../../keys/scopes.ts';
import type { Caller } from '../../keys/caller.ts';
import { refusedByRole } from '../../keys/roles.ts';
import type { JsonObject } from '../json.ts';
import { refuseInTestMode } from '../test-mode.ts';
import { isIpAllowed } from '../../keys/ip-list.ts';
import { addressBucket } from '../../net/ip.ts';

/** `known` returns what is known of a path: its methods, none if it does not exist, and its pattern. */
export function admit({ stop }: Shell, known: (path: string) => KnownPath): Middleware {
  return async (ctx, next) => {
    const { exchange } = ctx.state;
    const { methods, pattern } = exchange.route === null ? known(exchange.path) : noPath;
    exchange.pattern = pattern;
    refuseUnreadable(exchange, ctx.req);
    if (stop.begun) throw new Problem('service_unavailable', 'The service is stopping.');
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

export const scope: Middleware = async (ctx, next) => {
  const { exchange } = ctx.state;
  const { route, key } = exchange;
  if (route?.scope && key.kind === 'known') {
    refuseScope(route, key.caller, exchange.body?.value ?? {});
    refuseInTestMode(route, key.caller);
  }
  await next();
};

/** Returns the scopes that open a route to those who have one of them; null if it is for those who have the server. */
function neededScopes({ scope: declared, scopeFor, members }: Route, body: JsonObject): readonly Scope[] | null {
  if (declared === 'server') return members === undefined ? null : [members.scope];
  return scopeFor === undefined ? (declared ?? []) : [scopeFor(body)];
}

/** Throws `insufficient_scope` if the caller has none of the scopes that the operation needs. */
export function refuseScope(
  route: Route,
  { scopes, member, hasServer = false }: Pick<Caller, 'scopes' | 'member' | 'hasServer'>,
  body: JsonObject,
): void {
  if (route.scope === null || (route.scope === 'server' && hasServer)) return;
  const needed = neededScopes(route, body);
  const isOpen = needed?.some((one) => scopeAllows(scopes, one)) === true;
  // A key never opens an operation of the server.
  if (isOpen && (route.scope !== 'server' || member !== undefined)) return;
  if (member !== undefined || needed === null) throw refusedByRole(needed);
  throw new Problem(
    'insufficient_scope',
    `This needs a key with the scope ${needed.map((one) => `\`${one}\``).join(' or ')}.`,
    {
      headers: scopeChallenge(...needed),
    },
  );
}

export function identify(shell: Shell): Middleware {
  return async (ctx, next) => {
    const { exchange } = ctx.state;
    const token = bearerToken(authorizationOf(exchange));
    if (token !== null) exchange.key = await lookUp(shell, exchange, token);
    if (ownerOf(exchange) !== null) shell.newcomers.stopCounting(ctx.req);
    if (exchange.route?.counted !== false) exchange.rate = count(shell, exchange);
    await next();
  };
}

const authorizationOf = ({ path, header }: Exchange): string | undefined =>
  serviceAt(path)?.authorization(header) ?? header('authorization');

/** Longer than any key, so that it need not be looked up. */
const LONGEST_TOKEN = 256;

/** Returns the bearer token (RFC 6750 section 2.1; the scheme is case-insensitive), or null for another scheme or form. */
export function bearerToken(header: string | undefined): string | null {
  if (header === undefined) return null;
  return /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(header.length > 1024 ? '' : header)?.[1] ?? null;
}

async function lookUp(shell: Shell, exchange: Exchange, token: string): Promise<KeyUse> {
  if (token.length > LONGEST_TOKEN) return { kind: 'unknown' };
  const found = await shell.authenticate(token);
  if (found.kind === 'unknown') return found;
  const { caller } = found;
  const use: KeyUse = {
    kind: 'known',
    caller,
    standing: standing(caller, exchange.at),
    isAddressAllowed: isIpAllowed(caller.allowedIps, exchange.ip),
  };
  if (use.standing === 'good' && use.isAddressAllowed)
    shell.noteUse(caller.keyId, exchange.ip, `${exchange.method} ${exchange.route?.path ?? ''}`.trim());
  return use;
}

export function standing(caller: Caller, now: number): 'good' | 'expired' | 'revoked' {
  if (caller.revokedAt !== null && caller.revokedAt <= now) return 'revoked';
  return caller.expiresAt !== null && caller.expiresAt <= now ? 'expired' : 'good';
}

/** A key used from a forbidden address counts for the address, so that a stolen key cannot use up the account's rate. */
function count(shell: Shell, exchange: Exchange): Rate {
  const caller = callerOf(exchange);
  return caller === null
    ? shell.addressWindows.take(addressBucket(exchange.ip), shell.anonymous, exchange.at)
    : shell.accountWindows.take(caller.accountId, shell.planLimit(caller.plan), exchange.at);
}
