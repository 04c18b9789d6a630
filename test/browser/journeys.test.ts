/** Follows people through the dashboard in a real browser: from the set-up link to a lane that is paused. */
import assert from 'node:assert/strict';
import type { Dialog, Page } from 'playwright-core';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { PASSWORD } from '../support/harness/browser.ts';
import { ifChromium, needsChromium, openWindow, setUp, signOut } from '../support/harness/chromium.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';

const EMAIL = 'ana@example.net';
const SIMULATED = { from: 'hi@simulator.posthorn.test' };

describe('browser: journeys', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let page: Page;
  let close: () => Promise<void>;
  let complaints: string[] = [];

  before(async function () {
    needsChromium(this);
    server = await startMailServer({ script: { rcpt: () => '450 4.2.0 busy' } });
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
    const window = await openWindow(app.url);
    ({ page, complaints } = window);
    close = () => window.context.close();
  });
  after(
    ifChromium(async () => {
      await close();
      await app.stop();
      await server.close();
    }),
  );
  afterEach(() => {
    assert.deepEqual(complaints, [], 'the console stays quiet: no script fails, and nothing is blocked');
  });

  it('sets up the first administrator, and shows the first steps', async () => {
    await setUp(page, (await app.operator.call('admin.reset', {})).url, EMAIL);
    assert.match(await page.locator('h1').innerText(), /First steps/);
    assert.equal(await page.locator('.steps > li').count(), 4);
  });

  it('signs out and in again, back to the page that was asked for', async () => {
    await signOut(page);
    await page.goto('/suppressions');
    await page.waitForURL('**/login?next=*');
    await page.getByLabel('E-mail address').fill(EMAIL);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.keyboard.press('Enter');
    await page.waitForURL('**/suppressions');
  });

  it('makes a key, shows it once, and what it opens works', async () => {
    await page.goto('/developer/keys');
    await page.getByRole('link', { name: 'New API key' }).first().click();
    await page.getByLabel('Name').fill('browser');
    await page.getByLabel('Your current password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Create key' }).click();
    const key = await page.locator('#the-key').innerText();
    assert.match(key, /^ak_live_/);
    const { status } = await app.request(
      'POST',
      '/v1/messages',
      { ...SIMULATED, to: 'delivered@simulator.posthorn.test', subject: 'From a key', text: 'x' },
      { key },
    );
    assert.equal(status, 202);
    await page.getByLabel('I have stored it').check();
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('link', { name: 'browser', exact: true }).click();
    assert.doesNotMatch(await page.content(), new RegExp(key));
    await page.getByRole('link', { name: 'Request log of this key' }).click();
    await page.getByText('/v1/messages').first().waitFor();
  });

  it('adds a domain and shows the records to publish, to be copied', async () => {
    await page.goto('/domains');
    await page.getByLabel('Add a domain').fill('new.example');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.waitForURL('**/domains/*');
    assert.match((await page.locator('main').textContent()) ?? '', /_dmarc\.new\.example/);
    await page.getByRole('heading', { name: /^Paste these \d records$/ }).waitFor();
    assert.match((await page.locator('[data-copy*="v=DKIM1"]').first().getAttribute('data-copy')) ?? '', /p=/);
    await page.getByRole('button', { name: 'Check DNS now' }).click();
    await page.getByText('Mail from new.example is refused until a check finds all required records').waitFor();
  });

  it('watches events of the simulator arrive', async () => {
    await page.goto('/events');
    const { id } = await app.send({ ...SIMULATED, to: 'delivered@simulator.posthorn.test', subject: 'Seen live' });
    await page.locator('tr', { hasText: 'delivered' }).filter({ hasText: 'Seen live' }).first().waitFor();
    await page.locator(`a[href="/messages/${id}"]`).first().click();
    await page.locator('.timeline').waitFor();
    const frame = page.frameLocator('iframe');
    assert.equal(await frame.locator('script').count(), 0);
  });

  it('changes a list by its chips alone, with the address, and goes back', async () => {
    await app.send({ ...SIMULATED, to: 'bounced@simulator.posthorn.test', subject: 'Refused' });
    await app.settled();
    await page.goto('/messages');
    await page.evaluate('window.same = true');
    await page
      .locator('.chips')
      .getByRole('link', { name: /^bounced/ })
      .click();
    await page.waitForURL('**/messages?status=bounced*');
    await page.locator('td', { hasText: 'Refused' }).first().waitFor();
    assert.equal(await page.locator('td', { hasText: 'Seen live' }).count(), 0);
    assert.equal(await page.evaluate('window.same'), true, 'the page was not loaded anew');
    await page.getByRole('searchbox', { name: 'Search' }).fill('tag:nothing');
    await page.keyboard.press('Enter');
    await page.getByText('Nothing matches').waitFor();
    assert.match(page.url(), /status=bounced/);
    assert.doesNotMatch(page.url(), /stream=|test=/, 'empty fields ask for nothing');
    await page.goBack();
    await page.locator('td', { hasText: 'Refused' }).first().waitFor();
  });

  it('draws charts, and has their numbers as titles and as a table', async () => {
    await page.goto('/stats?test=true&range=24h');
    assert.ok((await page.locator('.plot svg').count()) >= 3);
    await page.locator('.plot summary').first().click();
    await page.locator('.plot table').first().getByText('delivered').waitFor();
    const title = page.locator('.plot').first().locator('.column title').last();
    assert.match((await title.textContent()) ?? '', /^\d\d:\d\d: delivered \d+, bounced \d+/);
  });

  it('colours a template while one types, previews all of it, and names faults by line', async () => {
    await page.goto('/templates/new');
    await page.getByLabel('Name', { exact: true }).fill('Receipt');
    await page.getByLabel('Subject').fill('Hello {{ name }}');
    await page.getByLabel('HTML', { exact: true }).pressSequentially('<p>Dear {{ name }}</p>');
    await page.locator('.code .k-blue', { hasText: '{{ name }}' }).waitFor();
    const frame = page.frameLocator('iframe[name=preview]');
    await frame.getByText('Hello Ana').waitFor();
    await frame.frameLocator('iframe.light').getByText('Dear Ana').waitFor();
    await page.getByText('derived from the HTML').click();
    await page.getByLabel('Text', { exact: true }).fill('{{#if paid}}');
    await frame.getByText('text, line 1').waitFor();
  });

  it('keeps sample values, and asks before typed text is lost', async () => {
    await page.goto('/templates/new');
    await page.getByText('A draft that was not saved').waitFor();
    assert.equal(await page.getByLabel('Subject').inputValue(), 'Hello {{ name }}', 'the draft of before was kept');
    await page.getByRole('button', { name: 'Discard it' }).click();
    await page.waitForFunction(`document.querySelector('[name=subject]')?.value === ''`);
    await page.getByLabel('Name', { exact: true }).fill('Looks');
    await page.getByLabel('Subject').fill('Hello {{ name }}');
    await page.getByLabel('HTML', { exact: true }).fill('<p>Dear {{ name }}</p>');
    await page.locator('#editor [name=sample_variables]').fill('{"name":"Bo"}');
    await page.getByRole('button', { name: 'Save and publish' }).click();
    await page.getByText('The template is created').waitFor();
    assert.equal(await page.locator('#editor [name=sample_variables]').inputValue(), '{\n  "name": "Bo"\n}');

    await page.getByRole('button', { name: 'Preview' }).click();
    const frame = page.frameLocator('iframe[name=preview]');
    await frame.getByText('Hello Bo').waitFor();
    const where = page.url();
    const asked: string[] = [];
    let leaves = false;
    const answer = (dialog: Dialog): void => {
      asked.push(dialog.type());
      void (leaves ? dialog.accept() : dialog.dismiss());
    };
    page.on('dialog', answer);
    await page.getByLabel('Subject').fill('Good day {{ name }}');
    const menu = page.locator('nav.menu');
    await menu.getByRole('link', { name: 'Domains' }).click();
    await page.waitForFunction(`document.querySelector('main')?.getAttribute('aria-busy') !== 'true'`);
    assert.deepEqual([page.url(), asked], [where, ['beforeunload']]);
    assert.equal(await page.getByLabel('Subject').inputValue(), 'Good day {{ name }}');
    leaves = true;
    await menu.getByRole('link', { name: 'Domains' }).click();
    await page.waitForURL('**/domains');
    await menu.getByRole('link', { name: 'Templates' }).click();
    await page.waitForURL('**/templates');
    page.off('dialog', answer);
    assert.deepEqual(asked, ['beforeunload', 'beforeunload'], 'nothing is asked where nothing was typed');
  });

  it('restores an earlier version of a template in one click', async () => {
    const made = { name: 'Receipt', alias: 'receipt', subject: 'One', html: '<p>One</p>', publish: true };
    await app.request('POST', '/v1/templates', made);
    await app.request('PATCH', '/v1/templates/receipt', { html: '<p>Two</p>', publish: true });
    await page.goto('/templates');
    await page.getByRole('link', { name: 'Receipt', exact: true }).click();
    await page.getByRole('link', { name: 'Versions' }).click();
    await page.getByText('Version 1', { exact: true }).click();
    await page.frameLocator('iframe[title^="Version 1"]').getByText('One').waitFor();
    await page.getByRole('button', { name: 'Restore' }).click();
    await page.getByText('Version 3 has the content of version 1').waitFor();
    const { body } = await app.get<{ html: string; published_version: number }>('/v1/templates/receipt');
    assert.deepEqual([body.html, body.published_version], ['<p>One</p>', 3]);
  });

  it('corrects a suppression', async () => {
    await page.goto('/suppressions');
    await page.getByLabel('Address', { exact: true }).fill('bo@example.net');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByText('bo@example.net is not mailed').waitFor();
    await page.locator('td summary').first().click();
    await page.getByRole('button', { name: 'Remove, and mail it again' }).click();
    await page.getByText('bo@example.net is mailed again').waitFor();
    assert.equal((await app.get('/v1/suppressions/bo@example.net')).status, 404);
  });

  it('shows what is said on the wire as it is said', async () => {
    await app.send();
    await app.settled();
    await page.goto('/queue/lane?name=mx.dest.test');
    await page.getByRole('button', { name: 'Watch the wire' }).click();
    await page.getByText('Nothing has been said yet').waitFor();
    await app.operator.call('queue.flush', { domain: 'dest.test' });
    await page.locator('#wire li', { hasText: 'RCPT TO:<ana@dest.test>' }).first().waitFor();
    await page.locator('#wire .k-amber', { hasText: '450 4.2.0 busy' }).first().waitFor();
    assert.equal(await page.locator('#wire li.more').count(), 1, 'it goes on at the end');
    const lines = await page.locator('#wire li').count();
    await page.reload();
    assert.equal(await page.locator('#wire li').count(), lines, 'loading it again shows the same');
    await app.settled();
  });

  it('pauses a lane, which keeps mail back, and lets it go', async () => {
    await app.send();
    await app.settled();
    await page.goto('/queue');
    await page.getByRole('link', { name: 'mx.dest.test' }).click();
    await page.getByRole('button', { name: 'Pause the lane' }).click();
    await page.getByText('Paused: what waits and what comes rests').waitFor();
    assert.deepEqual(
      (await app.operator.call('queue.holds', {})).data.map(({ scope, target }) => [scope, target]),
      [['lane', 'mx.dest.test']],
    );
    await page.getByRole('button', { name: 'Release' }).click();
    await page.getByText('Released: it goes on').waitFor();
    assert.deepEqual((await app.operator.call('queue.holds', {})).data, []);
  });
});
