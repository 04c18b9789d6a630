/** Templates in the dashboard: sample values that fit, missing ones in the preview, and a test mail that says that it is one. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { signedIn, type Browser } from '../support/harness/browser.ts';

const SOURCE = {
  name: 'Order',
  subject: 'Order {{ order.number }}',
  html: '<p>Hello {{ name }}</p>{% for item in order.items %}<li>{{ item.title }}: {{ item.price }}</li>{% endfor %}',
};

describe('dashboard: templates', () => {
  let app: TestApp;
  let browser: Browser;
  before(async () => {
    app = await startTestApp();
    browser = await signedIn(app.url, app.operator);
  });
  after(() => app.stop());

  const created = async (): Promise<string> => {
    const { body } = await app.request<{ id: string }>('POST', '/v1/templates', { ...SOURCE, publish: true });
    return body.id;
  };
  const sampleIn = (html: string): unknown =>
    JSON.parse(
      (/<textarea name="variables"[^>]*>([^<]*)</.exec(html)?.[1] ?? '')
        .replaceAll('&quot;', '"')
        .replaceAll('&#x3D;', '='),
    );

  it('fills the sample with values that fit the template', async () => {
    const { html } = await browser.open(`/templates/${await created()}`);
    const item = { title: 'title', price: 19.9 };
    assert.deepEqual(sampleIn(html), { order: { number: 3, items: [item, item] }, name: 'Ana' });
  });

  it('names what the sample lacks, and shows where it would stand', async () => {
    await browser.open('/templates/new');
    const preview = await browser.submit('/templates/preview', {
      ...SOURCE,
      variables: '{"order":{"items":[{"title":"Tea"}]}}',
    });
    assert.match(preview.html, /The sample has no value for .*order\.number.*items\[\]\.price.*name/);
    assert.match(preview.html, /<p class="subject">Order <mark>⟦order\.number⟧<\/mark>/);
    assert.match(preview.html, /Hello ⟦name⟧/);
    assert.match(preview.html, /Tea: ⟦order\.items\[\]\.price⟧/);
    assert.match(preview.headers.get('content-security-policy') ?? '', /sandbox/);
    for (const id of ['desktop', 'phone', 'dark']) assert.ok(preview.html.includes(`id="${id}"`), id);

    await browser.open('/templates/new');
    const whole = await browser.submit('/templates/preview', {
      ...SOURCE,
      variables: '{"name":"Bo","order":{"number":7,"items":[{"title":"Tea","price":2}]}}',
    });
    assert.doesNotMatch(whole.html, /The sample has no value|⟦/);
  });

  it('sends a test through the rules of every send, marked in its subject', async () => {
    const id = await created();
    await browser.open(`/templates/${id}`);
    const sent = await browser.submit(`/templates/${id}/send`, {
      to: 'delivered@simulator.posthorn.test',
      variables: '{"name":"Bo","order":{"number":7,"items":[]}}',
    });
    assert.match(sent.at, /^\/messages\/msg_/, sent.html);
    assert.match(sent.html, /\[Test\] Order 7/);
    await browser.open(`/templates/${id}`);
    const refused = await browser.submit(`/templates/${id}/send`, { to: 'not an address', variables: '{}' });
    assert.equal(refused.status, 400);
  });

  it('the API says what is missing, and leaves the output alone unless it is asked to mark it', async () => {
    const { body } = await app.request<{ missing: string[]; subject: { rendered: string }; sample_variables: object }>(
      'POST',
      '/v1/templates/render',
      { subject: 'Hi {{ name }}', variables: {} },
    );
    assert.deepEqual(body.missing, ['name']);
    assert.deepEqual(body.sample_variables, { name: 'Ana' });
    assert.equal(body.subject.rendered, 'Hi ');
  });
});
