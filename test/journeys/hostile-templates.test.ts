/** Templates that want to cost more than they may, by way of the API: alone, published, and in a send. */
import assert from 'node:assert/strict';
import { startTestApp, TestClock, type TestApp } from '../support/harness/app.ts';
import { hostileTemplates } from '../templates/hostile.ts';

/** Each look at it takes a little: what is done on the main loop is counted so, and not how fast the machine is. */
class CountingClock extends TestClock {
  private looks = 0;
  override monotonic(): number {
    return super.monotonic() + this.looks++ * 0.1;
  }
}

const rendering = [
  'nested loops',
  'huge range',
  'blocks nested too deep',
  'text that doubles',
  'list that doubles',
  'replace that multiplies',
  'replace of each character, again and again',
  'where over a long list, again and again',
  'split and sort, again and again',
];
const sending = ['nested loops', 'list that doubles', 'replace of each character, again and again'];
const named = (names: readonly string[]): typeof hostileTemplates =>
  hostileTemplates.filter(({ name }) => names.includes(name));

describe('journey: hostile templates', () => {
  let app: TestApp;

  before(async () => {
    app = await startTestApp({ clock: new CountingClock() });
  });

  after(() => app.stop());

  for (const { name, source, variables } of named(rendering))
    it(`trying: ${name}`, async () => {
      const { status, body } = await app.request<{
        valid: boolean;
        html: { rendered: null; errors: { code: string; message: string }[] };
      }>('POST', '/v1/templates/render', { html: source, variables });
      assert.equal(status, 200);
      assert.equal(body.valid, false);
      assert.equal(body.html.rendered, null);
      assert.match(body.html.errors[0]?.code ?? '', /^template_(render_failed|syntax_error)$/);
    });

  for (const { name, source, variables } of named(sending))
    it(`sending: ${name}`, async () => {
      const alias = name.replace(/[^a-z]+/g, '-');
      const made = await app.request('POST', '/v1/templates', { alias, subject: 'x', html: source });
      assert.equal(made.status, 201);
      const mail = { from: 'hi@acme.test', to: 'a@dest.test', template_id: alias, variables };
      const { status, body } = await app.request<{ error: { code: string; field: string } }>(
        'POST',
        '/v1/messages',
        mail,
      );
      assert.equal(status, 400);
      assert.deepEqual([body.error.code, body.error.field], ['template_render_failed', 'html']);
      const bulk = {
        from: 'hi@acme.test',
        template_id: alias,
        variables,
        recipients: [{ to: 'a@dest.test' }, { to: 'b@dest.test', subject: 's', html: 'own' }],
      };
      const batch = await app.request<{ accepted: number; data: { error: { code: string } | null }[] }>(
        'POST',
        '/v1/messages',
        bulk,
      );
      assert.equal(batch.status, 202, JSON.stringify(batch.body));
      assert.equal(batch.body.data[0]?.error?.code, 'template_render_failed');
    });

  it('saving: what is too much to read at once is read in the thread', async () => {
    const { status } = await app.request('POST', '/v1/templates', { subject: 'x', html: '{{a}}'.repeat(30_000) });
    assert.equal(status, 201);
    const refused = await app.request<{ error: { code: string } }>('POST', '/v1/templates', {
      subject: 'x',
      html: `${'{{a}}'.repeat(30_000)}{{#if}}`,
    });
    assert.equal(refused.status, 400);
    assert.equal(refused.body.error.code, 'template_syntax_error');
  });

  it('variables that are too deep or too large are refused before anything is rendered', async () => {
    const deep = Array.from({ length: 20 }).reduce<unknown>((inner) => ({ inner }), 1);
    for (const variables of [{ deep }, { large: 'x'.repeat(200_000) }]) {
      const { status, body } = await app.request<{ error: { code: string; field: string } }>(
        'POST',
        '/v1/templates/render',
        { html: 'x', variables },
      );
      assert.equal(status, 400);
      assert.deepEqual([body.error.code, body.error.field], ['invalid_field', 'variables']);
    }
  });

  it('other requests are answered meanwhile', async () => {
    const [hostile] = named(['nested loops']);
    assert.ok(hostile !== undefined);
    const slow = app.request('POST', '/v1/templates/render', { html: hostile.source });
    assert.equal((await app.request('GET', '/v1/templates')).status, 200);
    assert.equal((await slow).status, 200);
  });
});
