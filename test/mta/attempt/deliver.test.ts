import assert from 'node:assert/strict';
import { createTlsMemory } from '../../../src/mta/connection/dial.ts';
import { type PoolLimits, Pool } from '../../../src/mta/connection/pool.ts';
import { noTimings } from '../../../src/mta/connection/phases.ts';
import { createTlsClient } from '../../../src/mta/connection/tls.ts';
import {
  connectToSite,
  deliver,
  takeIdleConnection,
  type SourceContext,
  type Tried,
} from '../../../src/mta/attempt/deliver.ts';
import { hostKey } from '../../../src/mta/names.ts';
import type { AttemptFrame } from '../../../src/mta/attempt/outcome.ts';
import type { Prepared, Ready } from '../../../src/mta/prepare/prepare.ts';
import type { Host, Site } from '../../../src/mta/sites/sites.ts';
import { testCa } from '../../support/harness/certificate.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { startMailServer, type FakeMailServer, type MailServerOptions } from '../../support/fakes/fake-mail-server.ts';
import { NOW } from '../../support/harness/mail-rows.ts';
import { timeouts } from '../connection/helpers.ts';

const limits: PoolLimits = { idleMs: 5000, maxMessages: 100, maxAgeMs: 300_000, maxOpen: 100, maxPerHost: 2 };
/** No server listens here. A port that was free a moment ago may be given to another program. */
const DEAD_PORT = 1;
const body = Buffer.from('Subject: hi\r\n\r\nhello\r\n');
const mail: Ready = {
  kind: 'ready',
  messageId: 'msg_1',
  requestId: null,
  stream: 'default',
  envelopeFrom: 'b+x@rp.acme.test',
  recipient: 'ana@dest.test',
  data: [body],
  size: body.length,
  smtpUtf8: false,
  eightBit: false,
  test: false,
  testOutcome: null,
};

