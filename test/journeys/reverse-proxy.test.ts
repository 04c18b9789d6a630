/** docs/reverse-proxy.md: the API and the dashboard behind Debian's nginx and Caddy. */
import assert from 'node:assert/strict';
import type http from 'node:http';
import https from 'node:https';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { missing } from '../support/harness/peer.ts';
import { startCaddy, startNginx, type WebProxy } from '../support/harness/web-proxy.ts';

const ca = readFileSync(path.resolve(import.meta.dirname, '../fixtures/tls/chain/root.pem'), 'utf8');
const issuer = readFileSync(path.resolve(import.meta.dirname, '../fixtures/tls/chain/issuer.pem'), 'utf8');
const HOST = 'mail.example.com';

interface Asked {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  /** The client's own address. */
  from?: string;
}

function open(
  port: number,
  target: string,
  { method = 'GET', headers = {}, body, from }: Asked,
): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = https.request(
      {
        host: '127.0.0.1',
        port,
        path: target,
        method,
        headers: { host: HOST, ...headers },
        servername: HOST,
        ca: [ca, issuer],
        agent: false,
        ...(from === undefined ? {} : { localAddress: from }),
      },
      resolve,
    );
    request.once('error', reject);
    request.end(body);
  });
}

async function ask(
  port: number,
  target: string,
  asked: Asked = {},
): Promise<{ status: number; headers: http.IncomingHttpHeaders; text: string }> {
  const response = await open(port, target, asked);
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text: Buffer.concat(parts).toString('utf8'),
  };
}

for (const [program, start, debian] of [
  ['nginx', startNginx, 'nginx-light'],
  ['caddy', startCaddy, 'caddy'],
] as const) {
  describe(`journey: behind ${program}`, () => {
    let app: TestApp;
    let proxy: WebProxy | null = null;
    const port = (): number => proxy?.port ?? 0;

    before(async function () {
      if (missing(program).length > 0) this.skip(`${program} is not installed (apt-get install ${debian})`);
      app = await startTestApp({ settings: { http: { trustedProxies: ['127.0.0.1'] } } });
      proxy = await start(Number(new URL(app.url).port));
    });
    after(async () => {
      if (proxy === null) return;
      proxy.stop();
      await app.stop();
    });
    const authorization = (): Record<string, string> => ({ authorization: `Bearer ${app.key}` });

    it('passes on the address of the client, and not one that the client made up', async () => {
      const { key } = await app.operator.ask<{ key: string }>('createKey', {
        body: { name: 'office', scopes: ['message:read'], allowed_ips: ['127.0.0.2'] },
      });
      const list = async (from: string, forwarded?: string): Promise<number> => {
        const headers = { authorization: `Bearer ${key}`, ...(forwarded && { 'x-forwarded-for': forwarded }) };
        return (await ask(port(), '/v1/messages', { headers, from })).status;
      };
      assert.equal(await list('127.0.0.2'), 200);
      assert.equal(await list('127.0.0.3'), 403);
      assert.equal(await list('127.0.0.3', '127.0.0.2'), 403);
    });

    it('takes a large body, and lets Posthorn refuse one that is too large', async () => {
      const send = (bytes: number): ReturnType<typeof ask> =>
        ask(port(), '/v1/messages', {
          method: 'POST',
          headers: { ...authorization(), 'content-type': 'application/json' },
          body: JSON.stringify({
            from: 'hello@acme.test',
            to: 'delivered@simulator.posthorn.test',
            subject: 'Large',
            text: 'Hello.',
            attachments: [{ filename: 'a.bin', content: 'A'.repeat(bytes) }],
          }),
        });
      const taken = await send(4 * 1024 * 1024);
      assert.equal(taken.status, 202, taken.text);
      const refused = await send(45 * 1024 * 1024);
      assert.equal(refused.status, 413);
      assert.match(refused.text, /"code":"payload_too_large"/);
    });

    it('streams events as they happen', async () => {
      const stream = await open(port(), '/v1/events', {
        headers: { ...authorization(), accept: 'text/event-stream' },
      });
      assert.equal(stream.statusCode, 200);
      const { id } = await app.send({ to: 'delivered@simulator.posthorn.test' });
      let text = '';
      for await (const part of stream) {
        text += String(part);
        if (text.includes(id) && text.includes('delivered')) break;
      }
      stream.destroy();
    });

    it('says that the browser came by HTTPS', async () => {
      const page = await ask(port(), '/login');
      assert.equal(page.status, 200);
      const cookies = page.headers['set-cookie'] ?? [];
      assert.ok(cookies.length > 0);
      for (const cookie of cookies) assert.match(cookie, /^__Host-posthorn_.*; secure/i);
      assert.equal(page.headers['strict-transport-security'], 'max-age=31536000');
    });

    it('answers health checks, and keeps the metrics inside', async () => {
      assert.equal((await ask(port(), '/readyz')).status, 200);
      const metrics = await ask(port(), '/metrics');
      assert.equal(metrics.status, 404);
      assert.doesNotMatch(metrics.text, /not_found/);
    });

    it('leads a tracking link to where it goes, whatever host it has', async () => {
      const { status, text } = await ask(port(), '/t/c/forged', { headers: { host: 'track.acme.test' } });
      assert.equal(status, 404, text);
      assert.match(text, /link/i);
    });

    it('redirects from http', async () => {
      const plain = proxy?.plainPort ?? null;
      if (plain === null) return; // Caddy does so by itself, on port 80, which a test cannot have
      const response = await fetch(`http://127.0.0.1:${String(plain)}/login`, {
        redirect: 'manual',
        headers: { host: HOST },
      });
      assert.equal(response.status, 301);
      assert.match(response.headers.get('location') ?? '', /^https:\/\/.*\/login$/);
    });
  });
}
