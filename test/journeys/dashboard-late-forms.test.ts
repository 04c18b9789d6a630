/** Forms that come too late: what was typed is not lost, and nothing is done that nobody meant. */
import assert from 'node:assert/strict';
import { codeAt, stepOf } from '../../src/members/totp.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { PASSWORD, secretIn, signedIn, type Browser } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';

const EMAIL = 'ana@example.net';
const HOURS_13 = 13 * 3_600_000;

describe('dashboard: forms that come too late', () => {
  let app: TestApp;
  let browser: Browser;
  beforeEach(async () => {
    app = await startTestApp();
    browser = await signedIn(app.url, app.operator);
  });
  afterEach(() => app.stop());

  const streams = async (): Promise<string[]> =>
    (await app.get<{ data: { slug: string }[] }>('/v1/streams')).body.data.map(({ slug }) => slug);
  /** What a page carries in hidden fields. */
  const hidden = (): Record<string, string> =>
    Object.fromEntries(
      [...browser.last.html.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g)].map(
        ([, name = '', value = '']) => [
          name,
          value.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'),
        ],
      ),
    );
  const typed = { slug: 'news', name: 'A <b>long</b> name & more', type: 'broadcast' };

  it('go through the sign-in, and are sent once somebody says so', async () => {
    await browser.open('/streams');
    app.clock.advance(HOURS_13);
    const late = await browser.submit('/streams', typed);
    assert.equal(late.status, 401);
    assert.match(late.html, /Your session has ended/);
    assert.deepEqual(htmlFaults(late.html), []);
    const wrong = await browser.submit('/login', { ...hidden(), email: EMAIL, password: 'not the one at all' });
    assert.equal(wrong.status, 401);
    assert.equal(hidden()['kept:name'], typed.name, 'a wrong password does not lose it');
    app.clock.advance(60_000);
    const again = await browser.submit('/login', { ...hidden(), email: EMAIL, password: PASSWORD });
    assert.equal(again.status, 200);
    assert.match(again.html, /Not sent yet/);
    assert.match(again.html, /A &lt;b&gt;long&lt;\/b&gt; name/);
    assert.deepEqual(htmlFaults(again.html), []);
    assert.ok(!(await streams()).includes('news'), 'nothing happens by signing in');
    const { _token, ...fields } = hidden();
    assert.ok(_token);
    const sent = await browser.submit('/streams', fields);
    assert.equal(sent.at, '/streams');
    assert.ok((await streams()).includes('news'));
  });

  it('go through the second factor as well', async () => {
    const offered = await browser.open('/profile/second-factor');
    const secret = secretIn(offered.html);
    const code = () => codeAt(secret, stepOf(app.clock.now()));
    await browser.submit('/profile/second-factor', {
      offer: browser.field('offer'),
      code: code(),
      password_now: PASSWORD,
    });
    await browser.open('/streams');
    app.clock.advance(HOURS_13);
    await browser.submit('/streams', typed);
    const asked = await browser.submit('/login', { ...hidden(), email: EMAIL, password: PASSWORD });
    assert.match(asked.html, /authenticator app/);
    const again = await browser.submit('/login/code', { ...hidden(), code: code() });
    assert.match(again.html, /Not sent yet/);
    await browser.submit('/streams', hidden());
    assert.ok((await streams()).includes('news'));
  });

  it('ask once more where the sign-in has led to another account than they were filled in for', async () => {
    const { id } = await app.operator.call('accounts.add', { name: 'other' });
    await browser.open('/streams');
    await browser.submit('/account', { account: id, back: '/streams' });
    await browser.open('/streams');
    app.clock.advance(HOURS_13);
    await browser.submit('/streams', { ...typed, _account: id });
    await browser.submit('/login', { ...hidden(), email: EMAIL, password: PASSWORD });
    assert.equal(hidden()['_account'], id);
    const asked = await browser.submit('/streams', hidden());
    assert.equal(asked.status, 409);
    assert.match(asked.html, /this form was opened for another account/);
    assert.ok(!(await streams()).includes('news'));
  });

  it('are kept where somebody has signed in meanwhile, in another window', async () => {
    await browser.open('/streams');
    app.clock.advance(HOURS_13);
    await browser.submit('/streams', typed);
    const carriedOn = hidden();
    await browser.open('/login');
    await browser.submit('/login', { email: EMAIL, password: PASSWORD });
    const answer = await browser.ask('POST', '/login', {
      fields: { ...carriedOn, email: EMAIL, password: 'x', _token: 'old' },
      headers: { 'sec-fetch-site': 'same-origin' },
    });
    assert.equal(answer.status, 409);
    assert.match(await answer.text(), /name="slug" value="news"/);
  });

  it('lose passwords and codes, which are typed again', async () => {
    await browser.open('/profile');
    app.clock.advance(HOURS_13);
    const late = await browser.submit('/profile/password', {
      password_now: PASSWORD,
      password: 'one two three four',
      password_again: 'one two three four',
    });
    assert.doesNotMatch(late.html, /one two three/);
    const again = await browser.submit('/login', { ...hidden(), email: EMAIL, password: PASSWORD });
    assert.match(again.html, /Passwords and codes are not kept/);
    assert.doesNotMatch(again.html, /action="\/profile\/password"/);
  });

  it('are not carried on where they are not of our pages', async () => {
    await browser.open('/streams');
    app.clock.advance(HOURS_13);
    for (const headers of [{}, { 'sec-fetch-site': 'none' }] as Record<string, string>[]) {
      const answer = await browser.ask('POST', '/streams', { fields: { ...typed, _token: 'x' }, headers });
      assert.equal(answer.status, 303);
      assert.match(answer.headers.get('location') ?? '', /^\/login/);
    }
    const foreign = await browser.ask('POST', '/streams', {
      fields: typed,
      headers: { 'sec-fetch-site': 'cross-site' },
    });
    assert.equal(foreign.status, 400);
    await browser.open('/login');
    await browser.submit('/login', { email: EMAIL, password: PASSWORD, kept_to: '//evil.test/', 'kept:name': 'x' });
    assert.equal(browser.last.at, '/', 'a place outside is no place to send to');
  });

  it('of an earlier sign-in are shown again to who is signed in', async () => {
    await browser.open('/streams');
    const fields = { ...typed, _token: browser.token() };
    await browser.submit('/logout');
    await browser.submit('/login', { email: EMAIL, password: PASSWORD });
    const answer = await browser.ask('POST', '/streams', { fields, headers: { 'sec-fetch-site': 'same-origin' } });
    const html = await answer.text();
    assert.equal(answer.status, 409);
    assert.match(html, /Not sent yet/);
    assert.deepEqual(htmlFaults(html), []);
    assert.ok(!(await streams()).includes('news'));
    const other = await browser.ask('POST', '/login', {
      fields: { email: 'x', password: 'y', next: '/messages', _token: 'x' },
      headers: { 'sec-fetch-site': 'same-origin' },
    });
    assert.equal(other.headers.get('location'), '/messages', 'a second window that was still at the sign-in goes on');
  });

  it('that were opened for another account ask before they act on this one', async () => {
    const { id } = await app.operator.call('accounts.add', { name: 'other' });
    const page = await browser.open('/streams');
    const account = /name="_account" value="([^"]+)"/.exec(page.html)?.[1] ?? '';
    assert.ok(account !== '' && account !== id);
    await browser.submit('/account', { account: id, back: '/streams' });
    const late = await browser.submit('/streams', { ...typed, _account: account });
    assert.equal(late.status, 409);
    assert.match(late.html, /You look at <strong>other<\/strong> now/);
    await browser.submit('/streams', typed);
    assert.ok(!(await streams()).includes('news'), 'the first account was not touched');
    assert.equal((await browser.open('/streams')).html.includes('news'), true);
    assert.equal((await browser.submit('/logout', { _account: account })).at, '/login', 'signing out always works');
  });
});
