/** Templates in the dashboard: sample values, missing ones in the preview, and a test mail that says that it is one. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { starters } from '../../src/dashboard/template-starters.ts';
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
      (/<textarea name="sample_variables"[^>]*>([^<]*)</.exec(html)?.[1] ?? '')
        .replaceAll('&quot;', '"')
        .replaceAll('&#x3D;', '='),
    );

  it('offers the names that the template reads with empty texts, which a preview takes as missing, and two items of a list', async () => {
    const { html } = await browser.open(`/templates/${await created()}`);
    const names = sampleIn(html) as object;
    assert.deepEqual(Object.entries(names).slice(0, 2), [
      [
        'order',
        {
          number: '1042',
          items: [
            { title: 'Blue mug', price: 12.9 },
            { title: 'Oak shelf', price: 49.5 },
          ],
        },
      ],
      ['name', ''],
    ]);
    const preview = await browser.submit('/templates/preview', { ...SOURCE, sample_variables: JSON.stringify(names) });
    assert.match(preview.html, /Hello ⟦name⟧.*Blue mug: 12.9.*Oak shelf: 49.5/);
  });

  it('fills in a sample for the names that the typed sources read, and begins with a mail of ours', async () => {
    await browser.open('/templates/new');
    const typed = { ...SOURCE, sample_variables: '{"name":"Bo"}' };
    const { html } = await browser.submit('/templates/new/fill', typed);
    assert.deepEqual(Object.keys(sampleIn(html) as object).sort(), ['name', 'order']);
    assert.equal((sampleIn(html) as { name: string }).name, 'Bo');
    assert.ok(html.includes('value="Order {{ order.number }}"'), 'what was typed stays');
    for (const { id, subject, sample } of starters) {
      const page = await browser.open(`/templates/new?start=${id}`);
      assert.deepEqual(sampleIn(page.html), sample, id);
      const rendered = await app.request<{
        subject: { rendered: string; errors: object[] };
        html: { errors: object[] };
      }>('POST', '/v1/templates/render', {
        subject,
        html: starters.find((one) => one.id === id)?.html,
        variables: sample,
        mark_missing: true,
      });
      assert.doesNotMatch(rendered.text, /⟦/, id);
      assert.deepEqual([rendered.body.subject.errors, rendered.body.html.errors], [[], []], id);
    }
  });

  it('opens and restores an earlier version', async () => {
    const id = await created();
    await app.request('PATCH', `/v1/templates/${id}`, { html: '<p>Two</p>', publish: true });
    const { html } = await browser.open(`/templates/${id}/versions`);
    assert.match(html, /Version 1<\/span>[\s\S]*by key journey/);
    assert.match(
      (await browser.open(`/templates/${id}?version=1`)).html,
      /This is version 1\.[\s\S]*Hello \{\{ name \}\}/,
    );
    assert.match((await browser.open(`/templates/${id}/versions/1`)).html, /Hello ⟦name⟧/);
    await browser.open(`/templates/${id}/versions`);
    const back = await browser.submit(`/templates/${id}/restore`, { version: '1' });
    assert.match(back.html, /Version 3 has the content of version 1, and sends use it now\./);
    const { body } = await app.get<{ html: string; published_version: number }>(`/v1/templates/${id}`);
    assert.deepEqual([body.html, body.published_version], [SOURCE.html, 3]);
  });

  it('keeps the sample with the version', async () => {
    const sample = { name: 'Bo', order: { number: 7, items: [{ title: 'Tea', price: 2 }] }, more: null };
    await browser.open('/templates/new');
    const made = await browser.submit('/templates/new', {
      ...SOURCE,
      sample_variables: JSON.stringify(sample),
      publish: '1',
    });
    assert.deepEqual(sampleIn(made.html), sample);
    const html = `${SOURCE.html}{{ total }}{% for item in order.items %}{{ item.count }}{% endfor %}`;
    const changed = await browser.submit(made.at, { ...SOURCE, html, sample_variables: JSON.stringify(sample) });
    assert.deepEqual(sampleIn(changed.html), sample);
    const kept = await app.request<{ sample_variables: object }>('GET', `/v1${made.at}?version=2`);
    assert.deepEqual(kept.body.sample_variables, sample);

    const emptied = await browser.submit(made.at, { ...SOURCE, sample_variables: '' });
    assert.match(emptied.html, /Saved as version 3/);
    assert.equal((await app.request<{ sample_variables: null }>('GET', `/v1${made.at}`)).body.sample_variables, null);
  });

  it('a sample that is not a JSON object, or too large, is refused with its field, and what was typed stays', async () => {
    const large = JSON.stringify({ text: 'x'.repeat(100 * 1024) });
    for (const typed of ['{"name":', '[1]', '"Ana"', `${'{"a":'.repeat(11)}1${'}'.repeat(11)}`, large]) {
      await browser.open('/templates/new');
      const refused = await browser.submit('/templates/new', { ...SOURCE, sample_variables: typed });
      assert.equal(refused.status, 400, typed.slice(0, 20));
      assert.match(refused.html, /data-field="sample_variables"/);
      assert.ok(refused.html.includes('Order {{ order.number }}'));
    }
    const { status, body } = await app.request<{ error: { code: string; field: string } }>('POST', '/v1/templates', {
      ...SOURCE,
      sample_variables: [1],
    });
    assert.deepEqual([status, body.error.code, body.error.field], [400, 'invalid_type', 'sample_variables']);
  });

  it('shows where a value that the sample lacks would stand', async () => {
    await browser.open('/templates/new');
    const preview = await browser.submit('/templates/preview', {
      ...SOURCE,
      sample_variables: '{"order":{"items":[{"title":"Tea"}]}}',
    });
    assert.match(preview.html, /<p class="subject">Order <mark>⟦order\.number⟧<\/mark>/);
    assert.match(preview.html, /Hello ⟦name⟧/);
    assert.match(preview.html, /Tea: ⟦item\.price⟧/);
    assert.match(preview.headers.get('content-security-policy') ?? '', /sandbox/);
    for (const id of ['desktop', 'phone', 'dark']) assert.ok(preview.html.includes(`id="${id}"`), id);

    await browser.open('/templates/new');
    const whole = await browser.submit('/templates/preview', {
      ...SOURCE,
      sample_variables: '{"name":"Bo","order":{"number":7,"items":[{"title":"Tea","price":2}]}}',
    });
    assert.doesNotMatch(whole.html, /⟦/);
  });

  it('sends a test through the rules of every send, marked in its subject', async () => {
    const id = await created();
    await browser.open(`/templates/${id}`);
    const sent = await browser.submit(`/templates/${id}/send`, {
      to: 'delivered@simulator.posthorn.test',
      sample_variables: '{"name":"Bo","order":{"number":7,"items":[]}}',
    });
    assert.match(sent.at, /^\/messages\/msg_/, sent.html);
    assert.match(sent.html, /\[Test\] Order 7/);
    await browser.open(`/templates/${id}`);
    const refused = await browser.submit(`/templates/${id}/send`, { to: 'not an address', sample_variables: '{}' });
    assert.equal(refused.status, 400);
  });

  it('the API leaves a hole as a send does unless it is asked to mark it', async () => {
    const render = async (more: object): Promise<string> => {
      const sources = { subject: 'Hi {{ name }}', variables: {}, ...more };
      const { body } = await app.request<{ subject: { rendered: string } }>('POST', '/v1/templates/render', sources);
      return body.subject.rendered;
    };
    assert.equal(await render({}), 'Hi ');
    assert.equal(await render({ mark_missing: true }), 'Hi ⟦name⟧');
    assert.equal(await render({ mark_missing: true, variables: { name: '' } }), 'Hi ');
  });
});
