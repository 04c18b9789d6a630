/** A domain loses a DNS record, in a real browser: what is read before the button is pressed, after it, and when the countdown is over. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import type { DomainRecord } from '../../src/domains/domain-record.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { findingsHere, ifChromium, needsChromium, openWindow, setUp } from '../support/harness/chromium.ts';
import type { Zones } from '../support/fakes/zones.ts';

const HOUR = 3_600_000;

describe('browser: domains', () => {
  let app: TestApp;
  let page: Page;
  let close: () => Promise<void>;
  let complaints: string[] = [];
  let whole: Zones;

  before(async function () {
    needsChromium(this);
    app = await startTestApp({ settings: { domains: { grace: '6h' } } });
    await app.operator.ask('createDomain', { body: { name: 'shop.test' } });
    whole = { ...app.resolver.zones };
    const { records } = (await app.get<DomainRecord>('/v1/domains/shop.test')).body;
    for (const { host, type, value } of records) whole[`${host} ${type}`] = [value];
    app.resolver.zones = whole;
    const window = await openWindow(app.url);
    ({ page, complaints } = window);
    close = () => window.context.close();
    await setUp(page, (await app.operator.call('admin.reset', {})).url);
  });
  after(
    ifChromium(async () => {
      await close();
      await app.stop();
    }),
  );
  afterEach(() => {
    assert.deepEqual(complaints, []);
  });

  const check = () => page.getByRole('button', { name: 'Check DNS now' }).click();
  /** Unfolds the line of the Overview, and follows its button. */
  const openIncident = async (text: string): Promise<void> => {
    const incident = page.locator('.incidents li', { hasText: text });
    await incident.locator('summary').first().click();
    await incident.getByRole('link', { name: 'Its DNS records' }).click();
  };
  const isSound = async (): Promise<void> => {
    assert.deepEqual(await findingsHere(page), []);
  };

  it('is green only where all is right, and says what a lost record would mean', async () => {
    await page.goto('/domains');
    await page.getByRole('link', { name: 'shop.test' }).click();
    await check();
    await page.locator('.said', { hasText: 'All required DNS records were found' }).waitFor();
    await page.getByText('If a check finds a required record missing, mail is still sent for 6 h').waitFor();
    await isSound();
  });

  it('counts down in amber after a record is lost, here and on the overview', async () => {
    app.resolver.zones = { ...whole, 'rp.shop.test TXT': [] };
    await check();
    const box = page.locator('.warn', { hasText: 'Mail from shop.test is still sent until' });
    await box.waitFor();
    await page.locator('tr', { hasText: 'missing' }).getByText('v=spf1 a:mail').first().waitFor();
    assert.equal(await page.locator('.said').count(), 0);
    await isSound();
    await page.goto('/');
    await page.locator('.incidents .k-amber', { hasText: 'the SPF record at rp.shop.test is missing' }).waitFor();
    await isSound();
  });

  it('is red once its mail is refused, and green again when the record is back', async () => {
    app.clock.advance(6 * HOUR);
    await openIncident('shop.test');
    await check();
    await page.locator('.fault', { hasText: 'Mail from shop.test is refused since' }).waitFor();
    await isSound();
    await page.goto('/domains');
    await page.locator('.badge', { hasText: 'refused' }).waitFor();
    await isSound();
    await page.goto('/');
    await openIncident('shop.test');
    app.resolver.zones = whole;
    await check();
    await page.locator('.said', { hasText: 'All required DNS records were found' }).waitFor();
  });
});
