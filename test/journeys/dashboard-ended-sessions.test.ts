/** Forms beside other windows: those whose session has ended, or that were opened under another sign-in or for another account, do not act. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import type { Settings } from '../../src/client/types.ts';
import { PASSWORD, signedIn, type Browser, type Fields } from '../support/harness/browser.ts';
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

  describe('of one object', () => {
    /** A page with a form, the fields of the form, and what reads one of them. */
    interface Row {
      name: string;
      make: () => Promise<string>;
      fields: (value: string) => Fields;
      read: (page: string) => Promise<unknown>;
      values: [first: string, second: string, third: string];
      wanted?: (value: string) => unknown;
    }
    const made = async (where: string, body: object): Promise<string> => {
      const answer = await app.request<{ id: string }>('POST', where, body);
      assert.equal(answer.status, 201, JSON.stringify(answer.body));
      return answer.body.id;
    };
    const member = async (page: string, member: string): Promise<unknown> =>
      (await app.get(`/v1${page.replace('/developer', '')}`)).body[member];
    const rows: Row[] = [
      {
        name: 'settings',
        make: () => Promise.resolve('/settings'),
        fields: (value) => ({ content_days: value }),
        read: async () => (await app.get<Settings>('/v1/settings')).body.retention.content_days,
        values: ['11', '12', '13'],
        wanted: Number,
      },
      {
        name: 'a key',
        make: async () => `/developer/keys/${await made('/v1/keys', { name: 'before', scopes: ['send'] })}`,
        fields: (value) => ({ name: value, scopes: 'send' }),
        read: (page) => member(page, 'name'),
        values: ['one', 'two', 'three'],
      },
      {
        name: 'a webhook',
        make: async () => `/webhooks/${await made('/v1/webhooks', { url: 'https://hooks.example.net/x' })}`,
        fields: (value) => ({ url: 'https://hooks.example.net/x', events: 'sent', description: value }),
        read: (page) => member(page, 'description'),
        values: ['one', 'two', 'three'],
      },
      {
        name: 'a domain',
        make: async () => `/domains/${await made('/v1/domains', { name: 'shop.test' })}`,
        fields: (value) => ({ track_opens: value }),
        read: (page) => member(page, 'track_opens'),
        values: ['on', 'off', ''],
        wanted: (value) => ({ on: true, off: false })[value] ?? null,
      },
      {
        name: 'a template',
        make: async () =>
          `/templates/${await made('/v1/templates', { alias: 'hi', name: 'Hi', subject: 'S', text: 'before' })}`,
        fields: (value) => ({ alias: 'hi', name: 'Hi', subject: 'S', text: value, sample_variables: '{}' }),
        read: (page) => member(page, 'text'),
        values: ['one', 'two', 'three'],
      },
      {
        name: 'a member of the team',
        make: async () => {
          const add = { email: 'bo@example.net', role: 'developer' as const, accounts: ['default'], mail: false };
          return `/team/${(await app.operator.call('team.add', add)).member}`;
        },
        fields: (value) => ({ role: value, accounts: browser.field('_account'), password_now: PASSWORD }),
        read: async () =>
          (await app.operator.call('team.list', {})).data.find(({ email }) => email === 'bo@example.net')?.role,
        values: ['read_only', 'support', 'developer'],
      },
    ];

    for (const { name, make, fields, read, values, wanted = (value: string): unknown => value } of rows)
      it(`do not undo what another window changed in ${name}, unless they are sent again`, async () => {
        const page = await make();
        const [first, second, third] = values;
        await browser.open(page);
        const opened = browser.field('_seen');
        await browser.submit(page, { ...fields(first), _seen: opened });
        assert.deepEqual(await read(page), wanted(first));

        await browser.open(page);
        const refused = await browser.submit(page, { ...fields(second), _seen: opened });
        assert.equal(refused.status, 409);
        assert.match(refused.html, /This was changed after you opened the page, so nothing was saved/);
        assert.deepEqual(htmlFaults(refused.html), []);
        assert.deepEqual(await read(page), wanted(first));

        await browser.submit(page, { ...fields(second), _seen: browser.field('_seen') });
        assert.deepEqual(await read(page), wanted(second), 'the refused page sends it on');

        await browser.submit(page, fields(third));
        assert.deepEqual(await read(page), wanted(third), 'a script that sends no hash is not refused');
      });

    it('do not undo what another window changed in a stream, and keep what was typed in its row', async () => {
      const id = await made('/v1/streams', { slug: 'news', name: 'News', type: 'broadcast' });
      const seen = (): string =>
        new RegExp(`action="/streams/${id}"[^>]*>.*?name="_seen" value="([^"]+)"`).exec(browser.last.html)?.[1] ?? '';
      const priorityOf = async (): Promise<unknown> => {
        const { body } = await app.get<{ data: { id: string; priority: number }[] }>('/v1/streams');
        return body.data.find((one) => one.id === id)?.priority;
      };
      await browser.open('/streams');
      const opened = seen();
      assert.equal((await app.request('PATCH', `/v1/streams/${id}`, { priority: 0 })).status, 200);
      const typed = { name: 'Letters', pool: 'default', priority: '1' };
      const refused = await browser.submit(`/streams/${id}`, { ...typed, _seen: opened });
      assert.equal(refused.status, 409);
      assert.match(refused.html, /<details open><summary aria-label="Change… \(news\)">.*value="Letters"/);
      assert.match(refused.html, /name="name" required maxlength="100" value=""/, 'the form for a new one stays empty');
      assert.deepEqual(htmlFaults(refused.html), []);
      assert.equal(await priorityOf(), 0);
      await browser.submit(`/streams/${id}`, { ...typed, _seen: seen() });
      assert.equal(await priorityOf(), 1);
    });

    it('are still refused after another fault, which says nothing of the change', async () => {
      const { member } = await app.operator.call('team.add', {
        email: 'bo@example.net',
        role: 'developer',
        accounts: ['default'],
        mail: false,
      });
      const page = `/team/${member}`;
      await browser.open(page);
      const fields = { role: 'administrator', accounts: browser.field('_account') };
      const opened = browser.field('_seen');
      await app.operator.call('team.change', { member, role: 'read_only', accounts: ['default'] });
      const wrong = await browser.submit(page, { ...fields, _seen: opened, password_now: 'wrong' });
      assert.match(wrong.html, /The current password is wrong/);
      const again = { ...fields, _seen: browser.field('_seen'), password_now: PASSWORD };
      const refused = await browser.submit(page, again);
      assert.match(refused.html, /This was changed after you opened the page/);
    });

    it('offer no version of a template to publish or try where they show a refused text', async () => {
      const id = await made('/v1/templates', { alias: 'hi', name: 'Hi', subject: 'S', text: 'one' });
      assert.equal((await app.request('PATCH', `/v1/templates/${id}`, { text: 'two' })).status, 200);
      const page = `/templates/${id}`;
      const offers = /action="\/templates\/[^"/]+\/(?:publish|send)"/g;
      assert.equal((await browser.open(page)).html.match(offers)?.length, 2);
      const refused = await browser.submit(page, { alias: 'hi', name: 'Hi', text: '{{#if', sample_variables: '{' });
      assert.equal(refused.status, 400);
      assert.equal(refused.html.match(offers), null);
    });

    it('publish and try the version of a template that was looked at, or none', async () => {
      const id = await made('/v1/templates', { alias: 'hi', name: 'Hi', subject: 'S', text: 'one' });
      const page = `/templates/${id}`;
      await browser.open(page);
      const _seen = browser.field('_seen');
      assert.equal((await app.request('PATCH', `/v1/templates/${id}`, { text: 'two' })).status, 200);
      for (const act of ['publish', 'send']) {
        await browser.open(page);
        const fields = { _seen, to: 'delivered@simulator.posthorn.test', sample_variables: '{}' };
        const refused = await browser.submit(`${page}/${act}`, fields);
        assert.equal(refused.status, 409);
        assert.match(refused.html, /nothing was saved, published or sent/);
      }
      assert.equal(await member(page, 'published_version'), 1);
      await browser.open(page);
      await browser.submit(`${page}/publish`, { _seen: browser.field('_seen') });
      assert.equal(await member(page, 'published_version'), 2);
    });
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
