/** Getting into the dashboard, and everything that must not get in. */
import assert from 'node:assert/strict';
import { codeAt, stepOf } from '../../src/members/totp.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { Browser, PASSWORD, secretIn, signedIn } from '../support/harness/browser.ts';

const EMAIL = 'ana@example.net';

describe('dashboard: set-up and sign-in', () => {
  let app: TestApp;
  beforeEach(async () => {
    app = await startTestApp();
  });
  afterEach(() => app.stop());

  const signIn = async (fields: Record<string, string> = {}, browser = new Browser(app.url)): Promise<Browser> => {
    await browser.open('/login');
    await browser.submit('/login', { email: EMAIL, password: PASSWORD, ...fields });
    return browser;
  };

  it('leads from the set-up link to the first steps, once', async () => {
    const link = await app.operator.call('admin.reset', {});
    assert.equal(link.email, null);
    const where = new URL(link.url).pathname;
    const browser = new Browser(app.url);
    assert.match((await browser.open(where)).html, /Create the administrator/);

    const short = await browser.submit(where, { email: EMAIL, password: 'short', password_again: 'short' });
    assert.equal(short.status, 400);
    assert.match(short.html, /at least 12 characters/);
    const unlike = await browser.submit(where, { email: EMAIL, password: PASSWORD, password_again: `${PASSWORD}!` });
    assert.match(unlike.html, /not the same/);

    const seen = await browser.submit(where, { email: EMAIL, password: PASSWORD, password_again: PASSWORD });
    assert.equal(seen.at, '/welcome');
    assert.match(seen.html, /First steps/);
    assert.equal((await new Browser(app.url).open(where)).status, 404, 'the link is used up');
  });

  it('lets a member without an account sign out', async () => {
    await signedIn(app.url, app.operator);
    const made = await app.operator.call('team.add', { email: 'bo@example.net', role: 'developer', accounts: [] });
    const { pathname } = new URL(made.url ?? '');
    const browser = new Browser(app.url);
    await browser.open(pathname);
    const seen = await browser.submit(pathname, { password: PASSWORD, password_again: PASSWORD });
    assert.match(seen.html, /You are not a member of any account yet/);
    assert.match(seen.html, /action="\/logout"/);
    assert.equal((await browser.submit('/logout')).at, '/login');
    assert.match(browser.last.html, /You are signed out/);
    const sessions = await app.app.db.prepared.all(
      "SELECT 1 FROM sessions s JOIN members m ON m.id = s.member_id WHERE m.email = 'bo@example.net'",
    );
    assert.deepEqual(sessions, []);
  });

  it('refuses the address of a member who is in the team already, and keeps the link', async () => {
    await app.operator.call('team.add', { email: EMAIL, role: 'developer', accounts: ['default'] });
    const where = new URL((await app.operator.call('admin.reset', {})).url).pathname;
    const browser = new Browser(app.url);
    await browser.open(where);
    const password = { password: PASSWORD, password_again: PASSWORD };
    const refused = await browser.submit(where, { email: EMAIL, ...password });
    assert.equal(refused.status, 409);
    assert.match(refused.html, /ana@example\.net is in the team already/);
    assert.equal((await browser.submit(where, { email: 'bo@example.net', ...password })).at, '/welcome');
  });

  it('ends a link after 30 minutes, and when a newer one is made', async () => {
    const first = new URL((await app.operator.call('admin.reset', {})).url).pathname;
    const second = new URL((await app.operator.call('admin.reset', {})).url).pathname;
    assert.equal((await new Browser(app.url).open(first)).status, 404);
    assert.equal((await new Browser(app.url).open(second)).status, 200);
    app.clock.advance(30 * 60_000);
    assert.equal((await new Browser(app.url).open(second)).status, 404);
  });

  it('gives a link at each start until there is an administrator', async () => {
    assert.match((await app.app.setUpLink())?.url ?? '', /\/setup\//);
    await signedIn(app.url, app.operator);
    assert.equal(await app.app.setUpLink(), null);
  });

  it('makes a second administrator, who sets a password through a link', async () => {
    await signedIn(app.url, app.operator);
    const link = new URL((await app.operator.call('admin.create', { email: 'bo@example.net' })).url).pathname;
    const browser = new Browser(app.url);
    assert.match((await browser.open(link)).html, /bo@example\.net/);
    assert.equal((await browser.submit(link, { password: PASSWORD, password_again: PASSWORD })).at, '/');
    await assert.rejects(app.operator.call('admin.create', { email: 'BO@example.net' }), { code: 'already_exists' });
    await assert.rejects(app.operator.call('admin.reset', {}), /ana@example\.net, bo@example\.net/);
    await assert.rejects(app.operator.call('admin.reset', { email: 'x@example.net' }), { code: 'not_found' });
  });

  it('lets nobody in without a session, and leads back to the page that was asked for', async () => {
    const browser = await signedIn(app.url, app.operator);
    await browser.submit('/logout');
    for (const where of ['/', '/messages', '/developer/keys', '/queue', '/no-such-page-of-ours']) {
      const response = await browser.ask('GET', where);
      await response.arrayBuffer();
      assert.ok([303, 401, 404].includes(response.status), `${where}: ${String(response.status)}`);
    }
    await browser.open('/developer/keys?range=7d');
    assert.equal(browser.last.at, '/login?next=%2Fdeveloper%2Fkeys%3Frange%3D7d');
    await browser.submit('/login', { email: EMAIL, password: PASSWORD, next: browser.field('next') });
    assert.equal(browser.last.at, '/developer/keys?range=7d');
  });

  it('never redirects out of the house', async () => {
    await signedIn(app.url, app.operator);
    for (const next of ['//evil.test', 'https://evil.test', '/\\evil.test', 'javascript:alert(1)']) {
      const browser = new Browser(app.url);
      await browser.open(`/login?next=${encodeURIComponent(next)}`);
      await browser.submit('/login', { email: EMAIL, password: PASSWORD, next });
      assert.equal(browser.last.at, '/', next);
    }
  });

  it('says the same about a wrong password and an unknown address', async () => {
    await signedIn(app.url, app.operator);
    const wrong = await signIn({ password: 'not the password' });
    const unknown = await signIn({ email: 'nobody@example.net' });
    assert.equal(wrong.last.status, 401);
    const faultOf = (browser: Browser): string => /role="alert">([^<]*)/.exec(browser.last.html)?.[1] ?? '';
    assert.equal(faultOf(wrong), 'Wrong e-mail address or password.');
    assert.equal(faultOf(unknown), faultOf(wrong));
  });

  it('slows wrong passwords down and then locks for 15 minutes, also with the right one', async () => {
    await signedIn(app.url, app.operator);
    for (let n = 0; n < 3; n++) await signIn({ password: `wrong password ${String(n)}` });
    assert.match((await signIn()).last.html, /Too many tries. Wait 1 seconds/);
    for (let n = 3; n < 10; n++) {
      app.clock.advance(1000 * 2 ** (n - 3));
      assert.match((await signIn({ password: 'wrong password' })).last.html, /Wrong e-mail address or password/);
    }
    app.clock.advance(5 * 60_000);
    assert.match((await signIn()).last.html, /Too many tries. Wait \d+ minutes/);
    app.clock.advance(11 * 60_000);
    assert.equal((await signIn()).last.at, '/');
  });

  it('locks nobody out for what was typed before the clock was set back', async () => {
    await signedIn(app.url, app.operator);
    for (let n = 0; n < 3; n++) await signIn({ password: `wrong password ${String(n)}` });
    assert.match((await signIn()).last.html, /Too many tries/);
    app.clock.jump(-2 * 24 * 3_600_000);
    assert.equal((await signIn()).last.at, '/');
    for (let n = 0; n < 3; n++) await signIn({ password: `wrong password ${String(n)}` });
    assert.match((await signIn()).last.html, /Too many tries/);
  });

  it('does the same for an address that nobody has', async () => {
    for (let n = 0; n < 3; n++) await signIn({ email: 'nobody@example.net', password: `wrong password ${String(n)}` });
    assert.match((await signIn({ email: 'nobody@example.net' })).last.html, /Too many tries/);
  });

  it('gives a new cookie at sign-in: one that was planted before opens nothing', async () => {
    await signedIn(app.url, app.operator);
    const planted = 'A'.repeat(43);
    const browser = new Browser(app.url);
    browser.cookies.set('posthorn_session', planted);
    await signIn({}, browser);
    assert.equal(browser.last.at, '/');
    assert.notEqual(browser.cookies.get('posthorn_session'), planted);
    const other = new Browser(app.url);
    other.cookies.set('posthorn_session', planted);
    assert.match((await other.open('/')).at, /^\/login/);
  });

  it('ends a session at sign-out, after 12 idle hours, and with a new password', async () => {
    const browser = await signedIn(app.url, app.operator);
    app.clock.advance(11 * 3_600_000);
    assert.equal((await browser.open('/')).at, '/');
    app.clock.advance(11 * 3_600_000);
    assert.equal((await browser.open('/profile')).at, '/profile', 'each request begins the 12 hours anew');
    const again = { ...Object.fromEntries(browser.cookies) };
    app.clock.advance(12 * 3_600_000);
    assert.match((await browser.open('/')).at, /^\/login/);

    const fresh = await signIn();
    const kept = new Map(fresh.cookies);
    await fresh.submit('/logout');
    const thief = new Browser(app.url);
    for (const [name, value] of kept) thief.cookies.set(name, value);
    assert.match((await thief.open('/')).at, /^\/login/, 'the cookie of a session that was ended');
    assert.ok(again['posthorn_session']);

    const [one, two] = [await signIn(), await signIn()];
    await one.open('/profile');
    const other = 'another long password here';
    await one.submit('/profile/password', { password_now: 'not it, sorry', password: other, password_again: other });
    assert.equal(one.last.status, 400);
    await one.open('/profile');
    await one.submit('/profile/password', { password_now: PASSWORD, password: other, password_again: other });
    assert.equal(one.last.at, '/profile');
    assert.match((await two.open('/')).at, /^\/login/);
    assert.equal((await signIn({ password: other })).last.at, '/');
  });

  it('asks for a code of the second factor, each good once', async () => {
    const browser = await signedIn(app.url, app.operator);
    await browser.open('/profile/second-factor');
    const secret = secretIn(browser.last.html);
    assert.match(browser.last.html, /<img src="data:image\/svg\+xml,[^"]+" alt="QR code of the key below"/);
    const offer = browser.field('offer');
    const wrong = await browser.submit('/profile/second-factor', { offer, code: '000000', password_now: PASSWORD });
    assert.match(wrong.html, /This code is wrong/);
    assert.deepEqual(secretIn(wrong.html), secret, 'the app keeps its secret');
    const code = (): string => codeAt(secret, stepOf(app.clock.now()));
    await browser.submit('/profile/second-factor', {
      offer: browser.field('offer'),
      code: code(),
      password_now: PASSWORD,
    });
    assert.match(browser.last.html, /The second factor is on: signing in asks/);

    app.clock.advance(30_000);
    const next = await signIn();
    assert.match(next.last.at, /^\/login\/code/);
    assert.match((await next.open('/profile')).at, /^\/login\?/, 'half a sign-in opens no page');
    await next.open('/login/code');
    await next.submit('/login/code', { code: '123456' });
    assert.equal(next.last.status, 401);
    const good = code();
    await next.submit('/login/code', { code: good });
    assert.equal(next.last.at, '/');

    const replay = await signIn();
    await replay.submit('/login/code', { code: good });
    assert.equal(replay.last.status, 401, 'a code that was used');

    const link = new URL((await app.operator.call('admin.reset', {})).url).pathname;
    const reset = new Browser(app.url);
    await reset.open(link);
    await reset.submit(link, { password: PASSWORD, password_again: PASSWORD });
    assert.equal((await signIn()).last.at, '/', 'the link takes the second factor away');
  });

  it('gives ten recovery codes with the second factor, each good once, and new ones for the password', async () => {
    const browser = await signedIn(app.url, app.operator);
    const elsewhere = await signIn();
    await browser.open('/profile/second-factor');
    const secret = secretIn(browser.last.html);
    const on = (fields: Record<string, string>) =>
      browser.submit('/profile/second-factor', {
        offer: browser.field('offer'),
        code: codeAt(secret, stepOf(app.clock.now())),
        ...fields,
      });
    assert.match((await on({})).html, /Enter your current password as well/, 'a stolen session cannot switch it on');
    assert.deepEqual(secretIn(browser.last.html), secret);
    const shown = await on({ password_now: PASSWORD });
    const codesIn = (html: string): string[] =>
      [...html.matchAll(/<li><code>([A-Z2-7-]{19})<\/code>/g)].map(([, code = '']) => code);
    const codes = codesIn(shown.html);
    assert.equal(new Set(codes).size, 10);
    assert.match(decodeURIComponent(/href="data:([^"]*)"/.exec(shown.html)?.[1] ?? ''), new RegExp(codes[9] ?? ''));
    assert.match((await elsewhere.open('/')).at, /^\/login/, 'other sessions end with a factor');
    assert.ok(!(await browser.open('/profile')).html.includes(codes[0] ?? '-'), 'shown once');
    assert.match(browser.last.html, /10 of 10 are left/);

    const halfway = async (): Promise<Browser> => {
      const half = await signIn();
      await half.open('/login/code');
      return half;
    };
    const lost = await halfway();
    await lost.submit('/login/code', { recovery_code: (codes[0] ?? '').toLowerCase() });
    assert.equal(lost.last.at, '/');
    assert.match(lost.last.html, /9 recovery codes are left/);
    assert.match((await lost.open('/profile')).html, /signed in with a recovery code/);
    const again = await halfway();
    await again.submit('/login/code', { recovery_code: codes[0] ?? '' });
    assert.equal(again.last.status, 401);
    assert.match(again.last.html, /<details open>/, 'the field stays open');

    await lost.submit('/profile/recovery-codes', { password_now: 'not it, sorry' });
    assert.equal(lost.last.status, 400);
    await lost.open('/profile');
    const renewed = codesIn((await lost.submit('/profile/recovery-codes', { password_now: PASSWORD })).html);
    assert.equal(renewed.length, 10);
    assert.ok(!renewed.includes(codes[1] ?? '-'));
    const old = await halfway();
    await old.submit('/login/code', { recovery_code: codes[1] ?? '' });
    assert.equal(old.last.status, 401, 'the codes before are over');

    await lost.open('/profile');
    await lost.submit('/profile/second-factor/off', { password_now: PASSWORD });
    assert.match(lost.last.html, /The second factor is off/);
    const { body } = await app.get<{ data: { endpoint: string }[] }>('/v1/audit?method=DASHBOARD');
    const acts = body.data.map(({ endpoint }) => endpoint).filter((one) => one.startsWith('profile.'));
    assert.deepEqual(acts.toReversed(), [
      'profile.second-factor.on',
      'profile.recovery-codes',
      'profile.second-factor.off',
    ]);
    assert.equal((await signIn()).last.at, '/');
  });

  it('limits guesses at the password through the forms of a stolen session', async () => {
    const browser = await signedIn(app.url, app.operator);
    let looked = 0;
    for (let n = 0; n < 25; n++) {
      await browser.open('/profile');
      const seen = await browser.submit('/profile/password', {
        password_now: `guess ${String(n)}`,
        password: `new password ${String(n)} zebra`,
        password_again: `new password ${String(n)} zebra`,
      });
      if (seen.html.includes('The current password is wrong')) looked++;
      else assert.match(seen.html, /Too many tries/);
      app.clock.advance(10_000);
    }
    assert.ok(looked <= 10, String(looked));
    await browser.open('/profile');
    assert.match(
      (
        await browser.submit('/profile/password', {
          password_now: PASSWORD,
          password: 'zebra lamp twelve owl',
          password_again: 'zebra lamp twelve owl',
        })
      ).html,
      /Too many tries/,
    );
    assert.equal((await signIn()).last.at, '/', 'the owner signs in');
  });

  it('refuses common passwords and those made of the login or the host', async () => {
    const where = new URL((await app.operator.call('admin.reset', {})).url).pathname;
    const browser = new Browser(app.url);
    for (const password of ['123456789012', 'password1234', 'qwertyuiop12', EMAIL, 'posthorn2026!']) {
      await browser.open(where);
      const seen = await browser.submit(where, { email: EMAIL, password, password_again: password });
      assert.equal(seen.status, 400, password);
      assert.match(seen.html, /among the first that are guessed/);
    }
  });

  it('leads back to no other site from a page that tells of a mistake', async () => {
    const host = new URL(app.url).host;
    for (const [referer, back] of [
      [`http://${host}//evil.test/x`, '/'],
      [`http://${host}/\\evil.test`, '/'],
      ['http://evil.test/profile', '/'],
      [`http://${host}/profile?a=1`, '/profile?a=1'],
    ] as const) {
      const response = await fetch(`${app.url}/no-such-page`, { headers: { referer, accept: 'text/html' } });
      const { 1: href } = /class="button" href="([^"]*)">Go back/.exec(await response.text()) ?? [];
      assert.equal(href?.replaceAll('&#x3D;', '='), back, referer);
    }
  });

  it('refuses forms without their token, of another session, of another site', async () => {
    const browser = await signedIn(app.url, app.operator);
    await browser.open('/profile');
    const token = browser.token();
    const stranger = await signIn();
    const sends: [string, Browser, Record<string, string>, Record<string, string>][] = [
      ['no token', browser, {}, {}],
      ['a wrong one', browser, { _token: 'x'.repeat(43) }, {}],
      ['one of another session', stranger, { _token: token }, {}],
      ['another site', browser, { _token: token }, { 'sec-fetch-site': 'cross-site' }],
      ['a subdomain', browser, { _token: token }, { 'sec-fetch-site': 'same-site' }],
      ['another site, in an old browser', browser, { _token: token }, { origin: 'https://evil.test' }],
      ['a frame without an origin', browser, { _token: token }, { origin: 'null' }],
    ];
    for (const [what, who, fields, headers] of sends) {
      const response = await who.ask('POST', '/logout', { fields, headers });
      assert.equal(response.status, 400, what);
      assert.match(await response.text(), /earlier sign-in/, what);
    }
    const json = await fetch(`${app.url}/logout`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        cookie: `posthorn_session=${browser.cookies.get('posthorn_session') ?? ''}`,
      },
      body: JSON.stringify({ _token: token }),
    });
    assert.equal(json.status, 404, 'not a form');
    await json.text();
    assert.equal((await browser.open('/profile')).status, 200, 'still signed in');
  });

  it('takes a form of an old browser that names this host as its origin', async () => {
    const browser = await signedIn(app.url, app.operator);
    await browser.open('/profile');
    const fields = { _token: browser.token() };
    const response = await browser.ask('POST', '/logout', { fields, headers: { origin: new URL(app.url).origin } });
    assert.equal(response.status, 303);
    await response.arrayBuffer();
  });

  it('leaves what a program asks for to the API, which answers in JSON', async () => {
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    for (const [method, where, headers] of [
      ['POST', '/messages', { 'content-type': 'application/json' }],
      ['POST', '/messages', form],
      ['POST', '/', {}],
      ['DELETE', '/messages/msg_x', {}],
      ['PUT', '/domains', form],
      ['GET', '/templates?count=10', { accept: 'application/json' }],
    ] as const) {
      const answer = await fetch(app.url + where, { method, headers, redirect: 'manual' });
      const { error } = (await answer.json()) as { error: { code: string; message: string } };
      assert.deepEqual([answer.status, error.code], [404, 'not_found'], `${method} ${where}`);
      assert.match(error.message, /begin with \/v1\/\.$/);
    }
  });

  it('takes no form larger than its limit', async () => {
    const browser = await signedIn(app.url, app.operator);
    const response = await browser.ask('POST', '/logout', {
      fields: { _token: browser.token(), x: 'x'.repeat(3 * 2 ** 20) },
    });
    assert.equal(response.status, 413);
    await response.arrayBuffer();
  });

  it('sends the headers that keep a page from being framed, sniffed or fed with scripts', async () => {
    const browser = await signedIn(app.url, app.operator);
    for (const where of ['/', '/login', '/developer/keys', '/developer/keys/key_none']) {
      const { headers } = await browser.open(where);
      const csp = headers.get('content-security-policy') ?? '';
      assert.match(csp, /default-src 'none'/);
      assert.doesNotMatch(csp, /unsafe|https?:|\*/);
      assert.match(csp, /frame-ancestors 'none'/);
      assert.equal(headers.get('x-frame-options'), 'DENY');
      assert.equal(headers.get('x-content-type-options'), 'nosniff');
      assert.equal(headers.get('cache-control'), 'no-store');
      assert.equal(headers.get('referrer-policy'), 'same-origin');
    }
    const response = await browser.ask('GET', '/login');
    await response.arrayBuffer();
    const login = new Browser(app.url);
    await login.open('/login');
    const set = await login.ask('POST', '/login', {
      fields: { _token: login.token(), email: EMAIL, password: PASSWORD },
    });
    const cookie = set.headers.getSetCookie().find((one) => one.startsWith('posthorn_session='));
    assert.match(cookie ?? '', /path=\/; samesite=lax; httponly$/);
    assert.doesNotMatch(cookie ?? '', /Max-Age|Expires/);
  });
});

