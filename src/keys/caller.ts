/** The caller: what the API knows about the key of a request. */
import type { ApiKeyRow } from '../storage/tables.ts';

export interface Caller {
  accountId: string;
  keyId: string;
  /** The name that its owner gave it, for the audit log. */
  keyName: string;
  /** Messages of a `test` key are only simulated. */
  mode: 'live' | 'test';
  scopes: readonly string[];
  /** Sending domains that the key is restricted to; empty means all of the account. */
  domains: readonly string[];
  /** Addresses and CIDR ranges that the key may be used from; empty means any. The array's identity is kept while the key is unchanged. */
  allowedIps: readonly string[];
  /** Name of the account's plan, which sets the rate limit. */
  plan: string;
  /** True if the operator has paused the account's sending. */
  paused: boolean;
  /** Milliseconds since the epoch, or null for a key without a lifetime. */
  expiresAt: number | null;
  /** Milliseconds since the epoch, or null while the key is good. */
  revokedAt: number | null;
  /** The address of the member who acts through the dashboard; such a call has no key. */
  member?: string;
  /** True for the operator on the command line; then there is no key behind the call either. */
  isOperator?: true;
  /** True for those who may perform the operations of the server: the operator, and administrators in the dashboard. */
  hasServer?: boolean;
}

export const permissionsOf = (row: Pick<ApiKeyRow, 'scopes_json' | 'domains_json' | 'allowed_ips_json'>) => ({
  scopes: JSON.parse(row.scopes_json) as string[],
  domains: JSON.parse(row.domains_json) as string[],
  allowedIps: JSON.parse(row.allowed_ips_json) as string[],
});

/** Returns the actor for the audit log and for created records: `key:<name>`, `member:<email>` or `operator`. */
export function actorOf({ keyName, member, isOperator }: Pick<Caller, 'keyName' | 'member' | 'isOperator'>): string {
  if (isOperator === true) return 'operator';
  return member === undefined ? `key:${keyName}` : `member:${member}`;
}

export type Authentication = { kind: 'found'; caller: Caller } | { kind: 'unknown' };

/** Finds the caller of an API key. A revoked or expired key is `found`: the asker compares its times with the clock, and can say which it was. */
export type Authenticate = (token: string) => Promise<Authentication>;
