/** Mail leaves from several addresses of this machine, each with a name and lanes of its own, over the whole program. */
import assert from 'node:assert/strict';
import type { DeliveryRow } from '../../src/storage/tables.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { signedIn } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';

const MINUTE = 60_000;
const listed = '554 5.7.1 Service unavailable; client host [127.0.0.2] blocked using a block list';

const sources = [
  { name: 'one', ipv4: '127.0.0.2', ehlo: 'one.posthorn.test' },
  { name: 'two', ipv4: '127.0.0.3', ehlo: 'two.posthorn.test' },
  { name: 'bulk', ipv4: '127.0.0.4', pool: 'news' },
];

describe('journey: sources', () => {
  let server: FakeMailServer;
  let app: TestApp;
  /** The answer to RCPT, by the address that asks. */
  let answers: Record<string, string>;
  const zones = zonesFor('dest.test', 'other.test');

  beforeEach(async () => {
    answers = {};
    server = await startMailServer({
      script: { rcpt: (_, session) => answers[session.from] ?? '250 2.1.5 ok' },
    });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const start = async (list: readonly object[] = sources, folder?: string): Promise<void> => {
    app = await startTestApp({
      mailPort: server.port,
      zones,
      settings: { delivery: { sources: list } },
      ...(folder === undefined ? {} : { folder }),
    });
  };
  const ended = (id: string, type = 'delivered') => app.follow().of(id, type);
  /** Resolves when the receiver's refusals keep the mail back. */
  const refused = async (id: string): Promise<void> => {
    while ((await app.why(id)).reason !== 'receiver_refuses_us') await new Promise((resolve) => setImmediate(resolve));
  };
  const sourceOf = async (id: string): Promise<unknown> =>
    ((await app.message(id)).attempts.at(-1) as { source?: unknown } | undefined)?.source;
  const sendAll = async (count: number, fields: Record<string, unknown> = {}): Promise<string[]> => {
    const ids: string[] = [];
    for (let i = 0; i < count; i++) {
      const { id } = await app.send(fields);
      await ended(id);
      ids.push(id);
    }
    return ids;
  };
  const rowOf = async (id: string): Promise<DeliveryRow> => {
    const [row] = await app.app.db.prepared.all<DeliveryRow>('SELECT * FROM deliveries WHERE message_id = ?', [id]);
    assert.ok(row);
    return row;
  };

  it('takes the sources of the default pool in turn, each under its own name', async () => {
    await start();
    const ids = await sendAll(4);
    assert.deepEqual([...new Set(server.sessions.map(({ from }) => from))].sort(), ['127.0.0.2', '127.0.0.3']);
    for (const { from, lines } of server.sessions)
      assert.equal(lines[0], `EHLO ${from === '127.0.0.2' ? 'one' : 'two'}.posthorn.test`);
    const used = await Promise.all(ids.map(sourceOf));
    assert.deepEqual([...new Set(used)].sort(), ['one', 'two']);
    const lanes = app.logged.filter(({ event }) => event === 'attempt').map((line) => [line['lane'], line['source']]);
    assert.deepEqual([...new Set(lanes.map(String))].sort(), ['mx.dest.test/one,one', 'mx.dest.test/two,two']);
    assert.equal((await app.operator.call('queue.lane', { lane: 'mx.dest.test/one' })).lane.source, 'one');
  });

  it('sends a stream from the pool it names, and from the default pool where that has no sources', async () => {
    await start();
    for (const [slug, pool] of [
      ['letters', 'news'],
      ['others', 'nobody'],
    ] as const) {
      const { status } = await app.request('POST', '/v1/streams', { slug, name: slug, type: 'broadcast', pool });
      assert.equal(status, 201);
    }
    const [letter = ''] = await sendAll(1, { stream: 'letters' });
    assert.equal(await sourceOf(letter), 'bulk');
    assert.equal(
      server.sessions[0]?.lines[0],
      'EHLO mail.posthorn.test',
      'a source without a name in EHLO has that of the host',
    );
    const [other = ''] = await sendAll(1, { stream: 'others' });
    assert.ok(['one', 'two'].includes(String(await sourceOf(other))));
    assert.equal(app.logged.filter(({ event }) => event === 'pool_missing').length, 1);
  });

  it('tries greylisted mail again by the same source', async () => {
    await start();
    answers = {
      '127.0.0.2': '451 4.7.1 greylisted, try again later',
      '127.0.0.3': '451 4.7.1 greylisted, try again later',
    };
    const { id } = await app.send();
    await ended(id, 'deferred');
    const first = await sourceOf(id);
    // Some mail in between moves the turn.
    answers = {};
    await sendAll(1, { to: 'bo@other.test' });
    const message = await app.nextAttempt(id);
    assert.equal(message.status, 'delivered');
    assert.equal(await sourceOf(id), first);
  });

  it('leaves a source alone at a site that has it on a block list, and sends by another, also what was refused', async () => {
    await start();
    answers = { '127.0.0.2': listed };
    const [first, second] = [(await app.send()).id, (await app.send()).id];
    await app.settled();
    app.clock.advance(1000);
    for (const id of [first, second]) await ended(id);
    const before = server.sessions.length;
    const ids = await sendAll(4);
    assert.deepEqual([...new Set(await Promise.all(ids.map(sourceOf)))], ['two']);
    assert.ok(server.sessions.slice(before).every(({ from }) => from === '127.0.0.3'));
    const [alarm] = app.logged.filter(({ event }) => event === 'source_blocklisted');
    assert.deepEqual([alarm?.level, alarm?.['source'], alarm?.['site']], ['error', 'one', 'mx.dest.test']);
    const { data } = await app.operator.call('queue.sources', {});
    assert.deepEqual(
      data.map(({ name, blocks }) => [name, blocks.map(({ site }) => site)]),
      [
        ['one', ['mx.dest.test']],
        ['two', []],
        ['bulk', []],
      ],
    );
    const { changes } = await app.operator.call('queue.lane', { lane: 'mx.dest.test/one' });
    assert.match(String(changes.at(-1)?.to), /^rests until/);
    // At other sites it goes on.
    answers = {};
    const others = await sendAll(4, { to: 'bo@other.test' });
    assert.deepEqual([...new Set(await Promise.all(others.map(sourceOf)))].sort(), ['one', 'two']);
    app.clock.advance(2 * MINUTE);
    const later = await sendAll(4);
    assert.deepEqual([...new Set(await Promise.all(later.map(sourceOf)))].sort(), ['one', 'two']);
    await app.balanced();
  });

  it('lets mail wait without an attempt where no source is left, says why, and goes on by itself or when told', async () => {
    await start(sources.slice(0, 1));
    answers = { '127.0.0.2': listed };
    const first = await app.send();
    await ended(first.id, 'bounced');
    answers = {};
    const { id } = await app.send();
    await refused(id);
    const row = await rowOf(id);
    assert.deepEqual([row.held_by, row.attempt_count, row.status], [null, 0, 'queued']);
    const told = await app.why(id);
    assert.equal(told.reason, 'receiver_refuses_us');
    assert.match(
      told.message,
      /^mx\.dest\.test from one refuses mail from this address, which is on a block list: ".*block list/,
    );
    assert.equal(told.until, new Date(app.clock.now() + 2 * MINUTE).toISOString());
    app.clock.advance(2 * MINUTE);
    await ended(id);

    answers = { '127.0.0.2': listed };
    await ended((await app.send()).id, 'bounced');
    answers = {};
    const waiting = await app.send();
    await refused(waiting.id);
    assert.deepEqual(await app.operator.call('queue.unblock', { source: 'one' }), {
      unblocked: 1,
    });
    await ended(waiting.id);
    await app.balanced();
  });

  it('remembers over a restart who has it on a block list, for the address of the system too', async () => {
    await start([]);
    answers = { '127.0.0.1': listed };
    await ended((await app.send()).id, 'bounced');
    answers = {};
    const folder = app.folder;
    const { id } = await app.send();
    await refused(id);
    const { clock } = app;
    assert.match((await app.why(id)).message, /refuses mail from this address, which is on a block list/);
    // Read by a second program on a copy of the data.
    const { copyData, newFolder } = await import('../support/harness/app.ts');
    const copy = newFolder();
    await copyData(folder, copy);
    const again = await startTestApp({ mailPort: server.port, zones, folder: copy, clock });
    const { data } = await again.operator.call('queue.sources', {});
    assert.deepEqual(
      data.map(({ name, blocks }) => [name, blocks.length]),
      [[null, 1]],
    );
    await again.stop();
  });

  it('sends as much as the warm-up allows, the rest by others of the pool or the next day, and says why', async () => {
    await start([{ ...sources[0], warmUp: true }]);
    const send = (count: number) => Promise.all(Array.from({ length: count }, () => app.send()));
    const follower = app.follow();
    const ids = (await send(55)).map(({ id }) => id);
    await follower.until((seen) => seen.filter(({ type }) => type === 'delivered').length === 50);
    const rows = await Promise.all(ids.map(rowOf));
    assert.equal(rows.filter(({ status }) => status === 'delivered').length, 50);
    const [left] = rows.filter(({ status }) => status === 'queued');
    assert.deepEqual([left?.held_by, left?.attempt_count], [null, 0]);
    const told = await app.why(left?.message_id ?? '');
    assert.match(told.message, /^The warm-up of one sends mx\.dest\.test 50 mails today\.$/);
    assert.equal(told.until, '2026-02-01T00:00:00.000Z');
    const { data } = await app.operator.call('queue.sources', {});
    assert.deepEqual(data[0]?.warm_up, [{ site: 'mx.dest.test', sent: 50, cap: 50 }]);
    await sendAll(1, { to: 'bo@other.test' });
    app.clock.advance(Date.parse('2026-02-01T00:00:00.000Z') - app.clock.now());
    for (const { message_id: id } of rows) await ended(id);
    assert.deepEqual((await app.operator.call('queue.sources', {})).data[0]?.warm_up[0], {
      site: 'mx.dest.test',
      sent: 5,
      cap: 100,
    });
    await app.balanced();
  });

  it('sends by a warm source what is over the cap of the one that is warmed up', async () => {
    await start([{ ...sources[0], warmUp: true }, sources[1] ?? {}]);
    await Promise.all(Array.from({ length: 120 }, () => app.send()));
    await app.settled();
    const used = await app.app.db.prepared.all<{ source: string; n: number }>(
      "SELECT source, COUNT(*) AS n FROM attempts WHERE outcome = 'accepted' GROUP BY source ORDER BY source",
    );
    assert.deepEqual(
      used.map(({ source }) => source),
      ['one', 'two'],
    );
    assert.ok((used[0]?.n ?? 0) <= 50);
    assert.equal((used[0]?.n ?? 0) + (used[1]?.n ?? 0), 120);
  });

  it('counts a complaint against the source that the mail left from', async () => {
    await start([{ ...sources[0], warmUp: true }]);
    const { id } = await app.send();
    await ended(id);
    const row = await rowOf(id);
    app.app.mta.complained(row.id);
    for (;;) {
      const [counted] = await app.app.db.prepared.all<{ complained: number }>('SELECT complained FROM limit_counts');
      if (counted?.complained === 1) break;
      await new Promise((resolve) => setImmediate(resolve));
    }
  });

  it('shows the reputation of each source, by day and together', async () => {
    await start();
    await sendAll(4);
    answers = { '127.0.0.2': '550 5.1.1 no such user here', '127.0.0.3': '550 5.1.1 no such user here' };
    for (const to of ['bo@dest.test', 'cy@dest.test']) await ended((await app.send({ to })).id, 'bounced');
    const { sources: days } = await app.operator.call('reputation', { days: 7 });
    assert.deepEqual(
      days.map(({ source, counts }) => [source, counts.sent, counts.delivered, counts.bounced]),
      [
        ['one', 3, 2, 1],
        ['two', 3, 2, 1],
      ],
    );
    const browser = await signedIn(app.url, app.operator);
    const { html } = await browser.open('/reputation');
    assert.deepEqual(htmlFaults(html), []);
    assert.match(html, /<h2>By source<\/h2>/);
    assert.match(
      html,
      /<a href="\/reputation\?source&#x3D;one">one<\/a><td class="n" data-l="tries">3<td class="n" data-l="delivered">2/,
    );
    const one = await browser.open('/reputation?source=one&provider=google');
    assert.match(one.html, /Source: one <span aria-hidden="true">×/);
    assert.match(one.html, /href="\/reputation\?provider&#x3D;google" title="Without this filter"/);
    assert.deepEqual(htmlFaults(one.html), []);
  });

  it('pauses a source: others of the pool send, and where there is none the mail waits with its time standing still', async () => {
    await start();
    await app.operator.call('queue.hold', { source: 'one' });
    const ids = await sendAll(3);
    assert.deepEqual([...new Set(await Promise.all(ids.map(sourceOf)))], ['two']);
    const hold = await app.operator.call('queue.hold', { source: 'two', note: 'moving' });
    const { id } = await app.send();
    assert.match(String((await app.held(id)).held_by), /^paused:default@/);
    assert.match((await app.why(id)).message, /there is a hold on the source one/);
    await app.operator.call('queue.release', { id: hold.id });
    await ended(id);
    assert.equal(await sourceOf(id), 'two');
    await assert.rejects(app.operator.call('queue.hold', { source: 'three' }), /there is no source "three"/);
    await app.balanced();
  });

  it('does not let a source that cannot be dialled from hold up the others', async () => {
    // An address that is not this machine's.
    await start([{ name: 'gone', ipv4: '192.0.2.1' }, sources[1] ?? {}]);
    const { id } = await app.send();
    await app.settled();
    const other = await app.send();
    await app.settled();
    const statuses = await Promise.all([id, other.id].map(async (one) => (await rowOf(one)).status));
    assert.ok(statuses.includes('delivered'));
    assert.ok(server.sessions.every(({ from }) => from === '127.0.0.3'));
  });

  it('sends nothing from an address that is not on this machine, without an attempt, and says so', async () => {
    await start([{ name: 'gone', ipv4: '192.0.2.1' }]);
    const { id } = await app.send();
    await app.settled();
    assert.match((await app.why(id)).message, /the address 192\.0\.2\.1 of the source gone is not on this machine/);
    assert.equal((await rowOf(id)).attempt_count, 0);
    const { data } = await app.operator.call('queue.lanes', {});
    assert.match(data[0]?.waits[0]?.message ?? '', /192\.0\.2\.1 .* is not on this machine/);
    assert.deepEqual((await app.operator.call('queue.sources', {})).data[0]?.absent, ['192.0.2.1']);
    assert.equal((await app.operator.call('needs', {})).data.find(({ kind }) => kind === 'no_source')?.level, 'red');
  });
});
