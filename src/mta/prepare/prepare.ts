/**
 * Makes the bytes on the wire from a delivery's id: it loads the rows, asks what holds the mail, finds its keys and its envelope, and
 * has the draft composed and signed (drafts.ts). Deliveries that are loaded in the same turn of the event loop share one query.
 */
import type { SigningKey } from '../../mail/dkim/sign.ts';
import { createBatchLoader } from '../../base/batch-loader.ts';
import type { Clock } from '../../base/clock.ts';
import type { Keyring } from '../../base/keyring.ts';
import type { Log } from '../../base/log.ts';
import type { ReturnPathKey } from '../../messages/delivery/return-path.ts';
import type { FreshMail, FreshMails } from '../../messages/store/fresh-mails.ts';
import { isSealedContent } from '../../messages/store/stored-content.ts';
import type { Connection } from '../../storage/connection.ts';
import { Drafts } from './drafts.ts';
import type { Hold, HoldOf } from '../../messages/delivery/holds.ts';
import type { TrackingKey } from '../../tracking/token.ts';
import {
  addressedOf,
  failureOf,
  tlsRequestOf,
  trackingOf,
  type Draft,
  type Failure,
  type Prepared,
  type Ready,
} from './ready-mail.ts';
import { loadStoredMails, storedMailOf, type StoredMail } from './stored-mail.ts';

export type Signing = { kind: 'ready'; keys: readonly SigningKey[] } | { kind: 'unavailable'; why: string };

export interface PrepareDeps {
  db: { prepared: Connection };
  clock: Clock;
  log: Log;
  keysFor(accountId: string, domain: string): Promise<Signing>;
  /** Returns the host in the return path of a sending domain of an account. */
  returnPathDomain(accountId: string, domain: string): Promise<string>;
  returnPathKey: ReturnPathKey;
  /** Signs tracked links and unsubscribe links. */
  trackingKey: TrackingKey;
  /** Mails that were just accepted; without it all are loaded. */
  fresh?: FreshMails;
  keyring: Pick<Keyring, 'open'>;
  /** Returns what holds this mail now, or null. */
  holdOf?: HoldOf;
  /** `smtp.hostname`: mail of ours from this name may go unsigned. */
  ownName?: string;
}

export type { Failure, Prepared, Ready } from './ready-mail.ts';

/** The mail may not be tried now: a pause, a domain that is not verified. */
export interface Held {
  kind: 'held';
  hold: Hold;
}

/** The mail cannot be sent, which is known before a connection is looked for. */
export interface Failed {
  kind: 'failed';
  failure: Failure;
}

/** The mail may be tried. It is being composed and signed, which takes longer than all else and hardly ever fails; a large one is composed. */
export interface Preparing {
  kind: 'preparing';
  /** The conditions of a connection for it. */
  wanted: Pick<Ready, 'messageId' | 'tlsRequest'>;
  /** Rejects if storage fails. */
  mail: Promise<Prepared>;
  /** Returns what holds the mail by now, or null. */
  heldNow: () => Promise<Hold | null>;
}

export type Prepare = ReturnType<typeof createPrepare>;

export function createPrepare(deps: PrepareDeps) {
  const deliveries = createBatchLoader<StoredMail>((ids) => loadStoredMails(deps.db.prepared, ids));
  const drafts = new Drafts(deps);

  async function prepareRow(row: StoredMail, fresh: FreshMail | null): Promise<Preparing | Failed> {
    try {
      const signing = await keysOf(deps, row);
      // Without a signature it is not sent, so no host is dialled for it.
      if (signing.kind === 'unsigned') return { kind: 'failed', failure: signing };
      const addressed = await addressedOf(deps, row);
      const tracking = trackingOf(deps.trackingKey, row, addressed.unsubscribeUrl);
      const draft: Draft = { row, keys: signing.keys, addressed, tracking };
      const { mail, mayTakeLong } = await drafts.begin(draft, fresh);
      // No connection waits for the memory and the thread of large contents, or for one that cannot be composed.
      const large = mayTakeLong ? await mail : null;
      if (large !== null && large.kind !== 'ready') return { kind: 'failed', failure: large };
      const wanted = { messageId: row.message_id, tlsRequest: tlsRequestOf(row) };
      return { kind: 'preparing', wanted, mail, heldNow: () => heldBy(deps, row) };
    } catch (error) {
      return { kind: 'failed', failure: failureOf(error) };
    }
  }

  return {
    /** Resolves when it is known whether the mail may be tried; if it is large, when it is composed. Rejects if storage fails. */
    async begin(deliveryId: string): Promise<Preparing | Failed | Held> {
      const fresh = deps.fresh?.take(deliveryId) ?? null;
      const row = fresh === null ? await deliveries.load(deliveryId) : storedMailOf(fresh);
      if (row === undefined) return { kind: 'failed', failure: { kind: 'gone' } };
      const hold = await heldBy(deps, row);
      return hold === null ? prepareRow(row, fresh) : { kind: 'held', hold };
    },
    /** Returns the bytes for display, whatever holds the mail back. What is sealed is not shown. */
    async look(deliveryId: string): Promise<Prepared> {
      const row = await deliveries.load(deliveryId);
      if (row === undefined || isSealedContent(row.content_id)) return { kind: 'gone' };
      const begun = await prepareRow(row, null);
      return begun.kind === 'failed' ? begun.failure : begun.mail;
    },
    close: () => drafts.close(),
  };
}

/** Simulated mail leaves nowhere, so nothing holds it. */
async function heldBy({ holdOf }: PrepareDeps, row: StoredMail): Promise<Hold | null> {
  if (holdOf === undefined || row.test === 1) return null;
  const { account_id: accountId, stream, from_domain: fromDomain, domain, message_id: messageId } = row;
  const { batch_id: batchId, key_id: keyId, created_at: createdAt } = row;
  return holdOf({ accountId, stream, fromDomain, domain, messageId, batchId, keyId, createdAt });
}

async function keysOf(
  deps: PrepareDeps,
  row: StoredMail,
): Promise<{ kind: 'keys'; keys: readonly SigningKey[] } | Extract<Failure, { kind: 'unsigned' }>> {
  const signing = await deps.keysFor(row.account_id, row.from_domain);
  // A test key may send from a domain that is not set up; that mail leaves nowhere, so it needs no signature. Our own name has
  // no key either, unless it is a sending domain too.
  const isOwn = row.null_sender === 1 && row.from_domain === deps.ownName;
  if (signing.kind === 'unavailable' && row.test === 0 && !isOwn) return { kind: 'unsigned', why: signing.why };
  return { kind: 'keys', keys: signing.kind === 'ready' ? signing.keys : [] };
}
