import assert from 'node:assert/strict';
import type { MailHost, MailRoute } from '../../../src/mta/dns/mx.ts';
import { type Destination, type Route, Sites } from '../../../src/mta/sites/sites.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { NOW } from '../../support/harness/mail-rows.ts';

const host = (name: string): MailHost => ({
  name,
  preference: 10,
  addresses: [{ ip: '192.0.2.25', family: 4 }],
  port: 25,
  secure: false,
  isNamedSecurely: false,
  canonical: name,
});
const hosts = (name: string, ttl = 300): MailRoute => ({
  kind: 'hosts',
  site: name,
  hosts: [host(name)],
  ttl,
  fromMx: true,
});
const smarthost: Route = {
  kind: 'smarthost',
  host: 'relay.test',
  port: 587,
  tls: 'required',
  auth: { user: 'u', password: 'p' },
};

describe('mta/sites/sites', () => {
  let clock: FakeClock;
  let asked: string[];
  let answers: Record<string, MailRoute>;
  const sitesWith = (routes: Record<string, Route> = {}): Sites =>
    new Sites({
      clock,
      routes,
      findHosts: async (domain, { fresh }) => {
        asked.push(fresh ? `${domain} fresh` : domain);
        await new Promise((resolve) => setImmediate(resolve));
        return answers[domain] ?? { kind: 'no_domain', fresh };
      },
      findRelay: async (name, port) => {
        asked.push(`${name}:${port}`);
        return hosts(name);
      },
    });
  beforeEach(() => {
    clock = new FakeClock(NOW);
    asked = [];
    answers = { 'dest.test': hosts('mx.dest.test') };
  });

  it('asks once, however many want to know, and keeps the answer as long as it is good', async () => {
    const sites = sitesWith();
    assert.equal(sites.known('dest.test'), null);
    const found = await Promise.all(Array.from({ length: 50 }, () => sites.find('dest.test')));
    assert.equal(new Set(found).size, 1);
    assert.equal(sites.known('dest.test'), found[0]);
    clock.advance(299_999);
    assert.equal(await sites.find('dest.test'), found[0]);
    assert.deepEqual(asked, ['dest.test']);
    clock.advance(1);
    assert.equal(sites.known('dest.test'), null);
    await sites.find('dest.test');
    assert.equal(asked.length, 2);
  });

  it('asks again after five minutes where the announced MTA-STS policy could not be had', async () => {
    let fault: 'sts-policy-fetch-error' | null = 'sts-policy-fetch-error';
    const sites = new Sites({
      clock,
      routes: {},
      findHosts: () => Promise.resolve(hosts('mx.dest.test', 3600)),
      findRelay: (name) => Promise.resolve(hosts(name)),
      findPolicy: () => Promise.resolve({ policy: null, fault }),
    });
    await sites.find('dest.test');
    clock.advance(299_999);
    assert.notEqual(sites.known('dest.test'), null);
    clock.advance(1);
    assert.equal(sites.known('dest.test'), null);
    fault = null;
    await sites.find('dest.test');
    clock.advance(3_599_999);
    assert.notEqual(sites.known('dest.test'), null);
  });

  it('keeps an answer for 5 seconds at least and an hour at most', async () => {
    answers = { short: hosts('a', 0), long: hosts('b', 1_000_000) };
    const sites = sitesWith();
    await sites.find('short');
    await sites.find('long');
    clock.advance(4_999);
    assert.notEqual(sites.known('short'), null);
    clock.advance(1);
    assert.equal(sites.known('short'), null);
    clock.advance(3_600_000 - 5_001);
    assert.notEqual(sites.known('long'), null);
    clock.advance(1);
    assert.equal(sites.known('long'), null);
  });

  it('counts "no such domain" only from a fresh answer', async () => {
    const sites = sitesWith();
    const found = await sites.find('gone.test');
    assert.deepEqual(asked, ['gone.test', 'gone.test fresh']);
    assert.deepEqual(found, { kind: 'nowhere', route: { kind: 'no_domain', fresh: true } });
    clock.advance(1000);
    assert.equal(sites.known('gone.test'), null, 'what leads nowhere is asked again soon');
  });

  it('asks again after a question that failed', async () => {
    let broken = true;
    const sites = new Sites({
      clock,
      routes: {},
      findHosts: () => (broken ? Promise.reject(new Error('a bug')) : Promise.resolve(hosts('mx'))),
      findRelay: () => Promise.reject(new Error('not asked')),
    });
    await assert.rejects(sites.find('dest.test'), /a bug/);
    broken = false;
    assert.equal((await sites.find('dest.test')).kind, 'site');
  });

  describe('routes', () => {
    const kinds: readonly (readonly [string, Record<string, Route>, string, Destination['kind'], string[]])[] = [
      ['a domain of its own', { 'dest.test': { kind: 'discard' } }, 'dest.test', 'discard', []],
      ['all the others', { '*': { kind: 'hold' } }, 'dest.test', 'hold', []],
      [
        'a domain that is an exception',
        { '*': { kind: 'hold' }, 'dest.test': { kind: 'mx' } },
        'dest.test',
        'site',
        ['dest.test'],
      ],
      ['a smarthost', { '*': smarthost }, 'dest.test', 'site', ['relay.test:587']],
      ['the simulator, which no route touches', { '*': smarthost }, '~simulator', 'simulator', []],
      ['a name that objects have anyway', { '*': { kind: 'discard' } }, 'constructor', 'discard', []],
    ];
    for (const [reason, routes, domain, kind, questions] of kinds) {
      it(`${reason}: ${kind}`, async () => {
        assert.equal((await sitesWith(routes).find(domain)).kind, kind);
        assert.deepEqual(asked, questions);
      });
    }

    it('to a smarthost share its lane and its limits, whatever the domain', async () => {
      const sites = sitesWith({ '*': smarthost });
      const [one, other] = [await sites.find('a.test'), await sites.find('b.test')];
      assert.equal(one, other);
      assert.ok(one.kind === 'site');
      assert.deepEqual(
        [one.name, one.relay],
        ['relay.test:587', { tls: 'required', auth: { user: 'u', password: 'p' } }],
      );
      assert.deepEqual(asked, ['relay.test:587']);
    });

    it('to one smarthost with different logins and TLS keep them apart, in one lane', async () => {
      const routes: Record<string, Route> = {
        'a.test': smarthost,
        'b.test': { ...smarthost, auth: { user: 'bob', password: 'p' } },
        'c.test': { ...smarthost, tls: 'none', auth: null },
        'd.test': { ...smarthost },
      };
      const sites = sitesWith(routes);
      for (const domain of ['c.test', 'a.test', 'd.test', 'b.test', 'c.test']) {
        const found = await sites.find(domain);
        assert.ok(found.kind === 'site');
        const { tls, auth } = routes[domain] as typeof smarthost;
        assert.deepEqual([found.name, found.relay], ['relay.test:587', { tls, auth }], domain);
      }
      assert.equal(asked.length, 3, 'equal routes are one destination');
    });

    it('can be changed: from then on mail goes the new way, with the new credentials', async () => {
      const sites = sitesWith({ '*': smarthost });
      const first = await sites.find('dest.test');
      const late = sites.find('other.test');
      sites.reroute({ '*': { ...smarthost, auth: { user: 'u', password: 'new' } }, 'held.test': { kind: 'hold' } });
      assert.equal((await sites.find('held.test')).kind, 'hold');
      await late;
      const second = await sites.find('dest.test');
      assert.ok(first.kind === 'site' && second.kind === 'site');
      assert.deepEqual([first.relay?.auth?.password, second.relay?.auth?.password], ['p', 'new']);
      sites.reroute({});
      assert.notEqual((await sites.find('held.test')).kind, 'hold');
    });
  });

  describe('a domain that DNS does not tell of', () => {
    const trouble = { kind: 'trouble', text: 'SERVFAIL' } as const;

    it('waits as a domain, longer each time, and is asked for once meanwhile', async () => {
      answers = { 'dest.test': trouble };
      const sites = sitesWith();
      const pauses: number[] = [];
      for (let count = 1; count < 11; count++) {
        const found = await sites.find('dest.test');
        assert.ok(found.kind === 'unresolved');
        assert.deepEqual([found.failures, found.since, found.route.text], [count, NOW, 'SERVFAIL']);
        assert.equal(sites.known('dest.test'), found);
        assert.equal(await sites.find('dest.test'), found);
        assert.equal(asked.length, count);
        pauses.push((found.until - clock.now()) / 1000);
        clock.advance(found.until - clock.now());
        assert.equal(sites.known('dest.test'), null);
        assert.equal(sites.lastKnown('dest.test'), found);
      }
      assert.deepEqual(pauses, [2, 4, 8, 15, 30, 60, 120, 300, 300, 300]);
    });

    it('has its mail sent as soon as DNS tells, and fails as for the first time later', async () => {
      answers = { 'dest.test': trouble };
      const sites = sitesWith();
      await sites.find('dest.test');
      clock.advance(2000);
      answers = { 'dest.test': hosts('mx.dest.test', 5) };
      assert.equal((await sites.find('dest.test')).kind, 'site');
      clock.advance(5000);
      answers = { 'dest.test': trouble };
      const again = await sites.find('dest.test');
      assert.ok(again.kind === 'unresolved');
      assert.deepEqual([again.failures, again.since], [1, clock.now()]);
    });

    it("is looked up at once on an operator's request, for one domain or for all", async () => {
      answers = { 'dest.test': trouble, 'other.test': trouble };
      const sites = sitesWith();
      await Promise.all([sites.find('dest.test'), sites.find('other.test')]);
      sites.retry('dest.test');
      assert.deepEqual([sites.known('dest.test'), sites.known('other.test')?.kind], [null, 'unresolved']);
      sites.retry(null);
      assert.equal(sites.known('other.test'), null);
    });

    it('does not hold up others, and says while it is being asked for', async () => {
      answers = { 'dest.test': trouble, 'other.test': hosts('mx.other.test') };
      const sites = sitesWith();
      const asking = sites.find('dest.test');
      assert.deepEqual([sites.isAsking('dest.test'), sites.isAsking('other.test')], [true, false]);
      await asking;
      assert.equal(sites.isAsking('dest.test'), false);
      assert.equal((await sites.find('other.test')).kind, 'site');
    });

    it('keeps its time when the clock is set', async () => {
      answers = { 'dest.test': trouble };
      const sites = sitesWith();
      await sites.find('dest.test');
      clock.jump(3_600_000);
      sites.shift(3_600_000);
      assert.equal(sites.known('dest.test')?.kind, 'unresolved');
      clock.advance(2000);
      assert.equal(sites.known('dest.test'), null);
    });
  });
});
