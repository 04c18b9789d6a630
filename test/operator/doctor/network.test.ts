import assert from 'node:assert/strict';
import dgram from 'node:dgram';
import { once } from 'node:events';
import net from 'node:net';
import { createNetwork } from '../../../src/operator/doctor/network.ts';
import type { Greeting, RelayAnswer, SignIn } from '../../../src/operator/doctor/probes.ts';
import { server as certificate } from '../../support/harness/certificate.ts';
import { startMailServer, type Script } from '../../support/fakes/fake-mail-server.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';

async function listen(answer: (socket: net.Socket) => void): Promise<{ port: number; close(): Promise<void> }> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    answer(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as net.AddressInfo).port,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

describe('doctor: the network', () => {
  for (const [what, answer, expected] of [
    [
      'a greeting in pieces',
      (socket) => {
        socket.write('220 mx.');
        setImmediate(() => socket.write('example ESMTP\r\n250 more\r\n'));
      },
      { kind: 'greeted', line: '220 mx.example ESMTP' },
    ],
    [
      'a greeting without an end',
      (socket) => {
        socket.write('x'.repeat(10_000));
      },
      { kind: 'greeted', line: 'x'.repeat(512) },
    ],
    [
      'a greeting that would steer a terminal',
      (socket) => {
        socket.write('220 \u001b[2Jhello\r\n');
      },
      { kind: 'greeted', line: '220 [2Jhello' },
    ],
    [
      'an end without a greeting',
      (socket) => {
        socket.end();
      },
      { kind: 'unreachable', why: 'it closes the connection without a greeting' },
    ],
  ] as [string, (socket: net.Socket) => void, Partial<Greeting>][])
    it(what, async () => {
      const host = await listen(answer);
      const { ms, ...greeting } = {
        ms: 0,
        ...(await createNetwork({ clock: new FakeClock() }).greet({ ip: '127.0.0.1', port: host.port })),
      };
      assert.deepEqual(greeting, expected);
      assert.ok(ms >= 0);
      await host.close();
    });

  it('a port that nobody listens on', async () => {
    const host = await listen(() => undefined);
    await host.close();
    const greeting = await createNetwork({ clock: new FakeClock() }).greet({ ip: '127.0.0.1', port: host.port });
    assert.deepEqual(greeting, { kind: 'refused', why: 'ECONNREFUSED' });
  });

  it('signs in at a smarthost: a good password, a bad one, none without TLS unless the route says so', async () => {
    const server = await startMailServer({
      tls: 'starttls',
      certificate,
      extensions: ['AUTH PLAIN'],
      script: { auth: '235 welcome' },
    });
    const { signIn } = createNetwork({ clock: new FakeClock() });
    const at = {
      ips: ['127.0.0.1'],
      host: 'mx1.dest.test',
      port: server.port,
      hostname: 'us.test',
      tls: 'required',
      auth: { user: 'me', password: 'x' },
    } as const;
    assert.deepEqual(await signIn(at), { kind: 'signed_in' });
    server.options.script = { auth: '535 5.7.8 no' };
    assert.deepEqual(await signIn(at), { kind: 'refused', why: '535 5.7.8 no' });
    server.options = { tls: 'none', extensions: ['AUTH PLAIN'], script: { auth: '235 welcome' } };
    assert.equal((await signIn({ ...at, tls: 'opportunistic' })).kind, 'failed');
    assert.ok(server.sessions.at(-1)?.lines.every((line) => !line.startsWith('AUTH')));
    assert.equal((await signIn({ ...at, tls: 'none' })).kind, 'signed_in');
    await server.close();
    assert.equal((await signIn(at)).kind, 'unreachable');
  });

  const refusingRecipient = { rcpt: '554 5.7.1 <postmaster@us.test>: Relay access denied' };
  for (const [what, script, expected] of [
    ['takes our recipient', {}, { kind: 'taken' }],
    [
      'wants a login at once',
      { mail: '530 5.7.0 Authentication required' },
      { kind: 'login_wanted', why: '530 5.7.0 Authentication required' },
    ],
    ['wants a login for the recipient', refusingRecipient, { kind: 'login_wanted', why: refusingRecipient.rcpt }],
    [
      'defers relaying, as Postfix does by default',
      { rcpt: '454 4.7.1 <postmaster@us.test>: Relay access denied' },
      { kind: 'login_wanted', why: '454 4.7.1 <postmaster@us.test>: Relay access denied' },
    ],
    [
      'refuses the recipient for another reason',
      { rcpt: '550 5.1.1 unknown' },
      { kind: 'refused', why: '550 5.1.1 unknown' },
    ],
    [
      'refuses the sender',
      { mail: '550 5.1.8 Sender address rejected' },
      { kind: 'refused', why: '550 5.1.8 Sender address rejected' },
    ],
    ['puts us off', { mail: '451 4.7.1 later' }, { kind: 'refused', why: '451 4.7.1 later' }],
    ['knows no EHLO', { ehlo: '502 5.5.1 what?' }, { kind: 'taken' }],
    ['refuses STARTTLS', { starttls: '454 4.7.0 not now' }, { kind: 'taken' }],
    ['closes the connection', { mail: { raw: '', then: 'drop' } }, { kind: 'failed', why: 'it closes the connection' }],
    [
      'answers what nothing asked',
      { connect: { raw: `220 hi\r\n${'250 ok\r\n'.repeat(100)}`, then: 'drop' } },
      { kind: 'failed', why: 'it sends replies that nothing asked for' },
    ],
    ['greets with a refusal', { connect: '554 no' }, { kind: 'failed', why: '554 no' }],
  ] as [string, Script, RelayAnswer][])
    it(`offers a mail to a smarthost without a login, which ${what}, and never sends it`, async () => {
      const server = await startMailServer({ tls: 'starttls', certificate, script });
      const { offerMail } = createNetwork({ clock: new FakeClock() });
      const place = { ips: ['127.0.0.1'], host: 'mx1.dest.test', port: server.port, hostname: 'us.test' };
      assert.deepEqual(await offerMail({ ...place, tls: 'opportunistic' }), expected);
      await server.close();
      const [session] = server.sessions;
      assert.deepEqual(session?.mails, []);
      assert.ok(session.lines.every((line) => !/^DATA|^BDAT/i.test(line)));
    });

  const noTls = 'the server does not offer STARTTLS';
  const noLogin = 'the server offers neither AUTH PLAIN nor AUTH LOGIN';
  for (const [what, extensions, script, tls, expected] of [
    ['no AUTH', [], {}, 'starttls', { kind: 'failed', why: noLogin }],
    ['only AUTH CRAM-MD5', ['AUTH CRAM-MD5'], {}, 'starttls', { kind: 'failed', why: noLogin }],
    ['no STARTTLS', ['AUTH PLAIN'], {}, 'none', { kind: 'failed', why: noTls }],
    [
      'AUTH LOGIN',
      ['AUTH LOGIN'],
      { auth: (line) => (line === 'eA==' ? '235 ok' : '334 more') },
      'starttls',
      { kind: 'signed_in' },
    ],
    [
      'a login that never ends',
      ['AUTH PLAIN'],
      { auth: '334 more' },
      'starttls',
      { kind: 'failed', why: 'the server asks for more than the credentials' },
    ],
    [
      'no login for now',
      ['AUTH PLAIN'],
      { auth: '454 4.7.0 later' },
      'starttls',
      { kind: 'failed', why: '454 4.7.0 later' },
    ],
  ] as [string, string[], Script, 'starttls' | 'none', SignIn][])
    it(`signs in at a smarthost that offers ${what}`, async () => {
      const server = await startMailServer({ tls, certificate, extensions, script });
      const { signIn } = createNetwork({ clock: new FakeClock() });
      const auth = { user: 'me', password: 'x' };
      const place = { ips: ['127.0.0.1'], host: 'mx1.dest.test', port: server.port, hostname: 'us.test' };
      assert.deepEqual(await signIn({ ...place, tls: 'required', auth }), expected);
      await server.close();
    });

  it('offers no mail where the route asks for TLS and the smarthost has none', async () => {
    const server = await startMailServer();
    const { offerMail } = createNetwork({ clock: new FakeClock() });
    const place = { ips: ['127.0.0.1'], host: 'mx1.dest.test', port: server.port, hostname: 'us.test' };
    assert.deepEqual(await offerMail({ ...place, tls: 'required' }), { kind: 'failed', why: noTls });
    await server.close();
  });

  it('tries the other address of a smarthost where the first one does not answer', async () => {
    const server = await startMailServer();
    const { offerMail } = createNetwork({ clock: new FakeClock() });
    const place = { ips: ['::1', '127.0.0.1'], host: 'mx1.dest.test', port: server.port, hostname: 'us.test' };
    assert.deepEqual(await offerMail({ ...place, tls: 'none' }), { kind: 'taken' });
    await server.close();
    assert.deepEqual(await offerMail({ ...place, tls: 'none' }), { kind: 'unreachable', why: 'ECONNREFUSED' });
  });

  it('asks for a certificate that is trusted where TLS is there from the start, as the delivery does', async () => {
    const server = await startMailServer({ tls: 'implicit', certificate });
    const { offerMail } = createNetwork({ clock: new FakeClock() });
    const place = { ips: ['127.0.0.1'], host: 'mx1.dest.test', port: server.port, hostname: 'us.test' };
    const answer = await offerMail({ ...place, tls: 'implicit' });
    assert.ok(answer.kind === 'failed');
    assert.match(answer.why, /certificate/);
    await server.close();
  });

  it('waits 8 s for a smarthost that greets and then says nothing', async () => {
    const clock = new FakeClock();
    const server = await startMailServer({ script: { ehlo: { raw: '', then: 'hang' } } });
    const place = {
      ips: ['127.0.0.1'],
      host: '127.0.0.1',
      port: server.port,
      tls: 'none',
      hostname: 'us.test',
    } as const;
    const asked = createNetwork({ clock }).offerMail(place);
    await server.reached('ehlo');
    clock.advance(8000);
    assert.deepEqual(await asked, { kind: 'failed', why: 'no answer within 8 s' });
    await server.close();
  });

  it('a host that says nothing is not waited for longer than 8 s', async () => {
    const clock = new FakeClock();
    let heard = (): void => undefined;
    const connected = new Promise<void>((resolve) => (heard = resolve));
    const host = await listen(() => {
      heard();
    });
    const greeting = createNetwork({ clock }).greet({ ip: '127.0.0.1', port: host.port });
    await connected;
    clock.advance(8000);
    assert.match(JSON.stringify(await greeting), /"silent".*within 8 s/);
    await host.close();
  });

  it('takes the time of a server, less half of the way', async () => {
    const clock = new FakeClock();
    const server = dgram.createSocket('udp4');
    server.bind(0, '127.0.0.1');
    await once(server, 'listening');
    server.on('message', (question, { port }) => {
      assert.equal(question.length, 48);
      assert.equal((question[0] ?? 0) & 7, 3, 'a client asks');
      const answer = Buffer.alloc(48);
      server.send(answer, port, '127.0.0.1'); // no server's: not heard
      answer[0] = 0x24;
      answer[1] = 2;
      clock.advance(100);
      answer.writeUInt32BE(Math.floor(clock.now() / 1000) + 10 + 2_208_988_800, 40);
      server.send(answer, port, '127.0.0.1');
    });
    const network = createNetwork({ clock }, { ntpPort: server.address().port });
    const time = await network.askTime('127.0.0.1');
    assert.ok(time.kind === 'answered');
    assert.ok(Math.abs(time.offsetMs - 10_000) < 1100, String(time.offsetMs));
    server.close();
    await once(server, 'close');
  });

  it('a time server that is not there, and one that is silent', async () => {
    const clock = new FakeClock();
    const server = dgram.createSocket('udp4');
    server.bind(0, '127.0.0.1');
    await once(server, 'listening');
    const network = createNetwork({ clock }, { ntpPort: server.address().port });
    const asked = once(server, 'message');
    const time = network.askTime('127.0.0.1');
    await asked;
    clock.advance(3000);
    assert.deepEqual(await time, { kind: 'silent', why: 'no answer within 3 s' });
    server.close();
    await once(server, 'close');
    assert.deepEqual(await network.askTime('127.0.0.1'), { kind: 'silent', why: 'ECONNREFUSED' });
  });
});
