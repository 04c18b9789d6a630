/** A key never gives more than it has: what one key may ask for another. Pure. */
import { Problem } from '../base/problem.ts';
import type { Caller } from './caller.ts';
import { canonicalIpList, isWithin } from './ip-list.ts';
import { checkNewKey, type KeyRequest } from './new-key.ts';
import { isScope, scopeAllows } from './scopes.ts';

export type Granter = Pick<Caller, 'scopes' | 'domains' | 'allowedIps' | 'expiresAt'>;

/** Where a new key names no domains, no addresses or no end, it gets those of the key that makes it. */
export function inheriting(granter: Granter, wish: KeyRequest): KeyRequest {
  const { domains = [], allowedIps = [], expiresAt = null } = wish;
  return {
    ...wish,
    domains: domains.length === 0 ? granter.domains : domains,
    allowedIps: allowedIps.length === 0 ? granter.allowedIps : allowedIps,
    expiresAt: expiresAt ?? granter.expiresAt,
  };
}

/**
 * The request with names and addresses in their canonical spelling, where the granter has all of it. Throws
 * `insufficient_scope`, `domain_not_allowed`, `invalid_field` for what it has not, and the faults of `checkNewKey`.
 */
export function mayGrant(granter: Granter, wish: KeyRequest): KeyRequest {
  const { expiresAt = null } = wish;
  // The end is compared here and checked against the clock where the key is made.
  const { domains, allowedIps, mode } = checkNewKey({ ...wish, expiresAt: null }, 0);
  checkScopes(granter, wish.scopes);
  checkDomains(granter, domains);
  checkAddresses(granter, allowedIps);
  if (granter.expiresAt !== null && (expiresAt ?? Infinity) > granter.expiresAt)
    throw beyond('expires_at', 'the asking key itself ends sooner');
  return { ...wish, mode, domains, allowedIps, expiresAt };
}

/**
 * Throws `insufficient_scope` where a key may do anything that the one who asks may not: then it is not his to end or to change.
 * `field` is where the request names the key.
 */
export function mayManage(granter: Granter, key: KeyRequest, field: string): void {
  try {
    mayGrant(granter, key);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    throw new Problem('insufficient_scope', `That key may do more than the one you ask with. ${error.message}`, {
      field,
      cause: error,
    });
  }
}

function checkScopes(granter: Granter, scopes: readonly string[]): void {
  const lacking = scopes.find((scope) => isScope(scope) && !scopeAllows(granter.scopes, scope));
  if (lacking === undefined) return;
  throw new Problem('insufficient_scope', `The asking key does not have the scope ${lacking} itself.`, {
    field: 'scopes',
    headers: { 'WWW-Authenticate': `Bearer realm="api", error="insufficient_scope", scope="${lacking}"` },
  });
}

/** No domains mean all of them, which is more than some. */
function checkDomains({ domains: own }: Granter, domains: readonly string[]): void {
  if (own.length === 0) return;
  const foreign = domains.length === 0 ? 'every domain' : domains.find((domain) => !own.includes(domain));
  if (foreign === undefined) return;
  throw new Problem('domain_not_allowed', `The asking key may not send from ${foreign} itself.`, { field: 'domains' });
}

function checkAddresses({ allowedIps }: Granter, entries: readonly string[]): void {
  if (allowedIps.length === 0) return;
  const own = canonicalIpList(allowedIps);
  const outside =
    entries.length === 0 ? 'every address' : entries.find((entry) => !own.some((range) => isWithin(range, entry)));
  if (outside !== undefined) throw beyond('allowed_ips', `the asking key may not be used from ${outside} itself`);
}

const beyond = (field: string, why: string): Problem => new Problem('invalid_field', why, { field });
