/** Each page by keyboard alone: from the skip link Tab reaches everything that can be used, in order, visibly, and gets out again. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import type { TestApp } from '../support/harness/app.ts';
import { ifChromium, needsChromium, openWindow, setUp } from '../support/harness/chromium.ts';
import type { FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startFilledApp } from '../support/harness/filled.ts';

/** Returns the elements that can be used, in the order of the document: of radio buttons of one name the chosen one, or the first. */
const REACHABLE = `(() => {
  const all = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')];
  const isShown = (one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled;
  const group = (one) => all.filter((other) => other.type === 'radio' && other.form === one.form && other.name === one.name);
  const isTurn = (one) => one.type !== 'radio' || one === (group(one).find(({ checked }) => checked) ?? group(one)[0]);
  return all.filter((one) => isShown(one) && isTurn(one) && !one.matches('.skip'));
})()`;

/** Notes what gets the focus, and whether that can be seen. */
const LISTEN = `(() => {
  window.walked = [];
  window.unseen = [];
  document.addEventListener('focusin', ({ target }) => {
    const { outlineStyle, outlineWidth } = getComputedStyle(target);
    if (outlineStyle === 'none' || parseFloat(outlineWidth) < 1) window.unseen.push(target.outerHTML.slice(0, 120));
    window.walked.push(target);
  });
  document.querySelector('.skip').focus();
})()`;

/** Of what can be used: what was not reached, or not in its turn. */
const MISSED = `(() => {
  const wanted = ${REACHABLE};
  const order = window.walked.filter((one) => wanted.includes(one));
  const first = [...new Set(order)];
  const name = (one) => one.outerHTML.slice(0, 120);
  const lost = wanted.filter((one) => !first.includes(one)).map((one) => 'not reached: ' + name(one));
  const turned = first.filter((one, place) => lost.length === 0 && wanted[place] !== one).slice(0, 1).map((one) => 'out of turn: ' + name(one));
  return [...lost.slice(0, 3), ...turned, ...window.unseen.slice(0, 3).map((one) => 'not to be seen: ' + one)];
})()`;

/** Fields for dates have several stops, frames their own links. */
const STOPS = `${REACHABLE}.reduce((sum, one) => sum + (/^date/.test(one.type) ? 8 : 1), 0)`;
const MOST_IN_FRAMES = 30;

async function walk(page: Page, where: string): Promise<string[]> {
  await page.goto(where, { waitUntil: 'load' });
  // Parts that a page asks for by itself would put new elements in the place of those that were reached. It may have asked already.
  await page.evaluate(
    `document.addEventListener('htmx:beforeSwap', ({ detail }) => {
      if (detail.elt.matches('[data-poll]')) detail.shouldSwap = false;
    })`,
  );
  await page.evaluate(LISTEN);
  const stops = (await page.evaluate<number>(STOPS)) + (await page.locator('iframe').count()) * MOST_IN_FRAMES;
  const missed = (): Promise<string[]> => page.evaluate<string[]>(MISSED);
  // On a busy machine a frame that is still loading may lose the focus, which then begins at the top again.
  for (let n = 1; n <= 2 * stops; n++) {
    await page.keyboard.press('Tab');
    if (n % 8 === 0 && (await missed()).length === 0) break;
  }
  return (await missed()).map((one) => `${where} ${one}`);
}

describe('browser: the keyboard', function () {
  this.timeout(600_000);
  let server: FakeMailServer;
  let app: TestApp;
  let page: Page;
  let pages: string[] = [];
  let close = (): Promise<void> => Promise.resolve();

  before(async function () {
    needsChromium(this);
    ({ server, app, pages } = await startFilledApp());
    const window = await openWindow(app.url);
    ({ page } = window);
    close = () => window.context.close();
    await setUp(page, (await app.operator.call('admin.reset', {})).url);
  });
  after(
    ifChromium(async () => {
      await close();
      await app.stop();
      await server.close();
    }),
  );

  /** The page is shown before its script has moved the message to its form and the cursor into the field. */
  const marked = () => page.locator('[aria-invalid=true]:focus').waitFor();

  it('reaches everything on each page, in order, seen, and is caught nowhere', async () => {
    const findings: string[] = [];
    for (const where of pages) findings.push(...(await walk(page, where)));
    assert.deepEqual(findings, []);
  });

  it('does not update a live page under the focus, or while it is paused', async () => {
    await page.goto('/', { waitUntil: 'load' });
    /** Returns whether the page would ask for its live part now. */
    const asks = (): Promise<boolean> =>
      page.evaluate<boolean>(`(() => {
        const elt = document.querySelector('#live');
        const event = new CustomEvent('htmx:beforeRequest', { detail: { elt }, bubbles: true, cancelable: true });
        return elt.dispatchEvent(event);
      })()`);
    assert.equal(await asks(), true);
    await page.evaluate(`document.querySelector('#live a').focus({ focusVisible: true })`);
    assert.equal(await asks(), false);
    await page.evaluate(`document.activeElement.blur()`);
    const pause = page.getByRole('button', { name: 'Pause updates' });
    await pause.press('Enter');
    assert.deepEqual([await pause.getAttribute('aria-pressed'), await asks()], ['true', false]);
    await pause.press('Enter');
    assert.deepEqual([await pause.getAttribute('aria-pressed'), await asks()], ['false', true]);
  });

  it('goes to the content past the menu, and opens and closes what is folded', async () => {
    await page.goto('/streams');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.locator('#main:focus').waitFor();
    const summary = page.locator('main summary').first();
    await summary.focus();
    await page.keyboard.press('Enter');
    assert.equal(await page.locator('main details[open]').count(), 1);
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(`document.activeElement.closest('details[open]') !== null`), true);
    await summary.focus();
    await page.keyboard.press('Enter');
    assert.equal(await page.locator('main details[open]').count(), 0);
  });

  it('puts a fault beside its form and the cursor into the field', async () => {
    await page.goto('/suppressions');
    await page.getByLabel('Address', { exact: true }).fill('no address');
    await page.keyboard.press('Enter');
    await page.getByText('That did not work').waitFor();
    await marked();
    assert.equal(await page.evaluate('document.activeElement.name'), 'email');
    assert.equal(await page.evaluate(`document.activeElement.form.previousElementSibling.id`), 'fault');
    assert.equal(await page.locator('#fault').isVisible(), true);
    await page.goto('/templates/new');
    await page.getByLabel('Subject').fill('Hello {{ name');
    await page.getByRole('button', { name: 'Save as a draft' }).click();
    await page.getByText('That did not work').waitFor();
    await marked();
    assert.equal(await page.locator('form > #fault').count(), 1, 'forms that stand beside something keep their place');
  });

  it('puts a fault beside the form that was sent, where others have a field of the same name', async () => {
    await page.goto('/team');
    await page.locator('td a[href^="/team/"]').first().click();
    await page.locator('form[action$="/link"] [name=password_now]').fill('not it, sorry');
    await page.keyboard.press('Enter');
    await page.getByText('That did not work').waitFor();
    await marked();
    assert.match(await page.evaluate('document.activeElement.form.action'), /\/link$/);
    assert.equal(await page.evaluate(`document.activeElement.form.previousElementSibling.id`), 'fault');
  });
});
