/** Two windows, a second click, the way back: what people do with a browser beside filling in one form after the other. */
import assert from 'node:assert/strict';
import type { BrowserContext, Page } from 'playwright-core';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { PASSWORD } from '../support/harness/browser.ts';
import { findingsHere, needsChromium, openWindow, setUp } from '../support/harness/chromium.ts';

const EMAIL = 'ana@example.net';

describe('browser: windows and sessions', function () {
  this.timeout(120_000);
  let app: TestApp;
  let page: Page;
  let context: BrowserContext;

  beforeEach(async function () {
    needsChromium(this);
    app = await startTestApp();
    ({ page, context } = await openWindow(app.url));
    await setUp(page, (await app.operator.call('admin.reset', {})).url, EMAIL);
  });
  afterEach(async () => {
    await context.close();
    await app.stop();
  });

  const second = async (): Promise<Page> => {
    const other = await context.newPage();
    other.setDefaultTimeout(15_000);
    return other;
  };
  const signIn = async (on: Page): Promise<void> => {
    await on.getByLabel('E-mail address').fill(EMAIL);
    await on.getByLabel('Password').fill(PASSWORD);
    await on.getByRole('button', { name: 'Sign in' }).click();
  };

  it('shows nothing on the way back after signing out', async () => {
    await app.send({
      from: 'hi@simulator.posthorn.test',
      to: 'delivered@simulator.posthorn.test',
      subject: 'Secret words',
    });
    await page.goto('/messages');
    await page.getByText('Secret words').first().waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL('**/login');
    await page.goBack();
    await page.waitForURL('**/login*');
    assert.equal(await page.getByText('Secret words').count(), 0);
  });

  it('does once what was clicked twice', async () => {
    await page.goto('/developer/keys/new');
    await page.getByLabel('Name').fill('twice');
    await page.evaluate(
      `(() => { const one = document.querySelector('main form button.main'); one.click(); one.click(); })()`,
    );
    await page.locator('#the-key').waitFor();
    const { body } = await app.get<{ data: { name: string }[] }>('/v1/keys');
    assert.equal(body.data.filter(({ name }) => name === 'twice').length, 1);
  });

  it('lets a form be sent again after a step back', async () => {
    await page.goto('/suppressions');
    for (const email of ['one@example.net', 'two@example.net']) {
      await page.getByLabel('Address', { exact: true }).fill(email);
      await page.getByRole('button', { name: 'Add', exact: true }).click();
      await page.getByText(`${email} is not mailed`).waitFor();
      await page.goBack();
    }
  });

  it('keeps what was typed when the session ended, with nothing that axe finds on the way', async () => {
    await page.goto('/templates/new');
    await page.getByLabel('Name', { exact: true }).fill('Long work');
    await page.getByLabel('HTML', { exact: true }).fill('<p>Two hours of typing: {{ name }}</p>');
    app.clock.advance(13 * 3_600_000);
    await page.getByRole('button', { name: 'Save as a draft' }).click();
    await page.getByText('Your session has ended').waitFor();
    const findings = await findingsHere(page);
    await signIn(page);
    await page.getByText('Not sent yet').waitFor();
    findings.push(...(await findingsHere(page)));
    assert.deepEqual(findings, []);
    await page.getByRole('button', { name: 'Send it now' }).click();
    await page.getByText('The template is made').waitFor();
    assert.equal(await page.getByLabel('HTML', { exact: true }).inputValue(), '<p>Two hours of typing: {{ name }}</p>');
  });

  it('goes on in one window after signing out and in in another, and asks before it sends what is older', async () => {
    const other = await second();
    await page.goto('/streams');
    await page.getByLabel('Slug').fill('older');
    await page.getByLabel('Name').last().fill('Older');
    await other.goto('/');
    await other.getByRole('button', { name: 'Sign out' }).click();
    await other.waitForURL('**/login');
    await signIn(other);
    await other.locator('h1', { hasText: 'Overview' }).waitFor();
    await page.getByRole('button', { name: 'Create it' }).click();
    await page.getByText('Not sent yet').waitFor();
    assert.deepEqual(await findingsHere(page), []);
    await page.getByRole('button', { name: 'Send it now' }).click();
    await page.getByText('The stream is made').waitFor();
  });

  it('asks before it acts on an account that another window went over to', async () => {
    await app.operator.call('accounts.add', { name: 'other' });
    await page.goto('/streams');
    await page.getByLabel('Slug').fill('mine');
    await page.getByLabel('Name').last().fill('Mine');
    const other = await second();
    await other.goto('/accounts');
    await other.locator('tr', { hasText: 'other' }).getByRole('button', { name: 'Switch to it' }).click();
    await other.getByText('You look at other now').waitFor();
    await page.getByRole('button', { name: 'Create it' }).click();
    await page.getByText('this form was opened for another account').waitFor();
    await page.getByRole('link', { name: 'Discard it' }).click();
    await page.waitForURL('**/streams');
    const { body } = await app.get<{ data: { slug: string }[] }>('/v1/streams');
    assert.ok(!body.data.some(({ slug }) => slug === 'mine'));
  });

  it('says what is gone where one window deleted what another looks at', async () => {
    const { body } = await app.request<{ id: string }>('POST', '/v1/streams', {
      slug: 'gone',
      name: 'Gone',
      type: 'broadcast',
    });
    await page.goto('/streams');
    assert.equal((await app.request('DELETE', `/v1/streams/${body.id}`)).status, 204);
    const row = page.locator('tr', { hasText: 'Gone' });
    await row.locator('summary', { hasText: 'Remove' }).click();
    await row.getByRole('button', { name: 'Remove now' }).click();
    await page.locator('h1', { hasText: 'Not found' }).waitFor();
    await page.getByRole('link', { name: 'Go back' }).click();
    await page.waitForURL('**/streams');
  });
});
