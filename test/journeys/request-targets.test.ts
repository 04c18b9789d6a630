/** What stands behind the method: the API answers every form of it (RFC 9112 section 3.2), the dashboard on the same port or not. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { startTestApp, type TestApp } from '../support/app.ts';

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
});
