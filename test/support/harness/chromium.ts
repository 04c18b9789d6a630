/**
 * A real browser for tests of the dashboard: Debian's Chromium without a screen.
 * Where it is not installed, the tests are skipped by name.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { PASSWORD } from './browser.ts';

const PATH = '/usr/bin/chromium';
const ARGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
];
/** Of waiting for what a page should do; only reached where it does not. */
const PATIENCE_MS = 120_000;

let launched: Promise<Browser> | null = null;

/** All files of a process share one browser, since its start takes seconds. A process that Mocha ends takes its browser with it. */
after(async () => {
  const browser = launched;
  launched = null;
  await (await browser)?.close();
});

/** Skips the test or suite where there is no Chromium. */
export function needsChromium(context: Mocha.Context): void {
  if (!existsSync(PATH)) context.skip('Chromium is not installed (apt-get install chromium)');
}

/** Makes a hook that ends what a suite has begun: where Chromium is missing it has begun nothing, and hooks run all the same. */
export function ifChromium(hook: () => Promise<void>): () => Promise<void> {
  return async () => {
    if (existsSync(PATH)) await hook();
  };
}

/** A window of its own, with cookies of its own. What its pages complain of gathers in `complaints`. */
export async function openWindow(
  url: string,
  options: { width?: number; height?: number; javaScriptEnabled?: boolean } = {},
): Promise<{ context: BrowserContext; page: Page; complaints: string[] }> {
  launched ??= chromium.launch({
    executablePath: PATH,
    timeout: PATIENCE_MS,
    args: ARGS,
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
  });
  const browser = await launched;
  const { width = 1280, height = 900, javaScriptEnabled = true } = options;
  const context = await browser.newContext({ baseURL: url, viewport: { width, height }, javaScriptEnabled });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    // An answer of 4xx is the page that the test asked for.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      complaints.push(message.text());
  });
  return { context, page, complaints };
}

/** Makes the first administrator through the set-up link, with keyboard and mouse as a person would. */
export async function setUp(page: Page, link: string, email = 'ana@example.net'): Promise<void> {
  await page.goto(new URL(link).pathname);
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Repeat the password').fill(PASSWORD);
  await page.locator('form button.main').click();
  await page.waitForURL('**/welcome');
}

/** Signs out by the menu behind the initials, which works without a script too. */
export async function signOut(page: Page): Promise<void> {
  await page.locator('button.who').click();
  await page.locator('#who').getByRole('button', { name: 'Sign out' }).click();
}

const require = createRequire(import.meta.url);
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

interface Finding {
  id: string;
  nodes: { html: string; failureSummary?: string }[];
}

/** Returns the findings of axe in the page as it is shown now, of any impact, one line each. `rules`: only these. */
export async function axeFindings(page: Page, rules?: readonly string[]): Promise<string[]> {
  if ((await page.evaluate('typeof axe')) === 'undefined') await page.evaluate(axeSource);
  const only =
    rules === undefined
      ? { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }
      : { type: 'rule', values: rules };
  const found = await page.evaluate<{ violations: Finding[] }>(
    `axe.run({ exclude: [['iframe']] }, { runOnly: ${JSON.stringify(only)}, resultTypes: ['violations'], iframes: false })`,
  );
  return found.violations.flatMap(({ id, nodes }) =>
    nodes
      .slice(0, 3)
      .map(
        ({ html, failureSummary = '' }) =>
          `${id}: ${html.slice(0, 160)} ${failureSummary.split('\n').slice(1, 2).join('').trim()}`,
      ),
  );
}

/** Returns the elements of a page that are wider than the window: only tables may need to be scrolled sideways, each in its own frame. */
export async function tooWide(page: Page): Promise<string[]> {
  const { wide } = await page.evaluate<{ wide: string[] }>(`(() => {
    const width = document.documentElement.clientWidth;
    const wide = document.documentElement.scrollWidth <= width ? [] : [...document.querySelectorAll('main *, header *, nav *')]
      .filter((one) => one.getBoundingClientRect().right > width + 1 && one.closest('.scroll, .menu, pre, .tall') === null)
      .slice(0, 3).map((one) => one.outerHTML.slice(0, 120));
    return { wide: document.documentElement.scrollWidth <= width ? [] : ['page ' + document.documentElement.scrollWidth, ...wide] };
  })()`);
  return wide;
}

/** As a phone shows it. The browser tells the page of its new size with a frame to come, and only then the page has done its part. */
export async function narrowTo(page: Page, width: number): Promise<void> {
  await page.setViewportSize({ width, height: 740 });
  await page.evaluate('new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))');
}

/**
 * What is wrong with the page that is open: for axe at 1440 and 390 px, light and dark, and in width at 1024 and 320 px. In the dark
 * only colours differ.
 */
export async function findingsHere(page: Page): Promise<string[]> {
  const findings: string[] = [];
  const note = (name: string, found: readonly string[]): void => {
    findings.push(...found.map((one) => `${name} ${one}`));
  };
  for (const width of [1440, 390]) {
    if (width === 390) await narrowTo(page, width);
    else await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: 'light' });
    note(`light ${String(width)}`, await axeFindings(page));
    await page.emulateMedia({ colorScheme: 'dark' });
    note(`dark ${String(width)}`, await axeFindings(page, ['color-contrast']));
  }
  await page.emulateMedia({ colorScheme: 'light' });
  for (const width of [1024, 320]) {
    await narrowTo(page, width);
    note(`too wide at ${String(width)}`, await tooWide(page));
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  return findings;
}
