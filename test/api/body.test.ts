import assert from 'node:assert/strict';
import http from 'node:http';
import { once } from 'node:events';
import net from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { KEY, startHarness } from './harness.ts';
import type { Harness } from './harness.ts';

const MIB = 1024 * 1024;
const good = { to: 'ana@example.net' };

/** Writes a whole request before it reads a byte of the answer, as simple clients do. */
function writeThenRead(port: number, head: string, bytes: number): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    const socket = net.connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.on('close', () => {
      resolve(text);
    });
    socket.write(head);
    socket.write(Buffer.alloc(bytes, 'x'), () => {
      socket.on('data', (piece) => {
        text += piece.toString();
        if (text.includes('}}')) socket.destroy();
      });
    });
  });
}

describe('request bodies', () => {
  let h: Harness;
  before(async () => {
    h = await startHarness();
  });
  after(() => h.stop());

  const head = (more: string): string =>
    `POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\n${more}\r\n`;

  it('over 50 MiB are refused, and drained so that the answer arrives', async () => {
    const text = await writeThenRead(h.port, head(`Content-Length: ${51 * MIB}\r\n`), 51 * MIB);
    assert.match(text, /^HTTP\/1\.1 413 /);
    assert.match(text, /"code":"payload_too_large"/);
  });

  it('are drained likewise for a client that closes the connection after it', async () => {
    const text = await writeThenRead(h.port, head(`Connection: close\r\nContent-Length: ${51 * MIB}\r\n`), 51 * MIB);
    assert.match(text, /^HTTP\/1\.1 413 /);
  });

  it('of unknown length are refused when they pass 50 MiB', async () => {
    const answer = await new Promise<number | undefined>((resolve, reject) => {
      const request = http.request({
        port: h.port,
        host: '127.0.0.1',
        method: 'POST',
        path: '/v1/messages',
        agent: false,
        headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'transfer-encoding': 'chunked' },
      });
      request.on('response', (response) => {
        response.resume().on('end', () => {
          resolve(response.statusCode);
          request.destroy();
        });
      });
      request.on('error', reject);
      for (let at = 0; at < 51; at++) request.write(Buffer.alloc(MIB, 'x'));
      request.end();
    });
    assert.equal(answer, 413);
  });

  it('over 64 MiB lose their connection', async () => {
    const text = await writeThenRead(h.port, head(`Content-Length: ${80 * MIB}\r\n`), 80 * MIB);
    assert.ok(text === '' || text.startsWith('HTTP/1.1 413 '), text.slice(0, 50));
    assert.equal((await h.send('POST', '/v1/messages', { body: good })).status, 202);
  });

  it('of refused requests are drained too: the connection serves the next', async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const statuses: (number | undefined)[] = [];
    const ports = new Set<number | undefined>();
    for (const [key, size] of [
      ['unknown', MIB],
      [KEY, 0],
    ] as const) {
      const body = Buffer.from(JSON.stringify({ ...good, subject: 'x'.repeat(size) }));
      await new Promise<void>((resolve, reject) => {
        const request = http.request(
          {
            agent,
            port: h.port,
            host: '127.0.0.1',
            method: 'POST',
            path: '/v1/messages',
            headers: {
              authorization: `Bearer ${key}`,
              'content-type': 'application/json',
              'content-length': body.length,
            },
          },
          (response) => {
            statuses.push(response.statusCode);
            response.resume().on('end', resolve);
          },
        );
        request.on('socket', (socket) => {
          if (socket.connecting) socket.once('connect', () => ports.add(socket.localPort));
          else ports.add(socket.localPort);
        });
        request.on('error', reject).end(body);
      });
    }
    agent.destroy();
    assert.deepEqual(statuses, [401, 202]);
    assert.equal(ports.size, 1);
  });

  it('over 256 KiB are read in a thread, with the same rules', async () => {
    const subject = 'ä'.repeat(300_000);
    const answer = await h.send('POST', '/v1/messages', { body: { ...good, subject } });
    assert.deepEqual(
      [answer.status, answer.json],
      [202, { to: good.to, bytes: Buffer.byteLength(JSON.stringify({ ...good, subject })) }],
    );
    const broken = await h.send('POST', '/v1/messages', { body: `{"to":"${subject}` });
    assert.equal(broken.error.code, 'invalid_json');
    const twice = await h.send('POST', '/v1/messages', { body: `{"to":"a","subject":"${subject}","to":"b"}` });
    assert.match(twice.error.message, /twice/);
    const many = await h.send('POST', '/v1/messages', { body: `{"to":[${'[],'.repeat(300_000)}0]}` });
    assert.equal(many.error.code, 'payload_too_large');
  });

  it('may come as gzip', async () => {
    const body = gzipSync(JSON.stringify(good));
    for (const encoding of ['gzip', 'x-gzip', 'GZIP']) {
      const answer = await h.send('POST', '/v1/messages', { body, headers: { 'content-encoding': encoding } });
      assert.equal(answer.status, 202, encoding);
    }
    const large = gzipSync(JSON.stringify({ ...good, subject: 'x'.repeat(MIB) }));
    assert.equal(
      (await h.send('POST', '/v1/messages', { body: large, headers: { 'content-encoding': 'gzip' } })).status,
      202,
    );
  });

  it('that are damaged gzip are invalid', async () => {
    const body = gzipSync(JSON.stringify(good));
    const damaged: [bytes: Buffer, why: string][] = [
      [Buffer.from('{"to":"a"}'), 'not gzip'],
      [body.subarray(0, -9), 'cut short'],
      [Buffer.concat([body.subarray(0, 12), Buffer.from([255, 255, 255]), body.subarray(15)]), 'bytes changed'],
    ];
    for (const [bytes, why] of damaged) {
      const answer = await h.send('POST', '/v1/messages', { body: bytes, headers: { 'content-encoding': 'gzip' } });
      assert.equal(answer.error.code, 'invalid_json', why);
    }
  });

  for (const [authorization, length, status, isInvited] of [
    ['Bearer nobody', 3, 401, false],
    [`Bearer ${KEY}`, 51 * MIB, 413, false],
    [`Bearer ${KEY}`, 3, 400, true],
  ] as const) {
    it(`are invited by 100 Continue only where they are read: ${String(isInvited)} before ${String(status)}`, async () => {
      const request = http.request({
        port: h.port,
        method: 'POST',
        path: '/v1/messages',
        headers: {
          Authorization: authorization,
          'Content-Type': 'application/json',
          'Content-Length': length,
          Expect: '100-continue',
        },
      });
      let wasInvited = false;
      request
        .on('error', () => undefined)
        .on('continue', () => {
          wasInvited = true;
          request.end('{x}');
        });
      request.flushHeaders();
      const [response] = (await once(request, 'response')) as [http.IncomingMessage];
      assert.deepEqual([response.statusCode, wasInvited], [status, isInvited]);
      request.destroy();
    });
  }

  it('of GET and DELETE mean nothing', async () => {
    assert.equal((await h.send('GET', '/v1/messages', { body: 'nonsense' })).status, 200);
  });

  it('whose end never comes are no request', async () => {
    const socket = net.connect(h.port, '127.0.0.1');
    await new Promise<void>((resolve) =>
      socket.write(`${head('Content-Length: 100000\r\n')}{`, () => {
        resolve();
      }),
    );
    const audited = h.audits.length;
    socket.destroy();
    while (h.audits.length === audited) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(h.audits.at(-1)?.error_code, 'invalid_request');
  });
});

