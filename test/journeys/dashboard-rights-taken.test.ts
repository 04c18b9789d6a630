/** Rights that are taken away while a request of their holder is under way: a form whose body comes slowly. */
import assert from 'node:assert/strict';
import http from 'node:http';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { Browser, PASSWORD, signedIn } from '../support/harness/browser.ts';

describe('dashboard: rights that are taken away', () => {
  let app: TestApp;
  let bo: Browser;

  beforeEach(async () => {
    app = await startTestApp();
    await signedIn(app.url, app.operator);
    const { url } = await app.operator.call('team.add', {
      email: 'bo@example.net',
      role: 'developer',
      accounts: ['default'],
    });
    const { pathname } = new URL(url ?? '');
    bo = new Browser(app.url);
    await bo.open(pathname);
    await bo.submit(pathname, { password: PASSWORD, password_again: PASSWORD });
    assert.equal(bo.last.at, '/');
  });
  afterEach(() => app.stop());

  const cookieOf = (browser: Browser): string =>
    [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');

  /** Sends the head of a form and half of its body; the returned function sends the rest, and gives the status. */
  async function slowly(where: string, fields: Record<string, string>): Promise<() => Promise<number>> {
    const body = new URLSearchParams(fields).toString();
    const half = Math.floor(body.length / 2);
    const request = http.request(`${app.url}${where}`, {
      method: 'POST',
      headers: {
        cookie: cookieOf(bo),
        'content-type': 'application/x-www-form-urlencoded',
        'content-length': String(body.length),
      },
    });
    const status = new Promise<number>((resolve, reject) => {
      request.once('error', reject).once('response', (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
    });
    request.write(body.slice(0, half));
    await new Promise((resolve) => setTimeout(resolve, 200));
    return () => {
      request.end(body.slice(half));
      return status;
    };
  }

  const keys = async (): Promise<string[]> =>
    (await app.app.db.prepared.all<{ name: string }>("SELECT name FROM api_keys WHERE name = 'late'")).map(
      ({ name }) => name,
    );
  const late = { name: 'late', mode: 'live', preset: 'all', ttl: 'none', password_now: PASSWORD };

  it('makes no key from a form that began before the role was taken', async () => {
    await bo.open('/developer/keys/new');
    const finish = await slowly('/developer/keys/new', { ...late, _token: bo.token() });
    await app.operator.call('team.change', { member: 'bo@example.net', role: 'read_only' });
    assert.equal(await finish(), 403);
    assert.deepEqual(await keys(), []);
  });

  it('makes no key from a form that began before the session ended', async () => {
    await bo.open('/developer/keys/new');
    const finish = await slowly('/developer/keys/new', { ...late, _token: bo.token() });
    await bo.submit('/logout');
    assert.equal(await finish(), 303);
    assert.deepEqual(await keys(), []);
  });

  it('makes nothing in the account that was chosen while the body of a form for another one came', async () => {
    await app.operator.call('accounts.add', { name: 'other' });
    const accounts = ['default', 'other'];
    await app.operator.call('team.change', { member: 'bo@example.net', role: 'developer', accounts });
    await bo.open('/developer/keys/new');
    const [first, second] = await app.app.db.prepared.all<{ id: string }>('SELECT id FROM accounts ORDER BY name');
    assert.equal(bo.field('_account'), first?.id);
    const finish = await slowly('/developer/keys/new', { ...late, _token: bo.token(), _account: first?.id ?? '' });
    await bo.submit('/account', { account: second?.id ?? '' });
    assert.equal(await finish(), 400);
    assert.deepEqual(await keys(), []);
  });
});
