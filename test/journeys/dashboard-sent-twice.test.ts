/** A form that is sent twice is done once: a double click without scripts, a second click on a slow network, a send after a lost answer. */
import assert from 'node:assert/strict';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { Browser, PASSWORD, signedIn, type Fields } from '../support/harness/browser.ts';

describe('dashboard: a form that is sent twice', () => {
  let app: TestApp;
  let browser: Browser;
  before(async () => {
    app = await startTestApp({ zones: zonesFor('shop.test') });
    browser = await signedIn(app.url, app.operator);
  });
  after(() => app.stop());

  /** Sends the form of the page shown last with the hidden fields of the page. Returns the status and where it leads. */
  async function send(action: string, fields: Fields, number = browser.field('_form')): Promise<string> {
    const response = await browser.ask('POST', action, {
      fields: { _token: browser.token(), _form: number, ...fields },
    });
    await response.arrayBuffer();
    return `${String(response.status)} ${response.headers.get('location') ?? ''}`;
  }

  const ask = async (...asked: Parameters<TestApp['get']>): Promise<number> =>
    (await app.get<{ data: unknown[] }>(...asked)).body.data.length;

  const forms: readonly {
    what: string;
    page: string;
    action: string;
    fields: () => Fields | Promise<Fields>;
    count: () => Promise<number>;
  }[] = [
    {
      what: 'a key',
      page: '/developer/keys/new',
      action: '/developer/keys/new',
      fields: () => ({ name: 'shop', mode: 'live', preset: 'send', password_now: PASSWORD }),
      count: () => ask('/v1/keys?limit=100'),
    },
    {
      what: 'a template',
      page: '/templates/new',
      action: '/templates/new',
      fields: () => ({ name: 'Receipt', subject: 'Your receipt', html: '<p>Hello</p>' }),
      count: () => ask('/v1/templates'),
    },
    {
      what: 'a domain',
      page: '/domains',
      action: '/domains',
      fields: () => ({ name: 'new.test' }),
      count: () => ask('/v1/domains?status=any'),
    },
    {
      what: 'a webhook',
      page: '/webhooks/new',
      action: '/webhooks/new',
      fields: () => ({ url: 'https://hooks.shop.test/mail', events: 'bounced', password_now: PASSWORD }),
      count: () => ask('/v1/webhooks'),
    },
    {
      what: 'an invitation',
      page: '/team',
      action: '/team',
      fields: () => ({ email: 'bo@example.net', role: 'support', password_now: PASSWORD }),
      count: async () => (await app.operator.call('team.list', {})).data.length,
    },
    {
      what: 'a mail to the simulator',
      page: '/welcome',
      action: '/welcome/send',
      fields: () => ({ outcome: 'delivered' }),
      count: () => ask('/v1/messages?limit=100'),
    },
  ];

  for (const { what, page, action, fields, count } of forms)
    it(`makes ${what} once, whether the second comes meanwhile or later`, async () => {
      const before = await count();
      await browser.open(page);
      const sent = await fields();
      const [first, second] = await Promise.all([send(action, sent), send(action, sent)]);
      assert.match(first, /^303 \//);
      assert.equal(second, first, 'meanwhile');
      assert.equal(await send(action, sent), first, 'later');
      assert.equal(await count(), before + 1);
    });

  it('sends a message again once, and says that the form came twice', async () => {
    const { id } = await app.send({ from: 'hi@simulator.posthorn.test', to: 'delivered@simulator.posthorn.test' });
    await app.settled();
    await browser.open(`/messages/${id}`);
    const first = await send(`/messages/${id}/resend`, {});
    assert.equal(await send(`/messages/${id}/resend`, {}), first);
    const { html } = await browser.open(first.slice('303 '.length));
    assert.match(html, /The form was sent twice and done once\./);
  });

  it('shows a secret to the second send as well, since a browser drops the answer to the first; and to a reload nothing', async () => {
    await browser.open('/developer/keys/new');
    const number = browser.field('_form');
    const sent = { name: 'double', mode: 'live', preset: 'send', password_now: PASSWORD };
    const shown = (await send('/developer/keys/new', sent, number)).slice('303 '.length);
    const token = browser.token();
    const { html } = await browser.open(shown);
    const [secret = ''] = /ak_live_\w+/.exec(html) ?? [];
    assert.notEqual(secret, '');
    assert.equal((await browser.open(shown)).status, 404, 'a reload');
    const again = await browser.ask('POST', '/developer/keys/new', {
      fields: { _token: token, _form: number, ...sent },
    });
    assert.equal(again.headers.get('location'), shown);
    assert.match((await browser.open(shown)).html, new RegExp(secret));
    assert.equal((await browser.open(shown)).status, 404);
  });

  it('takes other values, and the same on a page that was loaded again, as another form', async () => {
    const stream = (slug: string) => ({ slug, name: slug, type: 'broadcast' });
    const before = await ask('/v1/streams');
    await browser.open('/streams');
    await send('/streams', stream('one'));
    await send('/streams', stream('two'));
    assert.equal(await ask('/v1/streams'), before + 2);
    await browser.open('/streams');
    assert.match(await send('/streams', stream('one')), /^409/);
  });

  it('takes a refused form again when it was mended, and the same when its reason is gone', async () => {
    await browser.open('/streams');
    const number = browser.field('_form');
    assert.match(await send('/streams', { slug: 'No Good', name: 'x', type: 'broadcast' }, number), /^400/);
    const good = { slug: 'news', name: 'News', type: 'broadcast' };
    assert.match(await send('/streams', good, number), /^303/);
    await browser.open('/streams');
    assert.match(await send('/streams', good), /^409/, 'the slug is taken, and the page is another');
  });

  it('does not answer one member with what another one sent', async () => {
    await browser.open('/streams');
    const number = browser.field('_form');
    const sent = { slug: 'offers', name: 'Offers', type: 'broadcast' };
    await send('/streams', sent, number);
    const { url } = await app.operator.call('team.add', {
      email: 'cy@example.net',
      role: 'developer',
      accounts: ['default'],
    });
    const other = new Browser(app.url);
    const link = new URL(url ?? '').pathname;
    await other.open(link);
    await other.submit(link, { password: PASSWORD, password_again: PASSWORD });
    await other.open('/streams');
    assert.equal((await other.submit('/streams', { _form: number, ...sent })).status, 409, 'it is done anew');
  });
});
