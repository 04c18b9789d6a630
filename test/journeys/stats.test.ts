/** The numbers of an account agree with what happened, in whatever way they are asked for. */
import assert from 'node:assert/strict';
import { removeOldStats } from '../../src/events/stats-store.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import type { Program } from '../../src/cli/cli.ts';
import { ran } from '../cli/ran.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

interface Stats {
  bucket: string;
  by: string | null;
  since: string;
  until: string;
  total: Record<string, number>;
  rates: Record<string, number | null>;
  data: { at: string; key: string | null; counts: Record<string, number> }[];
  error: { code: string; field: string | null };
}

const DAY = 86_400_000;

/** The command reads the same clock as the server. */
const atTheTimeOf = (app: TestApp): Program => ({ now: () => app.clock.now() });

describe('journey: stats', () => {
  let server: FakeMailServer;
  let app: TestApp;

  beforeEach(async () => {
    server = await startMailServer({
      script: { rcpt: (line) => (line.includes('<gone@') ? '550 5.1.1 no such user' : '250 2.1.5 ok') },
    });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const stats = async (query = ''): Promise<Stats> => {
    const { status, body, text } = await app.get<Stats>(`/v1/stats${query}`);
    assert.equal(status, 200, text);
    return body;
  };

  it('sums days of a time zone, with the totals of the same days', async () => {
    // 23:30 in New York, and half an hour after midnight.
    app.clock.advance(Date.parse('2026-07-11T03:30:00Z') - app.clock.now());
    const { id: before } = await app.send();
    await app.follow().of(before, 'delivered');
    app.clock.advance(3_600_000);
    const { id: after } = await app.send();
    await app.follow().of(after, 'delivered');
    const zoned = await stats('?time_zone=America/New_York&since=2026-07-09T12:00:00Z');
    assert.deepEqual(
      zoned.data.map(({ at, counts }) => [at, counts['sent']]),
      [
        ['2026-07-09T04:00:00.000Z', 0],
        ['2026-07-10T04:00:00.000Z', 1],
        ['2026-07-11T04:00:00.000Z', 1],
      ],
    );
    assert.equal(zoned.bucket, 'day');
    const from = 'since=2026-07-11T04:00:00Z&by=stream';
    assert.equal((await stats(`?${from}&time_zone=America/New_York`)).total['sent'], 1);
    assert.equal((await stats(`?${from}`)).total['sent'], 1, 'a total begins with the hour');
    assert.equal((await stats('?since=2026-07-11T00:00:00Z&by=stream')).total['sent'], 2, 'the day of UTC has both');
    assert.equal((await stats('?since=2026-05-01T12:00:00Z&by=stream')).since, '2026-05-01T00:00:00.000Z');
    for (const [query, code, field] of [
      ['time_zone=Mars/Olympus', 'invalid_parameter', 'time_zone'],
      [`time_zone=${'x'.repeat(200)}`, 'invalid_parameter', 'time_zone'],
      ['time_zone=Europe/Berlin&since=2026-05-01T00:00:00Z', 'invalid_parameter', 'since'],
      ['time_zone=Europe/Berlin&by=stream&bucket=day', 'mutually_exclusive_fields', 'time_zone'],
    ] as const) {
      const { status, body } = await app.get<Stats>(`/v1/stats?${query}`);
      assert.deepEqual([status, body.error.code, body.error.field], [400, code, field], query);
    }
    assert.equal(
      (await stats('?time_zone=UTC&since=2026-05-01T00:00:00Z')).total['sent'],
      2,
      'UTC reaches back as before',
    );
  });

  it('counts each recipient by time, stream, tag, domain and provider', async () => {
    const events = app.follow();
    const first = await app.send({ tags: ['a', 'b'], cc: ['bo@dest.test'] });
    const gone = await app.send({ to: 'gone@dest.test', tags: ['a'] });
    const other = await app.send({ stream: 'broadcast' });
    await events.until((seen) => seen.filter(({ type }) => type !== 'sent').length === 4);
    await app.send({ to: 'gone@dest.test' });

    const all = await stats();
    assert.equal(all.data.length, 30);
    const { sent, delivered, bounced, bounced_hard, suppressed, complained } = all.total;
    assert.deepEqual(
      { sent, delivered, bounced, bounced_hard, suppressed, complained },
      { sent: 4, delivered: 3, bounced: 1, bounced_hard: 1, suppressed: 1, complained: 0 },
    );
    assert.deepEqual(all.rates, { delivered: 0.75, bounced: 0.25, complained: 0, opened: 0, clicked: 0 });
    assert.deepEqual(all.data.at(-1)?.counts, all.total, 'all of it is of today');

    const keyed = async (query: string): Promise<[string | null, number | undefined][]> =>
      (await stats(query)).data.map(({ key, counts }) => [key, counts['sent']]);
    assert.deepEqual(await keyed('?by=stream'), [
      ['transactional', 3],
      ['broadcast', 1],
    ]);
    assert.deepEqual(await keyed('?by=tag'), [
      ['a', 3],
      ['b', 2],
    ]);
    const apart = await stats('?by=tag');
    assert.deepEqual(
      [apart.total['sent'], apart.rates],
      [4, all.rates],
      'mail with two tags counts once, mail without counts',
    );
    assert.equal((await stats('?by=tag&bucket=hour&tag=a')).total['sent'], 3);
    assert.deepEqual(await keyed('?by=domain&tag=b'), [['acme.test', 2]]);
    assert.deepEqual(await keyed('?by=provider'), [['other', 4]]);
    assert.equal((await stats('?tag=b')).total['delivered'], 2);
    assert.equal((await stats('?stream=broadcast')).total['delivered'], 1);
    assert.equal((await stats('?provider=google')).total['sent'], 0);
    assert.equal((await stats('?bucket=hour')).data.length, 24);
    assert.equal((await stats('?test=true')).total['sent'], 0);
    assert.ok([first, gone, other].every(({ id }) => id.startsWith('msg_')));
  });

  it('counts mail by template, within everything but tags', async () => {
    const events = app.follow();
    const made = async (name: string): Promise<string> => {
      const { body } = await app.request<{ id: string }>('POST', '/v1/templates', {
        name,
        alias: name.toLowerCase(),
        subject: 'Hi {{ name }}',
        text: 'Hello',
      });
      assert.equal((await app.request('POST', `/v1/templates/${body.id}/publish`)).status, 200);
      return body.id;
    };
    const [welcome, news] = [await made('Welcome'), await made('News')];
    const of = (template_id: string, more: object = {}): Record<string, unknown> => ({
      template_id,
      html: null,
      text: null,
      subject: null,
      ...more,
    });
    await app.send(of(welcome, { tags: ['x'] }));
    await app.send(of(welcome, { to: 'gone@dest.test', stream: 'broadcast' }));
    await app.send(of(news));
    await app.send();
    await events.until((seen) => seen.filter(({ type }) => type !== 'sent').length === 4);
    const keyed = async (query: string): Promise<unknown[]> =>
      (await stats(query)).data.map(({ key, counts }) => [key, counts['sent'], counts['bounced']]);
    assert.deepEqual(await keyed('?by=template'), [
      [welcome, 2, 1],
      [news, 1, 0],
    ]);
    assert.deepEqual(await keyed('?by=template&stream=broadcast'), [[welcome, 1, 1]]);
    assert.deepEqual(await keyed(`?by=stream&template_id=${news}`), [['transactional', 1, 0]]);
    assert.equal((await stats(`?template_id=${welcome}&bucket=hour`)).total['sent'], 2);
    assert.deepEqual(await stats('?template_id=welcome'), await stats(`?template_id=${welcome}`));
    assert.equal((await stats('?template_id=nowhere')).total['sent'], 0);
    assert.equal((await stats('?by=stream')).total['sent'], 4, 'mail without a template counts as it did');
    for (const [query, field] of [
      ['?by=template&tag=x', 'by'],
      [`?by=tag&template_id=${news}`, 'template_id'],
    ] as const) {
      const { status, body } = await app.get<Stats>(`/v1/stats${query}`);
      assert.deepEqual([status, body.error.code, body.error.field], [400, 'mutually_exclusive_fields', field]);
    }
    const told = await ran(['stats', '--by', 'template'], { POSTHORN_DATA_DIR: app.folder }, atTheTimeOf(app));
    assert.match(told.out, new RegExp(`^TEMPLATE .*\n${welcome} +2 `));
  });

  it('keeps simulated mail apart', async () => {
    const events = app.follow();
    const { id } = await app.send({ to: 'bounced@simulator.posthorn.test' });
    await events.of(id, 'bounced');
    assert.deepEqual([(await stats()).total['sent'], (await stats('?test=true')).total['bounced']], [0, 1]);
  });

  it('says on the command line that simulated mail was left out', async () => {
    const events = app.follow();
    const { id } = await app.send({ to: 'delivered@simulator.posthorn.test' });
    await events.of(id, 'delivered');
    const told = await ran(['stats'], { POSTHORN_DATA_DIR: app.folder }, atTheTimeOf(app));
    assert.match(told.out, /^nothing between .+, leaving out simulated mail to 1 recipient: show it with --test$/);
    const shown = await ran(['stats', '--test'], { POSTHORN_DATA_DIR: app.folder }, atTheTimeOf(app));
    assert.match(shown.out, /^DAY +SENT/);
  });

  it('refuses ranges that make no sense', async () => {
    for (const [query, field] of [
      ['?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z', 'since'],
      ['?bucket=hour&since=2020-01-01T00:00:00Z', 'since'],
      // Hours that are not kept any more are not shown as hours without mail.
      ['?bucket=hour&since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z', 'since'],
      ['?bucket=hour&by=stream&since=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z', 'since'],
      ['?bucket=hour&by=stream&since=2026-01-20T00:00:00Z', 'since'],
      ['?since=2020-01-01T00:00:00Z', 'since'],
      ['?by=colour', 'by'],
      ['?by=tag&by=stream', 'by'],
      ['?bucket=year', 'bucket'],
      ['?since=yesterday', 'since'],
      ['?color=red', 'color'],
    ]) {
      const { status, body } = await app.get<Stats>(`/v1/stats${String(query)}`);
      assert.deepEqual([status, body.error.code, body.error.field], [400, 'invalid_parameter', field], query);
    }
  });

  it('forgets hours after a month, tags after a year, and days never', async () => {
    const events = app.follow();
    const { id } = await app.send({ tags: ['a'] });
    await events.of(id, 'delivered');
    const rows = async (): Promise<number> =>
      ((await app.app.db.reader('event_counts').count({ n: '*' }).first()) as { n: number }).n;
    assert.equal(await rows(), 8);
    const now = app.clock.now();
    assert.equal(await removeOldStats(app.app.db.commit, now + 30 * DAY, 100), 0);
    assert.equal(await removeOldStats(app.app.db.commit, now + 40 * DAY, 100), 2);
    assert.equal(await removeOldStats(app.app.db.commit, now + 410 * DAY, 100), 1);
    assert.equal(await rows(), 3);
  });

  it('shows them on the command line', async () => {
    const events = app.follow();
    const { id } = await app.send();
    await events.of(id, 'delivered');
    const shown = async (...args: string[]): Promise<Stats> => {
      const { code, out } = await ran(
        ['stats', '--json', ...args],
        { POSTHORN_DATA_DIR: app.config.dataDir },
        atTheTimeOf(app),
      );
      assert.equal(code, 0);
      return JSON.parse(out) as Stats;
    };
    const days = await shown();
    assert.deepEqual(
      days.data.map(({ counts }) => counts['delivered']),
      [1],
    );
    app.clock.advance(3 * 3_600_000);
    assert.deepEqual((await shown('--by', 'stream', '--hours', '2')).data, [], 'the same hours as without --by');
    const byStream = await shown('--by', 'stream', '--hours', '4');
    assert.deepEqual(
      byStream.data.map(({ key, counts }) => [key, counts['sent']]),
      [['transactional', 1]],
    );
  });

  it('refuses an empty filter and a provider that there is none of, which would only say zero', async () => {
    for (const [query, field] of [
      ['tag=', 'tag'],
      ['stream=', 'stream'],
      ['domain=', 'domain'],
      ['template_id=', 'template_id'],
      ['provider=goggle', 'provider'],
    ] as const) {
      const { status, body } = await app.get<Stats>(`/v1/stats?${query}`);
      assert.deepEqual([status, body.error.code, body.error.field], [400, 'invalid_parameter', field], query);
    }
  });
});
