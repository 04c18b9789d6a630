/** A receiver that takes only so many connections, one that asks for fewer mails, and shaping rules: lanes settle by themselves. */
import assert from 'node:assert/strict';
import { startMailServer, type FakeMailServer, type ServerSession } from '../support/fakes/fake-mail-server.ts';
import { configFor, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

const LANE = 'mx.dest.test';

describe('journey: throttle', () => {
  let server: FakeMailServer;
  let app: TestApp;
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const lane = async () => (await app.operator.call('queue.lane', { lane: LANE })).lane;
  const changes = async () => (await app.operator.call('queue.lane', { lane: LANE })).changes;
  const bulk = async (count: number): Promise<void> => {
    const recipients = Array.from({ length: count }, (_, at) => ({ to: `u${String(at)}@dest.test` }));
    const mail = { from: 'hi@acme.test', subject: 's', text: 't', recipients };
    const { status, text } = await app.request('POST', '/v1/messages', mail);
    assert.equal(status, 202, text);
  };
  const left = async (): Promise<number> => {
    const [row] = await app.app.db.prepared.all<{ n: number }>(
      'SELECT COUNT(*) AS n FROM deliveries WHERE due_at IS NOT NULL',
    );
    return row?.n ?? 0;
  };
  /**
   * Turns the loop until nothing is claimed and no worker runs, since a worker has no claim while it dials or a claim is being written; what
   * a lane keeps waiting stays due. Mail that is due is read on the connection of this query, so it has come to its lane after some turns.
   */
  const idle = async (): Promise<void> => {
    for (let calm = 0; calm < 25; calm++) {
      const [row] = await app.app.db.prepared.all<{ n: number }>(
        'SELECT COUNT(*) AS n FROM deliveries WHERE claim_epoch IS NOT NULL',
      );
      if (row?.n !== 0 || (app.app.mta.reports.lane(LANE)?.slots ?? 0) > 0) calm = -1;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  /** Lets time pass in steps until no mail is left. On a busy machine that takes more of them. */
  const sendTheRest = async (stepMs: number): Promise<void> => {
    while ((await left()) > 0) {
      app.clock.advance(stepMs);
      await idle();
    }
  };
  const statuses = () =>
    app.app.db.prepared.all<{ status: string; n: number }>(
      'SELECT status, COUNT(*) AS n FROM deliveries GROUP BY status',
    );

  it('settles under "421 too many connections" above 3, and recovers to the cap when that is lifted', async () => {
    let most = 3;
    const open = new Set<ServerSession>();
    server = await startMailServer({
      script: {
        connect: (_line, session) => {
          open.add(session);
          void session.closed.then(() => open.delete(session));
          return open.size > most
            ? { raw: '421 4.7.0 too many connections from you\r\n', then: 'drop' }
            : '220 mx.dest.test';
        },
      },
    });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
    const limits: number[] = [];
    /** Sends for so many seconds, a few mails at a time so that connections stay busy. */
    const send = async (seconds: number): Promise<void> => {
      for (let second = 0; second < seconds; second += 5) {
        await bulk(20);
        for (let half = 0; half < 2; half++) {
          await idle();
          app.clock.advance(2500);
        }
        await idle();
        limits.push((await lane()).limit);
      }
    };
    await send(100);
    // How soon it finds out hangs on how busy both sides are.
    const settled = limits.slice(10);
    assert.ok(
      settled.every((limit) => limit >= 1 && limit <= 3),
      `settled: ${settled.join(' ')}`,
    );

    most = 1000;
    limits.length = 0;
    await send(300);
    assert.ok((limits.at(-1) ?? 0) >= 5, `recovered: ${limits.join(' ')}`);

    const story = (await changes()).map(({ to, cause }) => `${to}: ${cause}`);
    assert.ok(
      story.some((line) => /^[123] connections?: .*too many connections/.test(line)),
      story.join('\n'),
    );
    assert.ok(app.logged.some(({ event, lane: name }) => event === 'lane_changed' && name === LANE));
    await sendTheRest(5000);
    const spent = await app.app.db.prepared.all('SELECT 1 FROM attempts WHERE outcome <> ? ', ['accepted']);
    assert.ok(spent.length <= 1, `${String(spent.length)} attempts were spent on being one connection too many`);
    assert.deepEqual(
      (await statuses()).map(({ status }) => status),
      ['delivered'],
    );
  });

  it('sends fewer mails a minute where a reply asks for that, and more again later', async () => {
    let isStrict = true;
    let taken = 0;
    server = await startMailServer({
      script: {
        mail: () => (isStrict && ++taken > 60 ? '450 4.7.1 too many messages this minute, slow down' : '250 2.1.0 ok'),
      },
    });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
    await bulk(100);
    await server.reached('mail', 61);
    await idle();
    assert.match(
      (await changes()).map(({ to, cause }) => `${to}: ${cause}`).join('\n'),
      /^\d+ mails a minute: .*too many messages this minute/m,
    );
    isStrict = false;
    await sendTheRest(1000);
    assert.deepEqual(await statuses(), [{ status: 'delivered', n: 100 }]);
  });

  it("obeys the operator's limits: connections, and mails a minute", async () => {
    const open = new Set<ServerSession>();
    let [most, mails] = [0, 0];
    server = await startMailServer({
      script: {
        connect: (_line, session) => {
          open.add(session);
          void session.closed.then(() => open.delete(session));
          most = Math.max(most, open.size);
          return '220 mx.dest.test';
        },
        message: () => {
          mails++;
          return '250 2.0.0 taken';
        },
      },
    });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
    await app.operator.call('queue.limit', { lane: LANE, connections: 1, per_minute: 30 });
    await bulk(15);
    for (let count = 1; count <= 10; count++) {
      await server.reached('message', count);
      await idle();
      assert.equal(mails, count, 'none before its time');
      app.clock.advance(2000);
    }
    assert.equal(most, 1);
    const now = await lane();
    assert.deepEqual([now.limit, now.per_minute, now.cause], [1, 30, 'set by the operator']);
    await app.operator.call('queue.limit', { lane: LANE });
    await app.settled();
    assert.equal(mails, 15);
  });

  it('rests by a shaping rule without spending attempts, and only tells where it is a dry run', async () => {
    let blocks = true;
    server = await startMailServer({
      script: { rcpt: () => (blocks ? '550 5.7.0 refused: your network is on our list' : '250 ok') },
    });
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: {
        delivery: {
          shaping: [
            { name: 'listed', match: { text: 'on our list' }, count: 3, within: '10m', action: 'pause', for: '30m' },
            { name: 'watch', match: { class: 'block' }, count: 2, within: '10m', action: 'pause', dryRun: true },
          ],
        },
      },
    });
    await bulk(3);
    await app.settled();
    blocks = false;
    const { id } = await app.send();
    while ((await app.why(id)).reason !== 'receiver_resting') await new Promise((resolve) => setImmediate(resolve));
    assert.equal((await app.message(id)).recipients[0]?.attempt_count, 0);
    const told = (await changes()).map(({ what, to }) => `${what}: ${to}`);
    assert.deepEqual(told, [
      'rule: dry run: pause',
      `pause: rests until ${new Date(app.clock.now() + 30 * 60_000).toISOString()}`,
    ]);
    assert.deepEqual(
      app.logged.filter(({ event }) => event === 'shaping_rule').map(({ rule, dry_run: dry }) => [rule, dry]),
      [
        ['watch', true],
        ['listed', false],
      ],
    );
    app.clock.advance(30 * 60_000);
    await app.follow().of(id, 'delivered');
  });

  it('takes other shaping rules without a restart, for which replies count from 0', async () => {
    server = await startMailServer({ script: { rcpt: '550 5.7.0 refused: your network is on our list' } });
    const rule = { name: 'listed', match: { text: 'on our list' }, within: '10m', action: 'alarm' };
    const settingsOf = (count: number) => ({ delivery: { shaping: [{ ...rule, count }] } });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test'), settings: settingsOf(9) });
    const reload = (count: number): string[] =>
      app.app.reload(configFor(app.folder, server.port, settingsOf(count))).applied;
    const firedAfter = async (mails: number): Promise<number> => {
      await bulk(mails);
      await app.settled();
      return app.logged.filter(({ event }) => event === 'shaping_rule').length;
    };
    assert.equal(await firedAfter(2), 0);
    assert.deepEqual(reload(3), ['delivery.shaping']);
    assert.equal(await firedAfter(2), 0, 'the two from before do not count');
    assert.deepEqual(reload(3), []);
    assert.equal(await firedAfter(1), 1, 'a reload without other rules forgets nothing');
  });
});
