/**
 * What holds mail that was accepted: the operator's holds, a pause of its account or stream, a sending domain that lost its
 * verification, a pool of sources none of which may send to the site now. Held mail keeps its status. It is marked once, when its turn comes, with what holds it, and rests until that
 * ends by itself or until `freeHeld` finds that it stands no more; nothing is rewritten meanwhile.
 */
import type { Notifier } from '../../scheduling/notifier.ts';
import type { Clock } from '../../base/clock.ts';
import { refusalOf, type DomainDirectory, type SendingDomain } from '../../domains/domain-directory.ts';
import type { Streams } from '../../accounts/stream-store.ts';
import type { AccountPauses } from '../../accounts/account-store.ts';
import type { Connection } from '../../storage/connection.ts';
import type { DeliveryRow, HoldRow } from '../../storage/tables.ts';
import type { DueHint } from './due-hint.ts';
import type { HoldBook, MailFacts } from './hold-book.ts';
import type { Recorder } from './record.ts';

/** One reason to keep a mail back. */
export interface Hold {
  /**
   * Marks the mail: `hld_...`, `account:<id>`, `stream:<account id>/<slug>`, `domain:<account id>/<sending domain>`, `pool:<pool>@<site>` or
   * `paused:<pool>@<site>`. */
  by: string;
  why: string;
  /** From when on it holds. */
  since: number;
  /** When it ends by itself, or null. */
  until: number | null;
  /** Who set it; the operator where this is left out. */
  setBy?: 'receiver' | 'operator' | 'us';
}

/** What holds this mail now, or null where it may go. */
export type HoldOf = (mail: MailFacts) => Promise<Hold | null>;

export interface Holds {
  of: HoldOf;
  /** What holds all mail of this lane, or null. */
  ofLane(lane: string): Hold | null;
  /** Whether what mail was marked with is still in force. */
  stands(by: string): Promise<boolean>;
}

export interface HoldDeps {
  clock: Clock;
  book: Pick<HoldBook, 'find' | 'ofLane' | 'stands'>;
  pauses: AccountPauses;
  streams: Pick<Streams, 'find'>;
  directory: Pick<DomainDirectory, 'findOf'>;
  /** What a mark `pool:...` or `paused:...` stands for now, or null where the mail may go. */
  poolHold?: (by: string) => Hold | null;
}

/** Asked before every attempt: all answers come from memory nearly always. */
export function createHolds({ clock, book, pauses, streams, directory, poolHold }: HoldDeps): Holds {
  const isPausedStream = async (accountId: string, slug: string): Promise<boolean> =>
    (await streams.find(accountId, slug))?.paused === 1;
  // Asked with the account: mail that it left waiting does not go on because another account has verified the name.
  const unverified = async (accountId: string, name: string): Promise<SendingDomain | null> => {
    const domain = await directory.findOf(accountId, name);
    return domain === null || domain.status === 'verified' ? null : domain;
  };
  return {
    async of(mail) {
      const { accountId, stream, fromDomain } = mail;
      const operators = book.find(mail);
      if (operators !== null) return operatorsHold(operators);
      const now = { since: clock.now(), until: null };
      if (await pauses.isPaused(accountId))
        return { by: `account:${accountId}`, why: 'sending is paused for this account', ...now };
      if (await isPausedStream(accountId, stream))
        return { by: `stream:${accountId}/${stream}`, why: `the stream ${stream} is paused`, ...now };
      const sender = await unverified(accountId, fromDomain);
      if (sender === null) return null;
      const why = refusalOf(sender) ?? `the domain ${fromDomain} is not verified`;
      return { by: `domain:${accountId}/${fromDomain}`, why, ...now, since: sender.refused_at ?? now.since };
    },
    ofLane(lane) {
      const row = book.ofLane(lane);
      return row === null ? null : operatorsHold(row);
    },
    async stands(by) {
      if (by.startsWith('hld_')) return book.stands(by);
      if (by.startsWith('pool:') || by.startsWith('paused:')) return poolHold !== undefined && poolHold(by) !== null;
      const [kind = '', rest = ''] = split(by, ':');
      if (kind === 'account') return pauses.isPaused(rest);
      // A domain marked by an earlier version is named without its account: that mail is asked about once more.
      const [accountId = '', name = ''] = split(rest, '/');
      return kind === 'domain' ? (await unverified(accountId, name)) !== null : isPausedStream(accountId, name);
    },
  };
}

const split = (text: string, at: string): string[] => {
  const place = text.indexOf(at);
  return [text.slice(0, place), text.slice(place + 1)];
};

const operatorsHold = ({ id, scope, target, note, until, created_at: since }: HoldRow): Hold => ({
  by: id,
  why: `the operator holds the ${scope} ${target}${note === null ? '' : ` (${note})`}`,
  since,
  until,
});

/** Deliveries freed in one commit; other writers go in between. */
const PAGE = 500;

/** Makes mail due whose hold stands no more, and rings for it; gives how many deliveries that were. */
export async function freeHeld(deps: {
  db: { prepared: Connection };
  clock: Clock;
  holds: Pick<Holds, 'stands'>;
  recorder: Recorder;
  notifiers: { deliveries: Notifier<readonly DueHint[]> };
}): Promise<number> {
  let freed = 0;
  for (const by of await heldBy(deps.db.prepared)) if (!(await deps.holds.stands(by))) freed += await free(deps, by);
  return freed;
}

/** What holds mail at present: a few, each found by one jump in the index. */
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

async function free({ db, clock, recorder, notifiers }: Parameters<typeof freeHeld>[0], by: string): Promise<number> {
  let freed = 0;
  let after = '';
  for (;;) {
    const rows = await db.prepared.all<Freeable>(
      `SELECT id, domain, class, account_id FROM deliveries WHERE held_by = ? AND id > ? ORDER BY id LIMIT ${String(PAGE)}`,
      [by, after],
    );
    if (rows.length === 0) return freed;
    after = rows.at(-1)?.id ?? after;
    const recorded = await recorder.record(rows.map(({ id }) => ({ deliveryId: id, change: { kind: 'freed' } })));
    const due = rows.filter((_, at) => recorded[at]?.applied === true);
    freed += due.length;
    notifiers.deliveries.notify(hintsOf(due, clock.now()));
  }
}

/** One hint for each group that the engine keeps a window of. */
function hintsOf(rows: readonly Freeable[], dueAt: number): DueHint[] {
  const hints = new Map<string, DueHint>();
  for (const { domain, class: order, account_id: accountId } of rows)
    hints.set(`${domain} ${String(order)} ${accountId}`, { domain, class: order, accountId, dueAt });
  return [...hints.values()];
}
