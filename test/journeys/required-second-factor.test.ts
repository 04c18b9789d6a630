/** The setting `dashboard.secondFactor`: those who must have a second factor see nothing else before they have one. */
import assert from 'node:assert/strict';
import { codeAt, stepOf } from '../../src/members/totp.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { Browser, PASSWORD, secretIn } from '../support/harness/browser.ts';

describe('dashboard: a second factor that the server asks for', () => {
  let app: TestApp;

  const begin = async (secondFactor: string): Promise<void> => {
    app = await startTestApp({ settings: { dashboard: { secondFactor } } });
  };
  /** Opens a set-up link and sets the password; is signed in then. */
  const joined = async (link: string, fields: Record<string, string> = {}): Promise<Browser> => {
    const browser = new Browser(app.url);
    const { pathname } = new URL(link);
    await browser.open(pathname);
    await browser.submit(pathname, { password: PASSWORD, password_again: PASSWORD, ...fields });
    return browser;
  };
  const administrator = async (): Promise<Browser> =>
    joined((await app.operator.call('admin.reset', {})).url, { email: 'ana@example.net' });
  const developer = async (): Promise<Browser> => {
    const fields = { email: 'bo@example.net', role: 'developer', accounts: ['default'] } as const;
    return joined((await app.operator.call('team.add', { ...fields, accounts: [...fields.accounts] })).url ?? '');
  };
  afterEach(() => app.stop());

  it('administrators: they alone are led to the page that switches it on, and then go on', async () => {
    await begin('administrators');
    const browser = await administrator();
    assert.equal((await developer()).last.at, '/');
    assert.equal(browser.last.at, '/profile/second-factor');
    assert.match(browser.last.html, /This server asks for a second factor/);
    const secret = secretIn(browser.last.html);
    const offer = browser.field('offer');
    for (const where of ['/', '/messages', '/profile', '/developer/keys/new', '/team'])
      assert.equal((await browser.open(where)).at, '/profile/second-factor', where);
    const refused = await browser.ask('POST', '/welcome/send', { fields: { _token: browser.token() } });
    await refused.arrayBuffer();
    assert.equal(refused.status, 303);
    const code = codeAt(secret, stepOf(app.clock.now()));
    await browser.submit('/profile/second-factor', { offer, code, password_now: PASSWORD });
    assert.match(browser.last.html, /Recovery codes/);
    assert.equal((await browser.open('/team')).status, 200);
    await browser.open('/profile');
    await browser.submit('/profile/second-factor/off', { password_now: PASSWORD });
    assert.equal(browser.last.at, '/profile/second-factor', 'without one again, there is only the page for the next');
  });

  it('everyone: developers too', async () => {
    await begin('everyone');
    assert.equal((await developer()).last.at, '/profile/second-factor');
  });
});
