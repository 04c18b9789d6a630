/** Opens and clicks over the whole program: from the fields of a send to the link in the mail, to the event and the counts. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type EventFollower, type SeenEvent, type TestApp } from '../support/harness/app.ts';
import { hrefsOf, pixelOf, readMail, type ReadMail } from '../support/harness/seen-mail.ts';

const BASE = 'https://mail.posthorn.test';
const HTML =
  '<html><body><p>Hello <a href="https://shop.test/a?x=1&amp;y=2">one</a> <a href="http://shop.test/b">two</a> ' +
  '<a href="https://shop.test/unsubscribe">stop</a> <a href="mailto:hi@acme.test">write</a></p></body></html>';
const BROWSER = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:128.0) Gecko/20100101 Firefox/128.0';

interface Detail {
  first: boolean;
  is_bot: boolean;
  bot: string | null;
  ip: string | null;
  user_agent: string | null;
  url?: string;
  link_id?: string;
  client?: string | null;
  os?: string | null;
  device?: string | null;
}

describe('journey: tracking', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let events: EventFollower;
  let settings: Record<string, unknown>;

  beforeEach(async () => {
    server = await startMailServer();
    settings = { http: { publicUrl: BASE } };
    await begin();
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  async function begin(more: Record<string, unknown> = {}): Promise<void> {
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { ...settings, ...more },
    });
    events = app.follow();
  }
  /** Sends, waits for the delivery and lets the time pass in which only machines open mail. */
  async function deliver(fields: Record<string, unknown> = {}): Promise<{ id: string; mail: ReadMail }> {
    const before = mails().length;
    const { id } = await app.send({ html: HTML, text: null, ...fields });
    await events.of(id, 'delivered');
    app.clock.advance(5000);
    const data = mails()[before]?.data;
    assert.ok(data !== undefined, 'nothing was delivered');
    return { id, mail: await readMail(data) };
  }
  const mails = () => server.sessions.flatMap((session) => session.mails);

  async function visit(url: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Response> {
    assert.ok(url.startsWith(`${BASE}/t/`), `not a tracked address: ${url}`);
    const response = await fetch(app.url + url.slice(BASE.length), {
      method,
      redirect: 'manual',
      headers: { 'user-agent': BROWSER, ...headers },
    });
    await response.arrayBuffer();
    return response;
  }
  const detailOf = (seen: readonly SeenEvent[], type: string): Detail => seen.at(-1)?.data[type] as Detail;

  it('leaves a mail alone where nothing is to be tracked', async () => {
    const { id, mail } = await deliver();
    assert.equal(mail.html.trim(), HTML);
    const { body } = await app.get<{ track_opens: boolean; track_clicks: boolean }>(`/v1/messages/${id}`);
    assert.deepEqual([body.track_opens, body.track_clicks], [false, false]);
  });

  it('leaves a mail alone while the address for its links is the default, which only this machine can open', async () => {
    await app.stop();
    settings = {};
    await begin();
    const { id, mail } = await deliver({ track_clicks: true, track_opens: true });
    assert.equal(mail.html.trim(), HTML);
    const { body } = await app.get<{ track_opens: boolean; track_clicks: boolean }>(`/v1/messages/${id}`);
    assert.deepEqual([body.track_opens, body.track_clicks], [false, false]);
    await app.stop();
    settings = { http: { publicUrl: 'http://127.0.0.1:8025' } };
    await begin();
    assert.match(
      hrefsOf((await deliver({ track_clicks: true })).mail.html)[0] ?? '',
      /^http:\/\/127\.0\.0\.1:8025\/t\/c\//,
    );
  });

  it('leads a click to where the sender wanted it, and tells it after two seconds', async () => {
    const { id, mail } = await deliver({ track_clicks: true });
    const hrefs = hrefsOf(mail.html);
    assert.deepEqual(hrefs.slice(2), ['https://shop.test/unsubscribe', 'mailto:hi@acme.test']);
    assert.equal(pixelOf(mail.html), null, 'opens were not asked for');
    assert.match(mail.text, /https:\/\/shop\.test\/a\?x=1&y=2/, 'the text part names the sender’s own address');

    const { status, headers } = await visit(hrefs[0] ?? '');
    assert.deepEqual([status, headers.get('location')], [302, 'https://shop.test/a?x=1&y=2']);
    assert.equal(headers.get('cache-control'), 'no-store');
    assert.equal(headers.get('set-cookie'), null);
    app.clock.advance(2000);
    const seen = await events.of(id, 'clicked');
    assert.deepEqual(detailOf(seen, 'clicked'), {
      first: true,
      url: 'https://shop.test/a?x=1&y=2',
      link_id: '1',
      part: 'html',
      ip: '127.0.0.1',
      user_agent: BROWSER,
      is_bot: false,
      bot: null,
    });
    const { engagement, status: state, last_event } = await app.message(id);
    assert.deepEqual([state, last_event?.type], ['delivered', 'clicked'], 'engagement moves no status');
    assert.deepEqual([engagement['clicks'], engagement['bot_clicks'], engagement['opens']], [1, 0, 0]);
    const listed = async (query: string): Promise<number> =>
      (await app.get<{ data: unknown[] }>(`/v1/messages?${query}`)).body.data.length;
    assert.deepEqual(
      [await listed('clicked=true'), await listed('clicked=false'), await listed('opened=true')],
      [1, 0, 0],
    );

    await visit(hrefs[1] ?? '');
    app.clock.advance(2000);
    await events.until((all) => all.filter(({ type }) => type === 'clicked').length === 2);
    assert.deepEqual([detailOf(events.seen, 'clicked').first, detailOf(events.seen, 'clicked').link_id], [false, '2']);
  });

  it('counts who looks at it, by a picture of one point', async () => {
    const { id, mail } = await deliver({ track_opens: true });
    assert.deepEqual(hrefsOf(mail.html), hrefsOf(HTML), 'clicks were not asked for');
    const pixel = pixelOf(mail.html) ?? '';
    assert.equal(
      mail.html.trim(),
      HTML.replace('</body>', `${/<div style[^]*<!\[endif\]-->/.exec(mail.html)?.[0] ?? ''}</body>`),
    );
    const response = await visit(pixel);
    assert.deepEqual(
      [response.status, response.headers.get('content-type'), response.headers.get('content-length')],
      [200, 'image/gif', '43'],
    );
    assert.equal(response.headers.get('cache-control'), 'no-store');
    const detail = detailOf(await events.of(id, 'opened'), 'opened');
    assert.deepEqual(detail, {
      first: true,
      client: 'Firefox',
      os: 'Windows',
      device: 'desktop',
      ip: '127.0.0.1',
      user_agent: BROWSER,
      is_bot: false,
      bot: null,
    });
    const { engagement } = await app.message(id);
    assert.equal(engagement['opens'], 1);
    assert.equal(engagement['first_opened_at'], engagement['last_opened_at']);
  });

  it('has nobody’s address without the scope event:engagement', async () => {
    const { id, mail } = await deliver({ track_opens: true });
    await visit(pixelOf(mail.html) ?? '');
    await events.of(id, 'opened');
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'reader', scopes: ['event:read'] },
    });
    const { body } = await app.get<{ data: SeenEvent[] }>('/v1/events?type=opened', { key });
    assert.deepEqual([detailOf(body.data, 'opened').ip, detailOf(body.data, 'opened').user_agent], [null, null]);
  });

  for (const [storeIp, storeUserAgent, ip, agent] of [
    ['truncated', true, '127.0.0.0', BROWSER],
    ['none', false, null, null],
  ] as const) {
    it(`stores of a person what tracking.storeIp ${storeIp} and storeUserAgent ${String(storeUserAgent)} allow`, async () => {
      await app.stop();
      await begin({ tracking: { storeIp, storeUserAgent } });
      const { id, mail } = await deliver({ track_opens: true });
      await visit(pixelOf(mail.html) ?? '');
      const detail = detailOf(await events.of(id, 'opened'), 'opened');
      assert.deepEqual([detail.ip, detail.user_agent, detail.client], [ip, agent, 'Firefox']);
      const stored = await app.app.db.prepared.all<{ detail_json: string }>(
        "SELECT detail_json FROM events WHERE type = 'opened'",
      );
      assert.ok(!stored.some(({ detail_json }) => detail_json.includes('127.0.0.1')));
    });
  }

  it('asks the send, then the domain, then the account', async () => {
    const tracked = async (fields: Record<string, unknown> = {}): Promise<boolean[]> => {
      const { mail } = await deliver(fields);
      return [pixelOf(mail.html) !== null, hrefsOf(mail.html)[0]?.startsWith(BASE) === true];
    };
    await app.request('PATCH', '/v1/settings', { track_opens: true, track_clicks: true });
    assert.deepEqual(await tracked(), [true, true], 'the account');
    await app.request('PATCH', '/v1/domains/acme.test', { track_opens: false });
    assert.deepEqual(await tracked(), [false, true], 'the domain over the account');
    assert.deepEqual(
      await tracked({ track_opens: true, track_clicks: false }),
      [true, false],
      'the send over the domain',
    );
    await app.request('PATCH', '/v1/domains/acme.test', { track_opens: null });
    await app.request('PATCH', '/v1/settings', { track_opens: null, track_clicks: null });
    assert.deepEqual(await tracked(), [false, false], 'nothing by default');
  });

  it('tells the recipients of one mail apart', async () => {
    const { id } = await app.send({ html: HTML, text: null, track_clicks: true, cc: ['cy@dest.test'] });
    await events.until((all) => all.filter(({ type }) => type === 'delivered').length === 2);
    app.clock.advance(5000);
    const copy = mails().find(({ to }) => to.includes('cy@dest.test'));
    const { html } = await readMail(copy?.data ?? '');
    await visit(hrefsOf(html)[0] ?? '');
    app.clock.advance(2000);
    const seen = await events.of(id, 'clicked');
    assert.deepEqual([seen.at(-1)?.data.recipient, seen.at(-1)?.data.recipient_type], ['cy@dest.test', 'cc']);
  });

  it('sends the same bytes at each try', async () => {
    server.options.script = {
      message: (_, { mails: taken }) => (taken.length === 1 ? '451 4.7.1 later' : '250 2.0.0 taken'),
    };
    const { id } = await app.send({
      html: HTML,
      text: null,
      track_clicks: true,
      track_opens: true,
      stream: 'broadcast',
    });
    await events.of(id, 'deferred');
    server.options.script = {};
    await app.nextAttempt(id);
    await events.of(id, 'delivered');
    const [first, second] = mails();
    assert.ok(first !== undefined && second !== undefined);
    assert.equal(second.data, first.data);
  });

  describe('machines', () => {
    for (const [bot, headers, what] of [
      ['apple_mpp', { 'user-agent': 'Mozilla/5.0' }, 'Mail Privacy Protection'],
      [
        'gmail_proxy',
        { 'user-agent': 'Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)' },
        'Gmail',
      ],
    ] as const) {
      it(`an open by ${what} is recorded as ${bot}, and not counted`, async () => {
        const { id, mail } = await deliver({ track_opens: true });
        await visit(pixelOf(mail.html) ?? '', headers);
        const detail = detailOf(await events.of(id, 'opened'), 'opened');
        assert.deepEqual([detail.is_bot, detail.bot, detail.first], [true, bot, false]);
        const { engagement, last_event } = await app.message(id);
        assert.deepEqual([engagement['opens'], engagement['bot_opens'], last_event?.type], [0, 1, 'delivered']);
        await visit(pixelOf(mail.html) ?? '');
        // Hits that follow at once are written together.
        app.clock.advance(25);
        await events.until((all) => all.filter(({ type }) => type === 'opened').length === 2);
        assert.equal(detailOf(events.seen, 'opened').first, true, 'the first person is the first');
      });
    }

    it('open what has arrived less than two seconds ago', async () => {
      const { id } = await app.send({ html: HTML, text: null, track_opens: true });
      await events.of(id, 'delivered');
      const { html } = await readMail(mails()[0]?.data ?? '');
      app.clock.advance(1999);
      await visit(pixelOf(html) ?? '');
      assert.equal(detailOf(await events.of(id, 'opened'), 'opened').bot, 'prefetch');
    });

    it('follow all links of a mail within two seconds', async () => {
      const { id, mail } = await deliver({ track_clicks: true });
      const [one = '', two = ''] = hrefsOf(mail.html);
      await visit(one);
      app.clock.advance(1000);
      await visit(two);
      app.clock.advance(1000);
      await events.until((all) => all.filter(({ type }) => type === 'clicked').length === 2);
      const clicks = events.seen.filter(({ type }) => type === 'clicked').map(({ data }) => data['clicked'] as Detail);
      assert.deepEqual(
        clicks.map(({ bot, first }) => [bot, first]),
        [
          ['scanner', false],
          ['scanner', false],
        ],
      );
      const { engagement } = await app.message(id);
      assert.deepEqual([engagement['clicks'], engagement['bot_clicks']], [0, 2]);
    });

    it('ask with HEAD, and get the same answer', async () => {
      const { id, mail } = await deliver({ track_clicks: true });
      const { status, headers } = await visit(hrefsOf(mail.html)[0] ?? '', {}, 'HEAD');
      assert.deepEqual([status, headers.get('location')], [302, 'https://shop.test/a?x=1&y=2']);
      assert.equal(detailOf(await events.of(id, 'clicked'), 'clicked').bot, 'scanner');
    });
  });

  it('redirects for ever: without the rows, and after a restart', async () => {
    const { id, mail } = await deliver({ track_clicks: true, track_opens: true });
    const [link = ''] = hrefsOf(mail.html);
    await app.app.db.commit.transact(async (tx) => {
      for (const table of ['deliveries', 'messages', 'events', 'contents']) await tx.run(`DELETE FROM ${table}`);
    });
    assert.equal((await visit(link)).headers.get('location'), 'https://shop.test/a?x=1&y=2');
    assert.equal((await visit(pixelOf(mail.html) ?? '')).status, 200);
    app.clock.advance(2000);
    assert.equal((await app.get(`/v1/messages/${id}`)).status, 404);
    assert.deepEqual(
      app.logged.filter(({ event }) => event === 'hit_lost'),
      [],
    );
  });

  it('answers 404 to what it did not write, in words for people', async () => {
    const { mail } = await deliver({ track_clicks: true, track_opens: true });
    const [link = ''] = hrefsOf(mail.html);
    const token = link.slice(`${BASE}/t/c/`.length);
    const pixel = (pixelOf(mail.html) ?? '').slice(`${BASE}/t/o/`.length);
    for (const path of [
      `/t/c/${token.slice(0, -1)}`,
      `/t/c/${token}A`,
      `/t/c/${token.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'))}`,
      `/t/c/${Buffer.from('https://evil.test/').toString('base64url')}`,
      '/t/c/https:%2F%2Fevil.test',
      `/t/c/${pixel}`,
      `/t/o/${token}`,
      '/t/o/x',
      '/t/u/x',
    ]) {
      const response = await fetch(app.url + path, { redirect: 'manual' });
      assert.equal(response.status, 404, path);
      assert.equal(response.headers.get('location'), null);
      assert.match(await response.text(), /link is not valid/);
    }
    assert.equal((await fetch(`${app.url}/t/c/`)).status, 404);
  });

  it('leads to the longest target that is tracked, and leaves a longer one alone', async () => {
    const longest = `https://shop.test/?q=${'x'.repeat(4096 - 21)}`;
    const { mail } = await deliver({
      track_clicks: true,
      html: `<a href="${longest}">a</a> <a href="${longest}x">b</a>`,
    });
    const [tracked = '', alone] = hrefsOf(mail.html);
    assert.equal((await visit(tracked)).headers.get('location'), longest);
    assert.equal(alone, `${longest}x`);
  });

  it('tracks each entry of a bulk send as it says, else as they share', async () => {
    const { status } = await app.request('POST', '/v1/messages', {
      from: 'hi@acme.test',
      subject: 's',
      html: HTML,
      track_clicks: true,
      unsubscribe: true,
      recipients: [{ to: 'ana@dest.test' }, { to: 'bo@dest.test', track_clicks: false, unsubscribe: false }],
    });
    assert.equal(status, 202);
    await events.until((all) => all.filter(({ type }) => type === 'delivered').length === 2);
    const seen = async (to: string): Promise<[boolean, boolean]> => {
      const { html, header } = await readMail(mails().find((mail) => mail.to.includes(to))?.data ?? '');
      return [hrefsOf(html)[0]?.startsWith(BASE) === true, header('list-unsubscribe') !== null];
    };
    assert.deepEqual(
      [await seen('ana@dest.test'), await seen('bo@dest.test')],
      [
        [true, true],
        [false, false],
      ],
    );
  });

  it('takes a link with what others have put behind it', async () => {
    const { mail } = await deliver({ track_clicks: true });
    const link = hrefsOf(mail.html)[0] ?? '';
    for (const behind of ['/', '?fbclid=1&%ff&a=b', '.', ')', '),', '%3E', '%E2%80%9D'])
      assert.equal((await visit(link + behind)).status, 302, behind);
  });

  it('takes a link whose token somebody has percent-encoded, and one that asks for a range of it', async () => {
    const { mail } = await deliver({ track_clicks: true });
    const link = hrefsOf(mail.html)[0] ?? '';
    const encoded = link.replace(/[^/]+$/, (token) => Buffer.from(token).toString('hex').replace(/../g, '%$&'));
    assert.equal((await visit(encoded)).status, 302);
    const { status, headers } = await fetch(app.url + new URL(link).pathname, {
      redirect: 'manual',
      headers: { range: 'bytes=0-3' },
    });
    assert.deepEqual([status, headers.get('location')], [302, (await visit(link)).headers.get('location')]);
  });

  it('asks no key, writes no audit line and counts against nobody’s rate', async () => {
    const { mail } = await deliver({ track_clicks: true });
    for (let n = 0; n < 100; n++) assert.equal((await visit(hrefsOf(mail.html)[0] ?? '')).status, 302);
    // Lines of reads are written a little later than those of writes.
    app.clock.advance(1000);
    await app.send();
    const lines = await app.app.db.prepared.all("SELECT 1 FROM audit WHERE endpoint LIKE '/t/%'");
    assert.equal(lines.length, 0);
    const document = await app.get<{ paths: object }>('/v1/openapi.json');
    assert.ok(!Object.keys(document.body.paths).some((path) => path.startsWith('/t/')));
  });

  it('writes what waits when the program stops', async () => {
    const { id, mail } = await deliver({ track_clicks: true });
    await visit(hrefsOf(mail.html)[0] ?? '');
    const { folder } = app;
    const kept = await app.app.stop().then(async () => {
      const again = await startTestApp({ folder, mailPort: server.port, settings });
      const seen = await again.message(id);
      await again.stop();
      return seen;
    });
    assert.equal(kept.engagement['clicks'], 1);
  });

  describe('on a host of the sending domain', () => {
    const OWN = 'http://track.acme.test';

    beforeEach(async () => {
      await app.stop();
      settings = { http: { publicUrl: 'http://mail.posthorn.test' } };
      await begin();
      app.resolver.zones = {
        ...app.resolver.zones,
        'mail.posthorn.test A': ['127.0.0.1'],
        'track.acme.test CNAME': ['mail.posthorn.test'],
      };
    });

    /** Returns the answer to a request for this address. */
    const at = (url: string, host = new URL(url).host): Promise<{ status: number; location: string | undefined }> =>
      new Promise((resolve, reject) => {
        const { pathname } = new URL(url);
        request(app.url + pathname, { headers: { host, 'user-agent': BROWSER } }, (response) => {
          response.resume();
          response.on('end', () => {
            resolve({ status: response.statusCode ?? 0, location: response.headers.location });
          });
        })
          .on('error', reject)
          .end();
      });

    async function linkOf(fields: Record<string, unknown> = {}): Promise<string> {
      const { mail } = await deliver({ track_clicks: true, ...fields });
      return hrefsOf(mail.html)[0] ?? '';
    }

    it('publishes links there once DNS leads to us, and on the common address until then', async () => {
      const { body } = await app.get<{
        records: { purpose: string; type: string; host: string; value: string; status: string }[];
      }>('/v1/domains/acme.test');
      const record = body.records.find(({ purpose }) => purpose === 'tracking');
      assert.deepEqual([record?.type, record?.host, record?.value], ['CNAME', 'track.acme.test', 'mail.posthorn.test']);
      const before = await linkOf();
      assert.ok(before.startsWith('http://mail.posthorn.test/t/c/'), before);
      await app.request('POST', '/v1/domains/acme.test/verify');
      const after = await linkOf();
      assert.ok(after.startsWith(`${OWN}/t/c/`), after);
      for (const link of [before, after]) assert.equal((await at(link)).location, 'https://shop.test/a?x=1&y=2');
    });

    it('redirects there only to what was sent from that domain', async () => {
      const common = await linkOf();
      await app.request('POST', '/v1/domains/acme.test/verify');
      const own = await linkOf();
      assert.equal((await at(own)).status, 302);
      assert.equal((await at(common, 'track.acme.test')).status, 404, 'a link that was published elsewhere');
      assert.equal((await at(common, 'TRACK.acme.test:8025')).status, 404, 'however the host is written');
      assert.equal((await at(common, 'track.acme.test.:8025')).status, 404, 'also with its final dot');
      assert.equal(
        (await at(own, 'mail.posthorn.test')).status,
        302,
        'the installation’s own name stands for all of it',
      );
      assert.equal((await at(own, 'backend')).status, 302, 'a proxy that does not pass the name on');
      assert.equal((await at(own, 'track.unknown.test')).status, 302, 'a domain that is no more');
    });
  });

  it('runs for simulated mail as well', async () => {
    const { id } = await app.send({
      to: 'clicked@simulator.posthorn.test',
      html: HTML,
      text: null,
      track_clicks: true,
    });
    const seen = await events.of(id, 'clicked');
    assert.equal(detailOf(seen, 'clicked').is_bot, false);
  });
});
