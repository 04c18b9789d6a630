/** A list is exported from its page, written in the background, and fetched by its account alone; a filter is kept by name. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { exitCodes } from '../../src/cli/exit-codes.ts';
import { ran, type Ran } from '../cli/ran.ts';
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
    for (;;) {
      app.clock.advance(2000);
      await app.app.db.commit.transact(() => Promise.resolve());
      const { html } = await browser.open('/exports');
      if (!html.includes('<progress')) return html;
    }
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

  it('leaves address and program of opens out: not every role that can fetch the file may see them', async () => {
    const { id } = await app.send({
      from: 'hi@simulator.posthorn.test',
      to: 'opened@simulator.posthorn.test',
      subject: 'Opened',
    });
    const seen = await app.follow().of(id, 'opened');
    const { ip } = seen.at(-1)?.data['opened'] as { ip: string };
    assert.match(ip, /^192\.0\.2\./);
    for (const format of ['csv', 'ndjson']) {
      app.clock.advance(1000);
      await browser.open('/events?type=opened&range=all');
      await browser.submit('/exports', { kind: browser.field('kind'), query: browser.field('query'), format });
      const [, file = ''] = /href="(\/exports\/exp_\w+\/file)"/.exec(await finished()) ?? [];
      const text = await (await browser.ask('GET', file)).text();
      assert.match(text, /opened@simulator/);
      assert.ok(!text.includes(ip), format);
    }
  });

  it('writes the request log and the actions of the account, with the filters of their pages', async () => {
    await app.get('/v1/messages');
    await app.get('/v1/messages/none');
    const written = async (page: string, format: string): Promise<string[]> => {
      app.clock.advance(1000);
      await browser.open(page);
      await browser.submit('/exports', { kind: browser.field('kind'), query: browser.field('query'), format });
      const [, file = ''] = /href="(\/exports\/exp_\w+\/file)"/.exec(await finished()) ?? [];
      const response = await browser.ask('GET', file);
      const name = new RegExp(`filename="audit-[-0-9]+\\.${format}"`);
      assert.match(response.headers.get('content-disposition') ?? '', name);
      return (await response.text()).trimEnd().split('\n');
    };
    const refused = await written('/developer/log?result=refused', 'ndjson');
    assert.deepEqual([...new Set(refused.map((line) => (JSON.parse(line) as { result: string }).result))], ['refused']);
    const [heading, ...acts] = await written('/developer/actions?of=account', 'csv');
    assert.match(heading ?? '', /^at,actor,key_id,/);
    assert.ok(acts.some((line) => line.includes(',member:ana@example.net,')));
    assert.ok(acts.every((line) => !line.includes(',key:')));
  });

  it('has a command for the same: create, list, save, remove', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'posthorn-'));
    const posthorn = (...args: string[]): Promise<Ran> => ran(['exports', ...args], { POSTHORN_DATA_DIR: app.folder });
    try {
      const made = await posthorn('create', 'messages', 'status=bounced', '--format', 'ndjson', '--json');
      assert.equal(made.code, 0, made.notes);
      const { id, format, query } = JSON.parse(made.out) as { id: string; format: string; query: { status: string } };
      assert.deepEqual([format, query.status], ['ndjson', 'bounced']);
      assert.match((await posthorn('save', id)).notes, /not finished/);
      const waited = posthorn('save', id, '--wait');
      await finished();
      assert.equal((JSON.parse((await waited).out) as { subject: string }).subject, 'Mail bounced');
      assert.match((await posthorn('list')).out, new RegExp(`${id} +messages +ndjson +done +1 `));
      const whole = await posthorn('save', id);
      assert.equal((JSON.parse(whole.out) as { subject: string }).subject, 'Mail bounced');
      const target = path.join(folder, 'bounced.ndjson');
      const saved = await posthorn('save', id, target, '--json');
      assert.equal(saved.code, 0, saved.notes);
      assert.equal(readFileSync(target, 'utf8').trimEnd(), whole.out.trimEnd());
      assert.equal((JSON.parse(saved.out) as { bytes: number }).bytes, readFileSync(target).length);
      const again = await posthorn('save', id, target);
      assert.notEqual(again.code, 0);
      assert.match(again.notes, /there is such a file already/);
      for (const [args, code] of [
        [['save', id, '--json'], exitCodes.data],
        [['create', 'messages', 'colour=blue'], exitCodes.data],
        [['create', 'secrets'], exitCodes.usage],
        [['create', 'messages', 'bounced'], exitCodes.usage],
        [['save', 'exp_none'], exitCodes.noInput],
      ] as const)
        assert.equal((await posthorn(...args)).code, code, args.join(' '));
      assert.match((await posthorn('remove', id)).out, /removed exp_/);
      assert.doesNotMatch((await posthorn('list')).out, new RegExp(id));
    } finally {
      rmSync(folder, { recursive: true });
    }
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
    assert.match(
      saved.html,
      /href="\/messages\?status(?:=|&#x3D;)bounced" aria-current="true" title="Saved by ana@example\.net">Bounces &lt;b&gt;</,
    );
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