describe('mta/attempt/deliver', () => {
  let clock: FakeClock;
  let pool: Pool;
  let deps: SourceContext;
  let servers: FakeMailServer[];

  beforeEach(() => {
    clock = new FakeClock(NOW);
    pool = new Pool({ clock, random: () => 0 }, limits);
    servers = [];
    deps = {
      clock,
      pool,
      timeouts,
      deadline: Infinity,
      tls: createTlsClient({ ca: testCa }),
      memory: createTlsMemory(),
      hostname: 'mail.posthorn.test',
    };
  });
  afterEach(async () => {
    await Promise.all([pool.drain(), ...servers.map((server) => server.close())]);
  });

  const serve = async (options: MailServerOptions = {}): Promise<FakeMailServer> => {
    const server = await startMailServer({ tls: 'none', ...options });
    servers.push(server);
    return server;
  };
  const hostAt = (port: number, name = 'mx1.dest.test'): Host => ({
    name,
    port,
    addresses: [{ ip: '127.0.0.1', family: 4 }],
  });
  const siteOf = (...hosts: Host[]): Site => ({ kind: 'site', name: 'dest', hosts, relay: null });
  const frameAt = (endedAt: number): AttemptFrame => ({
    startedAt: NOW,
    endedAt,
    retryAt: NOW + 60_000,
    viaRelay: false,
  });
  /** Both steps, as a worker takes them. */
  async function send(site: Site, of = mail): Promise<Tried> {
    const reached = await connectToSite(deps, site, of);
    if (reached.kind === 'reached') return deliver(deps, { site, mail: of, frameAt }, reached.connection);
    if (reached.kind === 'unreached') return { kind: 'tried', outcome: reached.outcome(frameAt(clock.now())) };
    assert.ok(reached.kind === 'wait');
    return { kind: 'untried', waits: reached.waits };
  }
  /** Connections count until their sockets are gone. */
  const emptied = async (): Promise<void> => {
    while (pool.count() > 0) await new Promise((resolve) => setImmediate(resolve));
  };
  const waitsOf = (tried: Tried): string[] => {
    assert.ok(tried.kind === 'untried');
    return tried.waits.map(({ why }) => why);
  };
  const outcomeOf = (tried: Tried) => {
    assert.ok(tried.kind === 'tried');
    return tried.outcome;
  };
  it('spends no attempt on a mail that was withheld because this server may have been replaced', async () => {
    const first = await serve();
    const second = await serve();
    deps.maySend = () => false;
    const site = siteOf(hostAt(first.port), hostAt(second.port, 'mx2.dest.test'));
    assert.deepEqual(await send(site), { kind: 'untried', waits: [] });
    assert.deepEqual([first.sessions[0]?.mails, second.sessions], [[], []]);

    deps.maySend = () => true;
    const tried = await send(site);
    assert.equal(tried.kind === 'tried' && tried.outcome.kind, 'accepted');
    assert.equal(first.sessions[1]?.mails.length, 1);
  });

  it('bug: a mail that could not be brought into 7 bits just now was due again without an attempt, for days', async () => {
    const server = await serve({ extensions: ['PIPELINING'] });
    const site = siteOf(hostAt(server.port));
    const answers: Prepared[] = [
      { kind: 'unready', why: 'the thread has too much to do' },
      { kind: 'unsigned', why: 'the key cannot be read' },
      { kind: 'unbuildable', why: 'its content is gone' },
      { ...mail, data: [Buffer.from('Subject: hi\r\n\r\nseven\r\n')], size: 22 },
    ];
    const ends: string[] = [];
    for (const answer of answers) {
      const reached = await connectToSite(deps, site, mail);
      assert.ok(reached.kind === 'reached');
      const eight: Ready = { ...mail, eightBit: true, inSevenBits: () => Promise.resolve(answer) };
      const tried = await deliver(deps, { site, mail: eight, frameAt }, reached.connection);
      ends.push(
        tried.kind === 'tried' ? tried.outcome.kind : tried.kind === 'unmade' ? tried.failure.kind : tried.kind,
      );
    }
    assert.deepEqual(ends, ['unready', 'unsigned', 'refused', 'accepted']);
    const mails = server.sessions.flatMap((session) => session.mails.map(({ data }) => data));
    assert.deepEqual(mails, ['Subject: hi\r\n\r\nseven\r\n']);
    assert.equal(server.sessions.length, 1);
  });

  it('ends after the limit of the whole attempt, however many hosts are left', async () => {
    deps.timeouts = { ...timeouts, mail: 40_000, ehlo: 40_000, attempt: 60_000 };
    const first = await serve({ script: { mail: 'hang' } });
    const second = await serve({ script: { ehlo: 'hang' } });
    const third = await serve();
    const hosts = [first, second, third].map(({ port }, at) => hostAt(port, `mx${String(at + 1)}.dest.test`));
    const began = clock.monotonic();
    const sending = send(siteOf(...hosts));
    await first.reached('mail');
    clock.advance(40_000);
    await second.reached('ehlo');
    clock.advance(20_000);
    const outcome = outcomeOf(await sending);
    assert.deepEqual([outcome.kind, outcome.facts.mx], ['deferred', 'mx1.dest.test']);
    assert.equal(clock.monotonic() - began, 60_000);
    assert.deepEqual(third.sessions, [], 'no host is dialled when the time is over');
  });

  it('hands a mail to the first host', async () => {
    const server = await serve();
    const outcome = outcomeOf(await send(siteOf(hostAt(server.port))));
    assert.equal(outcome.kind, 'accepted');
    assert.deepEqual([outcome.facts.mx, outcome.facts.ip, outcome.facts.smtpCode], ['mx1.dest.test', '127.0.0.1', 250]);
    assert.deepEqual(server.sessions[0]?.mails, [
      { from: mail.envelopeFrom, to: ['ana@dest.test'], data: body.toString() },
    ]);
  });

  it('gives a relay its password in the clear only where the route says `tls: none`', async () => {
    const auth = { user: 'posthorn', password: 'secret' };
    for (const [tls, kind] of [
      ['none', 'accepted'],
      ['opportunistic', 'deferred'],
    ] as const) {
      const server = await serve({ extensions: ['PIPELINING', 'AUTH PLAIN'] });
      const outcome = outcomeOf(await send({ ...siteOf(hostAt(server.port)), relay: { tls, auth } }));
      assert.equal(outcome.kind, kind, tls);
      assert.equal(
        server.sessions.some(({ lines }) => lines.some((line) => line.startsWith('AUTH'))),
        tls === 'none',
      );
    }
  });

  it('uses the connection again for the next mail', async () => {
    const server = await serve();
    for (let count = 0; count < 3; count++) await send(siteOf(hostAt(server.port)));
    assert.deepEqual([server.sessions.length, server.sessions[0]?.mails.length], [1, 3]);
  });

  describe('the next host', () => {
    it('gets it after one that cannot be reached', async () => {
      const server = await serve();
      const dead = hostAt(DEAD_PORT, 'mx0.dest.test');
      const outcome = outcomeOf(await send(siteOf(dead, hostAt(server.port))));
      assert.deepEqual([outcome.kind, outcome.facts.mx], ['accepted', 'mx1.dest.test']);
    });

    it('gets it after one that turns us away before MAIL', async () => {
      for (const script of [
        { connect: '554 5.7.1 not you' },
        { connect: 'drop' },
        { ehlo: '421 4.3.2 closing' },
      ] as const) {
        const [first, second] = [await serve({ script }), await serve()];
        const outcome = outcomeOf(await send(siteOf(hostAt(first.port, 'mx0.dest.test'), hostAt(second.port))));
        assert.deepEqual([outcome.kind, outcome.facts.mx], ['accepted', 'mx1.dest.test'], JSON.stringify(script));
      }
    });

    it('gets it after one that broke off before the dot, once', async () => {
      const [first, second] = [await serve({ script: { data: 'drop' } }), await serve()];
      const outcome = outcomeOf(await send(siteOf(hostAt(first.port, 'mx0.dest.test'), hostAt(second.port))));
      assert.deepEqual([outcome.kind, outcome.facts.mx], ['accepted', 'mx1.dest.test']);
      assert.deepEqual([first.sessions[0]?.mails.length, second.sessions[0]?.mails.length], [0, 1]);
    });

    it('does not get what the first one refused or took', async () => {
      for (const [script, kind] of [
        [{ rcpt: '550 5.1.1 no such user' }, 'refused'],
        [{ rcpt: '451 4.3.0 later' }, 'deferred'],
        [{ message: '554 5.7.1 no' }, 'refused'],
        [{}, 'accepted'],
      ] as const) {
        const [first, second] = [await serve({ script }), await serve()];
        assert.equal(
          outcomeOf(await send(siteOf(hostAt(first.port, 'mx0.dest.test'), hostAt(second.port)))).kind,
          kind,
        );
        assert.equal(second.sessions.length, 0, kind);
      }
    });

    it('does not get what may have arrived already', async () => {
      const [first, second] = [await serve({ script: { message: 'drop' } }), await serve()];
      const outcome = outcomeOf(await send(siteOf(hostAt(first.port, 'mx0.dest.test'), hostAt(second.port))));
      assert.deepEqual([outcome.kind, outcome.facts.mx], ['uncertain', 'mx0.dest.test']);
      assert.equal(second.sessions.length, 0);
    });
  });

  describe('an extension that a host lacks', () => {
    const large: Ready = { ...mail, size: 2000 };
    const small: MailServerOptions = { extensions: ['PIPELINING', 'SIZE 1000'] };
    const rows: [why: string, better: MailServerOptions | null, worse: MailServerOptions | null, kind: string][] = [
      ['bug: it bounced at the backup host while the better one was down', null, small, 'deferred'],
      ['bug: so it did while that one turned us away', { script: { connect: '421 4.3.2 down' } }, small, 'deferred'],
      ['bug: so it did where that one broke off', { script: { mail: 'drop' } }, small, 'deferred'],
      ['bug: the next host was not asked', small, {}, 'accepted'],
      ['it waits for the next host', small, null, 'deferred'],
      ['no host has it', small, small, 'refused'],
    ];
    for (const [why, better, worse, kind] of rows)
      it(why, async () => {
        const hosts: Host[] = [];
        for (const [at, options] of [better, worse].entries()) {
          const port = options === null ? DEAD_PORT : (await serve(options)).port;
          hosts.push({ ...hostAt(port, `mx${String(at)}.dest.test`), preference: at });
        }
        for (const round of ['the first mail', 'the next one']) {
          const outcome = outcomeOf(await send(siteOf(...hosts), large));
          assert.equal(outcome.kind, kind, round);
          if (kind === 'refused') assert.equal(outcome.facts.enhancedCode, '5.3.4');
        }
      });

    it('bug: SMTPUTF8 and 8BITMIME bounced in the same way', async () => {
      const plain = await serve({ extensions: ['PIPELINING'] });
      const hosts = [hostAt(DEAD_PORT, 'mx0.dest.test'), hostAt(plain.port)];
      for (const need of [{ smtpUtf8: true }, { eightBit: true }])
        assert.equal(outcomeOf(await send(siteOf(...hosts), { ...mail, ...need })).kind, 'deferred');
    });
  });

  describe('a host with several addresses', () => {
    /** Two servers at one port, each at an address of its own. */
    async function serveBoth(
      first: MailServerOptions,
    ): Promise<{ host: Host; bad: FakeMailServer; good: FakeMailServer }> {
      for (;;) {
        const bad = await serve({ ...first, listen: { host: '127.0.1.1' } });
        const listen = { host: '127.0.1.2', port: bad.port };
        const good = await serve({ listen }).catch(() => null);
        if (good === null) continue;
        const addresses = ['127.0.1.1', '127.0.1.2'].map((ip) => ({ ip, family: 4 as const }));
        return { host: { ...hostAt(bad.port), addresses }, bad, good };
      }
    }
    const rows: [name: string, options: MailServerOptions][] = [
      ['hangs up', { script: { connect: 'drop' } }],
      ['resets', { script: { connect: 'reset' } }],
      ['says half a banner', { script: { connect: { raw: '220 half', then: 'drop' } } }],
      ['hangs up at EHLO', { script: { ehlo: 'drop' } }],
    ];
    for (const [name, options] of rows)
      it(`bug: only the first was tried, which ${name}`, async () => {
        deps.random = () => 0;
        const { host, bad, good } = await serveBoth(options);
        const outcome = outcomeOf(await send(siteOf(host)));
        assert.deepEqual([outcome.kind, outcome.facts.ip], ['accepted', '127.0.1.2']);
        assert.deepEqual([bad.sessions.length, good.sessions.length], [1, 1]);
      });

    it('is not asked at another address after a refusal in words', async () => {
      deps.random = () => 0;
      const { host, good } = await serveBoth({ script: { connect: '421 4.7.0 too many connections' } });
      assert.equal(outcomeOf(await send(siteOf(host))).kind, 'deferred');
      assert.equal(good.sessions.length, 0);
    });

    it('is dialled at its addresses in an order that varies', async () => {
      const lots = [0.9, 0.1, 0.1, 0.9];
      deps.random = () => lots.shift() ?? 0;
      const { host, bad, good } = await serveBoth({});
      await send(siteOf(host));
      clock.advance(5000);
      await emptied();
      assert.deepEqual([bad.sessions.length, good.sessions.length], [0, 1]);
      await send(siteOf(host));
      assert.deepEqual([bad.sessions.length, good.sessions.length], [1, 1]);
    });
  });

  it('bug: a dial that was refused while another connection became idle spent an attempt', async () => {
    const server = await serve();
    const site = siteOf(hostAt(server.port));
    let release = (): void => undefined;
    const first = await connectToSite(deps, site, mail);
    assert.ok(first.kind === 'reached');
    server.options.script = {
      connect: () => {
        release();
        return '421 4.7.0 too many connections';
      },
    };
    release = () => first.connection.lease.giveBack();
    assert.equal(outcomeOf(await send(site)).kind, 'accepted');
    assert.equal(server.sessions.length, 2);
    assert.equal(server.sessions[0]?.mails.length, 1, 'over the one that is idle');
  });

  it('bug: a used-up connection was counted still when its successor was dialled', async () => {
    let open = 0;
    const server = await serve({
      script: {
        connect: (_line, session) => {
          if (++open > 1) return '421 4.7.0 too many connections';
          void session.closed.then(() => open--);
          return '220 hi';
        },
        mail: (_line, session) =>
          session.mails.length > 0 ? '421 4.7.0 too many messages in this session' : '250 2.1.0 ok',
      },
    });
    const site = siteOf(hostAt(server.port));
    await send(site);
    const tried = await send(site);
    assert.equal(tried.kind === 'tried' ? tried.outcome.kind : 'no attempt is spent', 'accepted');
  });

  it('bug: it spent an attempt where that successor was refused for the number of connections', async () => {
    const server = await serve({
      script: {
        mail: (_line, session) =>
          session.mails.length > 0 ? '421 4.7.0 too many messages in this session' : '250 2.1.0 ok',
      },
    });
    const site = siteOf(hostAt(server.port));
    await send(site);
    server.options.script = { ...server.options.script, connect: '421 4.7.0 too many connections' };
    assert.equal((await send(site)).kind, 'untried');
  });

  it('bug: an attempt was spent where this machine had no descriptor left for a successor', async () => {
    let mails = 0;
    const server = await serve({ script: { mail: () => (++mails === 2 ? 'drop' : '250 2.1.0 ok') } });
    const site = siteOf(hostAt(server.port));
    await send(site);
    const { pool } = deps;
    const ours = { kind: 'failed', ip: '', phase: 'connect', reply: null, text: 'connect EMFILE', ours: true } as const;
    pool.dial = () =>
      Promise.resolve({ ...ours, tlsBroken: false, tlsUnsatisfied: false, tls: null, timings: noTimings() });
    assert.equal((await send(site)).kind, 'untried');
  });

  it('tells of the last host where none could be reached', async () => {
    const [first, second] = [hostAt(DEAD_PORT, 'mx0.dest.test'), hostAt(DEAD_PORT)];
    const outcome = outcomeOf(await send(siteOf(first, second)));
    assert.deepEqual([outcome.kind, outcome.facts.mx], ['deferred', 'mx1.dest.test']);
    assert.match(outcome.facts.smtpReply ?? '', /^connect: /);
  });

  it('tells of the host that broke off where no other could be asked', async () => {
    const first = await serve({ script: { data: 'drop' } });
    const closed = hostAt(DEAD_PORT);
    await send(siteOf(closed));
    const outcome = outcomeOf(await send(siteOf(hostAt(first.port, 'mx0.dest.test'), closed)));
    assert.deepEqual([outcome.kind, outcome.facts.mx], ['deferred', 'mx0.dest.test']);
  });

  describe('a kept connection', () => {
    it('that died while it was idle is replaced, without a failed attempt', async () => {
      let mails = 0;
      const server = await serve({ script: { mail: () => (++mails === 2 ? 'drop' : '250 2.1.0 ok') } });
      await send(siteOf(hostAt(server.port)));
      const outcome = outcomeOf(await send(siteOf(hostAt(server.port))));
      assert.equal(outcome.kind, 'accepted');
      assert.equal(server.sessions.length, 2);
    });

    for (const [stage, reply] of [
      ['mail', '421 4.3.2 too long'],
      ['mail', '452 4.3.2 Too many messages in this session'],
      ['mail', '450 4.7.1 Error: too many mails per connection'],
      ['mail', '550 Maximum number of messages per session exceeded'],
      ['mail', '503 5.5.1 Sender already specified'],
      ['mail', '550 5.7.0 This session has reached its message limit'],
      ['mail', '451 close the connection'],
      ['rcpt', '421 Max message per connection reached, closing transmission channel'],
      ['rcpt', '451 4.7.653 The mail server [192.0.2.1] has sent too much over it'],
      ['rcpt', '503 5.5.1 MAIL first'],
      ['data', '502 5.5.1 not now'],
      ['message', '500 5.5.2 what?'],
    ] as const)
      it(`that gets ${reply} is replaced as well, and others may be open`, async () => {
        let mails = 0;
        const server = await serve({
          script: { [stage]: () => (++mails === 2 ? reply : stage === 'data' ? '354 go' : '250 2.1.0 ok') },
        });
        await send(siteOf(hostAt(server.port)));
        assert.equal(outcomeOf(await send(siteOf(hostAt(server.port)))).kind, 'accepted');
        assert.equal(server.sessions.length, 2);
        while (pool.count() > 1) await new Promise((resolve) => setImmediate(resolve));
        assert.equal(pool.capOf(hostKey(hostAt(server.port), null)), null);
      });

    it('is replaced for no refusal that is about the mail, nor where the server never took a sender over it', async () => {
      for (const [first, second, sessions] of [
        ['250 ok', '550 5.1.8 no such sender', 1],
        ['550 5.7.1 not you', '550 5.7.1 not you', 1],
        ['250 ok', '550 5.7.1 not you', 2],
      ] as const) {
        const replies: string[] = [first, second];
        const inTurn = (_line: string, { lines }: { lines: string[] }): string =>
          lines.at(-2)?.startsWith('MAIL') === true ? '250 ok' : '503 5.5.1 MAIL first';
        const server = await serve({
          extensions: [],
          script: { mail: () => replies.shift() ?? second, rcpt: inTurn },
        });
        const site = siteOf(hostAt(server.port));
        await send(site);
        assert.equal(outcomeOf(await send(site)).kind, 'refused');
        assert.equal(server.sessions.length, sessions, second);
      }
    });

    it('is replaced once only: a new one that is out of step as well defers the mail', async () => {
      let mails = 0;
      const server = await serve({ script: { mail: () => (++mails > 1 ? '503 5.5.1 EHLO first' : '250 2.1.0 ok') } });
      const site = siteOf(hostAt(server.port));
      await send(site);
      const outcome = outcomeOf(await send(site));
      assert.deepEqual([outcome.kind, outcome.facts.smtpCode], ['deferred', 503]);
      assert.equal(server.sessions.length, 2);
      assert.deepEqual(waitsOf(await send(site)), ['closed'], 'the host is left alone for a moment');
    });

    it('is replaced once only: a new one that says 421 is the host’s answer', async () => {
      let mails = 0;
      const server = await serve({ script: { mail: () => (++mails > 1 ? '421 4.3.2 go away' : '250 2.1.0 ok') } });
      await send(siteOf(hostAt(server.port)));
      const outcome = outcomeOf(await send(siteOf(hostAt(server.port))));
      assert.deepEqual([outcome.kind, outcome.facts.smtpCode], ['deferred', 421]);
      assert.equal(server.sessions.length, 2);
    });
  });

  for (const stage of ['mail', 'rcpt', 'data', 'message'] as const) {
    it(`a 421 at ${stage} is tried again later`, async () => {
      const server = await serve({ script: { [stage]: '421 4.7.0 slow down' } });
      const outcome = outcomeOf(await send(siteOf(hostAt(server.port))));
      assert.deepEqual([outcome.kind, outcome.facts.smtpCode], ['deferred', 421]);
    });
  }

  describe('the dial gate', () => {
    it('closes with a failed dial: no host is dialled and no attempt is spent until it opens', async () => {
      const dead = hostAt(DEAD_PORT);
      assert.equal((await send(siteOf(dead))).kind, 'tried');
      assert.deepEqual(waitsOf(await send(siteOf(dead))), ['closed']);
      const server = await serve();
      assert.equal(outcomeOf(await send(siteOf(dead, hostAt(server.port)))).facts.mx, 'mx1.dest.test');
      clock.advance(1000);
      assert.equal((await send(siteOf(dead))).kind, 'tried', 'the probe');
      assert.deepEqual(waitsOf(await send(siteOf(dead))), ['closed']);
    });

    it('says why it is closed, and until when', async () => {
      const server = await serve({ script: { connect: '421 4.3.2 down for maintenance' } });
      await send(siteOf(hostAt(server.port)));
      const tried = await send(siteOf(hostAt(server.port)));
      assert.deepEqual(tried, {
        kind: 'untried',
        waits: [{ why: 'closed', until: 1000, how: 'refused', cause: '421 4.3.2 down for maintenance', since: 0 }],
      });
    });

    it('opens when a host takes mail again', async () => {
      let isDown = true;
      const server = await serve({ script: { connect: () => (isDown ? '421 down' : '220 up') } });
      for (const pause of [1000, 2000, 60_000]) {
        assert.equal((await send(siteOf(hostAt(server.port)))).kind, 'tried');
        clock.advance(pause);
      }
      isDown = false;
      assert.equal(outcomeOf(await send(siteOf(hostAt(server.port)))).kind, 'accepted');
      assert.equal(outcomeOf(await send(siteOf(hostAt(server.port)))).kind, 'accepted');
    });

    it('counts sessions that break: after each the host is left alone for longer', async () => {
      const server = await serve({ script: { mail: 'drop' } });
      const site = siteOf(hostAt(server.port));
      for (const pause of [1000, 2000, 4000, 8000]) {
        assert.equal(outcomeOf(await send(site)).kind, 'deferred');
        await emptied();
        clock.advance(pause - 1);
        assert.deepEqual(waitsOf(await send(site)), ['closed'], `still closed before ${pause} ms are over`);
        clock.advance(1);
      }
      assert.equal(server.sessions.length, 4);
    });

    it('takes a refusal while a connection is open as the number that the host allows: no attempt is spent', async () => {
      let sessions = 0;
      const script = {
        connect: () => (++sessions > 1 ? '421 4.7.0 too many connections' : '220 hi'),
        mail: 'hang',
      } as const;
      const server = await serve({ script });
      const host = hostAt(server.port);
      const site = siteOf(host);
      const busy = send(site);
      await server.reached('mail', 1);
      const reached = await connectToSite(deps, site, mail);
      assert.ok(reached.kind === 'wait');
      assert.equal(reached.refusal, '4.7.0 too many connections');
      assert.deepEqual(pool.capOf(hostKey(host))?.cap, 1);
      assert.deepEqual(waitsOf(await send(site)), ['cap']);
      assert.equal(server.sessions.length, 2, 'nobody is dialled meanwhile');
      for (const session of server.sessions) session.reset();
      await busy;
    });
  });

  it('spends no attempt where every host is at its cap', async () => {
    const server = await serve({ script: { mail: 'hang' } });
    const site = siteOf(hostAt(server.port));
    const first = send(site);
    assert.deepEqual(waitsOf(await send(site)), ['opening'], 'a host that nobody has reached yet gets one dial');
    await server.reached('mail', 1);
    const busy = [first, send(site)];
    await server.reached('mail', 2);
    assert.deepEqual(waitsOf(await send(site)), ['full']);
    for (const session of server.sessions) session.reset();
    for (const tried of await Promise.all(busy)) assert.equal(outcomeOf(tried).kind, 'deferred');
  });

  it('does not go to a worse host because a better one is busy, but because it is dead', async () => {
    const [better, worse] = [await serve({ script: { mail: 'hang' } }), await serve()];
    const hosts = [
      { ...hostAt(better.port, 'mx0.dest.test'), preference: 10 },
      { ...hostAt(worse.port), preference: 20 },
    ];
    const first = send(siteOf(...hosts));
    await better.reached('mail', 1);
    const second = send(siteOf(...hosts));
    await better.reached('mail', 2);
    assert.deepEqual(waitsOf(await send(siteOf(...hosts))), ['full']);
    assert.equal(worse.sessions.length, 0);
    await better.close();
    await Promise.all([first, second]);
    assert.equal(outcomeOf(await send(siteOf(...hosts))).facts.mx, 'mx1.dest.test');
  });

  it('dials silent hosts beside each other and the good one, and remembers them: the next mail waits for none', async () => {
    const silent = [await serve({ script: { connect: 'hang' } }), await serve({ script: { connect: 'hang' } })];
    const good = await serve();
    const site = siteOf(...[...silent, good].map(({ port }, at) => hostAt(port, `mx${String(at)}.dest.test`)));
    const first = send(site);
    for (const one of silent) {
      await one.reached('connect');
      clock.advance(5_000);
    }
    assert.equal(outcomeOf(await first).kind, 'accepted');
    assert.equal(clock.now() - NOW, 10_000, '5 s for each silent host');
    for (let at = 0; at < 3; at++) assert.equal(outcomeOf(await send(site)).kind, 'accepted');
    assert.equal(clock.now() - NOW, 10_000);
    assert.deepEqual(
      [...silent, good].map(({ sessions }) => sessions.length),
      [1, 1, 1],
    );
    const wait = pool.waitOf(hostKey(hostAt(silent[0]?.port ?? 0, 'mx0.dest.test')));
    assert.deepEqual([wait?.why, wait?.why === 'probing' && wait.how], ['probing', 'silent']);
  });

  it('finds an idle connection without waiting, and only where there is one', async () => {
    const server = await serve();
    const site = siteOf(hostAt(server.port));
    assert.equal(takeIdleConnection(deps, site, mail), null);
    await send(site);
    const way = takeIdleConnection(deps, site, mail);
    assert.ok(way !== null);
    assert.equal(takeIdleConnection(deps, site, mail), null, 'it is taken');
    way.lease.giveBack();
  });

  it('takes no idle connection to a worse host while the better one is only busy', async () => {
    const [better, worse] = [await serve({ script: { mail: 'hang' } }), await serve()];
    const [first, second] = [
      { ...hostAt(better.port, 'mx0.dest.test'), preference: 10 },
      { ...hostAt(worse.port), preference: 20 },
    ];
    await send(siteOf(second));
    const busy = [send(siteOf(first))];
    await better.reached('mail', 1);
    busy.push(send(siteOf(first)));
    await better.reached('mail', 2);
    assert.equal(takeIdleConnection(deps, siteOf(first, second), mail) === null, true);
    for (const session of better.sessions) session.reset();
    await Promise.all(busy);
    const way = takeIdleConnection(deps, siteOf(first, second), mail);
    assert.ok(way !== null, 'but where that is dead');
    assert.equal(way.host.name, 'mx1.dest.test');
    way.lease.giveBack();
  });

  it('spends no attempt where the program stops', async () => {
    const server = await serve();
    await pool.drain();
    assert.deepEqual(await send(siteOf(hostAt(server.port))), {
      kind: 'untried',
      waits: [{ why: 'draining', until: null }],
    });
  });

  it('gives every connection back, whatever became of the mail', async () => {
    const scripts = [{}, { rcpt: '550 no' }, { message: 'drop' }, { data: 'reset' }, { connect: 'drop' }] as const;
    for (const script of scripts) await send(siteOf(hostAt((await serve({ script })).port)));
    clock.advance(5000);
    await emptied();
    assert.equal(pool.count(), 0);
  });

  for (const [phase, reply] of [
    ['mail', '421 4.3.2 The maximum number of concurrent server connections has exceeded a limit'],
    ['mail', '450 4.7.0 Too many connections from your address'],
    ['rcpt', '421 4.7.0 Too many concurrent sessions'],
    ['message', '421 4.7.0 Too many connections'],
  ] as const)
    it(`bug: a refusal at ${phase} for the number of connections (${reply}) had no end: it is a refused dial`, async () => {
      const server = await serve({ script: { [phase]: reply } });
      const site = siteOf(hostAt(server.port));
      const key = hostKey(hostAt(server.port), null);
      for (const [pause, isLast] of [
        [1000, false],
        [2000, false],
        [60_000, true],
      ] as const) {
        assert.equal(outcomeOf(await send(site)).kind, 'deferred');
        await emptied();
        assert.deepEqual(waitsOf(await send(site)), ['closed'], 'no attempt is spent meanwhile');
        assert.equal((pool.waitOf(key)?.until ?? 0) - clock.monotonic(), pause);
        clock.advance(pause);
        if (isLast) server.options.script = {};
      }
      assert.equal(server.sessions.length, 3);
      assert.equal(outcomeOf(await send(site)).kind, 'accepted');
      assert.equal(pool.waitOf(key), null);
    });

  it('takes 421 to a connection that was idle for no refusal of connections before a fresh one is refused as well', async () => {
    const server = await serve();
    const site = siteOf(hostAt(server.port));
    await send(site);
    server.options.script = {
      mail: (_line, session) =>
        session === server.sessions[0]
          ? { raw: '421 4.7.0 too many messages in this session\r\n', then: 'drop' }
          : '250 ok',
    };
    assert.equal(outcomeOf(await send(site)).kind, 'accepted');
    assert.equal(server.sessions.length, 2);
  });

  for (const [name, options, gate] of [
    [
      'breaks the handshake',
      { tls: 'starttls', script: { starttls: { raw: '220 go\r\n', then: 'reset' } } },
      ['closed', 'broken'],
    ],
    ['has no TLS', {}, [undefined, undefined]],
  ] as const)
    it(`a smarthost that ${name}, where its route demands TLS, is ${gate[0] === 'closed' ? 'not dialled for a while' : 'no matter of the gate'}`, async () => {
      const server = await serve(options);
      const site: Site = { ...siteOf(hostAt(server.port)), relay: { tls: 'required', auth: null } };
      const outcome = outcomeOf(await send(site));
      assert.equal('verdict' in outcome && outcome.verdict.reason, 'tls_required');
      await emptied();
      const wait = pool.waitOf(hostKey(hostAt(server.port), null));
      assert.deepEqual([wait?.why, wait !== null && 'how' in wait ? wait.how : undefined], gate);
    });

  it('speaks TLS with a smarthost that has to, and logs in', async () => {
    const { server: certificate } = await import('../../support/harness/certificate.ts');
    const script = { auth: '235 2.7.0 welcome' } as const;
    const server = await serve({
      tls: 'starttls',
      certificate,
      script,
      extensions: ['PIPELINING', 'AUTH PLAIN LOGIN'],
    });
    const site: Site = {
      ...siteOf(hostAt(server.port)),
      relay: { tls: 'required', auth: { user: 'u', password: 'p' } },
    };
    const outcome = outcomeOf(await send(site));
    assert.equal(outcome.kind, 'accepted');
    assert.ok(outcome.facts.tls !== null);
    assert.ok(server.sessions[0]?.lines.some((line) => line.startsWith('AUTH ')));
    const plain = await serve();
    const refused = outcomeOf(await send({ ...site, hosts: [hostAt(plain.port)] }));
    assert.deepEqual([refused.kind, 'verdict' in refused && refused.verdict.reason], ['deferred', 'tls_required']);
    assert.deepEqual(plain.sessions[0]?.mails, []);
  });
});
