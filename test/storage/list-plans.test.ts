/**
 * No list reads a whole table, whatever it is filtered by: each statement that a list makes is explained by the database, and a
 * step that scans is a fault. With a million messages such a step takes seconds.
 */
import assert from 'node:assert/strict';
import { findAuditEntry, pageOfAudit } from '../../src/accounts/audit-list.ts';
import { eventsAfter, eventsBefore, type EventFilter } from '../../src/events/event-log.ts';
import { readStats } from '../../src/events/stats-store.ts';
import { type MessageFilter, wordRows } from '../../src/messages/list/message-filter.ts';
import { listMessages } from '../../src/messages/list/message-list.ts';
import { pageOfSuppressions } from '../../src/suppressions/suppression-store.ts';
import { pageOfDeliveries } from '../../src/webhooks/call-store.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { ACCOUNT, NOW, acceptedMail } from '../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../support/harness/temp-database.ts';

const messageFilters: readonly Partial<MessageFilter>[] = [
  {},
  { status: ['delivered'] },
  { status: ['bounced', 'deferred'] },
  { to: 'ana@dest.test' },
  { from: 'Hi@acme.test' },
  { subject: 'welc' },
  { subject: 'welcome number' },
  { tag: ['a'] },
  { tag: ['a', 'b'] },
  { metadata: { order: '17' } },
  { template_id: 'tpl_1' },
  { batch_id: 'bat_1' },
  { key_id: 'key_1' },
  { stream: 'transactional' },
  { domain: 'acme.test' },
  { rfc_message_id: '<x@elsewhere.test>' },
  { rfc_message_id: '<msg_00000000000000000000000001@acme.test>' },
  { created_after: NOW - 1000, created_before: NOW + 1000 },
  { opened: true },
  { opened: false },
  { clicked: true },
  { test: true },
  {
    tag: ['a'],
    stream: 'broadcast',
    to: 'ana@dest.test',
    metadata: { order: '17' },
    subject: 'welcome',
    opened: true,
  },
];

const eventFilters: readonly Partial<EventFilter>[] = [
  {},
  { types: ['bounced'] },
  { messageId: 'msg_1' },
  { recipient: 'ana@dest.test' },
  { batchId: 'bat_1' },
  { tag: 'a' },
  { test: true },
  { occurredAfter: NOW - 1000, occurredBefore: NOW + 1000 },
  { tag: 'a', recipient: 'ana@dest.test', types: ['opened', 'clicked'] },
];

