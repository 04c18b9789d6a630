/** Rights that are taken away while a request of their holder is under way. */
import assert from 'node:assert/strict';
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

  /** Opens the live tail; the returned function waits until it ends, and tells what it said. */
  async function tail(): Promise<() => Promise<string>> {
    const response = await fetch(`${app.url}/events/tail`, { headers: { cookie: cookieOf(bo) } });
    assert.equal(response.status, 200);
    return () => response.text();
  }

  const taking: [string, () => Promise<unknown>][] = [
    ['removed from the team', () => app.operator.call('team.remove', { member: 'bo@example.net' })],
    [
      'taken out of the account',
      async () => {
        await app.operator.call('accounts.add', { name: 'other' });
        const change = { member: 'bo@example.net', role: 'developer', accounts: ['other'] } as const;
        await app.operator.call('team.change', { ...change, accounts: [...change.accounts] });
      },
    ],
    ['signed out', () => bo.submit('/logout')],
  ];
  for (const [name, take] of taking)
    it(`ends the live tail of a member who is ${name}`, async () => {
      await bo.open('/events');
      const ended = await tail();
      await take();
      app.clock.advance(60_000);
      const { id } = await app.send({ to: 'secret@simulator.posthorn.test' });
      await app.settled();
      const text = await Promise.race([ended(), new Promise<string>((resolve) => setTimeout(resolve, 5000, 'open'))]);
      assert.notEqual(text, 'open', 'the tail goes on');
      assert.ok(!text.includes(id), 'it shows mail of afterwards');
    });

  it('leaves the live tail of a member who keeps them', async () => {
    await bo.open('/events');
    const ended = await tail();
    for (let n = 0; n < 5; n++) {
      app.clock.advance(60_000);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const text = await Promise.race([ended(), new Promise<string>((resolve) => setTimeout(resolve, 500, 'open'))]);
    assert.equal(text, 'open');
  });
});
