/**
 * Returns whether a hold keeps a mail back: a hold by the operator, a pause of its account or stream, a sending domain that lost its verification, or
 * a pool without a source that may send to the site now. Held mail keeps its status. It is marked with its hold once, when its turn comes, and waits
 * until the hold ends by itself or `freeHeld` finds that it has ended; nothing is rewritten meanwhile.
 */
import type { Notifier } from '../../scheduling/notifier.ts';
import type { Clock } from '../../base/clock.ts';
import { refusalOf, type DomainDirectory, type SendingDomain } from '../../domains/domain-directory.ts';
import type { Streams } from '../../accounts/stream-store.ts';
import type { AccountPauses } from '../../accounts/account-store.ts';
import type { Connection } from '../../storage/connection.ts';
import type { Owners } from '../../storage/owners.ts';
import type { DeliveryRow } from '../../storage/tables.ts';
import { hintsOfChanged, type DueHint } from './due-hint.ts';
import type { LimitBook } from '../limits/book.ts';
import { keyOf, scopeText, type Limit, type MailFacts } from '../limits/limit.ts';
import { readMark, writeMark } from './hold-mark.ts';
import type { Recorder } from './record.ts';

export interface Hold {
  /** The mark of the mail, as `writeMark` gives it. */
  by: string;
  why: string;
  since: number;
  /** End of the hold, or null if it does not end by itself. */
  until: number | null;
  /** Origin of the hold; the operator if absent. */
  setBy?: 'receiver' | 'operator' | 'us';
}

/** Returns the hold on this mail, or null if it may be sent. */
export type HoldOf = (mail: MailFacts) => Promise<Hold | null>;

export interface HoldDeps {
  clock: Clock;
  book: Pick<LimitBook, 'holdOn' | 'ofLane' | 'has'>;
  pauses: AccountPauses;
  streams: Pick<Streams, 'find'>;
  directory: Pick<DomainDirectory, 'findOf'>;
  /** Returns the hold of a mark `pool:...`, `paused:...` or `rule:...`, or null if the mail may be sent. */
  engineHold?: (by: string) => Hold | null;
}

/** Asked before every attempt: nearly all answers come from memory. */
export function createHolds({ clock, book, pauses, streams, directory, engineHold }: HoldDeps) {
  const isPausedStream = async (accountId: string, slug: string): Promise<boolean> =>
    (await streams.find(accountId, slug))?.paused === 1;
  // Asked by account: mail of one account must not be sent because another account has verified the name.
  const unverified = async (accountId: string, name: string): Promise<SendingDomain | null> => {
    const domain = await directory.findOf(accountId, name);
    return domain === null || domain.status === 'verified' ? null : domain;
  };
  return {
    of: async (mail: MailFacts): Promise<Hold | null> => {
      const { accountId, stream, fromDomain } = mail;
      const operators = book.holdOn(mail);
      if (operators !== null) return operatorsHold(operators);
      const now = { since: clock.now(), until: null };
      if (await pauses.isPaused(accountId))
        return {
          by: writeMark({ kind: 'account', accountId }),
          why: 'sending is paused for this account',
          ...now,
        };
      if (await isPausedStream(accountId, stream))
        return {
          by: writeMark({ kind: 'stream', accountId, stream }),
          why: `the stream ${stream} is paused`,
          ...now,
        };
      const sender = await unverified(accountId, fromDomain);
      if (sender === null) return null;
      const why = refusalOf(sender) ?? `the domain ${fromDomain} is not verified`;
      const by = writeMark({ kind: 'domain', accountId, domain: fromDomain });
      return { by, why, ...now, since: sender.refused_at ?? now.since };
    },
    ofLane(lane: string): Hold | null {
      const row = book.ofLane(lane);
      return row === null ? null : operatorsHold(row);
    },
    async stands(by: string): Promise<boolean> {
      const mark = readMark(by);
      switch (mark?.kind) {
        case 'hold':
          return book.has(mark.id);
        case 'account':
          return pauses.isPaused(mark.accountId);
        case 'stream':
          return isPausedStream(mark.accountId, mark.stream);
        case 'domain':
          return (await unverified(mark.accountId, mark.domain)) !== null;
        case 'pool':
        case 'paused':
        case 'rule':
          return engineHold !== undefined && engineHold(by) !== null;
        case undefined:
          return false;
      }
    },
  };
}

export type Holds = ReturnType<typeof createHolds>;

export const operatorsHold = (limit: Limit): Hold => ({
  by: writeMark({ kind: 'hold', id: keyOf(limit) }),
  why: whyHeld(limit),
  since: limit.since,
  until: limit.until === 0 ? null : limit.until,
});

export const whyHeld = (limit: Limit): string =>
  `there is a hold on ${scopeText(limit)}${limit.cause === '' ? '' : ` (${limit.cause})`}`;

/** Deliveries that are freed in one commit; other writers get their turn between. */
const PAGE = 500;

/**
 * Makes mail due whose hold has ended, and notifies the engine; returns the number of deliveries. Of several nodes each frees the mail of its own
 * domains: whether a pool may send is known where the mail is delivered.
 */
export async function freeHeld(deps: {
  db: { prepared: Connection };
  owners: Pick<Owners, 'isOurs'>;
  holds: Pick<Holds, 'stands'>;
  recorder: Recorder;
  notifiers: { deliveries: Notifier<readonly DueHint[]> };
}): Promise<number> {
  let freed = 0;
  for (const by of await heldBy(deps.db.prepared)) if (!(await deps.holds.stands(by))) freed += await free(deps, by);
  return freed;
}

/** Returns the marks that are in use: a few, each found by one jump in the index. */
async function heldBy(db: Connection): Promise<string[]> {
  const rows = await db.all<{ held_by: string }>(
    `WITH RECURSIVE h(held_by) AS (
       SELECT MIN(held_by) FROM deliveries WHERE held_by IS NOT NULL
       UNION ALL
       SELECT (SELECT MIN(d.held_by) FROM deliveries d WHERE d.held_by IS NOT NULL AND d.held_by > h.held_by) FROM h
       WHERE h.held_by IS NOT NULL)
     SELECT held_by FROM h WHERE held_by IS NOT NULL`,
  );
  return rows.map(({ held_by: by }) => by);
}

type Freeable = Pick<DeliveryRow, 'id' | 'domain' | 'class' | 'account_id'>;

async function free({ db, owners, recorder, notifiers }: Parameters<typeof freeHeld>[0], by: string): Promise<number> {
  let freed = 0;
  let after = '';
  for (;;) {
    const page = await db.prepared.all<Freeable>(
      `SELECT id, domain, class, account_id FROM deliveries WHERE held_by = ? AND id > ? ORDER BY id LIMIT ${String(PAGE)}`,
      [by, after],
    );
    if (page.length === 0) return freed;
    after = page.at(-1)?.id ?? after;
    const rows = page.filter(({ domain }) => owners.isOurs(domain));
    if (rows.length === 0) continue;
    const recorded = await recorder.record(rows.map(({ id }) => ({ deliveryId: id, change: { kind: 'freed' } })));
    freed += recorded.filter(({ applied }) => applied).length;
    notifiers.deliveries.notify(hintsOfChanged(rows, recorded));
  }
}