describe('storage: plans of lists', () => {
  let temp: TempDatabase;

  before(async () => {
    temp = await openTempDatabase('sqlite');
    for (let n = 0; n < 60; n++) {
      const { rows, message } = acceptedMail({ address: 'ana@dest.test' });
      message.subject = `Welcome number${String(n)}`;
      await temp.db.commit.insert({
        ...rows,
        message_words: wordRows(ACCOUNT, message.id, message.subject),
        message_tags: [{ account_id: ACCOUNT, tag: n % 7 === 0 ? 'a' : `t${String(n)}`, message_id: message.id }],
      });
    }
  });
  after(() => temp.close());

  /** The steps that read all of a table or index, of every statement that `run` makes. */
  async function scansOf(run: () => Promise<unknown>): Promise<string[]> {
    const made: { sql: string; bindings: readonly string[] }[] = [];
    const note = (query: { sql: string; bindings: readonly string[] }): void => {
      made.push(query);
    };
    temp.db.reader.on('query', note);
    await run();
    temp.db.reader.removeListener('query', note);
    assert.ok(made.length > 0);
    const found: string[] = [];
    for (const { sql, bindings } of made) {
      const plan = await temp.db.reader.raw<{ detail: string }[]>(`EXPLAIN QUERY PLAN ${sql}`, [...bindings]);
      for (const { detail } of plan)
        // Rows that a statement has gathered itself may be read from end to end, and one row at the end of a key is not a scan.
        if (/^SCAN (?!json_each|found|s\b|w\b|runs?\b|\(subquery|CONSTANT)/.test(detail) && !isLastRow(sql))
          found.push(`${detail}: ${sql}`);
    }
    return found;
  }
  const isLastRow = (sql: string): boolean => sql.startsWith('select max(`sequence`)');

  for (const analyzed of [false, true]) {
    describe(analyzed ? 'with statistics' : 'without statistics', () => {
      before(async () => {
        if (analyzed) await temp.db.commit.transact((tx) => tx.run('ANALYZE'));
      });

      for (const filter of messageFilters)
        it(`messages by ${JSON.stringify(filter)}`, async () => {
          const all = { accountId: ACCOUNT, ...filter };
          for (const newestFirst of [true, false])
            assert.deepEqual(await scansOf(() => listMessages(temp.db.reader, all, { newestFirst, limit: 25 })), []);
        });

      for (const filter of eventFilters)
        it(`events by ${JSON.stringify(filter)}`, async () => {
          const all = { accountId: ACCOUNT, ...filter };
          assert.deepEqual(await scansOf(() => eventsAfter(temp.db.reader, all, 0, 100)), []);
          assert.deepEqual(await scansOf(() => eventsBefore(temp.db.reader, all, 1000, 100)), []);
        });

      it('stats, suppressions, calls of webhooks, audit', async () => {
        const span = { accountId: ACCOUNT, since: NOW - 86_400_000, until: NOW, only: {}, test: false };
        for (const by of [null, 'stream', 'tag'] as const)
          for (const bucket of ['hour', 'total'] as const)
            assert.deepEqual(await scansOf(() => readStats(temp.db.reader, { ...span, by, bucket })), []);
        const clock = new FakeClock();
        for (const filter of [
          {},
          { reason: 'complaint' },
          { created_after: NOW - 1000, created_before: NOW },
        ] as const) {
          const all = { accountId: ACCOUNT, ...filter };
          assert.deepEqual(await scansOf(() => pageOfSuppressions({ db: temp.db, clock }, all, { limit: 25 })), []);
        }
        for (const status of ['delivered', 'failed'] as const)
          assert.deepEqual(
            await scansOf(() => pageOfDeliveries({ db: temp.db }, { webhookId: 'whk_1', status, limit: 25 })),
            [],
          );
        for (const of of [
          { accountId: ACCOUNT },
          { accountId: ACCOUNT, onlyTest: true },
          'server',
          'strangers',
        ] as const)
          for (const by of ['person', 'key'] as const)
            assert.deepEqual(await scansOf(() => pageOfAudit({ db: temp.db }, { of, by }, { limit: 25 })), []);
        assert.deepEqual(
          await scansOf(() => findAuditEntry({ db: temp.db }, 'aud_1', { accountId: ACCOUNT, onlyTest: true })),
          [],
        );
      });
    });
  }

  it('takes the index that few are in, without figures as well', async () => {
    const statements: string[] = [];
    const note = ({ sql }: { sql: string }): void => void statements.push(sql);
    temp.db.reader.on('query', note);
    await listMessages(
      temp.db.reader,
      { accountId: ACCOUNT, rfc_message_id: '<x@elsewhere.test>' },
      { newestFirst: true, limit: 25 },
    );
    await eventsAfter(temp.db.reader, { accountId: ACCOUNT, batchId: 'bat_1' }, 0, 25);
    temp.db.reader.removeListener('query', note);
    assert.ok(statements.some((sql) => sql.includes('INDEXED BY messages_by_rfc_id')));
    assert.ok(
      statements.some((sql) => sql.includes('messages as m INDEXED BY messages_by_batch CROSS JOIN events as e')),
    );
  });

  it('finds a scan where there is one', async () => {
    assert.equal(
      (await scansOf(() => temp.db.reader('messages').where('subject', 'x').first() as Promise<unknown>)).length,
      1,
    );
  });
});
