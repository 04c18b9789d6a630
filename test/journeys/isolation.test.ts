/**
 * One slow, dead or hostile destination never delays another. Real sockets; time stands still, so whatever waits for a bad
 * host waits for ever, and mail for a good one that is delivered all the same did not wait for it.
 */
import assert from 'node:assert/strict';
import { startBlackHole, startSilentHost, startTarPit, type BadHost } from '../support/fakes/bad-hosts.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { FakeResolver } from '../support/fakes/fake-resolver.ts';
import { startTestApp, TestClock, type TestApp } from '../support/harness/app.ts';

const BAD_MAILS = 40;
const GOOD_MAILS = 50;
const addresses = {
  'good.test': '127.0.0.1',
  'dead.test': '127.0.0.9',
  'hole.test': '127.0.0.3',
  'silent.test': '127.0.0.4',
  'tarpit.test': '127.0.0.5',
  'later.test': '127.0.0.6',
  'deaf.test': '127.0.0.7',
} as const;

/** DNS that never answers for one domain. */
class StuckResolver extends FakeResolver {
  private readonly stuck = new Set<() => void>();

  override mx(name: string): ReturnType<FakeResolver['mx']> {
    if (name !== 'nodns.test') return super.mx(name);
    return new Promise((resolve) => {
      this.stuck.add(() => {
        resolve({ kind: 'trouble', why: 'timeout', text: 'no answer' });
      });
    });
  }

  release(): void {
    for (const answer of this.stuck) answer();
  }
}

describe('journey: isolation', () => {
  let good: FakeMailServer;
  let others: (BadHost | FakeMailServer)[];
  let app: TestApp;
  let clock: TestClock;
  let resolver: StuckResolver;

  beforeEach(async () => {
    clock = new TestClock();
    good = await startMailServer();
    const { port } = good;
    others = await Promise.all([
      startBlackHole(addresses['hole.test'], port),
      startSilentHost(addresses['silent.test'], port),
      startTarPit(clock, addresses['tarpit.test'], port),
      startMailServer({ listen: { host: addresses['later.test'], port }, script: { rcpt: '451 4.3.0 later' } }),
      // Takes the body and never answers.
      startMailServer({ listen: { host: addresses['deaf.test'], port }, script: { message: 'hang' } }),
    ]);
    resolver = new StuckResolver(
      Object.fromEntries(
        Object.entries(addresses).flatMap(([domain, ip]) => [
          [`${domain} MX`, [`10 mx.${domain}`]],
          [`mx.${domain} A`, [ip]],
        ]),
      ),
    );
  });

  afterEach(async () => {
    resolver.release();
    const patience = clock.armed(60_000);
    const stopped = app.stop();
    await patience;
    clock.advance(60_000);
    await stopped;
    for (const host of [good, ...others]) await host.close();
  });

  /** Until real sockets have brought it about. */
  async function until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise((resolve) => setImmediate(resolve));
  }

  async function sendBulk(domain: string, count: number): Promise<void> {
    const recipients = Array.from({ length: count }, (_, n) => ({ to: `r${String(n)}@${domain}` }));
    const answer = await app.request('POST', '/v1/messages', {
      from: 'hi@acme.test',
      subject: 'x',
      text: 'x',
      recipients,
    });
    assert.equal(answer.status, 202, answer.text);
  }

  const bad = [...Object.keys(addresses).filter((domain) => domain !== 'good.test'), 'nodns.test'];

  it('mail for a good domain is delivered while hosts are dead, silent, tar-pitting, deaf, answering 451 or without DNS', async () => {
    app = await startTestApp({ clock, resolver, mailPort: good.port });
    for (const domain of bad) await sendBulk(domain, BAD_MAILS);
    const events = app.follow();
    const laneOf = (name: string) => app.app.mta.reports.lane(name);
    const stuck = ['mx.hole.test', 'mx.silent.test', 'mx.tarpit.test', 'mx.deaf.test'];
    // Every bad destination is at work before the first good mail comes.
    for (const other of others) if ('sessions' in other) await other.reached('connect');
    await until(() => stuck.every((name) => (laneOf(name)?.slots ?? 0) > 0));
    for (let n = 0; n < GOOD_MAILS; n++) {
      await app.send({ to: `g${String(n)}@good.test` });
      // The tar-pit's bytes keep coming.
      if (n % 10 === 9) clock.advance(1000);
    }
    const seen = await events.until(
      (all) =>
        all.filter(({ type }) => type === 'delivered').length >= GOOD_MAILS &&
        all.some(({ type, data }) => type === 'deferred' && data.recipient.endsWith('@later.test')),
    );
    assert.ok(
      seen.filter(({ type }) => type === 'delivered').every(({ data }) => data.recipient.endsWith('@good.test')),
    );
    assert.equal(new Set(good.sessions.flatMap(({ mails }) => mails.flatMap(({ to }) => to))).size, GOOD_MAILS);
    // The bad ones are still where they were: nothing of theirs ended but what was refused or put off.
    for (const name of stuck) {
      const lane = laneOf(name);
      // Each worker has one mail on the wire and perhaps one in its hand.
      assert.ok(
        lane !== null && lane.slots > 0 && lane.waiting >= BAD_MAILS - 2 * lane.slots,
        `${name}: ${JSON.stringify(lane)}`,
      );
    }
    // The dead host is left alone, once the last dial has been refused.
    await until(() => laneOf('mx.dead.test')?.slots === 0 && laneOf('mx.dead.test')?.parkedUntil !== null);
  });

  it('mail that comes first for a bad domain does not hold the last connections: a lane without one is served', async () => {
    app = await startTestApp({
      clock,
      resolver,
      mailPort: good.port,
      settings: { delivery: { maxConnections: 10, lane: { initialConcurrency: 2 } } },
    });
    for (const domain of ['silent.test', 'hole.test', 'tarpit.test', 'later.test']) await sendBulk(domain, BAD_MAILS);
    await sendBulk('good.test', GOOD_MAILS);
    const seen = await app
      .follow()
      .until((all) => all.filter(({ type }) => type === 'delivered').length === GOOD_MAILS);
    assert.ok(seen.length > 0);
  });

  it('mail that waits for a connection while all are in use says so', async () => {
    app = await startTestApp({ clock, resolver, mailPort: good.port, settings: { delivery: { maxConnections: 1 } } });
    await sendBulk('silent.test', 1);
    await until(() => app.app.mta.reports.lane('mx.silent.test')?.slots === 1);
    const { id } = await app.send({ to: 'ana@good.test' });
    await until(() => app.app.mta.reports.lane('mx.good.test')?.waiting === 1);
    const { reason, message } = await app.why(id);
    assert.equal(reason, 'connections_in_use');
    assert.match(message, /^All connections of this server are in use \(delivery\.maxConnections\)/);
  });

  it('the same farm: a domain that shares hosts with another shares its lane, and one bad recipient in it delays nobody', async () => {
    app = await startTestApp({ clock, resolver, mailPort: good.port });
    resolver.zones['twin.test MX'] = ['10 mx.good.test'];
    good.options.script = { rcpt: (line) => (line.includes('slow@') ? '450 4.2.1 mailbox busy' : '250 ok') };
    await app.send({ to: 'slow@twin.test' });
    await sendBulk('twin.test', 10);
    await sendBulk('good.test', 10);
    await app.follow().until((all) => all.filter(({ type }) => type === 'delivered').length === 20);
    const names = new Set(app.logged.filter(({ event }) => event === 'attempt').map(({ lane }) => lane));
    assert.deepEqual([...names], ['mx.good.test']);
  });
});
