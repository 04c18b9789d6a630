/** The forms in a browser that runs no scripts: everything that changes something works, and says that it did. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { PASSWORD } from '../support/harness/browser.ts';
import { ifChromium, needsChromium, openWindow, setUp, signOut } from '../support/harness/chromium.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startReceiver, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';

const EMAIL = 'ana@example.net';

describe('browser: without scripts', () => {
  let server: FakeMailServer;
  let receiver: WebhookReceiver;
  let app: TestApp;
  let page: Page;
  let close = (): Promise<void> => Promise.resolve();

  before(async function () {
    needsChromium(this);
    server = await startMailServer({ script: { rcpt: () => '450 4.2.0 busy' } });
    receiver = await startReceiver();
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } },
    });
    const window = await openWindow(app.url, { javaScriptEnabled: false });
    ({ page } = window);
    close = () => window.context.close();
    await setUp(page, (await app.operator.call('admin.reset', {})).url, EMAIL);
  });
  after(
    ifChromium(async () => {
      await close();
      await app.stop();
      await receiver.close();
      await server.close();
    }),
  );

  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const said = (text: string | RegExp) => page.getByText(text).first().waitFor();
  const unfold = (text: string) => page.locator('main summary', { hasText: text }).first().click();

  it('signs out and in', async () => {
    await signOut(page);
    await page.getByLabel('E-mail address').fill(EMAIL);
    await page.getByLabel('Password').fill(PASSWORD);
    await button('Sign in').click();
    await page.waitForURL((url) => url.pathname === '/');
    await page.locator('h1', { hasText: 'Overview' }).waitFor();
  });

  it('makes one key by a double click, and shows it', async () => {
    await page.goto('/developer/keys/new');
    await page.getByLabel('Name', { exact: true }).fill('double click');
    await page.getByLabel('Your current password').fill(PASSWORD);
    await page.locator('main form button.main').dblclick();
    await page
      .getByText(/ak_live_\w{20}/)
      .first()
      .waitFor();
    await page.goto('/developer/keys');
    assert.equal(await page.locator('td a', { hasText: 'double click' }).count(), 1);
  });

  it('folds the menu on a phone', async () => {
    await page.setViewportSize({ width: 390, height: 740 });
    const entry = page.locator('nav.menu').getByRole('link', { name: 'Settings' });
    await page.goto('/');
    // The browser tells the page of its new size a little later.
    await button('Menu').waitFor();
    assert.equal(await entry.isVisible(), false);
    await button('Menu').click();
    await entry.click();
    await page.waitForURL('**/settings');
    assert.equal(await entry.isVisible(), false);
    await page.setViewportSize({ width: 1280, height: 900 });
    await button('Menu').waitFor({ state: 'hidden' });
    assert.equal(await entry.isVisible(), true, 'beside the page where there is room');
    assert.equal(await button('Menu').isVisible(), false);
  });

  it('creates a key, and revokes it', async () => {
    await page.goto('/developer/keys/new');
    await page.getByLabel('Name').fill('plain');
    await page.getByLabel('Your current password').fill(PASSWORD);
    await button('Create key').click();
    assert.match(await page.locator('#the-key').innerText(), /^ak_live_/);
    await page.getByLabel('I have stored it').check();
    await button('Done').click();
    await page.getByRole('link', { name: 'plain', exact: true }).click();
    await unfold('Revoke this key');
    await button('Revoke now').click();
    await page.goto('/developer/keys');
    await page.locator('tr.over', { hasText: 'plain' }).waitFor();
  });

  it('adds a domain, and checks it', async () => {
    await page.goto('/domains');
    await page.getByLabel('Add a domain').fill('plain.example');
    await button('Add').click();
    await page.locator('h1', { hasText: 'plain.example' }).waitFor();
    await button('Check DNS now').click();
    await said('Last check');
  });

  it('saves a template, previews and publishes it', async () => {
    await page.goto('/templates/new');
    await page.getByLabel('Name', { exact: true }).fill('Plain');
    await page.getByLabel('Subject').fill('Hello {{ name }}');
    await page.getByLabel('HTML', { exact: true }).fill('<p>Dear {{ name }}</p>');
    await button('Preview').click();
    const frame = page.frameLocator('iframe[name=preview]');
    await frame.getByText('Hello Ana').waitFor();
    await frame.frameLocator('iframe.light').getByText('Dear Ana').waitFor();
    await button('Save as a draft').click();
    await said('This version is a draft');
    await button('Publish it').click();
    await said('Published: sends use this version now.');
  });

  it('creates a webhook, and tests it', async () => {
    await page.goto('/webhooks/new');
    await page.getByLabel('URL').fill(receiver.url);
    await page.getByLabel('Your current password').fill(PASSWORD);
    await button('Create webhook').click();
    await page.getByText(/whsec_/).waitFor();
    await page.getByRole('link', { name: 'To the endpoint' }).click();
    await button('Send a test').click();
    await said(/answered 2\d\d/);
  });

  it('adds a suppression, and removes it', async () => {
    await page.goto('/suppressions');
    await page.getByLabel('Address', { exact: true }).fill('gone@example.net');
    await button('Add').click();
    await said('gone@example.net is not mailed');
    await unfold('Remove');
    await button('Remove, and mail it again').click();
    await said('gone@example.net is mailed again');
  });

  it('changes settings', async () => {
    await page.goto('/settings');
    await page.getByLabel('Opens', { exact: true }).check();
    await button('Save').click();
    await said('Changed.');
    assert.equal(await page.getByLabel('Opens', { exact: true }).isChecked(), true);
  });

  it('adds a member', async () => {
    await page.goto('/team');
    await page.getByLabel('E-mail address').fill('bo@example.net');
    await page.getByLabel('Your current password').fill(PASSWORD);
    await button('Create a link to hand over').click();
    await page.locator('main pre', { hasText: '/setup/' }).waitFor();
  });

  it('sends a message again, and cancels it', async () => {
    const { id } = await app.send();
    await app.follow().of(id, 'deferred');
    await page.goto(`/messages/${id}`);
    await unfold('Send again');
    await button('Send it again').click();
    await said('Sent again: this is the new message.');
    assert.doesNotMatch(page.url(), new RegExp(id));
    await app.settled();
    await page.reload();
    await unfold('Cancel');
    await button('Cancel now').click();
    await said('Canceled for all recipients that it had not been sent to.');
  });

  it('pauses a destination, and lets it go', async () => {
    await page.goto('/queue?domain=dest.test');
    await unfold('Pause…');
    await page.getByLabel('Note').first().fill('ticket 99');
    await button('Pause it').click();
    await page.getByRole('cell', { name: 'ticket 99' }).waitFor();
    await said('Paused: what waits and what comes rests');
    await button('Release').click();
    await said('Released: it goes on');
  });

  it('says that a form was not sent where the session has ended, and leads back to its page', async () => {
    await page.goto('/streams');
    app.clock.advance(13 * 3_600_000);
    await page.getByLabel('Slug').fill('late');
    await page.getByLabel('Name').last().fill('Late <news>');
    await button('Create it').click();
    await said('Your session has ended, so the form was not sent');
    await page.getByLabel('E-mail address').fill(EMAIL);
    await page.getByLabel('Password').fill(PASSWORD);
    await button('Sign in').click();
    await page.waitForURL('**/streams');
  });
});
