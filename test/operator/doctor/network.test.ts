import assert from 'node:assert/strict';
import dgram from 'node:dgram';
import { once } from 'node:events';
import net from 'node:net';
import { createNetwork, type Greeting, type Relay } from '../../../src/operator/doctor/probes.ts';
import { server as certificate } from '../../support/harness/certificate.ts';
import { startMailServer } from '../../support/fakes/fake-mail-server.ts';
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

  const relay = (port: number, tls: Relay['tls'] = 'required'): Relay => ({
    ip: '127.0.0.1',
    host: 'mx1.dest.test',
    port,
    tls,
    hostname: 'us.test',
    auth: { user: 'me', password: 'x' },
  });
  const { tryRelay } = createNetwork({ clock: new FakeClock() });

  it('signs in at a smarthost: a good password, a bad one, none without TLS unless the route says so', async () => {
    const extensions = ['AUTH PLAIN'];
    const script = { auth: '235 welcome' };
    const server = await startMailServer({ tls: 'starttls', certificate, extensions, script });
    assert.deepEqual(await tryRelay(relay(server.port)), { kind: 'ready' });
    server.options.script = { auth: '535 5.7.8 no' };
    assert.deepEqual(await tryRelay(relay(server.port)), { kind: 'refused', why: '535 5.7.8 no' });
    server.options.script = { auth: '454 4.7.0 later' };
    assert.deepEqual(await tryRelay(relay(server.port)), { kind: 'failed', why: '454 4.7.0 later' });
    server.options = { tls: 'none', extensions, script };
    const withoutTls = await tryRelay(relay(server.port, 'opportunistic'));
    assert.ok(withoutTls.kind === 'failed');
    assert.match(withoutTls.why, /TLS|^5/);
    assert.ok(server.sessions.at(-1)?.lines.every((line) => !line.startsWith('AUTH')));
    assert.equal((await tryRelay(relay(server.port, 'none'))).kind, 'ready');
    await server.close();
    assert.deepEqual(await tryRelay(relay(server.port)), { kind: 'unreachable', why: 'ECONNREFUSED' });
  });

  it('greets a smarthost without a login, and sends it no mail', async () => {
    const server = await startMailServer({ tls: 'starttls', certificate });
    assert.deepEqual(await tryRelay({ ...relay(server.port, 'opportunistic'), auth: null }), { kind: 'ready' });
    server.options.script = { connect: '554 no' };
    const refused = await tryRelay({ ...relay(server.port, 'opportunistic'), auth: null });
    assert.deepEqual(refused, { kind: 'failed', why: '554 no' });
    await server.close();
    assert.ok(server.sessions.every(({ lines }) => lines.every((line) => !/^(?:MAIL|DATA|BDAT)/i.test(line))));
  });

  it('asks for a certificate that is trusted where TLS is there from the start, as the delivery does', async () => {
    const server = await startMailServer({ tls: 'implicit', certificate });
    const answer = await tryRelay({ ...relay(server.port, 'implicit'), auth: null });
    assert.ok(answer.kind === 'failed');
    assert.match(answer.why, /certificate/);
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
