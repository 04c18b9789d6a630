/** Checks that a new key has no more rights than the key that makes it. Pure. */
import { Problem, invalid } from '../base/problem.ts';
import type { Caller } from './caller.ts';
import { canonicalIpList, isWithin } from './ip-list.ts';
import { checkNewKey, type KeyRequest } from './new-key.ts';
import { isScope, scopeAllows, scopeChallenge } from './scopes.ts';

export type Granter = Pick<Caller, 'scopes' | 'domains' | 'allowedIps' | 'expiresAt'>;

/** Returns the request with the granter's domains, addresses and end if it has none of its own. */
export function inheriting(granter: Granter, request: KeyRequest): KeyRequest {
  const { domains = [], allowedIps = [], expiresAt = null } = request;
  return {
    ...request,
    domains: domains.length === 0 ? granter.domains : domains,
    allowedIps: allowedIps.length === 0 ? granter.allowedIps : allowedIps,
    expiresAt: expiresAt ?? granter.expiresAt,
  };
}

/**
 * Returns the request with names and addresses in canonical spelling, if the granter has all of these rights. Throws
 * `insufficient_scope`, `domain_not_allowed` or `invalid_field` for rights that it lacks, and the faults of `checkNewKey`.
 */
export function mayGrant(granter: Granter, request: KeyRequest): KeyRequest {
  const { expiresAt = null } = request;
  // The end is compared here; `createKey` checks it against the clock.
  const { domains, allowedIps, mode } = checkNewKey({ ...request, expiresAt: null }, 0);
  checkScopes(granter, request.scopes);
  checkDomains(granter, domains);
  checkAddresses(granter, allowedIps);
  if (granter.expiresAt !== null && (expiresAt ?? Infinity) > granter.expiresAt)
    throw invalid('expires_at', 'The new key must not end later than the key you use.');
  return { ...request, mode, domains, allowedIps, expiresAt };
}

/** Throws `insufficient_scope` if a key has rights that the granter lacks, who may not end or change it then. `field` names it in the request. */
export function mayManage(granter: Granter, key: KeyRequest, field: string): void {
  try {
    mayGrant(granter, key);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    throw new Problem('insufficient_scope', `That key has more rights than the one you use. ${error.message}`, {
      field,
      headers: error.code === 'insufficient_scope' ? error.headers : scopeChallenge(),
      cause: error,
    });
  }
}

function checkScopes(granter: Granter, scopes: readonly string[]): void {
  const lacking = scopes.find((scope) => isScope(scope) && !scopeAllows(granter.scopes, scope));
  if (lacking === undefined) return;
  throw new Problem(
    'insufficient_scope',
    `The key you use does not have the scope ${lacking}, so it cannot grant it.`,
    {
      field: 'scopes',
      headers: scopeChallenge(lacking),
    },
  );
}

/** No domains mean all of them, which is more than some. */
function checkDomains({ domains: own }: Granter, domains: readonly string[]): void {
  if (own.length === 0) return;
  const foreign = domains.length === 0 ? 'every domain' : domains.find((domain) => !own.includes(domain));
  if (foreign === undefined) return;
  throw new Problem('domain_not_allowed', `The key you use may not send from ${foreign}, so it cannot grant that.`, {
    field: 'domains',
  });
}

function checkAddresses({ allowedIps }: Granter, entries: readonly string[]): void {
  if (allowedIps.length === 0) return;
  const own = canonicalIpList(allowedIps);
  const outside =
    entries.length === 0 ? 'every address' : entries.find((entry) => !own.some((range) => isWithin(range, entry)));
  if (outside !== undefined)
    throw invalid('allowed_ips', `The key you use may not be used from ${outside}, so it cannot grant that.`);
}
