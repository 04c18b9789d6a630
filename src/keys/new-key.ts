/** Checks the properties of a new or changed key, for the API and the commands. Pure. */
import { domainToASCII } from 'node:url';
import { Problem, invalid } from '../base/problem.ts';
import { checkName } from '../accounts/account-store.ts';
import { canonicalIpList } from './ip-list.ts';
import type { KeyMode } from './key-format.ts';
import { isScope, scopeNames, type Scope } from './scopes.ts';

export interface KeyRequest {
  /** A name for people: 1 to 100 characters. */
  name: string;
  mode?: KeyMode;
  scopes: readonly string[];
  /** Sending domains that it is restricted to; none means every domain of the account. */
  domains?: readonly string[];
  /** Addresses and CIDR ranges that it may be used from; none means any. */
  allowedIps?: readonly string[];
  /** Milliseconds since the epoch; null or absent for a key without an end. */
  expiresAt?: number | null;
}

export interface NewKey {
  name: string;
  mode: KeyMode;
  scopes: Scope[];
  domains: string[];
  allowedIps: string[];
  expiresAt: number | null;
}

export type KeyChanges = Partial<Pick<KeyRequest, 'name' | 'scopes' | 'domains' | 'allowedIps' | 'expiresAt'>>;
export type CheckedChanges = Partial<Pick<NewKey, 'name' | 'scopes' | 'domains' | 'allowedIps' | 'expiresAt'>>;

const MOST_DOMAINS = 100;
const LONGEST_DOMAIN = 253;
const domainForm = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** Returns the checked properties. Throws a Problem for the first fault. */
export function checkNewKey(request: KeyRequest, now: number): NewKey {
  const { mode = 'live', expiresAt = null } = request;
  const { name, scopes, domains = [], allowedIps = [] } = request;
  refusePast(expiresAt, now);
  return {
    name: checkName(name),
    mode,
    scopes: checkScopes(scopes),
    domains: checkDomains(domains),
    allowedIps: canonicalIpList(allowedIps),
    expiresAt,
  };
}

/** Returns the checked changes. Throws a Problem for the first fault. */
export function checkKeyChanges(
  { name, scopes, domains, allowedIps, expiresAt }: KeyChanges,
  now: number,
): CheckedChanges {
  refusePast(expiresAt, now);
  return {
    ...(name === undefined ? {} : { name: checkName(name) }),
    ...(scopes === undefined ? {} : { scopes: checkScopes(scopes) }),
    ...(domains === undefined ? {} : { domains: checkDomains(domains) }),
    ...(allowedIps === undefined ? {} : { allowedIps: canonicalIpList(allowedIps) }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
  };
}

function refusePast(expiresAt: number | null | undefined, now: number): void {
  if (expiresAt == null || expiresAt > now) return;
  throw invalid('expires_at', 'The end of the lifetime must be in the future.');
}

function checkScopes(scopes: readonly string[]): Scope[] {
  if (scopes.length === 0) throw invalid('scopes', 'A key needs at least one scope.');
  if (scopes.length > scopeNames.length)
    throw new Problem('too_many_items', 'There are only thirty scopes. Name each of them once.', { field: 'scopes' });
  scopes.forEach((scope, index) => {
    if (!isScope(scope))
      throw invalid(`scopes[${String(index)}]`, `There is no such scope. Use one of ${scopeNames.join(', ')}.`);
  });
  // Sorted in the order of the documentation, so that equal sets look the same.
  return scopeNames.filter((scope) => scopes.includes(scope));
}

function checkDomains(domains: readonly string[]): string[] {
  if (domains.length > MOST_DOMAINS) {
    throw new Problem('too_many_items', `A key can have at most ${String(MOST_DOMAINS)} domains.`, {
      field: 'domains',
    });
  }
  return [...new Set(domains.map((domain, index) => checkDomain(domain, `domains[${String(index)}]`)))];
}

/** Returns the name as A-labels. Only its form is checked: a key may be restricted to a domain that is added later. */
function checkDomain(domain: string, field: string): string {
  const ascii = domain.length > LONGEST_DOMAIN ? '' : domainToASCII(domain.toLowerCase());
  if (ascii.length <= LONGEST_DOMAIN && domainForm.test(ascii)) return ascii;
  throw invalid(field, 'Expected a domain name.');
}
