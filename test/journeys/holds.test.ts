/** The operator keeps mail back, lets it go, slows lanes down and cancels, over the whole program. */
import assert from 'node:assert/strict';
import type { ArgsOf } from '../../src/operator/routes.ts';
import type { DeliveryRow } from '../../src/storage/tables.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { copyData, newFolder, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { settleEventLoop } from '../support/harness/event-loop.ts';
import { Problem } from '../../src/base/problem.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

describe('journey: holds', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let answer: string;
  const zones = zonesFor('dest.test', 'other.test', 'xn--bcher-kva.test');

  beforeEach(async () => {
    answer = '250 2.1.5 ok';
    server = await startMailServer({ script: { rcpt: () => answer } });
    app = await startTestApp({ mailPort: server.port, zones });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const hold = (args: ArgsOf<'queue.hold'>) => app.operator.call('queue.hold', args);
  const rowOf = async (id: string): Promise<DeliveryRow> => {
    const [row] = await app.app.db.prepared.all<DeliveryRow>('SELECT * FROM deliveries WHERE message_id = ?', [id]);
    assert.ok(row);
    return row;
  };
  const delivered = (id: string) => app.follow().of(id, 'delivered');
  const lastOf = (endpoint: string) =>
    app.app.db.prepared.all<{ actor: string; result: string }>(
      'SELECT actor, result FROM audit WHERE endpoint = ? ORDER BY id DESC LIMIT 1',
      [endpoint],
    );

  for (const [reason, part] of [
    ['a domain', { domain: 'DEST.test' }],
    ['a lane', { lane: 'mx.dest.test' }],
    ['an account', { account: 'default' }],
    ['a stream', { stream: 'transactional' }],
  ] as const) {
    it(`pauses ${reason}, catching new mail, and lets it go`, async () => {
      const pause = await hold({ ...part, new: true, note: 'they asked' });
      const { id } = await app.send();
      const row = await app.held(id);
      assert.deepEqual([row.held_by, row.status, row.attempt_count], [pause.id, 'queued', 0]);
      const told = await app.why(id);
      assert.equal(told.reason, 'held');
      assert.match(told.message, /there is a hold on the \w+ \S+ \(they asked\)/);
      const { body } = await app.get<{ recipients: unknown[] }>(`/v1/messages/${id}/why`);
      assert.deepEqual(body.recipients, [told], 'the API says the same');
      assert.equal((await app.message(id)).recipients[0]?.next_attempt_at, null);
      assert.deepEqual(server.sessions, []);
      assert.deepEqual(await lastOf('queue.hold'), [{ actor: 'operator', result: 'ok' }]);

      const released = await app.operator.call('queue.release', part);
      assert.deepEqual(
        released.data.map((one) => one.id),
        [pause.id],
      );
      await delivered(id);
      assert.deepEqual([(await rowOf(id)).held_by, (await app.why(id)).reason], [null, 'finished']);
      assert.deepEqual(await lastOf('queue.release'), [{ actor: 'operator', result: 'ok' }]);
      assert.deepEqual((await app.operator.call('queue.holds', {})).data, []);
      await app.balanced();
    });
  }

  it('finds a domain however it is typed, and refuses what is none', async () => {
    for (const domain of ['bücher.test', 'BÜCHER.test', 'xn--bcher-kva.test.', ' Bücher.test']) {
      const { target } = await hold({ domain, new: true });
      assert.equal(target, 'xn--bcher-kva.test', domain);
      const { id } = await app.send({ to: 'ana@bücher.test' });
      await app.held(id);
      assert.equal((await app.operator.call('queue.list', { domain })).data.length, 1);
      assert.equal((await app.operator.call('queue.cancel', { domain })).canceled, 1);
      assert.equal((await app.operator.call('queue.release', { domain })).data.length, 1);
    }
    for (const domain of ['@dest.test', 'ana@dest.test', 'dest test', 'dest..test'])
      await assert.rejects(hold({ domain }), { code: 'invalid_field' }, domain);
    await hold({ domain: '~simulator' });
  });

  it('holds one message, or what waits now but not what comes', async () => {
    answer = '451 4.3.0 later';
    const [one, other] = [await app.send(), await app.send()];
    for (const { id } of [one, other]) await app.follow().of(id, 'deferred');
    await hold({ message_id: one.id });
    answer = '250 2.1.5 ok';
    assert.equal((await app.nextAttempt(other.id)).status, 'delivered');
    assert.ok(await app.held(one.id));
    await app.operator.call('queue.release', { message_id: one.id });
    await delivered(one.id);

    answer = '451 4.3.0 later';
    const old = await app.send();
    await app.follow().of(old.id, 'deferred');
    await hold({ domain: 'dest.test' });
    answer = '250 2.1.5 ok';
    app.clock.advance(120_000);
    await app.held(old.id);
    const young = await app.send();
    await delivered(young.id);
    await app.balanced();
  });

  it('holds a mail that was made ready while a slow host had the one in front of it', async () => {
    server.options.script = { message: () => ({ raw: '' }) };
    const accept = (): void => server.sessions[0]?.say('250 2.0.0 taken\r\n');
    await app.operator.call('queue.limit', { lane: 'mx.dest.test', connections: 1 });
    const first = await app.send();
    await server.reached('message', 1);
    const [second, third] = [await app.send(), await app.send()];
    // With both in the lane the worker goes on over the same connection.
    while ((app.app.mta.reports.lane('mx.dest.test')?.waiting ?? 0) < 2) await settleEventLoop();
    accept();
    await server.reached('message', 2);
    await hold({ domain: 'dest.test' });
    app.clock.advance(2_000);
    accept();
    for (const { id } of [first, second]) await delivered(id);
    const row = await app.held(third.id);
    assert.deepEqual([row.status, row.attempt_count], ['queued', 0]);
    assert.equal(server.sessions[0]?.mails.length, 2);
    await app.balanced();
  });

  it('is not rewritten while it is held, however long, and not tried by a flush', async () => {
    await hold({ domain: 'dest.test', new: true });
    const { id } = await app.send();
    await app.held(id);
    const [before] = await app.app.db.prepared.all('SELECT * FROM deliveries');
    const { groups } = app.app.db.commit.stats;
    for (let minute = 0; minute < 10; minute++) app.clock.advance(60_000);
    await app.settled();
    assert.equal((await app.operator.call('queue.flush', { all: true })).flushed, 0);
    assert.deepEqual(await app.app.db.prepared.all('SELECT * FROM deliveries'), [before]);
    assert.ok(app.app.db.commit.stats.groups - groups <= 3, 'the flush and its audit line, but no mail');
  });

  it('ends by itself after its time', async () => {
    await hold({ domain: 'dest.test', new: true, for_ms: 2 * HOUR });
    const { id } = await app.send();
    const row = await app.held(id);
    assert.equal(row.due_at, app.clock.now() + 2 * HOUR);
    assert.equal((await app.why(id)).until, new Date(row.due_at).toISOString());
    app.clock.advance(2 * HOUR);
    await delivered(id);
    assert.deepEqual((await app.operator.call('queue.holds', {})).data, []);
  });

  it('stops the 72 h clock but never expires_at', async () => {
    answer = '451 4.3.0 later';
    const long = await app.send();
    const short = await app.send({ expires_at: new Date(app.clock.now() + DAY).toISOString() });
    for (const { id } of [long, short]) await app.follow().of(id, 'deferred');
    app.clock.advance(10_000);
    await hold({ domain: 'dest.test', new: true });
    const begun = app.clock.now();
    const limit = (await rowOf(long.id)).give_up_at;
    app.clock.advance(HOUR);
    for (const { id } of [long, short]) await app.held(id);
    app.clock.advance(4 * DAY);
    await app.settled();
    assert.equal((await app.message(short.id)).status, 'bounced', 'its sender has set that time');
    assert.equal((await app.message(long.id)).status, 'deferred');
    answer = '250 2.1.5 ok';
    await app.operator.call('queue.release', { domain: 'dest.test' });
    await delivered(long.id);
    assert.equal(
      (await rowOf(long.id)).give_up_at,
      limit + app.clock.now() - begun,
      'all of the hold was given back, once',
    );
    await app.balanced();
  });

  it('survives a restart', async () => {
    const pause = await hold({ domain: 'dest.test', new: true });
    const first = await app.send();
    await app.held(first.id);
    const folder = newFolder();
    await copyData(app.folder, folder);
    await app.stop();
    app = await startTestApp({ folder, mailPort: server.port, zones, clock: app.clock });
    assert.deepEqual(
      (await app.operator.call('queue.holds', {})).data.map(({ id }) => id),
      [pause.id],
    );
    const second = await app.send();
    await app.held(second.id);
    assert.deepEqual(server.sessions, []);
    await app.operator.call('queue.release', { id: pause.id });
    for (const { id } of [first, second]) await delivered(id);
    await app.balanced();
  });

  it('gives back what a pause of the account held, without a word to the engine', async () => {
    const { id } = await app.send({ send_at: new Date(app.clock.now() + HOUR).toISOString() });
    await app.operator.call('accounts.pause', { account: 'default', paused: true });
    app.clock.advance(HOUR);
    assert.match((await app.held(id)).held_by ?? '', /^account:acc_/);
    await app.operator.call('accounts.pause', { account: 'default', paused: false });
    // A sweep frees it. One that is under way and has looked already sets the timer of the next one only when it ends.
    while ((await rowOf(id)).held_by !== null) app.clock.advance(1000);
    await delivered(id);
  });

  it('cancels what waits of a domain, held or not, and nothing else', async () => {
    await hold({ domain: 'dest.test', new: true });
    const mails = [await app.send(), await app.send()];
    for (const { id } of mails) await app.held(id);
    const scheduled = await app.send({ to: 'bo@other.test', send_at: new Date(app.clock.now() + HOUR).toISOString() });
    assert.deepEqual(await app.operator.call('queue.cancel', { domain: 'dest.test' }), { canceled: 2 });
    const [entry] = (await app.operator.call('audit.list', { server: true, operation: 'queue.cancel' })).data;
    assert.deepEqual([entry?.object_id, entry?.after], ['dest.test', { canceled: 2 }]);
    for (const { id } of mails) assert.equal((await app.message(id)).status, 'canceled');
    assert.equal((await app.message(scheduled.id)).status, 'scheduled');
    assert.deepEqual(await app.operator.call('queue.cancel', { stream: 'transactional' }), { canceled: 1 });
    await app.balanced();
  });

  for (const [reason, name, args, code] of [
    ['nothing named', 'queue.hold', {}, 'invalid_field'],
    ['two things named', 'queue.hold', { domain: 'a.test', lane: 'mx' }, 'invalid_field'],
    ['no such message', 'queue.hold', { message_id: 'msg_x' }, 'not_found'],
    ['no such stream', 'queue.hold', { stream: 'nope' }, 'not_found'],
    ['no such account', 'queue.hold', { account: 'nobody' }, 'not_found'],
    ['a time that is too short', 'queue.hold', { domain: 'a.test', for_ms: 1 }, 'invalid_field'],
    ['a hold that is not there', 'queue.release', { id: 'hld_x' }, 'not_found'],
    ['a hold and a part', 'queue.release', { id: 'hld_x', domain: 'a.test' }, 'invalid_field'],
    ['a part without a hold', 'queue.release', { domain: 'a.test' }, 'not_found'],
    ['a lane without a limit', 'queue.limit', { lane: 'mx' }, 'not_found'],
    ['no connection at all', 'queue.limit', { lane: 'mx', connections: 0 }, 'invalid_field'],
    ['a lane to be canceled that is not there', 'queue.cancel', { lane: 'mx' }, 'not_found'],
    ['a source to be canceled', 'queue.cancel', { source: 'one' }, 'unknown_field'],
  ] as const) {
    it(`refuses ${reason}`, async () => {
      await assert.rejects(
        app.operator.call(name, args),
        (error: unknown) => error instanceof Problem && error.code === code,
      );
    });
  }
});
