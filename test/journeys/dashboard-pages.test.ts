/** Every page of the dashboard on an account with something in it: it answers, is well formed, and says what it should. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { backupName } from '../../src/backup/manifest.ts';
import { isOnPostgres } from '../support/harness/postgres.ts';
import { catalogue } from '../../src/base/problem.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { Browser, PASSWORD, signedIn } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';

const PAGES = [
  '/',
  '/?range=7d',
  '/welcome',
  '/messages',
  '/messages?status=delivered',
  '/messages?q=ana%40simulator.posthorn.test',
  '/messages?q=tag%3Ax',
  '/messages?q=Welcome&range=7d',
  '/events',
  '/events?type=deferred',
  '/stats',
  '/stats?range=24h&by=tag&test=true',
  '/templates',
  '/templates/new',
  '/suppressions',
  '/suppressions?reason=complaint',
  '/suppressions?q=nobody%40example.net',
  '/domains',
  '/streams',
  '/developer/keys',
  '/developer/keys/new',
  '/developer/keys/new?preset=app',
  '/developer/log',
  '/developer/log?status=202&range=7d',
  '/developer/actions',
  '/developer/api',
  '/reputation',
  '/reputation?range=7d&provider=google',
  '/settings/changelog',
  '/stats?tz=Europe%2FBerlin',
  '/stats?tz=Nowhere',
  '/settings',
  '/profile',
  '/profile/second-factor',
  '/queue',
  '/queue?domain=dest.test',
  '/doctor',
  '/team',
  '/accounts',
  '/webhooks',
  '/webhooks/new',
];

describe('dashboard: pages', () => {
  let app: TestApp;
  let browser: Browser;
  before(async () => {
    app = await startTestApp();
    browser = await signedIn(app.url, app.operator);
  });
  after(() => app.stop());

  for (const where of PAGES) {
    it(`${where} is there and well formed, also when nothing is`, async () => {
      const { status, html, headers } = await browser.open(where);
      assert.equal(status, 200, html);
      assert.match(headers.get('content-type') ?? '', /^text\/html; charset=utf-8/);
      assert.deepEqual(htmlFaults(html), []);
    });
  }

  it('says on each list with nothing in it what to do next', async () => {
    const lists = ['messages', 'events', 'stats', 'templates', 'suppressions', 'webhooks', 'queue'];
    const more = ['suppressions?q=nobody%40example.net', 'developer/log', 'developer/log?of=unknown', 'reputation'];
    for (const where of [...lists, ...more]) {
      const { html } = await browser.open(`/${where}`);
      const empty = [...html.matchAll(/<p class="empty"[^>]*>([^]*?)<\/p>/g)].map(([, text = '']) => text);
      assert.ok(empty.length > 0, where);
      assert.ok(empty[0]?.includes('<a href="/'), `${where}: ${empty[0] ?? ''}`);
    }
  });

  it('has a place for each error code, which links lead to', async () => {
    const { html } = await browser.open('/developer/api');
    for (const code of Object.keys(catalogue)) {
      assert.ok(html.includes(`<tr id="code-${code}">`), code);
      assert.ok(html.includes(`href="#code-${code}"`), code);
    }
  });

  it('shows the API with a viewer that loads nothing from elsewhere, over the document that the API serves', async () => {
    const page = await browser.ask('GET', '/developer/api/reference');
    const csp = page.headers.get('content-security-policy') ?? '';
    assert.match(csp, /default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';/);
    assert.doesNotMatch(csp, /https?:|\*|unsafe-eval/);
    const html = await page.text();
    assert.doesNotMatch(html, /<script(?![^>]* src="\/assets\/)|<style|\son[a-z]+=|https?:/i);
    for (const [, url = ''] of html.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g))
      assert.equal((await browser.ask('GET', url)).status, 200, url);
    const document = await (await browser.ask('GET', '/developer/api/openapi.json')).json();
    assert.deepEqual(document, await (await fetch(`${app.url}/v1/openapi.json`)).json());
  });

  it('has no inline script or style anywhere', async () => {
    for (const where of PAGES) {
      const { html } = await browser.open(where);
      assert.doesNotMatch(html, /<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=|javascript:/i, where);
    }
  });

  it('serves style sheet and script to be kept', async () => {
    const { html } = await browser.open('/');
    for (const [, url = ''] of html.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)) {
      const response = await browser.ask('GET', url);
      assert.equal(response.status, 200, url);
      assert.match(response.headers.get('cache-control') ?? '', /immutable/);
      await response.arrayBuffer();
    }
    const script = /src="(\/assets\/app[^"]+)"/.exec(html)?.[1] ?? '';
    const response = await browser.ask('GET', script);
    assert.ok((await response.text()).length < 16_000);
  });

  it('says where nothing is, and what it does not know of', async () => {
    for (const where of [
      '/messages/msg_01jz5w8q3hf2m9d4x6k7c1b0na',
      '/developer/keys/key_none',
      '/domains/none.test',
      '/templates/none',
      '/team/mem_none',
      '/messages/x/y/z',
    ]) {
      assert.equal((await browser.open(where)).status, 404, where);
      assert.match(browser.last.html, /Not found/);
    }
    assert.equal((await browser.open('/messages?after=broken')).status, 400);
    assert.equal((await browser.open('/developer/log?status=abc')).status, 400);
  });

  it('shows the theme that was chosen', async () => {
    await browser.open('/');
    assert.match((await browser.submit('/theme', { theme: 'dark', back: '/messages' })).html, /data-theme="dark"/);
    assert.equal(browser.last.at, '/messages');
    assert.match((await browser.submit('/theme', { theme: 'auto', back: '//evil.test' })).html, /data-theme="auto"/);
    assert.equal(browser.last.at, '/');
  });

  describe('with mail', () => {
    let delivered: string;
    before(async () => {
      const sent = await app.send({
        from: 'Acme <hi@simulator.posthorn.test>',
        to: 'delivered@simulator.posthorn.test',
        subject: 'Welcome <b>Ana</b>',
        tags: ['x'],
        metadata: { order: '17' },
        html: '<h1>Hi</h1><script>alert(1)</script><img src="https://evil.test/x.png">',
        text: 'Hi there',
      });
      delivered = sent.id;
      await app.send({ from: 'hi@simulator.posthorn.test', to: 'bounced@simulator.posthorn.test' });
      await app.send({ to: 'later@dest.test', send_at: new Date(app.clock.now() + 3_600_000).toISOString() });
      await app.settled();
    });

    it('lists it, finds it, and shows what happened', async () => {
      const all = await browser.open('/messages');
      assert.match(all.html, /delivered@simulator/);
      assert.match(all.html, /Welcome &lt;b&gt;Ana&lt;\/b&gt;/);
      const bounced = await browser.open('/messages?status=bounced');
      assert.match(bounced.html, /bounced@simulator/);
      assert.doesNotMatch(bounced.html, /delivered@simulator/);
      assert.match((await browser.open(`/messages?q=${delivered}`)).at, new RegExp(`/messages/${delivered}`));
      assert.match((await browser.open('/messages?q=Welc')).html, /delivered@simulator/);
      assert.match((await browser.open('/messages?q=tag%3Ax')).html, /delivered@simulator/);
      const page = await browser.open(`/messages/${delivered}`);
      assert.deepEqual(htmlFaults(page.html), []);
      for (const what of ['delivered</span> at ', 'accepted', 'order', '17', 'Message-ID'])
        assert.ok(page.html.includes(what), what);
      assert.match((await browser.open(`/messages/${delivered}?part=text`)).html, /Hi there/);
      const source = await browser.open(`/messages/${delivered}?part=source`);
      assert.match(source.html, /MIME-Version|no source/i);
      assert.deepEqual(htmlFaults(source.html), []);
    });

    it('shows when settings were changed beside what became of the mail', async () => {
      assert.match((await browser.open('/reputation')).html, /Events that may explain a change/);
      await browser.open('/settings');
      await browser.submit('/settings', { track_opens: '1' });
      const { html } = await browser.open('/reputation');
      assert.match(
        html,
        /<td><span class="badge">changed<\/span><td class="value">changed the settings of the account<td class="clip" title="ana@example\.net">ana@example\.net/,
      );
      assert.match(html, /No list was checked/);
      assert.deepEqual(htmlFaults(html), []);
    });

    it('says how the backups stand', async () => {
      const before = (await browser.open('/settings')).html;
      // Those of PostgreSQL are its own.
      if (isOnPostgres) {
        assert.doesNotMatch(before, /<h2>Backup/);
        return;
      }
      assert.match(before, /There is no backup yet/);
      const name = backupName('posthorn', app.clock.now() - 7_200_000);
      const dir = path.join(app.folder, 'backups', name);
      mkdirSync(dir, { recursive: true });
      writeFileSync(path.join(dir, 'posthorn.db'), 'x'.repeat(3 * 2 ** 20));
      const { html } = await browser.open('/settings');
      assert.ok(html.includes(`2 h ago</time> <code>${name}`), html);
      assert.match(html, /3\.0 MiB/);
      assert.doesNotMatch(html, /no backup yet|is old/);
      assert.deepEqual(htmlFaults(html), []);
    });

    it('leads to the request it came with: of a program, of a person', async () => {
      const requestIn = (page: string): string => /href="(\/developer\/log\/aud_[^"]+)">req_/.exec(page)?.[1] ?? '';
      const { html } = await browser.open(`/messages/${delivered}`);
      const { html: log } = await browser.open(requestIn(html));
      assert.match(log, /<code>req_/);
      assert.deepEqual(
        [...new Set([...log.matchAll(/href="\/messages\/(msg_[^"]+)"/g)].map(([, id]) => id))],
        [delivered],
      );
      assert.match((await browser.open('/messages?q=req_01jz5w8q3hf2m9d4x6k7c1b0na')).html, /Nothing matches/);
      await browser.open(`/messages/${delivered}`);
      const again = await browser.submit(`/messages/${delivered}/resend`);
      const person = await browser.open(requestIn(again.html));
      assert.match(person.html, /resend/);
      await app.settled();
    });

    it('shows its html in a frame that can do nothing', async () => {
      const { html } = await browser.open(`/messages/${delivered}?part=html`);
      assert.match(html, new RegExp(`<iframe src="/messages/${delivered}/html" sandbox title`));
      const frame = await browser.open(`/messages/${delivered}/html`);
      const csp = frame.headers.get('content-security-policy') ?? '';
      assert.match(csp, /default-src 'none'/);
      assert.match(csp, /sandbox(?:;|$)/);
      assert.match(csp, /img-src data:(?:;|$)/);
      assert.match(frame.html, /<script>alert/, 'the html itself is as it was sent');
    });

    it('cancels what has not been sent, and sends again', async () => {
      const { html } = await browser.open('/messages?status=scheduled');
      const id = /\/messages\/(msg_[0-9a-z]+)/.exec(html)?.[1] ?? '';
      await browser.open(`/messages/${id}`);
      assert.match((await browser.submit(`/messages/${id}/cancel`)).html, /canceled/);
      await browser.open(`/messages/${id}`);
      assert.equal((await browser.submit(`/messages/${id}/cancel`)).status, 409);
      await browser.open(`/messages/${delivered}`);
      const again = await browser.submit(`/messages/${delivered}/resend`);
      assert.match(again.at, /^\/messages\/msg_/);
      assert.notEqual(again.at, `/messages/${delivered}`);
      await app.settled();
      await browser.submit(`${again.at}/erase`);
      assert.match(browser.last.html, /no longer stored/);
      await browser.open('/welcome');
      assert.match((await browser.submit('/welcome/send', { outcome: 'bounced' })).html, /First mail/);
      await app.settled();
    });

    it('pages with filters through the events and the messages', async () => {
      const { html } = await browser.open('/events');
      assert.match(html, /id="live" hx-get="\/events" [^>]*hx-trigger="every 3s"/);
      const copied =
        /data-copy="([^"]+)"/
          .exec(html)?.[1]
          ?.replaceAll('&quot;', '"')
          .replaceAll('&#x3D;', '=')
          .replaceAll('&lt;', '<')
          .replaceAll('&gt;', '>') ?? '';
      const event = JSON.parse(copied) as { id: string; object: string };
      assert.equal(event.object, 'event');
      assert.deepEqual(
        event,
        (await app.get<{ data: { id: string }[] }>('/v1/events?before=end&limit=100')).body.data.find(
          ({ id }) => id === event.id,
        ),
      );
      for (let n = 0; n < 60; n++)
        await app.send({ from: 'hi@simulator.posthorn.test', to: `p${String(n)}@simulator.posthorn.test` });
      await app.settled();
      const seen = new Set<string>();
      let next: string | undefined = '/messages?range=7d&status=delivered';
      let pages = 0;
      while (next !== undefined && pages++ < 10) {
        const page: string = (await browser.open(next)).html;
        assert.equal(browser.last.status, 200, page);
        for (const [, id = ''] of page.matchAll(/<a href="\/messages\/(msg_[0-9a-z]+)"/g)) seen.add(id);
        app.clock.advance(5000);
        next = /rel="next" href="([^"]+)"/.exec(page)?.[1]?.replaceAll('&#x3D;', '=').replaceAll('&amp;', '&');
      }
      assert.equal(pages, 2);
      assert.ok(seen.size >= 60, String(seen.size));
      const newest = (await browser.open('/events')).html;
      const older =
        /rel="next" href="([^"]+)"/.exec(newest)?.[1]?.replaceAll('&#x3D;', '=').replaceAll('&amp;', '&') ?? '';
      const back = await browser.open(older);
      assert.equal(back.status, 200);
      assert.notEqual(/msg_[0-9a-z]+/.exec(back.html)?.[0], /msg_[0-9a-z]+/.exec(newest)?.[0]);
      assert.match(back.html, /rel="prev"/);
    });

    it('says how many messages a search found, and how many are in each state', async () => {
      const { by_status: states, count } = (
        await app.get<{ count: number; by_status: Record<string, number> }>('/v1/messages/count')
      ).body;
      const all = await browser.open('/messages?range=all');
      assert.match(all.html, new RegExp(`>all <small>${String(count)}</small>`));
      for (const [state, number] of Object.entries(states))
        assert.match(all.html, new RegExp(`>${state} <small>${String(number)}</small>`));
      assert.doesNotMatch(all.html, />queued<\/a>/, 'no mail is queued');
      const delivered = await browser.open('/messages?range=all&status=delivered,bounced');
      const both = (states['delivered'] ?? 0) + (states['bounced'] ?? 0);
      assert.match(delivered.html, new RegExp(`>delivered,bounced <small>${String(both)}</small>`));
      assert.match((await browser.open('/messages?q=nobody%40nowhere.test')).html, />all <small>0<\/small>/);
      const refused = await app.get('/v1/messages/count?limit=5');
      assert.equal(refused.status, 400, 'a count has no pages');
    });

    it('counts it on the overview and in the numbers', async () => {
      assert.match((await browser.open('/stats?test=true')).html, /aria-current="true">provider</);
      assert.match(browser.last.html, /<svg class="chart"/);
      assert.deepEqual(htmlFaults(browser.last.html), []);
    });
  });
});

describe('dashboard: naughty strings', () => {
  const naughty = `"><script>alert('x')</script><img src=x onerror=alert(1)>{{7*7}}\u202e&amp;`;

  it('are text wherever they come from', async () => {
    const app = await startTestApp();
    try {
      const browser = await signedIn(app.url, app.operator);
      const { id } = await app.send(
        {
          from: `"Evil ${naughty.replaceAll('"', "'")}" <hi@simulator.posthorn.test>`,
          to: 'delivered@simulator.posthorn.test',
          subject: naughty,
          metadata: { note: naughty },
          text: naughty,
        },
        { headers: { 'user-agent': naughty.replaceAll(/[^\x20-\x7e]/g, '') } },
      );
      await app.settled();
      await browser.open('/developer/keys/new');
      await browser.submit('/developer/keys/new', { name: naughty, mode: 'test', preset: 'send', ttl: 'none' });
      await browser.open('/streams');
      await browser.submit('/streams', { slug: 'evil', name: naughty, type: 'broadcast' });
      await browser.open('/suppressions');
      await browser.submit('/suppressions', { email: 'x@example.net', note: naughty });
      await browser.open('/accounts');
      await browser.submit('/accounts', { name: naughty.slice(0, 50) });
      await browser.open('/templates/new');
      await browser.submit('/templates/new', { name: naughty, subject: 'x', html: naughty });
      const template = browser.last.at;
      const e = encodeURIComponent(naughty);
      const places = [
        '/',
        '/messages',
        `/messages/${id}`,
        `/messages/${id}?part=text`,
        `/messages?q=${e}`,
        `/messages?stream=x&status=${e}`,
        '/events',
        `/events?recipient=${e}`,
        '/developer/keys',
        '/developer/log',
        '/developer/actions',
        `/developer/log?actor=${e}`,
        '/streams',
        '/suppressions',
        `/suppressions?q=${e}`,
        '/accounts',
        '/team',
        '/templates',
        template,
        `${template}/versions`,
        `/stats?tag=${e}`,
        `/login?next=${e}`,
        '/profile',
        `/queue?domain=${e}`,
      ];
      for (const where of places) {
        const { html } = await browser.open(where);
        assert.doesNotMatch(html, /<script>alert|<img src=x|<b>|>49</, where);
        assert.deepEqual(htmlFaults(html), [], where);
      }
    } finally {
      await app.stop();
    }
  });
});

describe('dashboard: members', () => {
  it('see their accounts alone, and nothing of the server', async () => {
    const app = await startTestApp();
    try {
      const admin = await signedIn(app.url, app.operator);
      const { id: messageId } = await app.send({
        to: 'later@dest.test',
        send_at: new Date(app.clock.now() + 3_600_000).toISOString(),
      });
      await app.operator.call('accounts.add', { name: 'Other' });
      const team = await admin.open('/team');
      const other = /name="accounts" value="([^"]+)"(?: checked)?><span>Other/.exec(team.html)?.[1] ?? '';
      assert.match(other, /^acc_/, team.html);
      const added = await admin.submit('/team', {
        email: 'bo@example.net',
        role: 'developer',
        accounts: other,
        password_now: PASSWORD,
      });
      const link = new URL(/<pre>([^<]+)<\/pre>/.exec(added.html)?.[1] ?? '').pathname;
      const member = new Browser(app.url);
      await member.open(link);
      await member.submit(link, { password: PASSWORD, password_again: PASSWORD });
      assert.equal(member.last.at, '/');
      assert.doesNotMatch(member.last.html, /href="\/queue"|href="\/team"|href="\/accounts"/);
      const foreign = [
        '/queue',
        '/team',
        '/accounts',
        '/queue/lane?name=mx.dest.test',
        '/doctor',
        '/doctor?run',
        `/team/x`,
        `/messages/${messageId}`,
        `/messages/${messageId}/html`,
        `/messages/${messageId}/source`,
        `/developer/keys/${app.keyId}`,
        '/domains/acme.test',
        '/domains/acme.test/zone',
      ];
      const ofServer = /^\/(?:queue|team|accounts|doctor)/;
      for (const where of foreign)
        assert.equal((await member.open(where)).status, ofServer.test(where) ? 403 : 404, where);
      for (const where of ['/messages', '/developer/keys', '/developer/log', '/domains', '/events', '/suppressions'])
        assert.doesNotMatch((await member.open(where)).html, /later@dest|acme\.test|journey/, where);
      await member.open('/profile');
      for (const act of [
        `/messages/${messageId}/cancel`,
        `/messages/${messageId}/resend`,
        `/developer/keys/${app.keyId}/revoke`,
        `/developer/keys/${app.keyId}/replace`,
        '/domains/acme.test/remove',
        '/queue/flush',
        '/team',
        '/accounts',
      ]) {
        const response = await member.ask('POST', act, {
          fields: { _token: member.token(), email: 'x@example.net', name: 'x' },
        });
        await response.arrayBuffer();
        assert.equal(response.status, ofServer.test(act) ? 403 : 404, act);
      }
      await member.open('/');
      const switched = await member.submit('/account', {
        account: (await app.operator.call('accounts.list', {})).data.find(({ name }) => name === 'default')?.id ?? '',
      });
      assert.match(switched.html, /no such account/);
      assert.equal((await app.message(messageId)).status, 'scheduled');

      await admin.open('/team');
      const id = /href="\/team\/(mem_[^"]+)" title="bo@/.exec(admin.last.html)?.[1] ?? '';
      await admin.open(`/team/${id}`);
      await admin.submit(`/team/${id}/remove`, { password_now: PASSWORD });
      assert.match((await member.open('/messages')).at, /^\/login/, 'out at once');
      const me = /href="\/team\/(mem_[^"]+)" title="ana@/.exec((await admin.open('/team')).html)?.[1] ?? '';
      await admin.open(`/team/${me}`);
      assert.equal(
        (await admin.submit(`/team/${me}/remove`, { password_now: PASSWORD })).status,
        409,
        'the last administrator',
      );
      await admin.open('/developer/actions');
      for (const what of ['invited bo@example.net to the team', 'removed bo@', 'ana@example.net'])
        assert.ok(admin.last.html.includes(what), what);
    } finally {
      await app.stop();
    }
  });
});
