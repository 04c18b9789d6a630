/**
 * Looks the key up and counts the request: with a valid key for its account's plan, otherwise for the address.
 * It refuses nothing, so that headers and audit line have the key for a 404 and 405 too.
 */
import type { Caller } from '../../keys/caller.ts';
import { isIpAllowed } from '../../keys/ip-list.ts';
import { addressBucket } from '../../net/ip.ts';
import { serviceAt } from '../compat/services.ts';
import { ownerOf, type Exchange, type KeyUse } from '../exchange.ts';
import type { Newcomers } from '../newcomers.ts';
import type { ApiDeps, Middleware } from '../request-state.ts';
import type { Rate, RateWindows } from '../../scheduling/rate-windows.ts';

export interface Buckets {
  accounts: RateWindows;
  addresses: RateWindows;
  /** Requests a minute for an address without a valid key. */
  anonymous: number;
}

type Deps = Pick<ApiDeps, 'authenticate' | 'noteUse' | 'planLimit'> & { buckets: Buckets; newcomers: Newcomers };

export function identify(deps: Deps): Middleware {
  return async (ctx, next) => {
    const { exchange } = ctx.state;
    const token = bearerToken(authorizationOf(exchange));
    if (token !== null) exchange.key = await lookUp(deps, exchange, token);
    if (ownerOf(exchange) === null) deps.newcomers.request(ctx.req, ctx.res);
    else deps.newcomers.stopCounting(ctx.req);
    if (exchange.route?.counted !== false) exchange.rate = count(deps, exchange);
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

async function lookUp(deps: Deps, exchange: Exchange, token: string): Promise<KeyUse> {
  if (token.length > LONGEST_TOKEN) return { kind: 'unknown' };
  const found = await deps.authenticate(token);
  if (found.kind === 'unknown') return found;
  const { caller } = found;
  const use: KeyUse = {
    kind: 'known',
    caller,
    standing: standing(caller, exchange.at),
    isAddressAllowed: isIpAllowed(caller.allowedIps, exchange.ip),
  };
  if (use.standing === 'good' && use.isAddressAllowed)
    deps.noteUse(caller.keyId, exchange.ip, `${exchange.method} ${exchange.route?.path ?? ''}`.trim());
  return use;
}

/** Returns whether a key may be used at this time. */
export function standing(caller: Caller, now: number): 'good' | 'expired' | 'revoked' {
  if (caller.revokedAt !== null && caller.revokedAt <= now) return 'revoked';
  return caller.expiresAt !== null && caller.expiresAt <= now ? 'expired' : 'good';
}

/** A key used from a forbidden address counts for the address, so that a stolen key cannot use up the account's rate. */
function count({ buckets, planLimit }: Deps, { key, ip, at }: Exchange): Rate {
  if (key.kind === 'known' && key.standing === 'good' && key.isAddressAllowed) {
    return buckets.accounts.take(key.caller.accountId, planLimit(key.caller.plan), at);
  }
  return buckets.addresses.take(addressBucket(ip), buckets.anonymous, at);
}
