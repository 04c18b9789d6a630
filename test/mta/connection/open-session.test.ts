import assert from 'node:assert/strict';
import { X509Certificate, createHash } from 'node:crypto';
import { DAY_MS } from '../../../src/base/time.ts';
import { AddressMemory } from '../../../src/mta/connection/connect.ts';
import type { OpenDeps, SessionTarget } from '../../../src/mta/connection/open-session.ts';
import { expired, server as certificate } from '../../support/harness/certificate.ts';
import type { FakeClock } from '../../support/fakes/fake-clock.ts';
import { startMailServer } from '../../support/fakes/fake-mail-server.ts';
import type { FakeMailServer, MailServerOptions } from '../../support/fakes/fake-mail-server.ts';
import {
  mailOf,
  notOpened,
  openDeps,
  opened,
  opportunistic,
  required,
  targetOf,
  timeouts,
  verified,
} from './helpers.ts';
import type { FailedToOpen } from './helpers.ts';

describe('mta/connection/open-session', () => {
  let deps: OpenDeps & { clock: FakeClock };
  let server: FakeMailServer | null;

  beforeEach(() => {
    deps = openDeps();
    server = null;
  });

  afterEach(async () => {
    await server?.close();
  });

  async function start(options: MailServerOptions = {}): Promise<FakeMailServer> {
    await server?.close();
    server = await startMailServer(options);
    return server;
  }

  const withTls = (options: MailServerOptions = {}): Promise<FakeMailServer> =>
    start({ tls: 'starttls', certificate, ...options });

  async function failing(options: MailServerOptions, changes: Partial<SessionTarget> = {}): Promise<FailedToOpen> {
    return notOpened(deps, targetOf(await start(options), changes));
  }

  describe('greeting', () => {
    it('reads what the server offers', async () => {
      const offers = [
        'pipelining',
        'SIZE 5000',
        'LIMITS MAILMAX=7 RCPTMAX=50',
        'AUTH PLAIN LOGIN',
        '8BITMIME',
        'X-UNKNOWN a b',
      ];
      const session = await opened(deps, targetOf(await start({ extensions: offers })));
      assert.deepEqual(session.extensions, {
        pipelining: true,
        eightBitMime: true,
        smtpUtf8: false,
        startTls: false,
        requireTls: false,
        enhancedStatusCodes: false,
        size: true,
        sizeLimit: 5000,
        mailMax: 7,
        auth: ['PLAIN', 'LOGIN'],
      });
      assert.equal(session.banner, 'mx.dest.test ESMTP');
      await session.close();
    });

    it('sends commands one by one for a day to a host that hears only the first of several', async () => {
      const addresses = new AddressMemory();
      const at = await start({
        script: { rcpt: (_line, { bursts }) => ((bursts.at(-1)?.length ?? 0) > 1 ? 'hang' : '250 ok') },
      });
      const sent = async (): Promise<string> => {
        const session = await opened({ ...deps, addresses }, targetOf(at));
        const sending = session.send(mailOf());
        if (session.extensions.pipelining) {
          await at.reached('rcpt');
          while (deps.clock.nextAt() !== deps.clock.now() + timeouts.rcpt)
            await new Promise((resolve) => setImmediate(resolve));
          deps.clock.advance(timeouts.rcpt);
        }
        const { kind } = await sending;
        await session.close();
        return kind;
      };
      assert.equal(await sent(), 'broken');
      assert.equal(await sent(), 'accepted');
      deps.clock.advance(DAY_MS);
      assert.equal((await opened({ ...deps, addresses }, targetOf(at))).extensions.pipelining, true);
    });

    it('falls back to HELO and then uses no extension', async () => {
      const at = await start({ script: { ehlo: '502 5.5.1 what is that' } });
      const session = await opened(deps, targetOf(at));
      assert.equal((await session.send(mailOf())).kind, 'accepted');
      assert.deepEqual(at.sessions[0]?.lines.slice(0, 3), [
        'EHLO mail.posthorn.test',
        'HELO mail.posthorn.test',
        'MAIL FROM:<b+abc@rp.acme.test>',
      ]);
      await session.close();
    });

    it('tells the phase and the words of a refusal', async () => {
      const rows = [
        ['banner', { connect: '554 5.7.1 go away' }, 554],
        ['banner', { connect: '421 4.3.2 too many connections' }, 421],
        ['ehlo', { ehlo: '421 4.7.0 not now' }, 421],
        ['ehlo', { ehlo: '550 no', helo: '550 5.7.1 your name is wrong' }, 550],
      ] as const;
      for (const [phase, script, code] of rows) {
        const failed = await failing({ script });
        assert.deepEqual([failed.phase, failed.reply?.code, failed.tlsBroken], [phase, code, false]);
      }
    });

    it('names the phase when the server hangs up', async () => {
      for (const [phase, script] of [
        ['banner', { connect: 'drop' }],
        ['banner', { connect: 'reset' }],
        ['banner', { connect: { raw: '220 no end of line', then: 'drop' } }],
        ['ehlo', { ehlo: 'drop' }],
        ['ehlo', { ehlo: { raw: '250-half\r\n', then: 'drop' } }],
      ] as const) {
        const failed = await failing({ script });
        assert.deepEqual([failed.phase, failed.reply], [phase, null]);
      }
    });

    it('gives up on a banner or EHLO that does not come, in the time of that phase', async () => {
      const rows = [
        ['banner', { connect: 'hang' }, timeouts.banner, false],
        ['banner', { connect: { raw: '220 no end of line', then: 'hang' } }, timeouts.banner, false],
        ['banner', { connect: 'hang' }, timeouts.bannerWithOthers, true],
        ['ehlo', { ehlo: 'hang' }, timeouts.ehlo, false],
      ] as const;
      for (const [phase, script, ms, otherHostsRemain] of rows) {
        const at = await start({ script });
        const opening = notOpened(deps, targetOf(at, { otherHostsRemain }));
        await timerAt(ms);
        deps.clock.advance(ms);
        const failed = await opening;
        assert.equal(failed.phase, phase);
        assert.match(failed.text, /within/);
      }
    });

    it('ends an endless banner', async () => {
      for (const raw of ['220-welcome\r\n'.repeat(5000), '220 '.padEnd(1_000_000, 'x')]) {
        const failed = await failing({ script: { connect: { raw, then: 'hang' } } });
        assert.equal(failed.phase, 'banner');
        assert.match(failed.text, /reply (longer|of more)/);
      }
    });

    it('says that no server listens', async () => {
      // A port that was free a moment ago may be given to another program.
      const failed = await notOpened(deps, targetOf({ port: 1 }));
      assert.equal(failed.phase, 'connect');
      assert.match(failed.text, /ECONNREFUSED/);
      assert.equal(deps.clock.nextAt(), null);
    });
  });

  describe('STARTTLS', () => {
    it('is used where it is offered, with SNI and a second EHLO, and recorded', async () => {
      const at = await withTls();
      const session = await opened(deps, targetOf(at));
      const { cipher = '', ...tls } = session.tls ?? {};
      assert.deepEqual(tls, { protocol: 'TLSv1.3', verified: true, policy: 'opportunistic', fault: null });
      assert.match(cipher, /^TLS_/);
      assert.equal(session.extensions.startTls, false, 'what was offered in plaintext is forgotten');
      assert.equal((await session.send(mailOf())).kind, 'accepted');
      assert.deepEqual(at.sessions[0]?.lines.slice(0, 3), [
        'EHLO mail.posthorn.test',
        'STARTTLS',
        'EHLO mail.posthorn.test',
      ]);
      assert.equal(at.sessions[0].servername, 'mx1.dest.test');
      await session.close();
    });

    it('takes any certificate when it is opportunistic, and says what was wrong with it', async () => {
      for (const [host, cert, fault] of [
        ['mx9.other.test', certificate, /ALTNAME/],
        ['mx1.dest.test', expired, /EXPIRED/],
      ] as const) {
        const at = await withTls({ certificate: cert });
        const session = await opened(deps, targetOf(at, { host }));
        assert.equal(session.tls?.verified, false);
        assert.match(session.tls.fault ?? '', fault);
        await session.close();
      }
    });

    it('insists on the right certificate where a policy demands it', async () => {
      const good = await opened(deps, targetOf(await withTls(), { need: verified }));
      assert.equal(good.tls?.policy, 'mta-sts');
      await good.close();
      for (const [host, cert] of [
        ['mx9.other.test', certificate],
        ['mx1.dest.test', expired],
      ] as const) {
        const at = await withTls({ certificate: cert });
        const failed = await notOpened(deps, targetOf(at, { host, need: verified }));
        assert.deepEqual([failed.phase, failed.tlsUnsatisfied, failed.tlsBroken], ['tls', true, false]);
        assert.equal(failed.tls?.verified, false);
      }
    });

    it('resumes TLS with the verdict of the first handshake', async () => {
      const at = await withTls();
      for (const host of ['mx1.dest.test', 'mx9.other.test']) {
        const verdicts = [];
        for (let times = 0; times < 2; times++) {
          const session = await opened(deps, targetOf(at, { host }));
          await session.send(mailOf());
          verdicts.push(session.tls?.verified);
          await session.close();
          await at.sessions.at(-1)?.closed;
        }
        assert.equal(at.sessions.at(-1)?.resumed, true, host);
        assert.deepEqual(verdicts, host === 'mx1.dest.test' ? [true, true] : [false, false]);
      }
    });

    it('is not verified by a resumed session of DANE, whose certificate no other policy trusts', async () => {
      const at = await withTls({ certificate: expired });
      const key = createHash('sha256')
        .update(new X509Certificate(expired.cert).publicKey.export({ type: 'spki', format: 'der' }))
        .digest();
      const tlsa = [{ usage: 3, selector: 1, matchingType: 1, certificate: key }];
      const dane = await opened(
        deps,
        targetOf(at, { need: { mode: 'required', verify: 'dane', tlsa, policy: 'dane' } }),
      );
      assert.equal(dane.tls?.verified, true);
      await dane.send(mailOf());
      await dane.close();
      const other = await opened(deps, targetOf(at));
      assert.equal(other.tls?.verified, false);
      await other.close();
    });

    it('goes on in plaintext where it is not offered or refused, unless it is required', async () => {
      const options: MailServerOptions[] = [{}, { tls: 'starttls', script: { starttls: '454 4.7.0 not now' } }];
      for (const each of options) {
        const at = await start(each);
        const session = await opened(deps, targetOf(at));
        assert.equal(session.tls, null);
        assert.equal((await session.send(mailOf())).kind, 'accepted');
        await session.close();
        const failed = await notOpened(deps, targetOf(at, { need: required }));
        assert.deepEqual([failed.phase, failed.tlsUnsatisfied], ['tls', true]);
        assert.equal(
          at.sessions.at(-1)?.lines.some((line) => line.startsWith('MAIL')),
          false,
        );
      }
    });

    it('is not used where it is switched off', async () => {
      const at = await withTls();
      const session = await opened(deps, targetOf(at, { need: { ...opportunistic, mode: 'none' } }));
      assert.deepEqual(at.sessions[0]?.lines, ['EHLO mail.posthorn.test']);
      await session.close();
    });

    it('says that the handshake is broken', async () => {
      for (const then of ['garbage', 'drop', 'reset'] as const) {
        const failed = await failing({ tls: 'starttls', script: { starttls: { raw: '220 go\r\n', then } } });
        assert.deepEqual([failed.phase, failed.tlsBroken, failed.tls], ['tls', true, null], then);
      }
      const at = await start({ tls: 'starttls', script: { starttls: { raw: '220 go\r\n', then: 'hang' } } });
      const opening = notOpened(deps, targetOf(at));
      await at.reached('starttls');
      // The wait for the answer has the same limit, and began before this millisecond; the handshake begins after it.
      deps.clock.advance(1);
      await timerAt(timeouts.tls);
      deps.clock.advance(timeouts.tls);
      const failed = await opening;
      assert.deepEqual([failed.phase, failed.tlsBroken], ['tls', true]);
      assert.match(failed.text, /handshake/);
    });

    it('forgets what was slipped in before the handshake', async () => {
      const injected = '220 go\r\n250-evil\r\n250-AUTH PLAIN\r\n250 SIZE 1\r\n';
      const at = await withTls({ script: { starttls: { raw: injected, then: 'tls' } } });
      const session = await opened(deps, targetOf(at));
      assert.deepEqual([session.extensions.sizeLimit, session.extensions.auth], [1_000_000, []]);
      assert.equal((await session.send(mailOf())).kind, 'accepted');
      await session.close();
    });

    it('speaks TLS from the first byte where it is implicit', async () => {
      const at = await withTls({ tls: 'implicit' });
      const session = await opened(deps, targetOf(at, { need: { ...verified, mode: 'implicit' } }));
      assert.equal(session.tls?.verified, true);
      assert.equal((await session.send(mailOf())).kind, 'accepted');
      await session.close();
      const failed = await notOpened(deps, targetOf(await start({}), { need: { ...verified, mode: 'implicit' } }));
      assert.deepEqual([failed.phase, failed.tlsBroken], ['tls', true]);
    });

    it('makes no TLS below 1.2, and no more than 1.2 with the reduced hello', async () => {
      const old = {
        ...certificate,
        minVersion: 'TLSv1' as const,
        maxVersion: 'TLSv1.1' as const,
        ciphers: 'DEFAULT@SECLEVEL=0',
      };
      const failed = await notOpened(deps, targetOf(await withTls({ certificate: old })));
      assert.equal(failed.tlsBroken, true);
      const session = await opened(deps, targetOf(await withTls(), { hello: 'reduced' }));
      assert.equal(session.tls?.protocol, 'TLSv1.2');
      await session.close();
    });
  });

  describe('AUTH', () => {
    const auth = { user: 'relay', password: 'p\u00e4ss' };
    const extensions = (mechanisms: string): string[] => ['PIPELINING', `AUTH ${mechanisms}`];

    it('uses PLAIN, over TLS, and keeps the secret out of the trace', async () => {
      const at = await withTls({ extensions: extensions('LOGIN PLAIN') });
      const trace: string[] = [];
      const session = await opened(
        { ...deps, trace: { on: true, line: (side, line) => trace.push(`${side} ${line}`) } },
        targetOf(at, { auth }),
      );
      const token = Buffer.from('\0relay\0p\u00e4ss').toString('base64');
      assert.equal(at.sessions[0]?.lines.at(-1), `AUTH PLAIN ${token}`);
      assert.ok(trace.includes('> AUTH PLAIN ***'));
      assert.equal(trace.join().includes(token), false);
      assert.ok(trace.includes('< 220 mx.dest.test ESMTP'));
      await session.close();
    });

    it('uses LOGIN where there is nothing else', async () => {
      const replies = ['334 VXNlcm5hbWU6', '334 UGFzc3dvcmQ6', '235 ok'];
      const at = await withTls({
        extensions: extensions('LOGIN'),
        script: { auth: () => replies.shift() ?? '503 no' },
      });
      const session = await opened(deps, targetOf(at, { auth }));
      const sent = ['AUTH LOGIN', ...['relay', 'p\u00e4ss'].map((text) => Buffer.from(text).toString('base64'))];
      assert.deepEqual(at.sessions[0]?.lines.slice(-3), sent);
      await session.close();
    });

    it('signs in with LOGIN where the server offers PLAIN and then does not know it', async () => {
      const replies = ['504 5.5.4 unrecognized authentication type', '334 VXNlcjo=', '334 UGFzczo=', '235 2.7.0 ok'];
      const at = await withTls({
        extensions: extensions('PLAIN LOGIN'),
        script: { auth: () => replies.shift() ?? '503 no' },
      });
      await (await opened(deps, targetOf(at, { auth }))).close();
      assert.deepEqual(replies, []);
      for (const [offered, reply] of [
        ['PLAIN', '504 5.5.4 no'],
        ['PLAIN LOGIN', '535 5.7.8 wrong'],
      ] as const) {
        let times = 0;
        const script = { auth: () => (times++, reply) };
        const failed = await notOpened(
          deps,
          targetOf(await withTls({ extensions: extensions(offered), script }), { auth }),
        );
        assert.deepEqual([failed.reply?.code, times], [Number(reply.slice(0, 3)), 1]);
      }
    });

    it('stops when the server asks for more than there is to say', async () => {
      const at = await withTls({ extensions: extensions('PLAIN'), script: { auth: '334 more' } });
      const failed = await notOpened(deps, targetOf(at, { auth }));
      assert.equal(failed.phase, 'auth');
    });

    it('sends no credentials in plaintext, unless that is permitted', async () => {
      const at = await start({ extensions: extensions('PLAIN') });
      const failed = await notOpened(deps, targetOf(at, { auth }));
      assert.deepEqual([failed.phase, failed.tlsUnsatisfied], ['tls', true]);
      assert.deepEqual(at.sessions[0]?.lines, ['EHLO mail.posthorn.test']);
      const session = await opened(deps, targetOf(at, { auth: { ...auth, inPlaintext: true } }));
      await session.close();
    });

    it('gives back a refusal, and says what is missing', async () => {
      const refused = await notOpened(
        deps,
        targetOf(await withTls({ extensions: extensions('PLAIN'), script: { auth: '535 5.7.8 wrong' } }), { auth }),
      );
      assert.deepEqual([refused.phase, refused.reply?.code], ['auth', 535]);
      const missing = await notOpened(deps, targetOf(await withTls({ extensions: extensions('XOAUTH2') }), { auth }));
      assert.deepEqual([missing.phase, missing.reply], ['auth', null]);
    });
  });

  /** Waits until a timer of this length is the next to fire. */
  async function timerAt(ms: number): Promise<void> {
    while (deps.clock.nextAt() !== deps.clock.now() + ms) await new Promise((resolve) => setImmediate(resolve));
  }
});
