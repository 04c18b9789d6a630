/** Removes finished things at their age: by the settings `retention.*`, and for bodies, messages and events also by an account's own. */
import type { Clock } from '../base/clock.ts';
import type { Config } from '../config/schema.ts';
import {
  oldAuditLines,
  oldContents,
  oldEvents,
  oldEventsOfAccount,
  oldReports,
  oldRequestDetails,
  type Purge,
} from '../messages/store/purge.ts';
import { oldReceived } from '../messages/received/received-store.ts';
import { oldMessages } from '../messages/store/purge-messages.ts';
import type { Database } from '../storage/database.ts';
import type { SizedRule } from './housekeeping.ts';
import { timed } from './timed.ts';
import { DAY_MS, HOUR_MS } from '../base/time.ts';

export interface RetentionDeps {
  db: Pick<Database, 'commit' | 'prepared' | 'maintenance'>;
  clock: Clock;
  retention: Config['retention'];
}

export function retentionRules({ db, clock, retention }: RetentionDeps): SizedRule[] {
  const rule = <Row>(name: string, purge: Purge<Row>, ranges: () => Promise<Since[]>): SizedRule => ({
    name,
    everyMs: HOUR_MS,
    sizedStep: purging({ db, clock }, purge, ranges),
  });
  const ofAll = (keptMs: number) => () => Promise.resolve([{ accountId: '', before: clock.now() - keptMs }]);
  /** An account may keep things for a shorter time than the server. Null if another rule applies the server's own time. */
  const ofEach = (setting: 'content_days' | 'messages_days' | 'events_days', keptMs: number | null) => async () => {
    const accounts = await db.prepared.all<{ id: string; days: number | null }>(
      `SELECT a.id, s.${setting} AS days FROM accounts a LEFT JOIN account_settings s ON s.account_id = a.id
       WHERE ${keptMs === null ? `s.${setting} IS NOT NULL` : 'true'} ORDER BY a.id`,
    );
    return accounts.map(({ id, days }) => ({
      accountId: id,
      before: clock.now() - Math.min(keptMs ?? Infinity, days === null ? Infinity : days * DAY_MS),
    }));
  };
  return [
    rule('old bodies', oldContents, ofEach('content_days', retention.content)),
    rule('old received mails', oldReceived, ofEach('content_days', retention.content)),
    rule('old messages', oldMessages, ofEach('messages_days', retention.messages)),
    rule('old events', oldEvents, ofAll(retention.events)),
    rule('old events of accounts', oldEventsOfAccount, ofEach('events_days', null)),
    rule('old reports', oldReports, ofAll(retention.reports)),
    rule('old audit lines', oldAuditLines, ofAll(retention.audit)),
    rule('old details of requests', oldRequestDetails, ofAll(retention.requestDetails)),
  ];
}

/** Things of one account, or of all, that are older than their time. */
interface Since {
  accountId: string;
  before: number;
}

interface Chosen<Row> {
  of: Since;
  rows: Row[];
}

/** A choice for the next step that is older than this is made again, since an account may have asked to keep things longer. */
const GOOD_MS = 5000;

/**
 * Makes steps that remove some of what is old, account by account. While one step writes, the rows of the next are chosen and read
 * ahead: reading them from a disk takes as long as removing them, and the writer should not wait for it.
 */
function purging<Row>(
  { db, clock }: Pick<RetentionDeps, 'db' | 'clock'>,
  purge: Purge<Row>,
  ranges: () => Promise<Since[]>,
): SizedRule['sizedStep'] {
  let ahead: { chosen: Chosen<Row> | null; at: number } | null = null;

  async function chooseOf(of: Since, most: number, after: Row | null): Promise<Chosen<Row> | null> {
    const rows = await purge.choose(db.maintenance, { ...of, most, after });
    if (rows.length === 0) return null;
    await purge.lookAt?.(db.maintenance, rows);
    return { of, rows };
  }

  /** Continues behind the rows that are being removed, then with the accounts after theirs. Earlier accounts were done in this run. */
  async function choose(most: number, last: Chosen<Row> | null): Promise<Chosen<Row> | null> {
    if (last !== null) {
      const chosen = await chooseOf(last.of, most, last.rows.at(-1) ?? null);
      if (chosen !== null) return chosen;
    }
    const all = await ranges();
    const done = all.findIndex(({ accountId }) => accountId === last?.of.accountId);
    for (const of of all.slice(done + 1)) {
      const chosen = await chooseOf(of, most, null);
      if (chosen !== null) return chosen;
    }
    return null;
  }

  return async (most) => {
    const known = ahead !== null && clock.monotonic() - ahead.at < GOOD_MS ? ahead : null;
    ahead = null;
    const chosen = known === null ? await choose(most, null) : known.chosen;
    if (chosen === null) return { rows: 0, ms: 0 };
    const removing = timed({ clock, commit: db.commit }, (commit) =>
      commit.transact(async (tx) => {
        await purge.remove(tx, chosen.rows, clock.now());
        return chosen.rows.length;
      }),
    );
    // Waits for both even if one fails: the database is closed after housekeeping stops.
    const [removed, next] = await Promise.allSettled([removing, choose(most, chosen)]);
    if (removed.status === 'rejected') throw removed.reason;
    if (next.status === 'rejected') throw next.reason;
    ahead = { chosen: next.value, at: clock.monotonic() };
    return { ...removed.value, more: next.value !== null };
  };
}
