/** The cookie of a signed-in administrator in other hands: it must not become a login of its own. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import type { Browser } from '../support/harness/browser.ts';
import { PASSWORD, signedIn } from '../support/harness/browser.ts';

describe('dashboard: a stolen session of an administrator', () => {
  let app: TestApp;
  let owner: Browser;
  let thief: Browser;
  let own = '';
  let bo = '';

  beforeEach(async () => {
    app = await startTestApp();
    owner = await signedIn(app.url, app.operator);
    await owner.open('/team');
    await owner.submit('/team', { email: 'bo@example.net', role: 'developer', password_now: PASSWORD });
    const rows = await app.app.db.prepared.all<{ id: string; email: string }>('SELECT id, email FROM members');
    const idOf = (email: string): string => rows.find((row) => row.email === email)?.id ?? assert.fail(email);
    own = idOf('ana@example.net');
    bo = idOf('bo@example.net');
    thief = owner.at(app.url);
    await thief.open('/team');
  });
  afterEach(() => app.stop());

  const forms = (): [string, Record<string, string>][] => [
    ['/team', { email: 'eve@evil.test', role: 'administrator' }],
    [`/team/${bo}`, { role: 'administrator' }],
    [`/team/${own}/link`, {}],
    [`/team/${bo}/link`, {}],
    [`/team/${bo}/remove`, {}],
  ];
  const state = async (): Promise<string> => {
    const tables = ['members', 'memberships', 'setup_links'].map((table) =>
      app.app.db.prepared.all(`SELECT * FROM ${table} ORDER BY 1`),
    );
    const acts = app.app.db.prepared.all("SELECT endpoint FROM audit WHERE endpoint LIKE 'team.%'");
    return JSON.stringify(await Promise.all([...tables, acts]));
  };

  it('makes no administrator, changes no role, creates no set-up link and removes no member without the password', async () => {
    const before = await state();
    for (const [where, fields] of forms()) {
      const missing = await thief.submit(where, fields);
      assert.equal(missing.status, 400, where);
      assert.match(missing.html, /Enter your current password as well/);
      assert.doesNotMatch(missing.html, /\/setup\//);
      const wrong = await thief.submit(where, { ...fields, password_now: 'not it, sorry' });
      assert.equal(wrong.status, 400, where);
      assert.match(wrong.html, /The current password is wrong/);
      app.clock.advance(60_000);
    }
    assert.equal(await state(), before);
  });

  it('guesses ten times at the password through the forms of the team, and then not even the right one opens them', async () => {
    const before = await state();
    let looked = 0;
    for (let n = 0; n < 25; n++) {
      const [where = '', fields] = forms()[n % 5] ?? [];
      const seen = await thief.submit(where, { ...fields, password_now: `guess ${String(n)}` });
      if (seen.html.includes('The current password is wrong')) looked++;
      else assert.match(seen.html, /Too many tries/);
      app.clock.advance(10_000);
    }
    assert.ok(looked <= 10, String(looked));
    const right = await thief.submit(`/team/${own}/link`, { password_now: PASSWORD });
    assert.equal(right.status, 429);
    assert.equal(await state(), before);
  });

  it('shows a form that was refused as it was filled in, but for the password', async () => {
    const added = await thief.submit('/team', {
      email: 'eve@evil.test',
      role: 'administrator',
      password_now: 'not it, sorry',
    });
    assert.match(added.html, /value="eve@evil\.test"/);
    assert.match(added.html, /value="administrator" checked/);
    const changed = await thief.submit(`/team/${bo}`, { role: 'administrator' });
    assert.match(changed.html, /value="administrator" checked/);
    const removed = await thief.submit(`/team/${bo}/remove`);
    assert.ok(removed.html.includes(`action="/team/${bo}"`), 'the form above it goes where it went');
    assert.match(removed.html, /<details class="danger" open>/);
    assert.doesNotMatch(added.html + changed.html + removed.html, /not it, sorry/);
  });

  it('opens nothing any more once the owner has given the password, for a new one or for something else', async () => {
    const changed = { password_now: PASSWORD, password: `${PASSWORD}!`, password_again: `${PASSWORD}!` };
    for (const [where, fields] of [
      ['/developer/keys/new', { name: 'shop', mode: 'live', preset: 'send', password_now: PASSWORD }],
      ['/profile/password', changed],
    ] as const) {
      const copy = owner.at(app.url);
      assert.equal((await copy.open('/team')).at, '/team');
      await owner.open(where === '/profile/password' ? '/profile' : where);
      assert.equal((await owner.submit(where, fields)).status, 200);
      assert.match((await copy.open('/team')).at, /^\/login/, where);
    }
    const { html } = await owner.open('/profile');
    assert.match(html, /API keys you made lately[\s\S]*<a href="\/developer\/keys\/key_\w+">shop<\/a>/);
    const copy = owner.at(app.url);
    await owner.open('/login');
    await owner.submit('/login', { email: 'ana@example.net', password: `${PASSWORD}!` });
    assert.equal((await owner.open('/team')).status, 200);
    assert.match((await copy.open('/team')).at, /^\/login/, 'a new sign-in in the same browser');
  });

  it('makes and shows no secret that outlives it', async () => {
    const { body: hook } = await app.request<{ id: string }>('POST', '/v1/webhooks', {
      url: 'https://hooks.acme.test/',
      events: ['bounced'],
    });
    const made = async (): Promise<string> =>
      JSON.stringify([
        await app.app.db.prepared.all('SELECT id, revoked_at FROM api_keys'),
        await app.app.db.prepared.all('SELECT id, secrets_sealed FROM webhooks'),
      ]);
    const before = await made();
    for (const [where, fields] of [
      ['/developer/keys/new', { name: 'mine', mode: 'live', preset: 'all' }],
      [`/developer/keys/${app.keyId}/replace`, { hours: '0' }],
      ['/webhooks/new', { url: 'https://evil.test/', events: 'bounced' }],
      [`/webhooks/${hook.id}/rotate`, {}],
      [`/webhooks/${hook.id}/secret`, {}],
    ] as const) {
      const refused = await thief.submit(where, fields);
      assert.equal(refused.status, 400, where);
      assert.match(refused.html, /Enter your current password as well/);
      assert.doesNotMatch(refused.html, /whsec_|ak_live_\w{20}/);
    }
    assert.equal(await made(), before);
  });

  it('does all of it with the password', async () => {
    for (const [where, fields] of forms()) {
      const { status } = await thief.submit(where, { ...fields, password_now: PASSWORD });
      assert.equal(status, 200, where);
    }
    const rows = await app.app.db.prepared.all<{ email: string }>('SELECT email FROM members ORDER BY email');
    assert.deepEqual(rows, [{ email: 'ana@example.net' }, { email: 'eve@evil.test' }]);
  });
});
