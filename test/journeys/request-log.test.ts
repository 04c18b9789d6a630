/** The request log of the dashboard: one page for a call, as it was asked; uses of unknown keys for administrators; actions in sentences. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { signedIn, type Browser } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';

describe('journey: request log', () => {
  let app: TestApp;
  let browser: Browser;
  before(async () => {
    app = await startTestApp({});
    browser = await signedIn(app.url, app.operator);
  });
  after(() => app.stop());

  /** Opens the page of the entry of a request. */
  const pageOf = async (requestId: string | null, place = '/developer/log', more = ''): Promise<string> => {
    app.clock.advance(1000);
    // Reads are logged in a batch, which the next write waits for; on PostgreSQL the next insert.
    await app.request('POST', '/v1/keys', { name: 'x' });
    await app.app.db.commit.insert({});
    const { html } = await browser.open(`${place}?request_id=${String(requestId)}${more}`);
    const id = /\/developer\/(?:log|actions)\/(aud_[0-9a-z]+)/.exec(html)?.[1];
    assert.ok(id, html);
    const page = await browser.open(`${place}/${id}`);
    assert.deepEqual(htmlFaults(page.html), []);
    return page.html;
  };

  it('shows a refused call: path, error with field and text, redacted body, and the call as curl without the key', async () => {
    const refused = await app.request(
      'POST',
      '/v1/messages',
      {
        from: 'hi@acme.test',
        to: 'nobody',
        subject: "It's here",
        html: '<p>secret text</p>',
        variables: { pin: '1234567' },
      },
      { headers: { 'idempotency-key': 'order-17' } },
    );
    assert.equal(refused.status, 400);
    const html = await pageOf(refused.headers.get('x-request-id'));
    for (const part of ['invalid_recipient', '<code>to</code>', 'order-17', '(18 characters)', 'nobody'])
      assert.ok(html.includes(part), part);
    assert.match(html, /\$POSTHORN_API_KEY/);
    assert.doesNotMatch(html, /secret text|1234567|ak_live_[a-z0-9]{20}/i);
  });

  it('shows the path with its id and its query, and the messages that a call made', async () => {
    const missing = await app.get('/v1/messages/msg_01jz5w8q3hf2m9d4x6k7c1b0na?expand=content');
    const html = await pageOf(missing.headers.get('x-request-id'));
    assert.match(html, /\/v1\/messages\/msg_01jz5w8q3hf2m9d4x6k7c1b0na/);
    assert.match(html, /expand(?:=|&#x3D;)content/);
    const sent = await app.request<{ data: { id: string }[] }>('POST', '/v1/messages', {
      from: 'hi@acme.test',
      subject: 'Two',
      text: 'x',
      recipients: [{ to: 'delivered@simulator.posthorn.test' }, { to: 'bounced@simulator.posthorn.test' }],
    });
    const page = await pageOf(sent.headers.get('x-request-id'));
    for (const { id } of sent.body.data) assert.ok(page.includes(`/messages/${id}`), id);
  });

  it('keeps nothing that names a person who was erased', async () => {
    const email = 'gone@dest.test';
    await app.send({ to: email, send_at: new Date(app.clock.now() + 3_600_000).toISOString() });
    await app.request('POST', '/v1/messages', { from: 'hi@acme.test', to: `Gone <${email}>`, subject: 5 });
    await app.get(`/v1/messages?to=${encodeURIComponent(email)}`);
    app.clock.advance(1000);
    // The lines of reads are written before the erasure begins.
    await app.app.db.commit.insert({});
    const rows = async (): Promise<string> =>
      JSON.stringify((await app.operator.call('audit.list', { limit: 1000 })).data) +
      (await (await browser.ask('GET', '/developer/log/export?format=ndjson')).text());
    const erased = await app.request('DELETE', `/v1/recipients/${encodeURIComponent(email)}`);
    assert.equal(erased.status, 204, erased.text);
    assert.doesNotMatch(await rows(), /gone(?:@|%40)dest/);
    const { data } = (await app.get<{ data: { id: string }[] }>('/v1/audit?limit=20')).body;
    for (const { id } of data) {
      const { text } = await app.get(`/v1/audit/${id}`);
      assert.doesNotMatch(text, /gone(?:@|%40)dest/);
    }
  });

  it('nor in another script than the one in which the person was erased', async () => {
    const [asWritten, asStored] = ['Gone@bücher.test', 'Gone@xn--bcher-kva.test'];
    await app.send({ to: asWritten, test: true });
    await app.settled();
    await app.request('POST', '/v1/messages', { from: 'hi@acme.test', to: asWritten, subject: 5 });
    await app.get(`/v1/messages?to=${encodeURIComponent(asWritten)}`);
    const { status } = await app.request('DELETE', `/v1/recipients/${encodeURIComponent(asStored)}`);
    assert.equal(status, 204);
    const { data } = (await app.get<{ data: { id: string }[] }>('/v1/audit?limit=20')).body;
    for (const { id } of data) {
      const { text } = await app.get(`/v1/audit/${id}`);
      assert.doesNotMatch(text, /gone(?:@|%40)b(?:ü|%C3%BC)cher/i);
    }
  });

  it('shows uses of unknown keys to administrators, so many of one network, and counts the rest', async () => {
    // More than an address may ask in a minute: also those beyond that are counted.
    for (let n = 0; n < 90; n++) {
      const { status } = await app.get(`/v1/messages?n=${String(n)}`, {
        key: 'ak_live_wrong',
        headers: { 'user-agent': 'old-shop/1' },
      });
      assert.equal(status, 401);
    }
    const seen = await browser.open('/developer/log?of=unknown');
    assert.deepEqual(htmlFaults(seen.html), []);
    assert.equal(seen.html.match(/invalid_api_key/g)?.length, 20);
    assert.match(seen.html, /old-shop\/1/);
    assert.match(seen.html, /<strong>70<\/strong> since the server started/);
    const entries = await app.get<{ data: unknown[] }>('/v1/audit?status=401');
    assert.deepEqual(entries.body.data, [], 'no account sees them');
  });

  it('tells what people and the server did in sentences, with what changed', async () => {
    await browser.open('/suppressions');
    await browser.submit('/suppressions', { email: 'lea@customer.test' });
    await browser.open('/suppressions');
    await browser.submit('/suppressions/remove', { email: 'lea@customer.test', scope: 'account' });
    await app.operator.call('queue.hold', { domain: 'dest.test' });
    const { html } = await browser.open('/developer/actions');
    assert.deepEqual(htmlFaults(html), []);
    const text = html.replaceAll(/<[^>]+>/g, '');
    assert.match(text, /ana@example\.net removed lea@customer\.test from suppressions/);
    assert.match(text, /, on the command line held the domain dest\.test/);
    assert.match(text, /the server started the server/);
    assert.doesNotMatch(text, /member:|DASHBOARD|\/v1\/|\{/);
    const ofAna = (await browser.open('/developer/actions?actor=ana%40example.net')).html;
    assert.match(ofAna, /removed lea@customer\.test/);
    assert.doesNotMatch(ofAna, /, on the command line/);
    const ofAccount = (await browser.open('/developer/actions?of=account')).html;
    assert.doesNotMatch(ofAccount, /held the domain/);
    const csv = await (await browser.ask('GET', '/developer/actions/export')).text();
    assert.match(csv, /^at,actor,[^\n]*object_id,summary,/);
    assert.match(csv, /deleteSuppression,suppression,lea@customer\.test,/);
  });

  it('pages through the list of two sources in one order', async () => {
    const all = (await app.operator.call('audit.list', { account: 'default', server: true, limit: 1000 })).data;
    const paged: string[] = [];
    let after: string | undefined;
    for (;;) {
      const page = await app.operator.call('audit.list', {
        account: 'default',
        server: true,
        limit: 3,
        ...(after === undefined ? {} : { after }),
      });
      paged.push(...page.data.map(({ id }) => id));
      after = page.data.at(-1)?.id;
      if (!page.has_more) break;
    }
    assert.deepEqual(
      paged,
      all.map(({ id }) => id),
    );
    const before = await app.operator.call('audit.list', {
      account: 'default',
      server: true,
      limit: 3,
      before: paged[5] ?? '',
    });
    assert.deepEqual(
      before.data.map(({ id }) => id),
      paged.slice(2, 5),
    );
  });

  it('answers an entry of nobody, or of the server to a member, as if there were none', async () => {
    for (const id of ['aud_01jz5w8q3hf2m9d4x6k7c1b0na', 'x', '%00', 'a'.repeat(300)])
      assert.equal((await browser.open(`/developer/log/${id}`)).status, 404, id);
    assert.equal((await app.get('/v1/audit/aud_01jz5w8q3hf2m9d4x6k7c1b0na')).status, 404);
  });
});
