/** Limits for strangers by HTTP: forms that are large, slow or many, and links that are not ours. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { Browser, PASSWORD } from '../support/harness/browser.ts';

const KIB = 1024;

describe('journey: strangers by HTTP', () => {
  let app: TestApp;
  const sockets: net.Socket[] = [];
  beforeEach(async () => {
    app = await startTestApp({ settings: { metrics: { token: 'x'.repeat(32) } } });
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await app.stop();
  });

  interface Slow {
    socket: net.Socket;
    text(): string;
    /** Resolves with the status of the answer. */
    status: Promise<string>;
  }

  /** Sends a head and the beginning of a body, and goes on for as long as it is let. */
  function slow(
    where: string,
    {
      cookie = '',
      length = 10_000,
      body = '',
      more = '',
    }: { cookie?: string; length?: number; body?: string; more?: string } = {},
  ): Slow {
    const socket = net.connect(Number(new URL(app.url).port), '127.0.0.1');
    sockets.push(socket);
    let text = '';
    socket.on('data', (piece) => (text += piece.toString())).on('error', () => undefined);
    const status = once(socket, 'data').then(() => text.slice(9, 12));
    socket.write(
      `POST ${where} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${String(length)}\r\n${cookie === '' ? '' : `Cookie: ${cookie}\r\n`}${more}\r\n${body}`,
    );
    return { socket, text: () => text, status };
  }

  const usedUp = async (budget: string): Promise<number> => {
    const response = await fetch(`${app.url}/metrics`, { headers: { authorization: `Bearer ${'x'.repeat(32)}` } });
    const found = new RegExp(`budget="${budget}"\\} (\\d+)`).exec(await response.text());
    return Number(found?.[1]);
  };

  /** The cookie and token of a visitor who has opened the sign-in page. */
  const guest = async (): Promise<{ cookie: string; token: string }> => {
    const browser = new Browser(app.url);
    await browser.open('/login');
    return { cookie: `posthorn_guest=${browser.cookies.get('posthorn_guest') ?? ''}`, token: browser.token() };
  };

  it('forms of strangers may have 16 KiB', async () => {
    const { cookie } = await guest();
    assert.equal(await slow('/login', { cookie, length: 16 * KIB + 1 }).status, '413');
    assert.equal(await slow('/login', { cookie, length: 16 * KIB + 1 }).status, '413');
    assert.equal(await usedUp('open_form_bytes'), 2);
    const small = slow('/login', { cookie, length: 16 * KIB, body: `email=${'x'.repeat(16 * KIB - 6)}` });
    assert.equal(await small.status, '400', 'read, and refused for its token');
  });

  it('forms of strangers have 10 s to arrive, and so long is what is left of a refused one read', async () => {
    const { cookie } = await guest();
    // The time begins when the server has read the head; it looks every 5 s.
    const isTimed = app.clock.armed(5000);
    const one = slow('/login', { cookie, body: 'email=a' });
    await isTimed;
    const refused = slow('/login', { body: 'email=a' });
    assert.equal(await refused.status, '400', 'without the cookie that a token could be of, before the body');
    const closed = once(refused.socket, 'close');
    for (let s = 0; s < 9; s++) {
      one.socket.write('a');
      refused.socket.write('a');
      await turn();
      app.clock.advance(1000);
    }
    assert.equal(one.text(), '');
    app.clock.advance(2000);
    assert.equal(await one.status, '408');
    assert.equal(await usedUp('open_form_ms'), 1);
    for (let s = 0; s < 12 && !refused.socket.destroyed; s++) {
      app.clock.advance(1000);
      await turn();
    }
    await closed;
  });

  it('four hundred at once hold little memory', async () => {
    const { cookie } = await guest();
    const { rss } = process.memoryUsage();
    const all = Array.from({ length: 400 }, () =>
      slow('/login', { cookie, length: 16 * KIB, body: `email=${'x'.repeat(16 * KIB - 100)}` }),
    );
    await Promise.all(all.map(({ socket }) => once(socket, 'connect')));
    const health = await fetch(`${app.url}/healthz`);
    assert.equal(health.status, 200);
    const large = Array.from({ length: 400 }, () =>
      slow('/login', { cookie, length: 2 ** 21, body: 'x'.repeat(60_000) }),
    );
    assert.deepEqual(new Set(await Promise.all(large.map(({ status }) => status))), new Set(['413']));
    assert.ok(process.memoryUsage().rss - rss < 120 * 2 ** 20, 'the clients are in this process too');
  });

  it('a form is not read where there is nothing that it could do', async () => {
    for (const [where, status] of [
      ['/setup/not-a-link-of-ours', '404'],
      ['/t/u/not-a-link-of-ours', '404'],
      ['/login/code', '303'],
      ['/login', '400'],
      ['/templates', '404'],
      ['/v1/messages', '401'],
    ] as const) {
      const { socket, status: answered } = slow(where, { length: 100_000_000, body: 'action=undo' });
      assert.equal(await answered, status, where);
      socket.destroy();
    }
  });

  it('a large form of a stranger is refused', async () => {
    const stranger = new Browser(app.url);
    await stranger.open('/login');
    const html = 'x'.repeat(300_000);
    const refused = await stranger.submit('/login', { email: 'ana@example.net', password: PASSWORD, more: html });
    assert.equal(refused.status, 413);
  });

  it('seven slow uploads of one account leave another its 6 MB mails', async () => {
    const { id } = await app.operator.call('accounts.add', { name: 'other' });
    const other = await app.operator.ask<{ id: string; key: string }>('createKey', {
      account: id,
      body: { name: 'k', scopes: ['send'] },
    });
    const MB = 1_000_000;
    const uploads = Array.from({ length: 7 }, () => {
      const request = http.request(`${app.url}/v1/messages`, {
        method: 'POST',
        agent: false,
        headers: { authorization: `Bearer ${app.key}`, 'content-type': 'application/json', 'content-length': 36 * MB },
      });
      request.on('error', () => undefined).on('response', (response) => response.resume());
      for (let mb = 0; mb < 35; mb++) request.write(Buffer.alloc(MB, ' '));
      return request;
    });
    await Promise.race(uploads.map((request) => once(request, 'response')));
    const statuses: number[] = [];
    for (let n = 0; n < 5; n++) {
      const mail = {
        from: 'a@simulator.posthorn.test',
        to: 'delivered@simulator.posthorn.test',
        subject: 'x',
        text: 'x',
        attachments: [{ filename: 'a.txt', content: Buffer.alloc(4.4 * MB, 'x').toString('base64') }],
      };
      statuses.push((await app.request('POST', '/v1/messages', mail, { key: other.key })).status);
    }
    for (const upload of uploads) upload.destroy();
    assert.deepEqual(statuses, [202, 202, 202, 202, 202]);
  });
});
