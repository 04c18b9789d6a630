import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createResolver, reverseName } from '../../src/net/resolver.ts';
import type { Resolver, ResolverOptions } from '../../src/net/resolver.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { startDnsServer } from '../support/fakes/fake-dns-server.ts';
import type { DnsServerOptions, FakeDnsServer } from '../support/fakes/fake-dns-server.ts';
import type { Zones } from '../support/fakes/zones.ts';

describe('base/resolver', () => {
  let clock: FakeClock;
  let open: { close(): Promise<void> }[];

  beforeEach(() => {
    clock = new FakeClock();
    open = [];
  });

  afterEach(async () => {
    await Promise.all(open.map((each) => each.close()));
  });

  async function dns(zones: Zones, options: DnsServerOptions = {}): Promise<FakeDnsServer> {
    const server = await startDnsServer(zones, options);
    open.push(server);
    return server;
  }

  function resolverFor(servers: (FakeDnsServer | string)[], options: ResolverOptions = {}): Resolver {
    const addresses = servers.map((server) => (typeof server === 'string' ? server : server.address));
    const resolver = createResolver({ clock }, { servers: addresses, ...options });
    open.unshift(resolver);
    return resolver;
  }

  /** A port on which no server listens. */
  async function closedPort(): Promise<string> {
    const socket = createSocket('udp4');
    socket.bind(0, '127.0.0.1');
    await once(socket, 'listening');
    const { port } = socket.address();
    socket.close();
    await once(socket, 'close');
    return `127.0.0.1:${String(port)}`;
  }

  it('reads records of each kind', async () => {
    const server = await dns(
      {
        'dest.test MX': ['10 MX1.dest.test', '20 mx2.dest.test'],
        'null.test MX': ['0 .'],
        'mx1.dest.test A': ['192.0.2.1', '192.0.2.2'],
        'mx1.dest.test AAAA': ['2001:db8::1'],
        'key.test TXT': ['v=DKIM1; p='.padEnd(450, 'A')],
        '1.2.0.192.in-addr.arpa PTR': ['mx1.dest.test'],
        '_25._tcp.mx1.dest.test TLSA': ['3 1 1 00ff'],
      },
      { ttl: 77, secure: true },
    );
    const resolver = resolverFor([server]);
    const found = { kind: 'found', ttl: 77, secure: true };
    assert.deepEqual(await resolver.mx('DEST.test.'), {
      ...found,
      name: 'dest.test',
      records: [
        { preference: 10, exchange: 'mx1.dest.test' },
        { preference: 20, exchange: 'mx2.dest.test' },
      ],
    });
    assert.deepEqual(await resolver.mx('null.test'), {
      ...found,
      name: 'null.test',
      records: [{ preference: 0, exchange: '.' }],
    });
    assert.deepEqual(await resolver.a('mx1.dest.test'), {
      ...found,
      name: 'mx1.dest.test',
      records: ['192.0.2.1', '192.0.2.2'],
    });
    assert.deepEqual(await resolver.aaaa('mx1.dest.test'), {
      ...found,
      name: 'mx1.dest.test',
      records: ['2001:db8::1'],
    });
    const text = await resolver.txt('key.test');
    assert.equal(text.kind === 'found' && text.records[0], 'v=DKIM1; p='.padEnd(450, 'A'));
    const names = await resolver.ptr('192.0.2.1');
    assert.deepEqual(names.kind === 'found' && names.records, ['mx1.dest.test']);
    const tlsa = await resolver.tlsa('_25._tcp.mx1.dest.test');
    assert.deepEqual(tlsa.kind === 'found' && tlsa.records, [
      { usage: 3, selector: 1, matchingType: 1, certificate: Buffer.from('00ff', 'hex') },
    ]);
  });

  it('tells no data, no domain and each kind of trouble apart', async () => {
    const server = await dns({
      'dest.test A': ['192.0.2.1'],
      'sick.test MX': 'SERVFAIL',
      'closed.test MX': 'REFUSED',
      'garbled.test MX': 'MALFORMED',
    });
    const resolver = resolverFor([server]);
    assert.deepEqual(await resolver.mx('dest.test'), { kind: 'no_data' });
    assert.deepEqual(await resolver.mx('gone.test'), { kind: 'no_domain', fresh: true });
    assert.deepEqual(await resolver.mx('gone.test'), { kind: 'no_domain', fresh: false });
    for (const [name, why] of [
      ['sick.test', 'servfail'],
      ['closed.test', 'refused'],
      ['garbled.test', 'malformed'],
    ] as const) {
      const answer = await resolver.mx(name);
      assert.equal(answer.kind === 'trouble' && answer.why, why, name);
    }
  });

  it('takes a name that cannot be in the DNS for one that does not exist, without asking', async () => {
    const server = await dns({});
    const resolver = resolverFor([server]);
    for (const name of ['', 'a..test', `${'x'.repeat(64)}.test`, `${'x.'.repeat(127)}test`, 'b\u00fc.test', 'a b.test'])
      assert.deepEqual(await resolver.mx(name), { kind: 'no_domain', fresh: true }, name);
    assert.deepEqual(server.queries, []);
    const longest = `${'x'.repeat(63)}.${'y'.repeat(63)}.${'z'.repeat(63)}.${'w'.repeat(61)}`;
    server.zones[`${longest} A`] = ['192.0.2.1'];
    assert.equal((await resolver.a(longest)).kind, 'found');
  });

  it('follows aliases, in one answer or over several questions, and gives up on a circle', async () => {
    const zones: Zones = {
      'www.test CNAME': ['a.test'],
      'a.test CNAME': ['b.test'],
      'b.test A': ['192.0.2.7'],
      'dead.test CNAME': ['nowhere.test'],
      'round.test CNAME': ['about.test'],
      'about.test CNAME': ['round.test'],
    };
    for (const lazyAliases of [false, true]) {
      const server = await dns(zones, { lazyAliases });
      const resolver = resolverFor([server]);
      const answer = await resolver.a('www.test');
      assert.deepEqual(answer, { kind: 'found', records: ['192.0.2.7'], name: 'b.test', ttl: 300, secure: false });
      assert.equal(server.queries.length, lazyAliases ? 3 : 1);
      assert.equal((await resolver.a('dead.test')).kind, 'no_domain');
      const loop = await resolver.a('round.test');
      assert.equal(loop.kind === 'trouble' && loop.why, 'malformed');
    }
  });

  it('asks over TCP what UDP cuts', async () => {
    const addresses = Array.from({ length: 200 }, (_, at) => `192.0.2.${String(at + 1)}`);
    const server = await dns({ 'big.test A': addresses }, { truncate: true });
    const answer = await resolverFor([server]).a('big.test');
    assert.deepEqual(answer.kind === 'found' && answer.records, addresses);
    assert.deepEqual(server.queries, ['udp big.test A', 'tcp big.test A']);
  });

  it('refuses an answer with more records than any mail domain has', async () => {
    const addresses = Array.from({ length: 600 }, (_, at) => `10.0.${String(at >> 8)}.${String(at & 255)}`);
    const server = await dns({ 'huge.test A': addresses }, { truncate: true });
    const answer = await resolverFor([server]).a('huge.test');
    assert.equal(answer.kind === 'trouble' && answer.why, 'malformed');
  });

  it('is not taken in by a wrong id, question or source', async () => {
    const server = await dns({ 'bank.test A': ['192.0.2.9'] }, { spoof: true });
    const answer = await resolverFor([server]).a('bank.test');
    assert.deepEqual(answer.kind === 'found' && answer.records, ['192.0.2.9']);
  });

  it('repeats a lost query, and gives up at the deadline', async () => {
    const server = await dns({ 'slow.test A': ['192.0.2.4'], 'mute.test A': 'TIMEOUT' }, { loseFirst: 1 });
    const resolver = resolverFor([server], { timeoutMs: 3000 });
    const slow = resolver.a('slow.test');
    await server.queried(1);
    clock.advance(800);
    assert.equal((await slow).kind, 'found');

    const mute = resolver.a('mute.test');
    await server.queried(3);
    clock.advance(3000);
    const answer = await mute;
    assert.equal(answer.kind === 'trouble' && answer.why, 'timeout');
    assert.equal(clock.nextAt(), null, 'no timer is left');
  });

  it('logs once that no server answers, with the names, and once that one does again', async () => {
    const logged: unknown[] = [];
    const keep = (fields: unknown): number => logged.push(fields);
    const server = await dns({ 'dest.test A': ['192.0.2.5'], 'b.test A': 'TIMEOUT', 'a.test A': 'TIMEOUT' });
    const log = { warn: keep, info: keep };
    const resolver = createResolver({ clock, log }, { servers: [server.address], timeoutMs: 3000 });
    open.unshift(resolver);
    async function unanswered(count: number): Promise<void> {
      for (let n = 0; n < count; n++) {
        const before = server.queries.length;
        const answer = resolver.a(n % 2 === 0 ? 'a.test' : 'b.test', { fresh: true });
        await server.queried(before + 1);
        clock.advance(3000);
        await answer;
      }
    }
    await unanswered(4);
    await resolver.a('dest.test', { fresh: true });
    await unanswered(4);
    assert.deepEqual(logged, [], 'an answer in between counts from the start again');
    await unanswered(3);
    assert.deepEqual(logged, [], 'it has not lasted half a minute');
    await unanswered(5);
    const silent = { event: 'dns_silent', servers: ['127.0.0.1'], names: ['a.test', 'b.test'] };
    assert.deepEqual(logged, [silent]);
    await resolver.a('dest.test', { fresh: true });
    await resolver.a('gone.test');
    assert.deepEqual(logged, [silent, { event: 'dns_answers', servers: ['127.0.0.1'] }]);
  });

  it('goes to the next server at once when one fails or is not there', async () => {
    const good = await dns({ 'dest.test A': ['192.0.2.5'] });
    const sick = await dns({ 'dest.test A': 'SERVFAIL' });
    assert.equal((await resolverFor([sick, good]).a('dest.test')).kind, 'found');
    assert.equal((await resolverFor([await closedPort(), good]).a('dest.test')).kind, 'found');
  });

  it('asks a server that was silent three times after the others', async () => {
    const dead = await dns({
      'a.test A': 'TIMEOUT',
      'b.test A': 'TIMEOUT',
      'c.test A': 'TIMEOUT',
      'd.test A': 'TIMEOUT',
    });
    const live = await dns({ 'a.test A': ['192.0.2.1'], 'b.test A': ['192.0.2.1'], 'c.test A': ['192.0.2.1'] });
    const resolver = resolverFor([dead, live]);
    for (const [at, name] of ['a.test', 'b.test', 'c.test'].entries()) {
      const answer = resolver.a(name);
      await dead.queried(at + 1);
      clock.advance(800);
      assert.equal((await answer).kind, 'found');
    }
    assert.equal((await resolver.a('d.test')).kind, 'no_domain');
    assert.equal(dead.queries.length, 3, 'the dead server was not asked for d.test');
    clock.advance(30_000);
    const probe = resolver.a('e.test');
    await dead.queried(4);
    await probe;
  });

  it('remembers answers for their TTL, no longer and not when asked for a fresh one', async () => {
    const server = await dns({ 'dest.test A': ['192.0.2.1'] }, { ttl: 100, negativeTtl: 3600 });
    const resolver = resolverFor([server]);
    await resolver.a('dest.test');
    clock.advance(60_000);
    const cached = await resolver.a('dest.test');
    assert.equal(cached.kind === 'found' && cached.ttl, 40);
    assert.equal(server.queries.length, 1);
    await resolver.a('dest.test', { fresh: true });
    assert.equal(server.queries.length, 2);
    clock.advance(100_000);
    await resolver.a('dest.test');
    assert.equal(server.queries.length, 3);

    await resolver.a('gone.test');
    clock.advance(59_000);
    await resolver.a('gone.test');
    assert.equal(server.queries.length, 4);
    clock.advance(1_000);
    assert.deepEqual(
      await resolver.a('gone.test'),
      { kind: 'no_domain', fresh: true },
      'at most 60 s, whatever the SOA says',
    );
  });

  it('forgets the least used answer first when the cache is full', async () => {
    const server = await dns({ 'a.test A': ['192.0.2.1'], 'b.test A': ['192.0.2.1'], 'c.test A': ['192.0.2.1'] });
    const resolver = resolverFor([server], { maxEntries: 2 });
    for (const name of ['a.test', 'b.test', 'a.test', 'c.test', 'a.test']) await resolver.a(name);
    assert.deepEqual(server.queries, ['udp a.test A', 'udp b.test A', 'udp c.test A']);
  });

  it('asks once for many who want the same', async () => {
    const server = await dns({ 'dest.test A': ['192.0.2.1'] });
    const resolver = resolverFor([server]);
    const answers = await Promise.all(Array.from({ length: 50 }, () => resolver.a('dest.test')));
    assert.equal(
      answers.every((answer) => answer.kind === 'found'),
      true,
    );
    assert.equal(server.queries.length, 1);
  });

  it('lets look-ups wait for a slot, and counts their time limit from there', async () => {
    const server = await dns({ 'a.test A': 'TIMEOUT', 'b.test A': 'TIMEOUT', 'c.test A': ['192.0.2.1'] });
    const resolver = resolverFor([server], { maxInFlight: 2, maxWaiting: 1, timeoutMs: 3000 });
    const silent = [resolver.a('a.test'), resolver.a('b.test')];
    await server.queried(2);
    const third = resolver.a('c.test');
    assert.deepEqual(resolver.load(), { inFlight: 2, waiting: 1 });
    const fourth = await resolver.a('d.test');
    assert.match(fourth.kind === 'trouble' ? fourth.text : '', /too many DNS look-ups wait/);
    clock.advance(3000);
    for (const answer of await Promise.all(silent)) assert.equal(answer.kind === 'trouble' && answer.why, 'timeout');
    assert.equal((await third).kind, 'found');
    assert.deepEqual(resolver.load(), { inFlight: 0, waiting: 0 });
  });

  it('looks names that were silent before up apart, so that they keep no other name waiting', async () => {
    const server = await dns({ 'a.test A': 'TIMEOUT', 'b.test A': ['192.0.2.1'], 'c.test A': ['192.0.2.2'] });
    const resolver = resolverFor([server], { maxInFlight: 1, timeoutMs: 3000 });
    const first = resolver.a('a.test');
    await server.queried(1);
    clock.advance(3000);
    assert.equal((await first).kind, 'trouble');
    const again = resolver.a('a.test', { fresh: true });
    await server.queried(server.queries.length + 1);
    assert.equal((await resolver.a('b.test')).kind, 'found');
    assert.deepEqual(resolver.load(), { inFlight: 1, waiting: 0 });
    clock.advance(3000);
    assert.equal((await again).kind, 'trouble');
  });

  it('lets kinds of records take turns', async () => {
    const server = await dns({ 'a.test A': ['192.0.2.1'], 'b.test A': ['192.0.2.2'], 'b.test TXT': ['x'] });
    const resolver = resolverFor([server], { maxInFlight: 1 });
    const ended: string[] = [];
    const note = (name: string, asked: Promise<unknown>): Promise<unknown> => asked.then(() => ended.push(name));
    await Promise.all([
      note('first', resolver.a('a.test')),
      note('second', resolver.a('b.test')),
      note('third', resolver.a('c.test')),
      note('text', resolver.txt('b.test')),
    ]);
    assert.deepEqual(ended, ['first', 'second', 'text', 'third']);
  });

  it('ends what asks and what waits when it is closed', async () => {
    const server = await dns({ 'a.test A': 'TIMEOUT', 'b.test A': 'TIMEOUT' });
    const resolver = resolverFor([server], { maxInFlight: 1 });
    const both = [resolver.a('a.test'), resolver.a('b.test')];
    await server.queried(1);
    await resolver.close();
    for (const answer of await Promise.all(both)) assert.equal(answer.kind === 'trouble' && answer.why, 'network');
    assert.equal((await resolver.a('d.test')).kind, 'trouble');
    assert.equal(clock.nextAt(), null, 'no timer is left');
  });

  it('draws the case of the question by lot, and asks over TCP if the reply has another', async () => {
    const name = `${'abcdefgh'.repeat(5)}.test`;
    const server = await dns({
      [`${name} A`]: ['192.0.2.1'],
      'b.test A': ['192.0.2.2'],
      'c.test A': ['192.0.2.3'],
      'd.test A': ['192.0.2.4'],
    });
    const resolver = resolverFor([server]);
    assert.equal((await resolver.a(name)).kind, 'found');
    assert.match(server.written[0] ?? '', /[a-z].*[A-Z]|[A-Z].*[a-z]/);
    server.options.foldsCase = true;
    assert.equal((await resolver.a(name, { fresh: true })).kind, 'found');
    assert.deepEqual(server.queries.slice(1), [`udp ${name} A`, `tcp ${name} A`]);
    assert.equal(server.written[2], name);
  });

  it('takes SERVFAIL of a validating server for the answer, whatever another says', async () => {
    const validating = await dns({ 'forged.test A': 'SERVFAIL' });
    const other = await dns({ 'forged.test A': ['192.0.2.66'] });
    assert.equal((await resolverFor([validating, other]).a('forged.test')).kind, 'found');
    const answer = await resolverFor([validating, other], { validating: true }).a('forged.test');
    assert.equal(answer.kind === 'trouble' && answer.why, 'servfail');
  });

  it('writes addresses as reverse names', () => {
    assert.equal(reverseName('192.0.2.25'), '25.2.0.192.in-addr.arpa');
    assert.equal(
      reverseName('2001:db8::567:89ab'),
      'b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa',
    );
    assert.throws(() => reverseName('mail.test'));
  });

  it("asks other servers once the system's have changed, and goes on where they cannot be read", async () => {
    const [before, after] = await Promise.all([
      dns({ 'dest.test A': ['192.0.2.1'] }),
      dns({ 'dest.test A': ['192.0.2.2'], 'else.test A': ['192.0.2.3'] }),
    ]);
    let read = (): readonly string[] => [before.address];
    const resolver = createResolver({ clock }, { systemServers: () => read() });
    open.unshift(resolver);
    const fresh = { fresh: true };
    const first = await resolver.a('dest.test', fresh);
    read = () => [after.address];
    const soon = await resolver.a('dest.test', fresh);
    clock.advance(10_000);
    const later = await resolver.a('dest.test', fresh);
    read = () => ['dns.test'];
    clock.advance(10_000);
    const last = await resolver.a('else.test', fresh);
    assert.deepEqual(
      [first, soon, later, last].map((answer) => answer.kind === 'found' && answer.records[0]),
      ['192.0.2.1', '192.0.2.1', '192.0.2.2', '192.0.2.3'],
    );
  });

  it('refuses settings that are no server addresses', () => {
    for (const text of ['dns.test', '192.0.2.1:0', '192.0.2.1:99999', '[::1]', '300.1.1.1:53', ''])
      assert.throws(() => createResolver({ clock }, { servers: [text] }), /DNS server/, text);
    for (const text of ['192.0.2.1', '192.0.2.1:5353', '::1', '[::1]:53'])
      createResolver({ clock }, { servers: [text] });
  });
});
