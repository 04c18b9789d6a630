/** Removes finished things at their age: by the settings `retention.*`, and for bodies, messages and events also by an account's own. */
import type { Config } from '../config/schema.ts';
import {
  oldAuditLines,
  oldContents,
  oldEvents,
  oldEventsOfAccount,
  oldReports,
  oldRequestDetails,
  type Purge,
  oldMessages,
} from '../messages/store/purge.ts';
import { oldReceived } from '../messages/received/received-store.ts';
import type { StoreDeps } from '../storage/database.ts';
import type { Rule, Step, Transactor } from './housekeeping.ts';
import { DAY_MS, HOUR_MS } from '../base/time.ts';

export interface RetentionDeps extends StoreDeps {
  retention: Config['retention'];
}

export function retentionRules({ db, clock, retention }: RetentionDeps): Rule[] {
  const rule = <Row>(name: string, purge: Purge<Row>, ranges: () => Promise<Since[]>): Rule => ({
    name,
    everyMs: HOUR_MS,
    step: purging({ db, clock }, purge, ranges),
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

/** Makes steps that remove what is old, account by account. While one writes, the rows of the next are chosen, which may come from the disk. */
function purging<Row>(
  { db, clock }: Pick<RetentionDeps, 'db' | 'clock'>,
  purge: Purge<Row>,
  ranges: () => Promise<Since[]>,
): (most: number, commit: Transactor) => Promise<Step> {
  let ahead: { chosen: Chosen<Row> | null; at: number } | null = null;

  async function chooseOf(of: Since, most: number, after: Row | null): Promise<Chosen<Row> | null> {
    const rows = await purge.choose(db.maintenance, { ...of, most, after });
    return rows.length === 0 ? null : { of, rows };
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

  return async (most, commit) => {
    const known = ahead !== null && clock.monotonic() - ahead.at < GOOD_MS ? ahead : null;
    ahead = null;
    const chosen = known === null ? await choose(most, null) : known.chosen;
    if (chosen === null) return { rows: 0, more: false };
    const removing = commit.transact((tx) => purge.remove(tx, chosen.rows, clock.now()));
    // Waits for both even if one fails: the database is closed after housekeeping stops.
    const [removed, next] = await Promise.allSettled([removing, choose(most, chosen)]);
    if (removed.status === 'rejected') throw removed.reason;
    if (next.status === 'rejected') throw next.reason;
    ahead = { chosen: next.value, at: clock.monotonic() };
    return { rows: chosen.rows.length, more: next.value !== null };
  };
}
