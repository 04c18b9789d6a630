/** A list is exported from its page, written in the background, and fetched by its account alone; a filter is kept by name. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { type Browser, signedIn } from '../support/harness/browser.ts';

describe('dashboard: exports and saved views', () => {
  let app: TestApp;
  let browser: Browser;
  before(async () => {
    app = await startTestApp();
    browser = await signedIn(app.url, app.operator);
  });
  after(() => app.stop());

  /** Lets housekeeping take its steps until the page shows no export that waits or runs. */
  async function finished(): Promise<string> {
    for (let round = 0; round < 200; round += 1) {
      app.clock.advance(2000);
      await app.app.db.commit.transact(() => Promise.resolve());
      const { html } = await browser.open('/exports');
      if (!html.includes('<progress')) return html;
    }
    throw new Error('the export did not end');
  }

  it('writes what the page shows, with its filters, and gives it to nobody else', async () => {
    for (const to of ['delivered', 'bounced'])
      await app.send({
        from: 'hi@simulator.posthorn.test',
        to: `${to}@simulator.posthorn.test`,
        subject: `Mail ${to}`,
      });
    await app.settled();
    app.clock.advance(1000);
    await browser.open('/messages?status=bounced&range=all');
    const made = await browser.submit('/exports', { kind: browser.field('kind'), query: browser.field('query') });
    assert.equal(made.at, '/exports');
    const html = await finished();
    const [, file = ''] = /href="(\/exports\/exp_\w+\/file)"/.exec(html) ?? [];
    const response = await browser.ask('GET', file);
    assert.equal(response.status, 200);
    assert.match(response.headers.get('content-disposition') ?? '', /attachment; filename="messages-/);
    const text = await response.text();
    assert.match(text, /,Mail bounced,/);
    assert.doesNotMatch(text, /Mail delivered/);

    await app.operator.call('accounts.add', { name: 'Other' });
    const team = await browser.open('/accounts');
    const other = /action="\/account"[^]*?value="(acc_\w+)"/.exec(team.html)?.[1] ?? '';
    assert.notEqual(other, '');
    const { data } = await app.operator.call('accounts.list', {});
    const id = data.find(({ name }) => name === 'Other')?.id ?? '';
    await browser.submit('/account', { account: id });
    assert.equal((await browser.open(file)).status, 404);
    assert.doesNotMatch((await browser.open('/exports')).html, /exp_/);
    await browser.submit('/account', { account: data.find(({ name }) => name === 'default')?.id ?? '' });
    await browser.open('/exports');
    const removed = await browser.submit(file.replace(/file$/, 'remove'));
    assert.match(removed.html, /The export is removed/);
    assert.equal((await browser.open(file)).status, 404);
  });

  it('says at once what cannot be exported', async () => {
    await browser.open('/exports');
    for (const [kind, query] of [
      ['secrets', ''],
      ['messages', 'status=nonsense'],
      ['messages', 'colour=blue'],
    ] as const) {
      const { status, html } = await browser.submit('/exports', { kind, query });
      assert.equal(status, 400, query);
      assert.match(html, /That did not work/);
    }
  });

  it('keeps a filter by name, marks it where it is shown, and removes it', async () => {
    await browser.open('/messages?status=bounced');
    const saved = await browser.submit('/views', { page: '/messages', query: 'status=bounced', name: 'Bounces <b>' });
    assert.equal(saved.at, '/messages?status=bounced');
    assert.match(saved.html, /href="\/messages\?status(?:=|&#x3D;)bounced" aria-current="true">Bounces &lt;b&gt;</);
    const [, remove = ''] = /action="(\/views\/viw_\w+\/remove)"/.exec(saved.html) ?? [];
    assert.doesNotMatch((await browser.submit(remove)).html, /Bounces &lt;b&gt;<\/a>/);
    for (const fields of [
      { page: '/team', query: '', name: 'x' },
      { page: '/messages', query: '', name: ' ' },
      { page: '/messages', query: 'x'.repeat(2001), name: 'x' },
    ])
      assert.equal((await browser.submit('/views', fields)).status, 400, fields.page);
  });
});
