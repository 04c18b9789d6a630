/** Correcting past bounces in the dashboard: counted first, done once confirmed, refused without rules of one's own. */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { newFolder, startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { signedIn, type Browser } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';

const WHERE = '/queue/reclassify';
const HOUSE = 'rules: [{ name: house, class: soft, reason: other, text: [closed for repair] }]';

describe('dashboard: past bounces', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let browser: Browser;
  let folder: string;
  let file: string;

  beforeEach(async () => {
    server = await startMailServer({ script: { rcpt: '550 5.1.1 closed for repair' } });
    folder = newFolder();
    file = path.join(folder, 'rules.yaml');
    writeFileSync(file, 'rules: []');
    app = await startTestApp({
      folder,
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { delivery: { bounceRules: [file] } },
    });
    browser = await signedIn(app.url, app.operator);
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
    rmSync(folder, { recursive: true });
  });

  const suppressed = async (): Promise<number> =>
    (await app.get<{ data: unknown[] }>('/v1/suppressions')).body.data.length;

  it('are counted, and corrected once that is confirmed', async () => {
    const { id } = await app.send({ to: 'ana@dest.test' });
    await app.settled();
    assert.equal(await suppressed(), 1);
    writeFileSync(file, HOUSE);
    assert.match((await browser.open('/queue')).html, /href="\/queue\/reclassify"/);
    await browser.open(WHERE);
    const counted = await browser.submit(`${WHERE}/count`, { hours: '48' });
    assert.match(
      counted.html,
      /<strong>1 attempt<\/strong> and <strong>0 bounce mails<\/strong> of the past 48 hours would be reclassified/,
    );
    assert.match(counted.html, /name="hours" value="48"/);
    assert.deepEqual(htmlFaults(counted.html), []);
    assert.equal(await suppressed(), 1, 'nothing is changed yet');
    const done = await browser.submit(WHERE, { hours: '48' });
    assert.match(done.html, /1 attempt and 0 bounce mails are reclassified; 1 address left the suppression list\./);
    assert.equal(await suppressed(), 0);
    const [attempt] = (await app.message(id)).attempts;
    assert.deepEqual([attempt?.class, attempt?.reason], ['soft', 'other']);
    const none = await browser.submit(`${WHERE}/count`, { hours: '48' });
    assert.match(none.html, /decide on no attempt and no bounce mail of the past 48 hours otherwise/);
    assert.doesNotMatch(none.html, /Correct them now/);
  });

  it('say what is wrong with the time, and that there are no rules', async () => {
    await browser.open(WHERE);
    for (const act of [WHERE, `${WHERE}/count`])
      for (const hours of ['', '0', 'all', '9000']) {
        const refused = await browser.submit(act, { hours });
        assert.equal(refused.status, 400, hours);
        assert.match(refused.html, /at most 8,784, a year/);
        assert.deepEqual(htmlFaults(refused.html), []);
      }
    const refused = await browser.submit(`${WHERE}/count`, { hours: '24' });
    assert.equal(refused.status, 409);
    assert.match(refused.html, /There are no rules in delivery\.bounceRules/);
  });
});
