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
      const meanwhile = await Promise.all([send(action, sent), send(action, sent)]);
      const later = await send(action, sent);
      assert.match(later, /^303 \//);
      // The answer of the one that did the work may show a secret, which the others do not.
      assert.ok(meanwhile.includes(later), 'meanwhile');
      assert.ok(meanwhile.every((answer) => answer === later || answer === '200 '));
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

  it('shows a secret in the answer to the form, and not to a second send, which it tells so', async () => {
    await browser.open('/developer/keys/new');
    const fields = {
      ...{ _token: browser.token(), _form: browser.field('_form') },
      ...{ name: 'double', mode: 'live', preset: 'send', password_now: PASSWORD },
    };
    const shown = await browser.ask('POST', '/developer/keys/new', { fields });
    assert.equal(shown.headers.get('cache-control'), 'no-store');
    assert.match(await shown.text(), /ak_live_\w+/);
    const again = await browser.ask('POST', '/developer/keys/new', { fields });
    assert.equal(again.headers.get('location'), '/developer/keys');
    const { html } = await browser.open('/developer/keys');
    assert.match(html, /done once\. Its answer was shown then/);
    assert.doesNotMatch(html, /ak_live_\w{20}/);
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
