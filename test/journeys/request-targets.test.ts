/** Tests the target, the part of a request after the method: the API answers every form of it (RFC 9112 section 3.2), the dashboard on the same port or not. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { signedIn } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';

describe('the target of a request, with the dashboard on the same port', () => {
  let app: TestApp;
  before(async () => {
    app = await startTestApp();
  });
  after(() => app.stop());

  /** The whole answer to a request that no client library would write. */
  const ask = async (target: string, method = 'GET'): Promise<string> => {
    const { hostname, port } = new URL(app.url);
    const socket = connect(Number(port), hostname);
    socket.write(
      `${method} ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${app.key}\r\nConnection: close\r\n\r\n`,
    );
    let answer = '';
    for await (const chunk of socket) answer += String(chunk);
    return answer;
  };

  const rows: [target: string, status: number, why: string, method?: string][] = [
    ['/v1/domains', 200, 'the usual form'],
    ['http://api.test/v1/domains?limit=1', 200, 'the absolute form'],
    ['//v1/domains', 404, 'an empty step before the version'],
    ['*', 204, 'the server as a whole', 'OPTIONS'],
    ['*', 404, 'GET has no such target'],
  ];
  for (const [target, status, why, method] of rows) {
    it(`${method ?? 'GET'} ${target}: ${why}`, async () => {
      const answer = await ask(target, method);
      assert.match(answer, new RegExp(`^HTTP/1\\.1 ${String(status)} `));
      assert.match(answer, /\r\nX-RateLimit-Limit: /, 'the headers that every answer of the API has');
    });
  }

  it('leaves the front page to the dashboard', async () => {
    for (const target of ['/', '/?since=1h', 'http://api.test/']) {
      assert.match(await ask(target), /\r\nLocation: \/(login|setup)/, target);
    }
  });

  describe('a path that nobody has', () => {
    const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
    const get = (where: string, headers: Record<string, string>, method = 'GET') =>
      fetch(`${app.url}${where}`, { method, headers, redirect: 'manual' });

    it('is a small page for who asks with a browser, signed in or not', async () => {
      for (const where of ['/nothing', '/wp-login.php?x=1', '/index.html', '/v2']) {
        const answer = await get(where, html);
        const text = await answer.text();
        assert.equal(answer.status, 404, where);
        assert.match(answer.headers.get('content-type') ?? '', /^text\/html/);
        assert.match(text, /There is no such page/);
        assert.deepEqual(htmlFaults(text), []);
        assert.ok(text.length < 4000);
      }
      const browser = await signedIn(app.url, app.operator);
      const answer = await browser.ask('GET', '/nothing', { headers: html });
      assert.equal(answer.status, 404);
      assert.match(await answer.text(), /<nav class="menu"/, 'with the menu to go on from');
    });

    it('is not that of a health check, whatever who asks would rather read', async () => {
      for (const where of ['/healthz', '/readyz', '/v1/openapi.json'])
        assert.equal((await get(where, html)).status, 200, where);
    });

    const programs: [where: string, headers: Record<string, string>, why: string, method?: string][] = [
      ['/nothing', { accept: 'application/json' }, 'a program'],
      ['/nothing', {}, 'a program that names no type'],
      ['/nothing', { accept: '*/*' }, 'curl'],
      ['/nothing', html, 'not looked at, but sent', 'POST'],
      ['/v1/nothing', html, 'under the API'],
      ['/t/o/nothing/x', html, 'under a host of links'],
    ];
    for (const [where, headers, why, method] of programs)
      it(`is the API's to answer: ${why}`, async () => {
        const answer = await get(where, headers, method);
        assert.equal(answer.status, 404);
        assert.doesNotMatch(await answer.text(), /There is no such page/);
      });
  });
});
