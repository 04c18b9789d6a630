/** The addresses that mail leaves from, in the dashboard: warm-up, pauses, block lists, and which stream uses which pool. */
import assert from 'node:assert/strict';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { signedIn, type Browser } from '../support/harness/browser.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { htmlFaults } from '../support/harness/html.ts';

const WHERE = '/settings/sources';
const LISTED = '554 5.7.1 Service unavailable; client host [127.0.0.2] blocked using <b>a block list</b>';
const SOURCES = [
  { name: 'one', ipv4: '127.0.0.2', ehlo: 'one.posthorn.test', warmUp: true },
  { name: 'two', ipv4: '127.0.0.3', ehlo: 'two.posthorn.test' },
];

describe('dashboard: addresses', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let browser: Browser;
  let answers: Record<string, string>;

  const start = async (settings: Record<string, unknown>): Promise<void> => {
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test'), settings });
    browser = await signedIn(app.url, app.operator);
  };
  const delivered = async (): Promise<void> => {
    const { id } = await app.send();
    await app.follow().of(id, 'delivered');
    await app.settled();
  };

  beforeEach(async () => {
    answers = {};
    server = await startMailServer({ script: { rcpt: (_, { from }) => answers[from] ?? '250 2.1.5 ok' } });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  it('say that the system chooses where none is named', async () => {
    await start({});
    const { status, html } = await browser.open(WHERE);
    assert.equal(status, 200);
    assert.match(html, /Mail leaves from the address that the system chooses/);
    assert.deepEqual(htmlFaults(html), []);
    assert.match((await browser.open('/settings')).html, /href="\/settings\/sources"/);
    const refused = await browser.submit(`${WHERE}/pause`, { source: 'nobody' });
    assert.equal(refused.status, 404);
    assert.match((await browser.submit(`${WHERE}/unblock`, {})).html, /No site has refused it/);
  });

  it('show how far a warm-up is, are paused and released', async () => {
    await start({ delivery: { sources: SOURCES } });
    for (let n = 0; n < 4; n++) await delivered();
    const { html } = await browser.open(WHERE);
    assert.match(html, /<h3>one<\/h3>/, 'the one that is warmed up');
    assert.doesNotMatch(html, /<h3>two<\/h3>/);
    assert.match(html, /mx\.dest\.test<td class="n">\d<td class="n">50<td>/);
    assert.deepEqual(htmlFaults(html), []);
    const paused = await browser.submit(`${WHERE}/pause`, { source: 'two', note: '<i>moving</i>' });
    assert.match(paused.html, /paused<\/span>/);
    const before = server.sessions.length;
    for (let n = 0; n < 3; n++) await delivered();
    assert.ok(server.sessions.slice(before).every(({ from }) => from === '127.0.0.2'));
    assert.match((await browser.open('/queue')).html, /&lt;i&gt;moving/, 'the queue lists it with the other pauses');
    await browser.open(WHERE);
    const { data } = await app.operator.call('queue.holds', {});
    assert.doesNotMatch((await browser.submit(`${WHERE}/release`, { id: data[0]?.id ?? '' })).html, /paused<\/span>/);
  });

  it('show which site refused one by a block list, in its own words, and are used there again', async () => {
    await start({ delivery: { sources: SOURCES } });
    answers = { '127.0.0.2': LISTED };
    for (let n = 0; n < 4; n++) {
      const { id } = await app.send();
      await app.follow().of(id, 'sent');
      await app.settled();
      if ((await app.message(id)).status === 'bounced') break;
    }
    const { html } = await browser.open(WHERE);
    assert.match(html, /a block list&lt;\/b&gt;/);
    assert.match(html, /blocked<\/span>/);
    assert.deepEqual(htmlFaults(html), []);
    assert.match((await browser.submit(`${WHERE}/unblock`, { source: 'one' })).html, /Mail is sent from it again/);
    assert.doesNotMatch(browser.last.html, /blocked<\/span>/);
  });

  it('are chosen by the pool of a stream, which has its name and priority changed too', async () => {
    await start({ delivery: { sources: SOURCES } });
    await browser.open('/streams');
    const made = await browser.submit('/streams', { slug: 'news', name: 'News', type: 'broadcast', pool: 'bulk' });
    assert.match(made.html, /<td data-l="pool">bulk/);
    const { body } = await app.get<{ data: { id: string; slug: string }[] }>('/v1/streams');
    const id = body.data.find(({ slug }) => slug === 'news')?.id ?? '';
    const changed = await browser.submit(`/streams/${id}`, { name: 'Letters <b>', pool: 'default', priority: '0' });
    assert.match(
      changed.html,
      /Letters &lt;b&gt;<td>broadcast<td data-l="pool">default<td class="n" data-l="priority">0/,
    );
    const wrong = await browser.submit(`/streams/${id}`, { pool: 'No Good', priority: '7' });
    assert.equal(wrong.status, 400);
    assert.match(wrong.html, /That did not work/);
    assert.equal((await browser.submit('/streams/str_none', { name: 'x' })).status, 404);
  });
});
