import assert from 'node:assert/strict';
import { defaultPoolLimits, Pool } from '../../../src/mta/connection/pool.ts';
import type { Lease, LeaseRequest, LeaseResult } from '../../../src/mta/connection/pool.ts';
import { openSession, type OpenResult } from '../../../src/mta/connection/open-session.ts';
import type { FakeClock } from '../../support/fakes/fake-clock.ts';
import { startMailServer } from '../../support/fakes/fake-mail-server.ts';
import type { FakeMailServer } from '../../support/fakes/fake-mail-server.ts';
import { mailOf, openDeps, targetOf } from './helpers.ts';

describe('mta/connection/pool', () => {
  let server: FakeMailServer;
  let clock: FakeClock;
  let pool: Pool;
  let request: LeaseRequest;
  let open: (signal: AbortSignal) => Promise<OpenResult>;
  /** Lanes that have mail for a host, and those that the pool has woken. */
  let waiting: string[];
  let woken: string[];
  /** Connections that a lane may have over all hosts. */
  let most: number;
  /** Connections that other nodes have for it. */
  let others: number;

  beforeEach(async () => {
    server = await startMailServer();
    const deps = openDeps();
    clock = deps.clock;
    woken = [];
    waiting = [];
    most = Infinity;
    others = 0;
    pool = new Pool(
      {
        ...deps,
        random: () => 0,
        lanesWaiting: () => waiting,
        wake: (lane) => woken.push(lane),
        mostOf: () => most,
        hasOthers: () => others > 0,
      },
      { ...defaultPoolLimits, maxPerHost: 2, maxOpen: 6 },
    );
    request = { key: 'one', host: 'mx1.dest.test:25', lane: 'dest' };
    open = (signal) => openSession(deps, targetOf(server, { signal }));
  });

  afterEach(async () => {
    await pool.drain();
    // A session that was refused says QUIT on its own, outside of the pool, and its socket closes when the system comes to it.
    const end = performance.now() + 120_000;
    while (clock.nextAt() !== null && performance.now() < end) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(clock.nextAt(), null, 'no timer is left');
    await server.close();
  });

  /** As a worker asks: for an idle connection, and where there is none for a new one. */
  async function ask(changes: Partial<LeaseRequest> = {}): Promise<LeaseResult> {
    const asked = { ...request, ...changes };
    const taken = pool.take(asked);
    return taken.kind === 'dial' ? pool.dial(asked, open) : taken;
  }
  const whyNot = async (changes: Partial<LeaseRequest> = {}): Promise<string> => {
    const result = await ask(changes);
    return result.kind === 'wait' ? result.wait.why : result.kind;
  };
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
  };

  async function leased(changes: Partial<LeaseRequest> = {}): Promise<Lease> {
    const result = await ask(changes);
    if (result.kind !== 'leased') throw new Error(result.kind);
    return result.lease;
  }

  async function sendOne(changes: Partial<LeaseRequest> = {}): Promise<Lease> {
    const lease = await leased(changes);
    assert.equal((await lease.session.send(mailOf())).kind, 'accepted');
    lease.giveBack();
    return lease;
  }

  it('uses a connection again for an equal key, and only for that', async () => {
    assert.equal((await sendOne()).reused, false);
    assert.equal((await sendOne()).reused, true);
    assert.equal((await sendOne({ key: 'two' })).reused, false);
    assert.equal((await sendOne({ host: 'mx2.dest.test:25' })).reused, false);
    assert.equal(server.sessions.length, 3);
  });

  it('closes what stays idle too long', async () => {
    await sendOne();
    clock.advance(4999);
    assert.equal(pool.count(), 1);
    clock.advance(1);
    assert.equal(pool.count(), 1, 'it counts until its socket is gone');
    await until(() => pool.count() === 0);
    await server.sessions[0]?.closed;
    assert.equal(server.sessions[0]?.lines.at(-1), 'QUIT');
  });

  it('retires a connection after its messages or its age', async () => {
    for (let at = 0; at < 3; at++) await sendOne({ maxMessages: 2 });
    assert.equal(server.sessions.length, 2);
    for (let at = 0; at < 75; at++) {
      await sendOne();
      clock.advance(4000);
    }
    await sendOne();
    assert.equal(server.sessions.length, 3, '300 s are over');
  });

  it('obeys a server that takes few messages per connection', async () => {
    server.options.extensions = ['PIPELINING', 'LIMITS MAILMAX=1'];
    await sendOne();
    await sendOne();
    assert.equal(server.sessions.length, 2);
  });

  it('does not hand out a connection that the server has left', async () => {
    await sendOne();
    server.sessions[0]?.say('421 4.4.2 bye\r\n');
    server.sessions[0]?.end();
    await until(() => pool.count() === 0);
    assert.equal((await sendOne()).reused, false);
  });

  it('bug: a node whose first connection is one too many, since other nodes have theirs, asks again within a minute, each time', async () => {
    const pauseAfter = async (reply: string): Promise<number> => {
      server.options.script = { connect: reply };
      assert.equal(await whyNot(), 'failed');
      const wait = pool.waitOf(request.host);
      assert.equal(wait?.why, 'closed');
      const pause = (wait.until ?? 0) - clock.monotonic();
      clock.advance(pause);
      return pause;
    };
    const crowded = '421 4.7.0 too many connections from your network';
    others = 2;
    for (let count = 0; count < 4; count++) assert.equal(await pauseAfter(crowded), 30_000);
    assert.equal(await pauseAfter('421 4.3.2 closed'), 2000, 'another answer is about the host');
    others = 0;
    assert.equal(await pauseAfter(crowded), 60_000, 'and without other nodes it is no matter of waiting for theirs');
  });

  it('answers at once when a host has its fill, and closes an idle connection of another key for room', async () => {
    const first = await leased();
    const second = await leased();
    assert.equal(await whyNot(), 'full');
    assert.equal(pool.count(request.host), 2);
    const elsewhere = await leased({ host: 'mx9.dest.test:25', key: 'elsewhere' });
    elsewhere.giveBack();
    first.giveBack();
    waiting = ['dest'];
    assert.equal(await whyNot({ key: 'two' }), 'full', 'until the idle one is gone');
    await until(() => woken.length > 0);
    const third = await leased({ key: 'two' });
    assert.equal(third.session === first.session, false);
    assert.equal(pool.count(request.host), 2);
    second.giveBack();
    third.giveBack();
    assert.throws(() => {
      third.giveBack();
    }, /twice/);
  });

  describe('where other nodes have part of a lane', () => {
    it('opens no more than the lane may have, whatever the host, and none while one is being closed', async () => {
      most = 2;
      const first = await leased();
      const second = await leased({ host: 'mx2.dest.test:25' });
      assert.equal(await whyNot({ host: 'mx3.dest.test:25' }), 'share');
      assert.equal(pool.openOf('dest'), 2);
      first.giveBack();
      let mostOpen = 0;
      const counted = (signal: AbortSignal): Promise<OpenResult> => {
        mostOpen = Math.max(mostOpen, pool.openOf('dest'));
        return open(signal);
      };
      const dials = ['mx3', 'mx4'].map((name) => pool.dial({ ...request, host: `${name}.dest.test:25` }, counted));
      const kinds = (await Promise.all(dials)).map((result) => {
        if (result.kind === 'leased') result.lease.giveBack();
        return result.kind;
      });
      assert.deepEqual(kinds.toSorted(), ['leased', 'wait'], 'the idle one made room for one of them');
      assert.equal(mostOpen, 2);
      second.giveBack();
      assert.equal(pool.openOf('dest'), 2);
    });

    it('closes idle connections and those that are given back when the lane may have fewer', async () => {
      const leases = [await leased(), await leased(), await leased({ host: 'mx2.dest.test:25' })];
      leases[0]?.giveBack();
      leases[1]?.giveBack();
      assert.deepEqual(pool.lanesWithSeveral(), ['dest']);
      most = 1;
      pool.shrink('dest');
      await until(() => pool.openOf('dest') === 1);
      most = 0;
      leases[2]?.giveBack();
      await until(() => pool.count() === 0);
      assert.equal(pool.openOf('dest'), 0);
    });

    it('counts a connection for the lane that took it over, where that one has room', async () => {
      await sendOne();
      most = 1;
      const other = await leased({ lane: 'other' });
      assert.deepEqual([pool.openOf('dest'), pool.openOf('other')], [0, 1]);
      other.giveBack();
      most = 0;
      assert.equal(await whyNot(), 'share');
    });
  });

  it('keeps open no more than all hosts together may have, and closes those that have been idle longest', async () => {
    const hosts = Array.from({ length: 6 }, (_, n) => ({
      host: `mx${String(n)}.dest.test:25`,
      lane: `lane${String(n)}`,
    }));
    for (const host of hosts) await sendOne(host);
    await sendOne({ ...hosts[0] });
    assert.deepEqual([pool.count(), server.sessions.length], [6, 6]);
    const lease = await leased({ host: 'other.dest.test:25', lane: 'other' });
    await until(() => pool.count() === 6);
    await server.sessions[1]?.closed;
    assert.deepEqual(
      [pool.count('mx0.dest.test:25'), pool.count('mx1.dest.test:25'), server.sessions[1]?.lines.at(-1)],
      [1, 0, 'QUIT'],
    );
    lease.giveBack();
    for (const host of [2, 3].map((n) => ({ host: `more${String(n)}.dest.test:25`, lane: 'more' })))
      await sendOne(host);
    await until(() => pool.count() === 6);
    assert.deepEqual(
      hosts.map(({ host }) => pool.count(host)),
      [1, 0, 0, 0, 1, 1],
    );
  });

  it('hands on a failure to open, and counts no connection for it', async () => {
    server.options.script = { connect: '554 5.7.1 no' };
    const failed = await ask();
    assert.equal(failed.kind === 'failed' && failed.reply?.code, 554);
    const bug = pool.dial({ ...request, host: 'mx2.dest.test:25' }, () => Promise.reject(new Error('a bug')));
    await assert.rejects(bug, /a bug/);
    assert.deepEqual([await whyNot(), await whyNot({ host: 'mx2.dest.test:25' })], ['closed', 'closed']);
    assert.equal(pool.count(), 0);
  });

  it('drains: idle ones at once, leased ones when they come back', async () => {
    await sendOne();
    const lease = await leased({ key: 'two' });
    let drained = false;
    const draining = pool.drain().then(() => (drained = true));
    await server.sessions[0]?.closed;
    assert.equal(await whyNot(), 'draining');
    assert.equal(drained, false);
    assert.equal((await lease.session.send(mailOf())).kind, 'accepted');
    lease.giveBack();
    await draining;
    assert.equal(pool.count(), 0);
  });

  it('drops what is kept waiting longest, beyond so many, and nothing behind its final dot', async () => {
    server.options.script = { message: { raw: '' }, mail: (line) => (line.includes('<stuck@') ? 'hang' : '250 ok') };
    const hosts = ['mx1.dest.test:25', 'mx2.dest.test:25', 'mx3.dest.test:25', 'mx4.dest.test:25'];
    const [first, second, dotted, calm] = await Promise.all(hosts.map((host) => leased({ host, key: host })));
    assert.ok(first && second && dotted && calm);
    const stuck = mailOf(undefined, { envelopeFrom: 'stuck@rp.acme.test' });
    const sending = dotted.session.send(mailOf());
    await server.reached('message');
    const [one, two] = [first.session.send(stuck), (clock.advance(1000), second.session.send(stuck))];
    await server.reached('mail', 3);
    assert.equal(pool.dropWaiting(10_000, 0), 0, 'nobody has waited so long yet');
    clock.advance(10_000);
    assert.equal(pool.dropWaiting(10_000, 2), 0, 'so many may wait');
    assert.equal(pool.dropWaiting(10_000, 1), 1);
    const broken = await one;
    assert.match(broken.kind === 'broken' ? broken.text : '', /^given up: it kept us waiting/);
    assert.equal(pool.dropWaiting(10_000, 0), 1);
    assert.equal((await two).kind, 'broken');
    // The connections were opened together, in an order of their own.
    server.sessions.find(({ mails }) => mails.length > 0)?.say('250 2.0.0 taken after all\r\n');
    assert.equal((await sending).kind, 'accepted');
    for (const lease of [first, second, dotted, calm]) lease.giveBack();
  });

  it('abandons what is opened or under way, but not what is behind its final dot', async () => {
    server.options.script = { message: { raw: '' }, mail: (line) => (line.includes('<stuck@') ? 'hang' : '250 ok') };
    const [dotted, stuck] = [await leased(), await leased()];
    const sending = dotted.session.send(mailOf());
    const hanging = stuck.session.send(mailOf(undefined, { envelopeFrom: 'stuck@rp.acme.test' }));
    await server.reached('message');
    await server.reached('mail', 2);
    server.options.script = { connect: 'hang' };
    const opening = ask({ host: 'mx9.dest.test:25' });
    await server.reached('connect', 3);

    pool.abandon();
    const failed = await opening;
    assert.equal(failed.kind === 'failed' && failed.text, 'given up: the program stops');
    const broken = await hanging;
    assert.equal(broken.kind === 'broken' && !broken.uncertain && broken.text, 'given up: the program stops');
    assert.equal(await whyNot(), 'draining');
    server.sessions[0]?.say('250 2.0.0 taken after all\r\n');
    assert.equal((await sending).kind, 'accepted');
    stuck.giveBack();
    dotted.giveBack();
    await pool.drain();
    assert.equal(pool.count(), 0);
  });

  it('abandons at last a message without an answer, as uncertain', async () => {
    server.options.script = { message: 'hang' };
    const lease = await leased();
    const sending = lease.session.send(mailOf());
    await server.reached('message');
    pool.abandon();
    assert.equal(lease.session.usable(), true);
    pool.abandon(true);
    const broken = await sending;
    assert.equal(broken.kind === 'broken' && broken.uncertain, true);
    lease.giveBack();
  });
});
