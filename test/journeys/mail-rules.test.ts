/** Rules for mail (`delivery.limits`) over the whole program: mails by the hour, also over a restart, and the schedule and age of a stream. */
import assert from 'node:assert/strict';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { configFor, newFolder, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

describe('journey: rules for mail', () => {
  let server: FakeMailServer;
  let app: TestApp;
  beforeEach(async () => {
    server = await startMailServer();
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const start = async (limits: readonly object[], again: Partial<Pick<TestApp, 'folder' | 'clock'>> = {}) => {
    const settings = { delivery: { limits } };
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test', 'other.test'), settings, ...again });
  };
  const stream = async (slug: string): Promise<void> => {
    const { status } = await app.request('POST', '/v1/streams', { slug, name: slug, type: 'transactional' });
    assert.equal(status, 201);
  };
  const mails = (to: string): number =>
    server.sessions.flatMap((session) => session.mails).filter((mail) => mail.to.includes(to)).length;
  /** Resolves when so many mails have arrived there and the next one says why it waits. */
  const stopsAt = async (count: number, to: string, id: string) => {
    for (;;) {
      const told = await app.why(id);
      if (mails(to) === count && (told.until ?? '') > new Date(app.clock.now() + 5000).toISOString()) return told;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const nextHour = (): number => (Math.floor(app.clock.now() / HOUR) + 1) * HOUR;

  it('let so many go in an hour, also over a restart, say so of the rest, and let it go in the next', async () => {
    const limits = [{ name: 'slowly', match: { domain: 'dest.test' }, perHour: 3 }];
    const folder = newFolder();
    await start(limits, { folder });
    const follower = app.follow();
    for (let count = 0; count < 2; count++) await follower.of((await app.send()).id, 'delivered');
    const { clock } = app;
    await app.stop();
    await start(limits, { folder, clock });
    const [third, fourth, fifth] = [await app.send(), await app.send(), await app.send()];
    const ids = [third.id, fourth.id, fifth.id];
    const statuses = async () => Promise.all(ids.map(async (id) => (await app.message(id)).status));
    while (!(await statuses()).includes('delivered')) await new Promise((resolve) => setImmediate(resolve));
    const waiting = ids[(await statuses()).findIndex((status) => status !== 'delivered')] ?? '';
    const told = await stopsAt(3, 'ana@dest.test', waiting);
    assert.deepEqual(
      [told.reason, told.set_by, told.message, told.until],
      [
        'rate_limited',
        'operator',
        'The rule slowly lets 3 mails an hour go; as many have gone.',
        new Date(nextHour()).toISOString(),
      ],
    );
    const other = await app.send({ to: 'bo@other.test' });
    await app.follow().of(other.id, 'delivered');
    app.clock.advance(nextHour() - app.clock.now());
    for (const id of ids) await app.follow().of(id, 'delivered');
    assert.equal(mails('ana@dest.test'), 5);
    await app.balanced();
  });

  it('set by hand let so many go in an hour, say so of the rest, and let it go in the next one or when they end', async () => {
    await start([]);
    await app.operator.call('queue.limit', { lane: 'mx.dest.test', per_hour: 2, note: 'they asked' });
    const ids: string[] = [];
    for (let count = 0; count < 2; count++) ids.push((await app.send()).id);
    for (const id of ids) await app.follow().of(id, 'delivered');
    const third = await app.send();
    const told = await stopsAt(2, 'ana@dest.test', third.id);
    assert.deepEqual(
      [told.reason, told.set_by, told.message, told.until],
      [
        'rate_limited',
        'operator',
        'The limit of the lane mx.dest.test lets 2 mails an hour go (they asked); as many have gone.',
        new Date(nextHour()).toISOString(),
      ],
    );
    const { lane } = await app.operator.call('queue.lane', { lane: 'mx.dest.test' });
    assert.deepEqual(
      [lane.limits.filter(({ by }) => by === 'operator').map(({ what, to }) => [what, to]), lane.waits[0]?.message],
      [[['mails_per_hour', 2]], told.message],
    );
    app.clock.advance(nextHour() - app.clock.now());
    await app.follow().of(third.id, 'delivered');
    await app.follow().of((await app.send()).id, 'delivered');
    const last = await app.send();
    await stopsAt(4, 'ana@dest.test', last.id);
    await app.operator.call('queue.limit', { lane: 'mx.dest.test' });
    await app.follow().of(last.id, 'delivered');
    await app.balanced();
  });

  it('set by hand for a stream of an account hold its mail alone, also what a lane had in memory, until they end', async () => {
    await start([]);
    await stream('news');
    await app.operator.call('queue.limit', { account: 'default', stream: 'news', per_day: 1 });
    await app.follow().of((await app.send({ stream: 'news' })).id, 'delivered');
    const held = await app.send({ stream: 'news' });
    const row = await app.held(held.id);
    const id = (await app.operator.call('queue.holds', {})).data[0]?.id ?? '';
    assert.equal(row.held_by?.replace(/@\d+$/, ''), `rule:${id}`);
    assert.match(
      (await app.why(held.id)).message,
      /^It is held: the limit of the stream news lets no more of this mail/,
    );
    const { others } = await app.operator.call('queue.holds', {});
    assert.deepEqual(
      others.map(({ by, target, message }) => [by, target, message]),
      [['operator', id, `The limit ${id} lets no more of it go now.`]],
    );
    await app.follow().of((await app.send()).id, 'delivered');
    await app.operator.call('queue.release', { id });
    await app.follow().of(held.id, 'delivered');
    await app.balanced();
  });

  it('of one stream keep back no other mail of the account to the same domain', async () => {
    await start([{ name: 'news', match: { stream: 'news' }, perDay: 1 }]);
    await stream('news');
    await app.follow().of((await app.send({ stream: 'news' })).id, 'delivered');
    const held = await app.send({ stream: 'news' });
    const row = await app.held(held.id);
    assert.match(row.held_by ?? '', /^rule:news@\d+$/);
    const told = await app.why(held.id);
    assert.match(
      told.message,
      /^It is held: the rule news lets no more of this mail go before 2026-02-01T00:00:00\.000Z\.$/,
    );
    assert.equal(told.until, '2026-02-01T00:00:00.000Z');
    const { others } = await app.operator.call('queue.holds', {});
    assert.deepEqual(
      others.map(({ target, message }) => [target, message]),
      [['news', 'The rule news lets no more of it go now.']],
    );
    await app.follow().of((await app.send()).id, 'delivered');
    app.clock.advance(Date.parse('2026-02-01T00:00:00.000Z') - app.clock.now());
    await app.follow().of(held.id, 'delivered');
    await app.balanced();
  });

  it('change without a restart: what has gone counts on, and what waits goes if it may', async () => {
    const limitsOf = (perHour: number) => [{ name: 'slowly', match: { domain: 'dest.test' }, perHour, retry: ['20s'] }];
    await start(limitsOf(2));
    for (let count = 0; count < 2; count++) await app.follow().of((await app.send()).id, 'delivered');
    const third = await app.send();
    await stopsAt(2, 'ana@dest.test', third.id);
    const settings = { delivery: { limits: limitsOf(3) } };
    const { applied } = app.app.reload(configFor(app.folder, server.port, settings));
    assert.deepEqual(applied, ['delivery.limits']);
    await app.follow().of(third.id, 'delivered');
    const fourth = await app.send();
    const told = await stopsAt(3, 'ana@dest.test', fourth.id);
    assert.match(told.message, /^The rule slowly lets 3 mails an hour go/);
    app.app.reload(configFor(app.folder, server.port, { delivery: { limits: [] } }));
    await app.follow().of(fourth.id, 'delivered');
    await app.balanced();
  });

  it('give a stream a schedule and an age of its own', async () => {
    await start([{ name: 'codes', match: { stream: 'codes' }, retry: ['20s', '40s'], maxAge: '90s' }]);
    await stream('codes');
    server.options.script = { rcpt: () => '451 4.3.0 come back later' };
    const [code, other] = [await app.send({ stream: 'codes' }), await app.send()];
    await app.settled();
    const tries = async (id: string) => {
      const { attempts, recipients } = await app.message(id);
      const last = Date.parse(attempts.at(-1)?.started_at ?? '');
      return Math.round((Date.parse(recipients[0]?.next_attempt_at ?? '') - last) / 1000);
    };
    assert.deepEqual([await tries(code.id), await tries(other.id)], [20, 60]);
    await app.nextAttempt(code.id);
    assert.equal(await tries(code.id), 40);
    await app.nextAttempt(code.id);
    app.clock.advance(MINUTE);
    const bounce = (await app.follow().of(code.id, 'bounced')).at(-1);
    assert.equal(bounce?.type, 'bounced');
    assert.equal((await app.message(other.id)).status, 'deferred');
    await app.balanced();
  });
});