describe('request bodies: pace and room', () => {
  it('that pause for 30 s are given up with 408', async () => {
    const h = await startHarness();
    let text = '';
    const socket = net.connect(h.port, '127.0.0.1');
    socket.on('data', (piece) => (text += piece.toString()));
    const write = (bytes: string): Promise<void> =>
      new Promise((resolve) =>
        socket.write(bytes, () => {
          resolve();
        }),
      );
    await write(
      `POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{`,
    );
    while (h.clock.nextAt() === null) await new Promise((resolve) => setImmediate(resolve));
    h.clock.advance(30_000);
    while (!text.includes('}}')) await new Promise((resolve) => setImmediate(resolve));
    assert.match(text, /^HTTP\/1\.1 408 /);
    socket.destroy();
    await h.stop();
  });

  it('that are gzip bombs are stopped at the limit', async () => {
    const h = await startHarness({ settings: { body: { bodyBytes: MIB } } });
    const headers = { 'content-encoding': 'gzip' };
    const bomb = gzipSync(Buffer.alloc(200 * MIB), { level: 1 });
    const before = process.memoryUsage().rss;
    assert.equal((await h.send('POST', '/v1/messages', { body: bomb, headers })).error.code, 'payload_too_large');
    assert.ok(process.memoryUsage().rss - before < 50 * MIB, 'the bomb was unpacked');
    const empty = gzipSync('');
    const nothing = await h.send('POST', '/v1/messages', {
      body: Buffer.concat(new Array<Buffer>(20_000).fill(empty)),
      headers,
    });
    assert.equal(nothing.error.code, 'invalid_json', 'many empty members');
    const endless = await h.send('POST', '/v1/messages', {
      body: Buffer.concat(new Array<Buffer>(60_000).fill(empty)),
      headers,
    });
    assert.equal(endless.error.code, 'payload_too_large', 'nothing unpacked, but more than the limit sent');
    await h.stop();
  });

  it('above the limit for single sends are only for bulk sends', async () => {
    const h = await startHarness({ settings: { body: { singleBodyBytes: 1000 } } });
    const subject = 'x'.repeat(1000);
    const single = await h.send('POST', '/v1/messages', { body: { ...good, subject } });
    assert.equal(single.error.code, 'payload_too_large');
    assert.equal((await h.send('POST', '/v1/messages', { body: { ...good, subject, recipients: [] } })).status, 202);
    await h.stop();
  });

  it('have limited room altogether', async () => {
    const h = await startHarness({ settings: { body: { heldBytes: 1000 } } });
    const large = await h.send('POST', '/v1/messages', { body: { ...good, subject: 'x'.repeat(1000) } });
    assert.equal(large.error.code, 'service_unavailable');
    assert.equal((await h.send('POST', '/v1/messages', { body: good })).status, 202, 'the room is given back');
    await h.stop();
  });
});

