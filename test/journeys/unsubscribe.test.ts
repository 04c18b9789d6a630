/** The way out of a mailing over the whole program: headers, one click, page and undo, and what still flows afterwards. */
import assert from 'node:assert/strict';
import { openKeyring } from '../../src/base/keyring.ts';
import { unsubscribedDelivery } from '../../src/messages/delivery/return-path.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type EventFollower, type SeenMessage, type TestApp } from '../support/harness/app.ts';
import { hrefsOf, readMail, type ReadMail } from '../support/harness/seen-mail.ts';

const BASE = 'https://mail.posthorn.test';
const ONE_CLICK = 'List-Unsubscribe=One-Click';

describe('journey: unsubscribe', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let events: EventFollower;

  beforeEach(async () => {
    server = await startMailServer();
    await begin(BASE);
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  async function begin(publicUrl: string): Promise<void> {
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { http: { publicUrl } },
    });
    events = app.follow();
  }
  const mails = () => server.sessions.flatMap((session) => session.mails);
  async function deliver(fields: Record<string, unknown>): Promise<{ id: string; mail: ReadMail }> {
    const before = mails().length;
    const { id } = await app.send(fields);
    await events.of(id, 'delivered');
    return { id, mail: await readMail(mails()[before]?.data ?? '') };
  }
  const news = (more: Record<string, unknown> = {}) => deliver({ stream: 'broadcast', ...more });

  /** The path of the hosted page. */
  function pageOf({ header }: ReadMail): string {
    const [, url = ''] = /^<(https:[^>]+)>/.exec(header('list-unsubscribe') ?? '') ?? [];
    assert.ok(url.startsWith(`${BASE}/t/u/`), `no hosted page: ${url}`);
    return url.slice(BASE.length);
  }
  const post = (path: string, body: string | FormData | null): Promise<Response> =>
    fetch(app.url + path, {
      method: 'POST',
      redirect: 'manual',
      ...(body === null ? {} : { body }),
      ...(typeof body === 'string' ? { headers: { 'content-type': 'application/x-www-form-urlencoded' } } : {}),
    });
  const suppressions = async (): Promise<Record<string, unknown>[]> =>
    (await app.get<{ data: Record<string, unknown>[] }>('/v1/suppressions')).body.data;
  const statusAfter = async (fields: Record<string, unknown>): Promise<SeenMessage['status']> =>
    (await app.send(fields)).status;

  it('is offered on a broadcast stream and on no other, unless the send says so', async () => {
    for (const [fields, isOffered] of [
      [{ stream: 'broadcast' }, true],
      [{}, false],
      [{ stream: 'broadcast', unsubscribe: false }, false],
      [{ unsubscribe: true }, true],
    ] as const) {
      const { mail } = await deliver(fields);
      assert.equal(mail.header('list-unsubscribe') !== null, isOffered, JSON.stringify(fields));
      assert.equal(mail.header('list-unsubscribe-post'), isOffered ? ONE_CLICK : null);
    }
  });

  it('has the link in the body where `{{unsubscribe_url}}` stands, with variables and without, for each recipient', async () => {
    const html = '<p>Hi.</p><a href="{{ unsubscribe_url }}">Stop</a> <a href="https://acme.test/">Shop</a>';
    for (const fields of [
      { html },
      { html: `${html}{{ name }}`, variables: { name: 'Ana' } },
      { html, track_clicks: true, track_opens: true },
      { text: 'Stop: {{{unsubscribe_url}}}' },
    ]) {
      const { mail } = await deliver({ text: undefined, ...fields });
      const page = `${BASE}${pageOf(mail)}`;
      if ('html' in fields) assert.equal(hrefsOf(mail.html)[0], page);
      assert.ok(!`${mail.html}${mail.text}`.includes('unsubscribe_url'), mail.text);
      if ('text' in fields) assert.equal(mail.text.trim(), `Stop: ${page}`);
      assert.equal(mail.header('list-unsubscribe-post'), ONE_CLICK);
    }
    const own = await deliver({ html, unsubscribe: { url: 'https://acme.test/u?a=1&b=2' } });
    assert.equal(hrefsOf(own.mail.html)[0], 'https://acme.test/u?a=1&b=2');
    const template = { alias: 'link', subject: 'Hi', html: '<a href="{{unsubscribe_url}}">Stop</a>' };
    assert.equal((await app.request('POST', '/v1/templates', template)).status, 201);
    const { mail } = await deliver({ template_id: 'link', subject: undefined, text: undefined });
    assert.equal(hrefsOf(mail.html)[0], `${BASE}${pageOf(mail)}`);
  });

  it('refuses a link that nobody fills in, by its name', async () => {
    for (const [fields, field, why] of [
      [{ html: '<a href="{{{RESEND_UNSUBSCRIBE_URL}}}">x</a>' }, 'html', 'RESEND_UNSUBSCRIBE_URL'],
      [{ html: '<a href="{{{RESEND_UNSUBSCRIBE_URL}}}">x</a>', variables: {} }, 'html', 'RESEND_UNSUBSCRIBE_URL'],
      [{ text: '%unsubscribe_url%' }, 'text', '%unsubscribe_url%'],
      [{ text: '<%asm_group_unsubscribe_raw_url%>' }, 'text', '<%asm_group_unsubscribe_raw_url%>'],
      [{ text: '*|UNSUB|*' }, 'text', '*|UNSUB|*'],
      [{ text: '{{unsubscribe_url}}', unsubscribe: false }, 'unsubscribe', 'false'],
      [{ subject: '{{unsubscribe_url}}', text: 'Hi.', variables: {} }, 'subject', 'unsubscribe_url'],
      [{ text: '{{unsubscribe_url}} '.repeat(21) }, 'text', '20'],
    ] as const) {
      const mail = { from: 'hi@acme.test', to: 'ana@dest.test', subject: 'Hi', ...fields };
      const { status, body } = await app.request<{ error: { field: string; message: string } }>(
        'POST',
        '/v1/messages',
        mail,
      );
      assert.equal(status, 400, JSON.stringify(fields));
      assert.equal(body.error.field, field);
      assert.ok(body.error.message.includes(why), body.error.message);
    }
    const saved = await app.request('POST', '/v1/templates', { alias: 'x', subject: 'x', text: '*|UNSUB|*' });
    assert.equal(saved.status, 400);
  });

  it('has page and address, each naming the delivery, both under the signatures', async () => {
    const { id, mail } = await news();
    const [, url = '', local = '', domain = ''] =
      /^<(https:\/\/[^>]+)>, <mailto:([^>@]+)@([^>?]+)\?subject=unsubscribe%20[\w-]+>$/.exec(
        mail.header('list-unsubscribe') ?? '',
      ) ?? [];
    assert.ok(url.startsWith(`${BASE}/t/u/`));
    assert.ok(
      !url.includes('dest.test') && !Buffer.from(url.slice(30), 'base64url').toString().includes('ana@'),
      'no address in the clear',
    );
    assert.equal(domain, 'rp.acme.test');
    const keyring = openKeyring(app.folder);
    const key = { id: keyring.keyIds.length % 32, secret: keyring.derive('return path') };
    const [row] = await app.app.db.prepared.all<{ id: string }>('SELECT id FROM deliveries WHERE message_id = ?', [id]);
    assert.equal(unsubscribedDelivery([key], local), row?.id);
    const signed =
      /h=([^;]*);/
        .exec(mail.header('dkim-signature') ?? '')?.[1]
        ?.toLowerCase()
        .split(/\s*:\s*/) ?? [];
    assert.ok(signed.includes('list-unsubscribe') && signed.includes('list-unsubscribe-post'), signed.join());
  });

  for (const reason of ['manual', 'unsubscribe'])
    it(`lasts where the address was on the list for a time only, as ${reason}`, async () => {
      const { id, mail } = await news();
      const soon = new Date(Date.now() + 3_600_000).toISOString();
      const entry = { email: 'ana@dest.test', stream: 'broadcast', reason, expires_at: soon };
      assert.equal((await app.request('POST', '/v1/suppressions', entry)).status, 201);
      assert.equal((await post(pageOf(mail), ONE_CLICK)).status, 200);
      await events.of(id, 'unsubscribed');
      assert.deepEqual(
        (await suppressions()).map((one) => [one['reason'], one['scope'], one['expires_at']]),
        [['unsubscribe', 'stream:broadcast', null]],
      );
    });

  it('unsubscribes at once by the POST of a mail provider, from this stream alone', async () => {
    const { id, mail } = await news();
    const response = await post(pageOf(mail), ONE_CLICK);
    assert.deepEqual([response.status, response.redirected], [200, false]);
    const seen = await events.of(id, 'unsubscribed');
    assert.deepEqual(seen.at(-1)?.data['unsubscribed'], { stream: 'broadcast', method: 'one_click' });
    const [entry, ...others] = await suppressions();
    assert.deepEqual(
      [entry?.['email'], entry?.['reason'], entry?.['scope'], entry?.['source_message_id'], others.length],
      ['ana@dest.test', 'unsubscribe', 'stream:broadcast', id, 0],
    );
    assert.equal(await statusAfter({ stream: 'broadcast' }), 'suppressed');
    assert.equal(await statusAfter({}), 'queued', 'transactional mail still flows');
    assert.equal((await app.message(id)).status, 'delivered', 'it moves no status');
    const usual = await app.get<{ data: { type: string }[] }>('/v1/events');
    assert.ok(!usual.body.data.some(({ type }) => type === 'unsubscribed'), 'told only when asked for by name');
  });

  it('takes the form in both encodings of RFC 8058, and from mail that has not been sent yet', async () => {
    const { mail } = await news();
    const form = new FormData();
    form.set('List-Unsubscribe', 'One-Click');
    const { id: waiting } = await app.send({
      stream: 'broadcast',
      send_at: new Date(app.clock.now() + 60_000).toISOString(),
    });
    await post(pageOf(mail), form);
    assert.equal((await suppressions()).length, 1);
    app.clock.advance(60_000);
    await events.of(waiting, 'suppressed');
  });

  it('does nothing for a scanner that follows the link, however often', async () => {
    const { mail } = await news();
    for (const method of ['GET', 'HEAD', 'GET']) {
      assert.equal((await fetch(app.url + pageOf(mail), { method })).status, 200);
    }
    assert.deepEqual(await suppressions(), []);
  });

  it('asks a person by a plain page, and takes it back', async () => {
    const { id, mail } = await news();
    const page = pageOf(mail);
    const asked = await fetch(app.url + page);
    const html = await asked.text();
    assert.equal(asked.headers.get('content-type'), 'text/html; charset=utf-8');
    assert.match(
      asked.headers.get('content-security-policy') ?? '',
      /^default-src 'none'; style-src 'sha256-[^']+'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/,
    );
    assert.equal(asked.headers.get('referrer-policy'), 'no-referrer');
    assert.match(html, /ana@dest\.test/);
    assert.match(html, /Broadcast/);
    assert.match(html, /<form method="post"><button type="submit" name="action" value="unsubscribe">/);
    assert.doesNotMatch(html, /<script|javascript:|src=|https?:/i);

    const stopped = await (await post(page, 'action=unsubscribe')).text();
    assert.match(stopped, /value="undo"/);
    assert.deepEqual((await events.of(id, 'unsubscribed')).at(-1)?.data['unsubscribed'], {
      stream: 'broadcast',
      method: 'page',
    });
    assert.match(await (await fetch(app.url + page)).text(), /You are unsubscribed/, 'the page says how things stand');

    const resumed = await (await post(page, 'action=undo')).text();
    assert.match(resumed, /subscribed again/);
    assert.deepEqual(await suppressions(), []);
    assert.equal(await statusAfter({ stream: 'broadcast' }), 'queued');
  });

  it('tells it once, however often the button is pressed', async () => {
    const { id, mail } = await news();
    for (let n = 0; n < 3; n++) await post(pageOf(mail), ONE_CLICK);
    await events.of(id, 'unsubscribed');
    assert.equal((await app.message(id)).events.filter(({ type }) => type === 'unsubscribed').length, 1);
  });

  it('undoes nothing but its own entry', async () => {
    const { mail } = await news();
    await app.request('POST', '/v1/suppressions', { email: 'ana@dest.test', stream: 'broadcast', reason: 'manual' });
    const answer = await (await post(pageOf(mail), 'action=undo')).text();
    assert.match(answer, /for another reason/, 'the page promises no mail');
    assert.deepEqual(
      (await suppressions()).map(({ reason }) => reason),
      ['manual'],
    );
  });

  for (const [fields, kind] of [
    [{ test: true }, 'a test'],
    [{}, 'mail that the list kept back'],
  ] as const)
    it(`is not undone by the link of ${kind}, which only its sender has`, async () => {
      const { mail } = await news();
      await post(pageOf(mail), ONE_CLICK);
      const { id } = await app.send({ stream: 'broadcast', ...fields });
      const raw = await fetch(`${app.url}/v1/messages/${id}/raw`, { headers: { authorization: `Bearer ${app.key}` } });
      const answer = await (await post(pageOf(await readMail(await raw.text())), 'action=undo')).text();
      assert.match(answer, /You are unsubscribed/);
      assert.equal((await suppressions()).length, 1);
      assert.match(await (await post(pageOf(mail), 'action=undo')).text(), /subscribed again/);
      assert.deepEqual(await suppressions(), []);
    });

  it('works when the mail is forgotten here', async () => {
    const { mail } = await news();
    await app.app.db.commit.transact(async (tx) => {
      for (const table of ['deliveries', 'messages', 'events', 'contents']) await tx.run(`DELETE FROM ${table}`);
    });
    assert.equal((await post(pageOf(mail), ONE_CLICK)).status, 200);
    const [entry] = await suppressions();
    assert.deepEqual(
      [entry?.['email'], entry?.['scope'], entry?.['source_message_id']],
      ['ana@dest.test', 'stream:broadcast', null],
    );
    assert.equal(await statusAfter({ stream: 'broadcast' }), 'suppressed');
    assert.match(await (await post(pageOf(mail), 'action=undo')).text(), /subscribed again/);
    assert.deepEqual(await suppressions(), []);
  });

  it('suppresses nothing that is simulated', async () => {
    const { id } = await app.send({ to: 'delivered@simulator.posthorn.test', stream: 'broadcast' });
    await events.of(id, 'delivered');
    const [row] = await app.app.db.prepared.all<{ id: string }>('SELECT id FROM deliveries WHERE message_id = ?', [id]);
    assert.ok(row !== undefined);
    const { trackingKeys } = await import('../../src/tracking/token.ts');
    const { unsubscribeToken } = await import('../../src/tracking/unsubscribe-link.ts');
    const [{ account_id: accountId } = { account_id: '' }] = await app.app.db.prepared.all<{ account_id: string }>(
      'SELECT account_id FROM messages',
    );
    const token = unsubscribeToken(trackingKeys(openKeyring(app.folder))[0], {
      deliveryId: row.id,
      accountId,
      stream: 'broadcast',
      fromDomain: 'acme.test',
      email: 'delivered@simulator.posthorn.test',
    });
    await post(`/t/u/${token}`, ONE_CLICK);
    await events.of(id, 'unsubscribed');
    assert.deepEqual(await suppressions(), []);
  });

  it('is by mail alone where the service has no https: one-click demands it', async () => {
    await app.stop();
    await begin('http://mail.posthorn.test');
    const { mail } = await news();
    assert.match(
      mail.header('list-unsubscribe') ?? '',
      /^<mailto:unsub\+[0-9a-z]{43}@rp\.acme\.test\?subject=unsubscribe%20[\w-]+>$/,
    );
    assert.equal(mail.header('list-unsubscribe-post'), null);
  });

  it('can lead to the sender’s own page, which is not tracked', async () => {
    const { mail } = await deliver({
      html: '<a href="https://acme.test/prefs?u=17">settings</a> <a href="https://acme.test/shop">shop</a>',
      track_clicks: true,
      unsubscribe: { url: 'https://acme.test/prefs?u=17', mailto: 'stop@acme.test?subject=17', one_click: true },
    });
    assert.equal(mail.header('list-unsubscribe'), '<https://acme.test/prefs?u=17>, <mailto:stop@acme.test?subject=17>');
    assert.equal(mail.header('list-unsubscribe-post'), ONE_CLICK);
    const [own, shop] = hrefsOf(mail.html);
    assert.equal(own, 'https://acme.test/prefs?u=17');
    assert.ok(shop?.startsWith(`${BASE}/t/c/`));
  });

  it('or the sender writes the header himself, where `unsubscribe` is off', async () => {
    const headers = { 'List-Unsubscribe': '<https://acme.test/out>' };
    const { mail } = await news({
      headers,
      unsubscribe: false,
      track_clicks: true,
      html: '<a href="https://acme.test/out">no more</a>',
    });
    assert.equal(mail.header('list-unsubscribe'), '<https://acme.test/out>');
    assert.deepEqual(hrefsOf(mail.html), ['https://acme.test/out']);

    const body = { from: 'hi@acme.test', subject: 's', text: 't', stream: 'broadcast', headers };
    const single = await app.request<{ error: { code: string; field: string } }>('POST', '/v1/messages', {
      ...body,
      to: 'ana@dest.test',
    });
    assert.deepEqual(
      [single.status, single.body.error.code, single.body.error.field],
      [400, 'header_not_allowed', 'headers.List-Unsubscribe'],
    );
    const bulk = await app.request<{ data: { status: string; error: { code: string; field: string } | null }[] }>(
      'POST',
      '/v1/messages',
      {
        ...body,
        headers: undefined,
        recipients: [{ to: 'bo@dest.test', headers: { 'list-unsubscribe-post': 'x' } }, { to: 'cy@dest.test' }],
      },
    );
    assert.deepEqual(
      bulk.body.data.map(({ status, error }) => [status, error?.code ?? null, error?.field ?? null]),
      [
        ['rejected', 'header_not_allowed', 'recipients[0].headers.list-unsubscribe-post'],
        ['queued', null, null],
      ],
    );
  });

  it('offers each copy its own way out', async () => {
    await app.send({ stream: 'broadcast', cc: ['cy@dest.test'] });
    await events.until((all) => all.filter(({ type }) => type === 'delivered').length === 2);
    const copy = mails().find(({ to }) => to.includes('cy@dest.test'));
    await post(pageOf(await readMail(copy?.data ?? '')), ONE_CLICK);
    assert.deepEqual(
      (await suppressions()).map(({ email }) => email),
      ['cy@dest.test'],
    );
  });

  it('answers 404 to a link it did not write, and takes a wrong or large form for what it is', async () => {
    const { mail } = await news();
    const page = pageOf(mail);
    assert.equal((await post(`${page.slice(0, -2)}AA`, ONE_CLICK)).status, 404);
    assert.equal((await post('/t/u/x', ONE_CLICK)).status, 404);
    assert.deepEqual(await suppressions(), []);
    assert.equal((await post(page, 'x'.repeat(2 * 1024 * 1024))).status, 413);
    assert.deepEqual(await suppressions(), []);
    assert.equal((await fetch(app.url + page, { method: 'DELETE' })).status, 405);
  });

  it('sends the same way out again with a mail that is sent again', async () => {
    const { id } = await news({ track_clicks: true, html: '<a href="https://acme.test/">x</a>' });
    const again = await app.request<{ id: string }>('POST', `/v1/messages/${id}/resend`);
    assert.equal(again.status, 202, again.text);
    await events.of(again.body.id, 'delivered');
    const { html, header } = await readMail(mails().at(-1)?.data ?? '');
    assert.ok(hrefsOf(html)[0]?.startsWith(`${BASE}/t/c/`));
    assert.ok(header('list-unsubscribe')?.startsWith(`<${BASE}/t/u/`));
  });
});