describe('dashboard: cookies behind TLS', () => {
  it('are Secure and bound to the host', async () => {
    const app = await startTestApp({ settings: { http: { publicUrl: 'https://mail.example.net' } } });
    try {
      const browser = await signedIn(app.url, app.operator);
      assert.ok(browser.cookies.has('__Host-posthorn_session'));
      const bare = await fetch(`${app.url}/login`, {
        method: 'POST',
        headers: { origin: 'http://192.0.2.7:8025', 'content-type': 'application/x-www-form-urlencoded' },
        body: '_token=x',
      });
      // A browser keeps no Secure cookie of a page that came without TLS.
      assert.match(await bare.text(), /Open the dashboard at https:\/\/mail\.example\.net instead/);
      const login = new Browser(app.url);
      await login.open('/login');
      const set = await login.ask('POST', '/login', {
        fields: { _token: login.token(), email: EMAIL, password: PASSWORD },
      });
      assert.match(
        set.headers.getSetCookie().join(),
        /__Host-posthorn_session=[^;]+; path=\/; samesite=lax; secure; httponly/,
      );
      assert.match(
        set.headers.getSetCookie().join(),
        /__Host-posthorn_device=[^;]+; path=\/; expires=[^;]+ GMT; samesite=lax; secure; httponly/,
      );
      for (const where of ['/login', '/v1/messages', '/assets/nothing', '/nowhere']) {
        const { headers } = await fetch(`${app.url}${where}`, { headers: { accept: 'text/html' } });
        assert.equal(headers.get('strict-transport-security'), 'max-age=31536000', where);
      }
      const tracked = await fetch(`${app.url}/t/u/x`);
      assert.equal(tracked.headers.get('strict-transport-security'), null, 'tracking hosts are names of customers');
    } finally {
      await app.stop();
    }
  });
});