describe('the pace of a body', () => {
  const HEAD = `POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nContent-Length: 30000000\r\n\r\n`;

  /** Sends a body in pieces while the clock goes on; resolves with the status of the answer, or null if none comes. */
  async function paced(pieces: readonly (readonly [seconds: number, bytes: number])[]): Promise<string | null> {
    const h = await startHarness();
    let text = '';
    const socket = net.connect(h.port, '127.0.0.1');
    socket.on('data', (piece) => (text += piece.toString())).on('error', () => undefined);
    const coming = once(h.api.server, 'request') as Promise<[http.IncomingMessage, http.ServerResponse]>;
    socket.write(HEAD);
    const [request, response] = await coming;
    const begun = request.socket.bytesRead;
    let sent = 0;
    for (const [seconds, bytes] of pieces) {
      socket.write(Buffer.alloc(bytes, ' '));
      sent += bytes;
      while (request.socket.bytesRead < begun + sent) await turn();
      h.clock.advance(seconds * 1000);
      await turn();
      // The server has answered by now where it does; the answer may still be on its way.
      while (response.headersSent && text === '') await turn();
    }
    socket.destroy();
    await h.stop();
    return /^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? null;
  }

  it('ends one that stops, after 30 to 35 s', async () => {
    assert.equal(await paced([[29, 10]]), null);
    assert.equal(await paced([[36, 10]]), '408');
  });

  it('ends a trickle in the same time, however fast it began', async () => {
    assert.equal(await paced([[1, 5_000_000], ...Array.from({ length: 11 }, () => [4, 1] as const)]), '408');
  });

  it('lets a link go on that is slow, but not slower than 10 kB a second', async () => {
    assert.equal(await paced(Array.from({ length: 20 }, () => [5, 60_000] as const)), null);
    assert.equal(await paced(Array.from({ length: 20 }, () => [5, 30_000] as const)), '408');
  });
});
