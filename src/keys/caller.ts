/** Who is calling: what the API needs to know about the key that came with a request. */

export interface Caller {
  accountId: string;
  keyId: string;
  /** As its owner named it: shown in the audit log. */
  keyName: string;
  /** Messages of a `test` key run the whole path but never leave the house. */
  mode: 'live' | 'test';
  scopes: readonly string[];
  /** Sending domains this key is restricted to; empty = every domain of the account. */
  domains: readonly string[];
  /** Addresses and CIDR ranges the key may be used from; empty = any. The array's identity is kept while the key is unchanged. */
  allowedIps: readonly string[];
  /** Name of the account's plan: it decides the rate limit. */
  plan: string;
  /** The operator has paused the account's sending. */
  paused: boolean;
  /** Milliseconds since the epoch, or null for a key without a lifetime. */
  expiresAt: number | null;
  /** Milliseconds since the epoch, or null while the key is good. */
  revokedAt: number | null;
  /** The address of the member who acts through the dashboard; then there is no key behind the call. */
  member?: string;
  /** True for the operator on the command line; then there is no key behind the call either. */
  isOperator?: true;
}

/** Returns who it was, for the audit and for what is made: `key:<name>`, `member:<email>` or `operator`. */
export function actorOf({ keyName, member, isOperator }: Pick<Caller, 'keyName' | 'member' | 'isOperator'>): string {
  if (isOperator === true) return 'operator';
  return member === undefined ? `key:${keyName}` : `member:${member}`;
}

export type Authentication = { kind: 'found'; caller: Caller } | { kind: 'unknown' };

/**
 * Finds the caller behind a whole API key. A revoked or expired key is `found`: the one who asks compares the times with
 * the clock, so that the answer can say which it was.
 */
export type Authenticate = (token: string) => Promise<Authentication>;
