/** Many addresses at once on the suppression list, as people have them at hand. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { signedIn, type Browser } from '../support/harness/browser.ts';

describe('journey: many suppressions in the dashboard', () => {
  let app: TestApp;
  let browser: Browser;

  beforeEach(async () => {
    app = await startTestApp({});
    browser = await signedIn(app.url, app.operator);
    await browser.open('/suppressions');
  });
  afterEach(() => app.stop());

  const onList = async (): Promise<string[]> =>
    (await app.get<{ data: { email: string }[] }>('/v1/suppressions?limit=100')).body.data
      .map(({ email }) => email)
      .sort();

  const rows: readonly [name: string, typed: string, listed: readonly string[], said: RegExp][] = [
    ['one address a line', 'a@x.test\r\nb@x.test\r\n', ['a@x.test', 'b@x.test'], /2 added, 0 on the list already\./],
    [
      'beside each other with semicolons',
      'a@x.test; b@x.test;c@x.test',
      ['a@x.test', 'b@x.test', 'c@x.test'],
      /3 added/,
    ],
    ['beside each other with commas', 'a@x.test, b@x.test', ['a@x.test', 'b@x.test'], /2 added/],
    [
      'a table with a head',
      'email,reason\na@x.test,complaint\nb@x.test,left\n',
      ['a@x.test'],
      /1 added, 0 on the list already; rejected: b@x\.test \(line 3: there is no reason/,
    ],
    [
      'a table that has another address in a later column',
      'a@x.test,left,1\nb@x.test,by c@x.test,2',
      ['a@x.test', 'b@x.test'],
      /2 added/,
    ],
    ['the same one twice', 'a@x.test\nA@X.test', ['a@x.test'], /1 added, 1 on the list already/],
    [
      'what is no address',
      'a@x.test\nnobody',
      ['a@x.test'],
      /1 added, 0 on the list already; rejected: nobody \(line 2/,
    ],
  ];
  for (const [name, typed, listed, said] of rows)
    it(`takes ${name}`, async () => {
      const { html } = await browser.submit('/suppressions/import', { emails: typed });
      assert.match(html, said);
      assert.deepEqual(await onList(), listed);
    });

  it('says of a whole address alone that it is mailed, and lists every scope of one', async () => {
    for (const more of [{}, { stream: 'broadcast' }])
      await app.request('POST', '/v1/suppressions', { email: 'ana.sup@dest.test', ...more });
    for (const q of ['ana.sup', 'ana.sup@dest', '@dest.test', 'mailto:ana.sup@dest.test']) {
      const { status, html } = await browser.open(`/suppressions?q=${encodeURIComponent(q)}`);
      assert.equal(status, 200, q);
      assert.match(html, /is not a whole address/, q);
      assert.doesNotMatch(html, /it is mailed/, q);
    }
    assert.match(
      (await browser.open('/suppressions?q=bo@dest.test')).html,
      /bo@dest\.test is not on the list: it is mailed/,
    );
    const { html } = await browser.open('/suppressions?q=Ana.Sup@DEST.test');
    assert.equal(html.match(/name="scope" value="(?:account|stream:broadcast)"/g)?.length, 2);
  });

  it('says where a quote is not closed, and keeps what was typed', async () => {
    const { html } = await browser.submit('/suppressions/import', { emails: 'a@x.test\n"b@x.test' });
    assert.match(html, /quote/);
    assert.match(html, /&quot;b@x\.test/);
    assert.deepEqual(await onList(), []);
  });

  it('removes the entry of the row alone: what the recipient asked for stays', async () => {
    const added = (body: object) => app.request('POST', '/v1/suppressions', { email: 'a@x.test', ...body });
    const left = async () =>
      (await app.get<{ data: { scope: string }[] }>('/v1/suppressions')).body.data.map(({ scope }) => scope).sort();
    await added({ stream: 'broadcast', reason: 'unsubscribe' });
    await added({});
    const { html } = await browser.submit('/suppressions/remove', { email: 'a@x.test', scope: 'account' });
    assert.match(html, /a@x\.test is still on the list, for the stream broadcast\./);
    assert.deepEqual(await left(), ['stream:broadcast']);
    await added({});
    const why = { note: 'asked by phone' };
    await browser.submit('/suppressions/remove', { email: 'a@x.test', scope: 'stream:broadcast', ...why });
    assert.deepEqual(await left(), ['account']);
    const listed = await app.get<{ data: { after: object }[] }>('/v1/audit?operation=deleteSuppression');
    assert.deepEqual(
      listed.body.data.map(({ after }) => after),
      [why, null],
    );
    assert.equal((await app.request('DELETE', `/v1/suppressions/a@x.test?note=${'x'.repeat(501)}`)).status, 400);
    const { html: actions } = await browser.open('/developer/actions');
    assert.match(actions, /removed a@x\.test from suppressions<\/a> <a href="\/suppressions\?q&#x3D;a%40x\.test"/);
    await added({ stream: 'broadcast' });
    const both = await app.request('DELETE', '/v1/suppressions/a@x.test?scope=account&stream=broadcast');
    assert.equal(both.status, 400);
    assert.equal((await app.request('DELETE', '/v1/suppressions/a@x.test?scope=account')).status, 204);
    assert.deepEqual(await left(), ['stream:broadcast']);
    await added({});
    assert.equal((await app.request('DELETE', '/v1/suppressions/a@x.test')).status, 204);
    assert.deepEqual(await left(), []);
  });
});
