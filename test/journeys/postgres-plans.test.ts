/**
 * On PostgreSQL each statement of the hot path and of the lists finds its rows by an index. Scans are so dear here that the planner takes one
 * only if no index can serve; the server counts them for each table.
 */
import assert from 'node:assert/strict';
import pg from 'pg';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { newFolder, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { dropDatabaseOf, isOnPostgres, urlOfFolder } from '../support/harness/postgres.ts';

/** The tables that grow with the mail. */
const GROWING = [
  'messages',
  'contents',
  'deliveries',
  'attempts',
  'events',
  'audit',
  'batches',
  'idempotency',
  'message_tags',
  'message_metadata',
  'message_words',
  'webhook_calls',
  'webhook_deliveries',
  'suppressions',
];

describe('journey: the plans of PostgreSQL', () => {
  const folder = newFolder();
  let server: FakeMailServer;
  let app: TestApp;

  before(async function () {
    if (!isOnPostgres) return this.skip('looks at the plans of PostgreSQL');
    server = await startMailServer();
    const start = (): Promise<TestApp> =>
      startTestApp({ folder, mailPort: server.port, zones: zonesFor('dest.test', 'full.test') });
    app = await start();
    await app.stop();
    const { pathname } = new URL(urlOfFolder(folder).replace('@/', '@localhost/'));
    await query(`ALTER DATABASE ${pathname.slice(1)} SET enable_seqscan = off`);
    app = await start();
    await query('SELECT pg_stat_reset()');
  });

  after(async () => {
    if (isOnPostgres) {
      await server.close();
      await dropDatabaseOf(folder);
    }
  });

  async function query<Row extends pg.QueryResultRow>(sql: string): Promise<Row[]> {
    const client = new pg.Client({ connectionString: urlOfFolder(folder) });
    await client.connect();
    try {
      return (await client.query<Row>(sql)).rows;
    } finally {
      await client.end();
    }
  }

  it('scan no table that grows with the mail', async () => {
    const ok = async (where: string): Promise<void> => {
      const { status, text } = await app.get(where);
      assert.equal(status, 200, text);
    };
    const more = { tags: ['order'], metadata: { order: '17' }, subject: 'Your order' };
    const { id } = await app.send(more, { headers: { 'Idempotency-Key': 'one' } });
    await app.send(more, { headers: { 'Idempotency-Key': 'one' } });
    const bulk = await app.request('POST', '/v1/messages', {
      from: 'hi@acme.test',
      subject: 'News',
      text: 'News.',
      recipients: Array.from({ length: 20 }, (_, n) => ({ to: `r${String(n)}@dest.test` })),
    });
    assert.equal(bulk.status, 202, bulk.text);
    await app.settled();
    server.options.script = { rcpt: '452 4.2.2 mailbox full' };
    const full = await app.send({ to: 'a@full.test' });
    await app.settled();
    server.options.script = { rcpt: '550 5.1.1 no such user' };
    await app.nextAttempt(full.id);
    server.options.script = {};
    await app.send({ to: 'a@full.test' });
    const later = await app.send({ send_at: new Date(app.clock.now() + 3_600_000).toISOString() });
    await app.request('POST', `/v1/messages/${later.id}/cancel`);
    await app.request('POST', `/v1/messages/${id}/resend`);
    await app.settled();
    for (const where of [
      '/v1/messages',
      ...[
        'status=delivered',
        'tag=order',
        'to=ana@dest.test',
        'to_domain=dest.test',
        'q=order',
        'metadata[order]=17',
      ].map((filter) => `/v1/messages?${filter}`),
      `/v1/messages/${id}`,
      `/v1/messages/${id}/attempts`,
      `/v1/messages/${id}/why`,
      '/v1/messages/count',
      '/v1/events',
      '/v1/events?type=delivered',
      '/v1/events?tag=order',
      '/v1/events?recipient=ana@dest.test',
      '/v1/events?before=end',
      '/v1/stats',
      '/v1/audit',
      '/v1/audit?status=202',
      '/v1/suppressions',
      '/v1/suppressions/a@full.test',
    ])
      await ok(where);
    await app.operator.call('queue.lanes', {});
    await app.stop();
    // Each connection counts for itself and hands in the rest of its counts when its process ends, which is after the stop.
    for (;;) {
      const [open] = await query<{ n: number }>(
        `SELECT count(*)::int AS n FROM pg_stat_activity
         WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`,
      );
      if (open?.n === 0) break;
    }
    const rows = await query<{ name: string; scans: number; look_ups: number }>(
      'SELECT relname AS name, seq_scan::int AS scans, idx_scan::int AS look_ups FROM pg_stat_user_tables',
    );
    const growing = rows.filter(({ name }) => GROWING.includes(name));
    assert.equal(growing.length, GROWING.length);
    assert.ok(
      growing.some(({ look_ups: lookUps }) => lookUps > 100),
      'the server counts',
    );
    const scanned = growing.filter(({ scans }) => scans > 0);
    assert.deepEqual(scanned, [], 'auto_explain with log_min_duration = 0 shows the statements');
  });
});
