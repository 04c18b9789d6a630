/** Forms beside other windows: those whose session has ended, or that were opened under another sign-in or for another account, do not act. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { PASSWORD, signedIn, type Browser } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';

const EMAIL = 'ana@example.net';
const HOURS_13 = 13 * 3_600_000;
const PART = { 'hx-request': 'true' };

describe('dashboard: forms beside other windows', () => {
  let app: TestApp;
  let browser: Browser;
  beforeEach(async () => {
    app = await startTestApp();
    browser = await signedIn(app.url, app.operator);
  });
  afterEach(() => app.stop());

  const streams = async (): Promise<string[]> =>
    (await app.get<{ data: { slug: string }[] }>('/v1/streams')).body.data.map(({ slug }) => slug);
  const typed = { slug: 'news', name: 'A secret name', type: 'broadcast' };

  it('lead to the sign-in, which says that they were not sent, and carry nothing along', async () => {
    await browser.open('/streams');
    app.clock.advance(HOURS_13);
    const answer = await browser.ask('POST', '/streams', {
      fields: { ...typed, _token: browser.token() },
      headers: { referer: `${app.url}/streams` },
    });
    assert.equal(answer.status, 303);
    assert.equal(answer.headers.get('location'), '/login?next=%2Fstreams');
    const page = await browser.open('/login?next=%2Fstreams');
    assert.match(page.html, /Your session has ended, so the form was not sent/);
    assert.doesNotMatch(page.html, /A secret name/);
    assert.deepEqual(htmlFaults(page.html), []);
    assert.equal(
      (await browser.submit('/login', { email: EMAIL, password: PASSWORD, next: '/streams' })).at,
      '/streams',
    );
    assert.ok(!(await streams()).includes('news'));
  });

  it('say what they did on their own page, whatever another window reads meanwhile', async () => {
    await browser.open('/streams');
    const answer = await browser.ask('POST', '/streams', { fields: { ...typed, _token: browser.token() } });
    assert.equal(answer.headers.get('location'), '/streams');
    for (const where of ['/', '/session']) await (await browser.ask('GET', where, { headers: PART })).text();
    assert.match((await browser.open('/streams')).html, /The stream is created/);
    assert.doesNotMatch((await browser.open('/streams')).html, /The stream is created/);
  });

  it('do not come as a part of another account into a page', async () => {
    const { id } = await app.operator.call('accounts.add', { name: 'other' });
    const pageOf = /data-page-of="([^"]+)"/.exec((await browser.open('/suppressions')).html)?.[1] ?? '';
    const part = { ...PART, 'x-page-of': pageOf };
    assert.equal((await browser.ask('GET', '/suppressions', { headers: part })).status, 200);
    await browser.submit('/account', { account: id, back: '/suppressions' });
    const click = await browser.ask('GET', '/suppressions?q=ana%40example.net', { headers: part });
    assert.deepEqual(
      [click.status, click.headers.get('hx-redirect'), await click.text()],
      [204, '/suppressions?q=ana%40example.net', ''],
    );
    const poll = await browser.ask('GET', '/', { headers: { ...part, 'x-poll': '1' } });
    assert.deepEqual([poll.status, poll.headers.get('hx-redirect'), await poll.text()], [409, null, '']);
  });

  it('are refused under a later sign-in', async () => {
    await browser.open('/streams');
    const fields = { ...typed, _token: browser.token() };
    await browser.submit('/logout');
    await browser.submit('/login', { email: EMAIL, password: PASSWORD });
    const answer = await browser.ask('POST', '/streams', { fields, headers: { 'sec-fetch-site': 'same-origin' } });
    assert.equal(answer.status, 400);
    assert.match(await answer.text(), /belongs to an earlier sign-in/);
    assert.ok(!(await streams()).includes('news'));
    const second = await browser.ask('POST', '/login', {
      fields: { email: 'x', password: 'y', next: '/messages', _token: 'x' },
      headers: { 'sec-fetch-site': 'same-origin' },
    });
    assert.equal(second.headers.get('location'), '/messages', 'a second window that was still at the sign-in goes on');
  });

  it('are refused for another account than the one that is looked at', async () => {
    const { id } = await app.operator.call('accounts.add', { name: 'other' });
    const page = await browser.open('/streams');
    const account = /name="_account" value="([^"]+)"/.exec(page.html)?.[1] ?? '';
    assert.ok(account !== '' && account !== id);
    await browser.submit('/account', { account: id, back: '/streams' });
    const refused = await browser.submit('/streams', { ...typed, _account: account });
    assert.equal(refused.status, 400);
    assert.match(refused.html, /opened for another account/);
    assert.doesNotMatch((await browser.open('/streams')).html, /A secret name/);
    assert.equal((await browser.submit('/logout', { _account: account })).at, '/login', 'signing out always works');
  });

  it('can be prepared by a script, which learns who is signed in and a token, while the session lasts', async () => {
    const asked = await browser.ask('GET', '/session', { headers: PART });
    const html = await asked.text();
    assert.match(html, /data-member="ana@example.net" data-account="acc_[^"]+" data-account-name="[^"]+"/);
    const token = /data-token="([^"]+)"/.exec(html)?.[1] ?? '';
    await browser.submit('/streams', { ...typed, _token: token });
    assert.ok((await streams()).includes('news'));
    app.clock.advance(HOURS_13);
    const over = await browser.ask('GET', '/session', { headers: PART });
    assert.equal(over.status, 204);
    assert.match(over.headers.get('hx-redirect') ?? '', /^\/login/);
  });
});
