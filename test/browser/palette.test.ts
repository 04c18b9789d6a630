/** The search over everything: the palette by keyboard alone, and its page in a browser that runs no scripts. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { PASSWORD } from '../support/harness/browser.ts';
import { findingsHere, ifChromium, needsChromium, openWindow, setUp } from '../support/harness/chromium.ts';

const EMAIL = 'ana@example.net';

describe('browser: the palette', () => {
  let app: TestApp;
  let page: Page;
  let complaints: string[] = [];
  let close = (): Promise<void> => Promise.resolve();
  let message = '';
  let event = '';

  before(async function () {
    needsChromium(this);
    app = await startTestApp({ zones: zonesFor('dest.test') });
    ({ id: message } = await app.send({
      from: 'hi@simulator.posthorn.test',
      to: 'delivered@simulator.posthorn.test',
      subject: 'Zebrafinch is on its way',
    }));
    await app.settled();
    const { body } = await app.get<{ data: { id: string }[] }>(`/v1/events?message_id=${message}`);
    event = body.data[0]?.id ?? assert.fail('no event');
    const window = await openWindow(app.url);
    ({ page, complaints } = window);
    close = () => window.context.close();
    await setUp(page, (await app.operator.call('admin.reset', {})).url, EMAIL);
  });
  after(
    ifChromium(async () => {
      await close();
      await app.stop();
    }),
  );

  const dialog = () => page.getByRole('dialog', { name: 'Search' });
  const field = () => dialog().getByRole('combobox', { name: 'Search everything' });
  const options = () => dialog().getByRole('listbox', { name: 'Found' }).getByRole('option');
  const chosen = () => dialog().getByRole('option', { selected: true });
  /** Waits until the option that Enter would take has this text. */
  const chosenIs = (text: string) => chosen().filter({ hasText: text }).waitFor();
  const open = async (key = 'Control+k'): Promise<void> => {
    // The browser drops keys that are pressed before it has drawn a new page.
    await page.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
    await page.keyboard.press(key);
    await field().waitFor();
  };
  const seek = async (text: string): Promise<void> => {
    await open();
    await page.keyboard.type(text);
  };
  const go = async (where: RegExp): Promise<void> => {
    await page.keyboard.press('Enter');
    await page.waitForURL(where);
  };

  it('opens with Ctrl-K and with a slash, takes the keyboard, and closes with Escape', async () => {
    await page.goto('/streams');
    for (const key of ['Control+k', '/']) {
      await open(key);
      assert.equal(await page.evaluate('document.activeElement.id'), 'palette-field');
      assert.equal(await field().inputValue(), '', 'the slash is not typed');
      await page.keyboard.press('Escape');
      await dialog().waitFor({ state: 'hidden' });
    }
    await page.goto('/messages');
    await page.keyboard.press('/');
    assert.equal(await page.evaluate('document.activeElement.name'), 'q', "a page's own search has the slash");
    await page.keyboard.press('Control+k');
    await field().waitFor();
    await page.keyboard.press('Escape');
  });

  it('says to a screen reader which option is chosen, follows the arrows around, and goes there with Enter', async () => {
    await page.goto('/');
    await seek('st');
    await chosenIs('Stats');
    const ids = await Promise.all((await options().all()).map((one) => one.getAttribute('id')));
    assert.ok(ids.length > 2, ids.join());
    const active = () => field().getAttribute('aria-activedescendant');
    assert.equal(await active(), ids[0]);
    await page.keyboard.press('ArrowDown');
    assert.equal(await active(), ids[1]);
    assert.equal(await chosen().count(), 1);
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('ArrowUp');
    assert.equal(await active(), ids.at(-1), 'before the first comes the last');
    await page.keyboard.press('ArrowDown');
    assert.equal(await dialog().getByRole('status').innerText(), `${String(ids.length)} found`);
    await go(/\/stats$/);
  });

  it('finds a message by words, by its id and by the id of one of its events', async () => {
    for (const text of ['zebraf', message, event]) {
      await page.goto('/');
      await seek(text);
      await chosenIs('Zebrafinch');
      await go(new RegExp(`/messages/${message}$`));
    }
    await page.goto(`/messages?q=${event}`);
    await page.waitForURL(new RegExp(`/messages/${message}$`));
  });

  it('leads to the form that pauses a domain, with the domain chosen', async () => {
    await page.goto('/');
    await seek('pause dest.test');
    await chosenIs('Pause mail to dest.test');
    await go(/\/queue\?domain=dest\.test/);
    await page.getByLabel('For hours').fill('much');
    await page.getByRole('button', { name: 'Pause it' }).click();
    await page.locator('.fault').first().waitFor();
    await page.getByRole('heading', { name: 'dest.test' }).waitFor();
    await page.getByLabel('For hours').fill('2');
    await page.getByLabel('Note').fill('ticket 99');
    await page.getByRole('button', { name: 'Pause it' }).click();
    await page.getByRole('cell', { name: 'ticket 99' }).waitFor();
    const { data } = await app.operator.call('queue.holds', {});
    assert.deepEqual(
      data.map(({ scope, target, catches_new: all, note }) => [scope, target, all, note]),
      [['domain', 'dest.test', true, 'ticket 99']],
    );
  });

  it('has no finding of axe while it is open, and fits a phone', async () => {
    await page.goto('/');
    await seek('dest.test');
    await chosenIs('Pause mail to dest.test');
    assert.deepEqual(await findingsHere(page), []);
  });

  it('signs out', async () => {
    await page.goto('/');
    await seek('sign out');
    await chosenIs('Sign out');
    await go(/\/login/);
    assert.deepEqual(complaints, []);
  });

  it('is a page in a browser that runs no scripts', async () => {
    const window = await openWindow(app.url, { javaScriptEnabled: false });
    try {
      const { page: plain } = window;
      await plain.goto('/login');
      await plain.getByLabel('E-mail address').fill(EMAIL);
      await plain.getByLabel('Password').fill(PASSWORD);
      await plain.getByRole('button', { name: 'Sign in' }).click();
      await plain.getByRole('link', { name: 'Search', exact: true }).click();
      await plain.getByRole('searchbox', { name: 'Search everything' }).fill(event);
      await plain.getByRole('main').getByRole('button', { name: 'Search' }).click();
      await plain.getByRole('main').getByRole('link', { name: 'Zebrafinch' }).click();
      await plain.waitForURL(new RegExp(`/messages/${message}$`));
      await plain.goto('/search?q=sign%20out');
      await plain.getByRole('main').getByRole('button', { name: 'Sign out' }).click();
      await plain.waitForURL('**/login*');
    } finally {
      await window.context.close();
    }
  });
});