describe('dashboard: behind a proxy that ends TLS', () => {
  it('tells browsers to come over TLS alone, where the proxy is trusted', async () => {
    const app = await startTestApp({ settings: { http: { trustedProxies: ['127.0.0.1'] } } });
    try {
      const hsts = async (headers: Record<string, string>): Promise<string | null> =>
        (await fetch(`${app.url}/login`, { headers })).headers.get('strict-transport-security');
      assert.equal(await hsts({ 'x-forwarded-proto': 'https' }), 'max-age=31536000');
      assert.equal(await hsts({}), null);
    } finally {
      await app.stop();
    }
    const open = await startTestApp();
    try {
      const { headers } = await fetch(`${open.url}/login`, { headers: { 'x-forwarded-proto': 'https' } });
      assert.equal(headers.get('strict-transport-security'), null, 'a stranger’s word');
    } finally {
      await open.stop();
    }
  });
});

describe('dashboard: on a port of its own', () => {
  it('serves pages there and leaves the API alone', async () => {
    const probe = await startTestApp();
    const free = Number(new URL(probe.url).port);
    await probe.stop();
    // On 127.0.0.1 another program could take the port meanwhile: connections leave from there.
    const host = '127.0.0.77';
    const app = await startTestApp({ settings: { http: { host, port: 0 }, dashboard: { port: free } } });
    try {
      const own = `http://${host}:${String(free)}`;
      const browser = await signedIn(own, app.operator);
      assert.equal((await browser.open('/')).status, 200);
      assert.equal((await app.get('/login', { key: null })).status, 404);
      const answer = await fetch(`${own}/messages`, { method: 'POST', body: '{}' });
      assert.deepEqual([answer.status, answer.headers.get('content-type')], [404, 'application/json; charset=utf-8']);
    } finally {
      await app.stop();
    }
  });
});
