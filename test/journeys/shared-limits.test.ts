/**
 * Two nodes on one PostgreSQL send to one site, which many domains lead to: the receiver sees no more connections than its limit allows,
 * and one more for the second node.
 */
import assert from 'node:assert/strict';
import type { LaneReport } from '../../src/messages/delivery/why.ts';
import { startMailServer, type FakeMailServer, type ServerSession } from '../support/fakes/fake-mail-server.ts';
import type { Zones } from '../support/fakes/zones.ts';
import { hasWorkingOthers, startTestApp, type TestApp, type TestAppOptions } from '../support/harness/app.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';

const LANE = 'mx.big.test';
const domains = Array.from({ length: 24 }, (_, n) => `d${String(n)}.test`);
const zones: Zones = {
  'mx.big.test A': ['127.0.0.1'],
  ...Object.fromEntries(domains.map((domain) => [`${domain} MX`, ['10 mx.big.test']])),
};
const LIMIT = 4;

describe('journey: two nodes share the limits of a receiver', () => {
  let server: FakeMailServer;
  let one: TestApp;
  let two: TestApp;
  let running: TestApp[];
  /** Connections that are open now, and the most there were. */
  let open: number;
  let most: number;
  let seen: number;

  before(function () {
    if (!isOnPostgres) this.skip('only PostgreSQL has several nodes');
  });
  beforeEach(async () => {
    running = [];
    [open, most, seen] = [0, 0, 0];
    server = await startMailServer({
      script: {
        connect(_, session) {
          open++;
          most = Math.max(most, open);
          void session.closed.then(() => open--);
          return '220 mx.big.test ESMTP';
        },
      },
    });
    one = await startTestApp({ ...named('one'), zones });
    running.push(one);
  });
  afterEach(async () => {
    // Mail on the wire ends with its connection, also if a test has failed.
    await server.close();
    for (const app of running.splice(0).reverse()) await app.stop();
  });

  /** Rules that count the mails of an hour or a day. */
  let rules: readonly object[] = [];

  const named = (name: string): TestAppOptions => ({
    mailPort: server.port,
    settings: {
      node: { name },
      delivery: { lane: { initialConcurrency: LIMIT, maxConcurrency: LIMIT }, mtaSts: false, limits: rules },
      plans: { unlimited: { requestsPerMinute: 1_000_000 } },
    },
  });

  async function join(): Promise<void> {
    const { clock, resolver } = one;
    two = await startTestApp({ ...named('two'), clock, resolver, beside: one });
    running.push(two);
    await until(() => hasWorkingOthers(one));
  }

  /**
   * Lets time pass in small steps, in which the nodes look at each other's connections, until it comes true. A commit stands between two
   * steps: on a slow database a mail on the wire would otherwise run into the deadlines of its session.
   */
  async function until(isSo: () => boolean | Promise<boolean>, stepMs = 0): Promise<void> {
    while (!(await isSo())) {
      if (stepMs > 0) {
        await one.app.db.commit.transact(() => Promise.resolve());
        one.clock.advance(stepMs);
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  async function send(each: number): Promise<void> {
    const nodes = running;
    for (const [n, domain] of domains.entries()) {
      const recipients = Array.from({ length: each }, (_, at) => ({
        to: `a${String(seen++)}-${String(at)}@${domain}`,
      }));
      const body = { from: 'hi@acme.test', subject: 'Hello', text: 'Hello.', recipients };
      const answer = await (nodes[n % nodes.length] ?? one).request('POST', '/v1/messages', body);
      assert.equal(answer.status, 202, answer.text);
    }
  }
  const arrived = (): number => server.sessions.reduce((sum, { mails }) => sum + mails.length, 0);
  const rows = (): Promise<{ epoch: number }[]> =>
    one.app.db.prepared.all(`SELECT epoch FROM lane_nodes WHERE lane = '${LANE}' ORDER BY epoch`);
  const workers = ({ app }: TestApp): number => app.mta.reports.lane(LANE)?.slots ?? 0;

  it('both deliver, and the receiver never sees more than the limit and one', async () => {
    await join();
    const most2 = { one: 0, two: 0 };
    // On a busy machine one node may have finished its mail before the other asks for a second connection; then more is sent.
    for (let sent = 1; most2.one < 2 || most2.two < 2 || most < LIMIT; sent++) {
      await send(15);
      await until(() => {
        most2.one = Math.max(most2.one, workers(one));
        most2.two = Math.max(most2.two, workers(two));
        return arrived() === 24 * 15 * sent;
      }, 100);
    }
    assert.ok(most <= LIMIT + 1, `${String(most)} connections at once`);
    // Connections that stay idle are closed after 5 s, and rows go with them.
    await until(async () => (await rows()).length === 0, 500);
    await one.balanced();
  });

  it('a node that was alone reserves the connections that it has, before the second takes more than one', async () => {
    const held: ServerSession[] = [];
    let isHolding = true;
    const { script } = server.options;
    server.options.script = {
      ...script,
      message(_, session) {
        if (!isHolding) return '250 2.0.0 taken';
        held.push(session);
        return { raw: '' };
      },
    };
    await send(10);
    await until(() => held.length === LIMIT);
    await join();
    const atTwo = (): LaneReport | undefined => two.app.mta.reports.lane(LANE) ?? undefined;
    // The second node knows its share before its first mail has reached the receiver, or after that.
    await until(() => held.length > LIMIT && atTwo()?.limits.some(({ by }) => by === 'nodes') === true, 100);
    await until(async () => (await rows()).length === 2, 100);
    assert.equal(held.length, LIMIT + 1);
    // On a busy machine its mail may not have asked for a second connection yet.
    await until(() => atTwo()?.waits[0]?.reason === 'connections_in_use', 100);
    assert.match(
      atTwo()?.waits[0]?.message ?? '',
      /^Other nodes may send to mx\.big\.test as well: the one that has this mail keeps to one connection|^2 nodes have mail for mx\.big\.test and share its limits: each has 2 connections/,
    );
    isHolding = false;
    for (const session of held) session.say('250 2.0.0 taken\r\n');
    let mostOfTwo = 0;
    // On a busy machine the mail may have arrived before the second node asks again; then more is sent.
    for (let sent = 10; ; sent += 15) {
      await until(() => {
        mostOfTwo = Math.max(mostOfTwo, workers(two));
        return arrived() === 24 * sent;
      }, 100);
      if (mostOfTwo >= 2) break;
      await send(15);
    }
    assert.ok(most <= LIMIT + 1, `${String(most)} connections at once`);
    await one.balanced();
  });

  for (const [what, setRules] of [
    ['of a rule', [{ name: 'hourly', match: {}, each: ['site'], perHour: 60 }]],
    ['that are set by hand', []],
  ] as const)
    it(`both keep to the mails an hour ${what}, also if one of them ends and another starts`, async () => {
      const HOURLY = 60;
      // A node that ends or comes is known to the other one two seconds later.
      const MOST = 66;
      await running.pop()?.stop();
      rules = setRules;
      one = await startTestApp({ ...named('one'), zones });
      running.push(one);
      await join();
      if (rules.length === 0) await two.operator.call('queue.limit', { lane: LANE, per_hour: HOURLY });
      // The other node reads it when it is asked, else within two seconds.
      await one.operator.call('queue.holds', {});
      const counted = async (): Promise<number> => {
        const rows = await one.app.db.prepared.all<{ sent: number }>('SELECT SUM(sent) AS sent FROM limit_counts');
        return rows[0]?.sent ?? 0;
      };
      await send(10);
      await until(async () => (await counted()) >= HOURLY / 2, 100);
      await running.pop()?.stop();
      await until(() => one.app.db.nodes?.hasOthers === false);
      await join();
      await until(async () => (await counted()) >= HOURLY, 500);
      for (let step = 0; step < 40; step++) await until(() => true);
      assert.ok(
        arrived() >= HOURLY && arrived() <= MOST,
        `${String(arrived())} in the first hour, ${String(await counted())} counted`,
      );
      one.clock.advance(3_600_000);
      await until(() => arrived() >= 2 * HOURLY, 500);
      assert.ok(arrived() <= 2 * MOST, `${String(arrived())} in two hours`);
      rules = [];
    });

  it('a node that is left alone has all of the limit again', async () => {
    await join();
    await send(1);
    await until(() => arrived() === 24, 100);
    await running.pop()?.stop();
    await until(() => one.app.db.nodes?.hasOthers === false);
    await until(async () => (await one.app.db.prepared.all('SELECT 1 FROM lane_nodes')).length === 0, 100);
    // The connections of before are closed first, so that those that are opened now are counted.
    await until(() => open === 0, 500);
    most = 0;
    // On a busy machine the mail may have left before the last of the connections is open; then more is sent.
    for (let sent = 11; most < LIMIT; sent += 10) {
      await send(10);
      await until(() => arrived() === 24 * sent);
    }
    assert.equal(most, LIMIT);
    assert.deepEqual(await rows(), []);
  });
});
