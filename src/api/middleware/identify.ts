/**
 * Looks the key up and counts the request: a good key against its account's plan, anything else against the address.
 * It refuses nothing, so that headers and audit show the key on a 404 and 405 too.
 */
import type { Caller } from '../../keys/caller.ts';
import { isIpAllowed } from '../../keys/ip-list.ts';
import { addressBucket } from '../../net/ip.ts';
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
    const token = bearerToken(exchange.header('authorization'));
    if (token !== null) exchange.key = await lookUp(deps, exchange, token);
    if (ownerOf(exchange) === null) deps.newcomers.request(ctx.req, ctx.res);
    else deps.newcomers.known(ctx.req);
    if (exchange.route?.counted !== false) exchange.rate = count(deps, exchange);
    await next();
  };
}

/** Longer than any key of ours: not worth a look-up. */
const LONGEST_TOKEN = 256;

/** RFC 6750 section 2.1; the scheme is case-insensitive. Null for another scheme, or for no token of the permitted form. */
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

/** Whether a key may be used at this time. */
export function standing(caller: Caller, now: number): 'good' | 'expired' | 'revoked' {
  if (caller.revokedAt !== null && caller.revokedAt <= now) return 'revoked';
  return caller.expiresAt !== null && caller.expiresAt <= now ? 'expired' : 'good';
}

/** A key used from a forbidden address counts for the address: a stolen key must not eat the account's requests. */
function count({ buckets, planLimit }: Deps, { key, ip, at }: Exchange): Rate {
  if (key.kind === 'known' && key.standing === 'good' && key.isAddressAllowed) {
    return buckets.accounts.take(key.caller.accountId, planLimit(key.caller.plan), at);
  }
  return buckets.addresses.take(addressBucket(ip), buckets.anonymous, at);
}
