/** The parts of the program that submission uses, and its settings. */
import type { UsedUp } from '../base/budgets.ts';
import type { Clock } from '../base/clock.ts';
import type { Authenticate, Caller } from '../keys/caller.ts';
import type { AcceptDeps } from '../messages/accept/accept.ts';
import type { IdempotencyStore } from '../storage/idempotency-store.ts';
import type { AuditRow } from '../storage/tables.ts';
import type { Session } from './listener.ts';
import type { SubmissionReader } from './submission-reader.ts';

export interface SubmissionDeps {
  clock: Clock;
  accept: AcceptDeps;
  authenticate: Authenticate;
  /** Returns the caller whose key programs of trusted networks send with, or null. */
  trustedCaller(): Promise<Caller | null>;
  noteUse(keyId: string, ip: string, endpoint: string): void;
  /** Counts a request of the account; the seconds to wait, or null where it may go on. */
  takeRequest(accountId: string, plan: string): number | null;
  audit: { write(row: AuditRow): Promise<void> };
  idempotency: { store: IdempotencyStore; onMismatch: 'replay' | 'error' };
  reader: SubmissionReader;
  usedUp: UsedUp;
  /** Called with the error of a write that no session waits for. */
  failed: (error: unknown) => void;
  isVerified(accountId: string, domain: string): Promise<boolean>;
  /** The account of our own mail, which notices belong to. */
  ownAccount: { ensure(): Promise<void> };
}

export interface SubmissionSettings {
  hostname: string;
  /** CIDR ranges whose clients need no TLS, and no sign-in where there is a key for them. */
  trustedNetworks: readonly string[];
  smtputf8: boolean;
  recipients: number;
  /** Receiver of the notice about a mail that failed for good. */
  notify: 'sender' | 'operator' | 'none';
  operatorAddress: string | null;
}

/** A client that has signed in. Its key is kept and looked up before each mail, since it may be revoked meanwhile. */
export interface Submitter {
  token: string | null;
  keyId: string;
}

export type SubmissionSession = Session<Submitter>;
