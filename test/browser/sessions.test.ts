/** Two windows, a second click, the way back: what people do with a browser beside filling in one form after the other. */
import assert from 'node:assert/strict';
import type { BrowserContext, Page } from 'playwright-core';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { codeAt, stepOf } from '../../src/members/totp.ts';
import { PASSWORD, secretIn } from '../support/harness/browser.ts';
import { findingsHere, ifChromium, needsChromium, openWindow, setUp, signOut } from '../support/harness/chromium.ts';

const EMAIL = 'ana@example.net';

describe('browser: windows and sessions', () => {
  let app: TestApp;
  let page: Page;
  let context: BrowserContext;

  beforeEach(async function () {
    needsChromium(this);
    app = await startTestApp();
    ({ page, context } = await openWindow(app.url));
    await setUp(page, (await app.operator.call('admin.reset', {})).url, EMAIL);
  });
  afterEach(
    ifChromium(async () => {
      await context.close();
      await app.stop();
    }),
  );

  const second = (): Promise<Page> => context.newPage();
  const signIn = async (on: Page): Promise<void> => {
    await on.getByLabel('E-mail address').fill(EMAIL);
    await on.getByLabel('Password').fill(PASSWORD);
    await on.getByRole('button', { name: 'Sign in' }).click();
  };

  const fillStream = async (slug: string): Promise<void> => {
    await page.goto('/streams');
    await page.getByLabel('Slug').fill(slug);
    await page.getByLabel('Name').last().fill('A stream');
  };
  const streams = async (): Promise<string[]> =>
    (await app.get<{ data: { slug: string }[] }>('/v1/streams')).body.data.map(({ slug }) => slug);

  it('shows nothing on the way back after signing out', async () => {
    await app.send({
      from: 'hi@simulator.posthorn.test',
      to: 'delivered@simulator.posthorn.test',
      subject: 'Secret words',
    });
    await page.goto('/messages');
    await page.getByText('Secret words').first().waitFor();
    await signOut(page);
    await page.waitForURL('**/login');
    await page.goBack();
    await page.waitForURL('**/login*');
    assert.equal(await page.getByText('Secret words').count(), 0);
  });

  it('does once what was clicked twice', async () => {
    await page.goto('/developer/keys/new');
    await page.getByLabel('Name').fill('twice');
    await page.getByLabel('Your current password').fill(PASSWORD);
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

  it('signs in in place when the session has ended, and sends what was typed, with nothing that axe finds on the way', async () => {
    await page.goto('/templates/new');
    await page.getByLabel('Name', { exact: true }).fill('Long work');
    await page.getByLabel('HTML', { exact: true }).fill('<p>Two hours of typing: {{ name }}</p>');
    app.clock.advance(13 * 3_600_000);
    await page.getByRole('button', { name: 'Save as a draft' }).click();
    await page.getByText('Your session has ended').waitFor();
    assert.deepEqual(await findingsHere(page), []);
    await page.getByLabel('E-mail address').fill(EMAIL);
    await page.getByLabel('Password').fill('not the right one');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('Wrong e-mail address or password').waitFor();
    await signIn(page);
    await page.getByText('The template is created').waitFor();
    assert.equal(await page.getByLabel('HTML', { exact: true }).inputValue(), '<p>Two hours of typing: {{ name }}</p>');
  });

  it('keeps what was typed on a page that follows what happens', async () => {
    await page.goto('/queue');
    await page.getByText('Hold or pause a part of the queue').click();
    const field = page.getByLabel('Its name');
    await field.fill('typed before the end');
    app.clock.advance(13 * 3_600_000);
    await page.getByText('What you typed is still here').waitFor();
    assert.equal(await field.inputValue(), 'typed before the end');
    await field.fill('');
    await page.waitForURL('**/login*');
  });

  it('keeps a refused form on a page that follows what happens', async () => {
    await page.goto('/queue');
    await page.getByText('Hold or pause a part of the queue').click();
    await page.getByLabel('Its name').fill('dest.test');
    await page.getByLabel('For hours').first().fill('two');
    await page.getByRole('button', { name: 'Hold it' }).click();
    await page.getByText('more than 0 and at most 8,784').waitFor();
    app.clock.advance(13 * 3_600_000);
    await page.getByText('What you typed is still here').waitFor();
    assert.equal(await page.getByLabel('Its name').inputValue(), 'dest.test');
  });

  it('leaves the page as it is when signing in again is canceled', async () => {
    await fillStream('later');
    app.clock.advance(13 * 3_600_000);
    await page.getByRole('button', { name: 'Create it' }).click();
    await page.getByText('Your session has ended').waitFor();
    await page.keyboard.press('Escape');
    assert.equal(await page.getByLabel('Slug').inputValue(), 'later');
  });

  it('asks for the second factor in place, too', async () => {
    await page.goto('/profile/second-factor');
    const secret = secretIn(await page.content());
    const code = (): string => codeAt(secret, stepOf(app.clock.now()));
    await page.getByLabel('Code').fill(code());
    await page.getByLabel('Current password').fill(PASSWORD);
    await page.locator('main form button.main').click();
    await page.getByRole('heading', { name: 'Recovery codes' }).waitFor();
    await fillStream('factor');
    app.clock.advance(13 * 3_600_000);
    await page.getByRole('button', { name: 'Create it' }).click();
    await page.getByText('Your session has ended').waitFor();
    await signIn(page);
    await page.getByLabel('Code', { exact: true }).fill(code());
    assert.deepEqual(await findingsHere(page), []);
    await page.getByRole('button', { name: 'Sign in' }).first().click();
    await page.getByText('The stream is created').waitFor();
  });

  it('sends a form after signing out and in in another window', async () => {
    const other = await second();
    await fillStream('older');
    await other.goto('/');
    await signOut(other);
    await other.waitForURL('**/login');
    await signIn(other);
    await other.locator('h1', { hasText: 'Overview' }).waitFor();
    await page.getByRole('button', { name: 'Create it' }).click();
    await page.getByText('The stream is created').waitFor();
  });

  it('does not send the form of one member for another who has signed in', async () => {
    await page.goto('/team');
    await page.locator('main form[action="/team"] [name=email]').fill('bo@example.net');
    await page.getByLabel('Your current password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Create a link to hand over' }).click();
    const link = new URL(await page.locator('main pre').innerText()).pathname;
    await fillStream('mine');
    const other = await second();
    await other.goto('/');
    await signOut(other);
    await other.waitForURL('**/login');
    await other.goto(link);
    await other.getByLabel('Password', { exact: true }).fill(PASSWORD);
    await other.getByLabel('Repeat the password').fill(PASSWORD);
    await other.locator('form button.main').click();
    await other.locator('h1', { hasText: 'Overview' }).waitFor();
    await page.getByRole('button', { name: 'Create it' }).click();
    await page.getByText('someone else is signed in now').waitFor();
    assert.deepEqual(await findingsHere(page), []);
    assert.ok(!(await streams()).includes('mine'));
  });

  it('asks before it acts on an account that another window switched away from', async () => {
    await app.operator.call('accounts.add', { name: 'other' });
    await fillStream('mine');
    const other = await second();
    await other.goto('/accounts');
    await other.locator('tr', { hasText: 'other' }).getByRole('button', { name: 'Switch to it' }).click();
    await other.getByText('You now look at other').waitFor();
    await page.getByRole('button', { name: 'Create it' }).click();
    await page.getByText('You look at other in another window').waitFor();
    assert.deepEqual(await findingsHere(page), []);
    await page.getByRole('button', { name: 'Cancel' }).click();
    assert.ok(!(await streams()).includes('mine'));
    await page.getByRole('button', { name: 'Create it' }).click();
    await page.getByRole('button', { name: 'Switch back and send' }).click();
    await page.getByText('The stream is created').waitFor();
    assert.ok((await streams()).includes('mine'));
  });

  it('shows no part of an account that another window switched to below the name of the old one', async () => {
    await app.operator.call('accounts.add', { name: 'other' });
    await page.goto('/');
    const lookUp = await second();
    await lookUp.goto('/suppressions');
    const other = await second();
    await other.goto('/accounts');
    await other.locator('tr', { hasText: 'other' }).getByRole('button', { name: 'Switch to it' }).click();
    await other.getByText('You now look at other').waitFor();
    await page.bringToFront();
    await page.getByText('no longer follows what happens: reload it').waitFor();
    await lookUp.bringToFront();
    await lookUp.getByLabel('Look up an address').fill('ana@example.net');
    await lookUp.getByRole('button', { name: 'Look up' }).click();
    await lookUp.getByText('ana@example.net is not on the list').waitFor();
    assert.equal(await lookUp.locator('body').getAttribute('data-account-name'), 'other', 'the whole page is of it');
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
    await page.getByText('That did not work').waitFor();
    await row.waitFor({ state: 'detached' });
  });
});
