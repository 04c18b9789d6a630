/** The ten things that people come to the dashboard for, each from the Overview in three clicks at most, and each answer right. */
import assert from 'node:assert/strict';
import type { Locator, Page } from 'playwright-core';
import type { DomainRecord } from '../../src/domains/domain-record.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { PASSWORD } from '../support/harness/browser.ts';
import { ifChromium, needsChromium, openWindow, setUp } from '../support/harness/chromium.ts';
import type { Zones } from '../support/fakes/zones.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';

const MOST_CLICKS = 3;
const NO_USER = '550 5.1.1 no such user here';
const BUSY = '451 4.3.2 come back later';
const S3150 =
  "550 5.7.1 Unfortunately, messages from [127.0.0.1] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3150).";
const TOO_FAST = '421 4.7.28 unusual rate of mail from your address; temporarily rate limited';

const answers: Readonly<Record<string, string>> = {
  'gone.test': NO_USER,
  'yahoo.com': BUSY,
  'outlook.com': S3150,
  'gmail.com': TOO_FAST,
};

/** A domain whose mail a large provider takes, as its MX record says. */
const atProvider = (domain: string, host: string): Zones => ({
  [`${domain} MX`]: [`10 ${host}`],
  [`${host} A`]: ['127.0.0.1'],
});

describe('browser: ten tasks', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let page: Page;
  let close: () => Promise<void>;
  let complaints: string[] = [];
  let clicks = 0;
  const waiting: string[] = [];

  before(async function () {
    needsChromium(this);
    server = await startMailServer({
      script: { rcpt: (line) => answers[/@([a-z.]+)>/.exec(line)?.[1] ?? ''] ?? '250 2.1.5 ok' },
    });
    app = await startTestApp({
      mailPort: server.port,
      zones: {
        ...zonesFor('gone.test', 'fine.test'),
        ...atProvider('yahoo.com', 'mta5.am0.yahoodns.net'),
        ...atProvider('outlook.com', 'outlook-com.mail.protection.outlook.com'),
        ...atProvider('gmail.com', 'aspmx.l.google.com'),
      },
    });
    const window = await openWindow(app.url);
    ({ page, complaints } = window);
    close = () => window.context.close();
    await setUp(page, (await app.operator.call('admin.reset', {})).url);
    for (const to of ['ana@gone.test', 'ana@yahoo.com', 'ana@gmail.com', 'ana@fine.test'])
      await app.send({ to, subject: `Invoice for ${to}` });
    await app.settled();
    await app.follow().of((await app.send({ to: 'first@outlook.com' })).id, 'bounced');
    for (const to of ['held@outlook.com', 'later@gmail.com', 'latest@gmail.com'])
      waiting.push((await app.send({ to })).id);
    for (const id of waiting) await heldBack(id);
  });
  after(
    ifChromium(async () => {
      await close();
      await app.stop();
      await server.close();
    }),
  );
  beforeEach(async () => {
    await page.goto('/');
    clicks = 0;
  });
  afterEach(() => {
    assert.ok(clicks <= MOST_CLICKS, `${String(clicks)} clicks`);
    assert.deepEqual(complaints, []);
  });

  /** Resolves when mail waits for something else than its turn. */
  async function heldBack(id: string): Promise<void> {
    for (;;) {
      const one = await app.why(id);
      if (one.reason === 'receiver_refuses_us' || one.reason === 'rate_limited') return;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  async function click(what: Locator): Promise<void> {
    clicks += 1;
    await what.click();
  }
  const button = (name: string): Locator => page.locator('main').getByRole('button', { name, exact: true });
  const menu = (name: string): Promise<void> => click(page.locator('#menu').getByRole('link', { name, exact: true }));
  /** Finds by keyboard alone, and opens what is found first. */
  async function find(text: string): Promise<void> {
    await page.keyboard.press('Control+k');
    await page.getByLabel('Search everything').fill(text);
    await page.locator('#palette-list li', { hasText: text }).first().waitFor();
    await page.keyboard.press('Enter');
    await page.locator('h1', { hasNotText: 'Overview' }).waitFor();
  }
  const says = async (...all: (string | RegExp)[]): Promise<void> => {
    for (const one of all) await page.locator('main').getByText(one).locator('visible=true').first().waitFor();
  };

  it('1: bounced: the words of the receiver, and that the address is not mailed any more', async () => {
    await find('ana@gone.test');
    await says(NO_USER, 'was put on the suppression list', /gets no more mail until you lift that/);
    assert.match(await page.locator('#status').innerText(), /^Not delivered: /);
  });

  it('1: deferred: the words of the receiver, and when the next try is', async () => {
    await find('ana@yahoo.com');
    await says(BUSY, /next try \d/);
    assert.match(await page.locator('#status').innerText(), /^Not delivered yet: /);
  });

  it('1: blocked: who refuses which address, in which words, and when one mail tries again', async () => {
    await find('held@outlook.com');
    await says(
      /outlook\.com \(outlook\) refuses mail from this address, which is on a block list/,
      /S3150/,
      /next try \d/,
    );
  });

  it('1: rate limited: that the receiver takes only so much, in which words, and when the next try is', async () => {
    await find('latest@gmail.com');
    await says(/takes about \d+ mails a minute: "4\.7\.28/, /next try \d/);
  });

  it('2: who defers', async () => {
    await menu('Stats');
    await click(page.locator('main').getByRole('link', { name: 'Reputation' }));
    await click(page.locator('th').getByRole('link', { name: 'Deferred' }).first());
    await page.waitForURL('**/reputation?*sort=*');
    const rows = await page.locator('main table').first().locator('tbody tr').allInnerTexts();
    const shares = rows.map((row) => [row.split('\t')[0], row.split('\t')[5]]);
    assert.deepEqual(shares.slice(0, 2).sort(), [
      ['Google', '100 %'],
      ['Yahoo', '100 %'],
    ]);
    assert.deepEqual(new Set(shares.slice(2).map(([, share]) => share)), new Set(['0 %']));
  });

  it('3: pauses a domain', async () => {
    await find('pause yahoo.com');
    await click(button('Pause it'));
    await page.locator('.said').waitFor();
    const { data } = await app.operator.call('queue.holds', {});
    assert.deepEqual(
      data.map(({ scope, target, catches_new: isPause, created_by: by }) => [scope, target, isPause, by]),
      [['domain', 'yahoo.com', true, 'member:ana@example.net']],
    );
    const { id } = await app.send({ to: 'new@yahoo.com', subject: 'Later' });
    await page.goto(`/messages/${id}`);
    await says(/there is a hold on the domain yahoo\.com/);
  });

  it('4: sends a mail again', async () => {
    await find('ana@gone.test');
    await click(page.getByText('Send again…'));
    const before = page.url();
    await says(/ana@gone\.test is suppressed \(hard bounce\)\./);
    await click(button('Lift and send'));
    await page.waitForURL((url) => url.pathname.startsWith('/messages/msg_') && url.href !== before);
    await page.locator('h1', { hasText: 'Invoice for ana@gone.test' }).waitFor();
    await says(/was put on the suppression list/);
  });

  it('5: adds a domain and verifies it', async () => {
    await menu('Domains');
    await page.getByLabel('Add a domain').fill('shop.test');
    await click(button('Add'));
    await page.waitForURL('**/domains/*');
    const { records } = (await app.get<DomainRecord>('/v1/domains/shop.test')).body;
    const zones = { ...app.resolver.zones };
    for (const { host, type, value } of records) {
      // Optional records are folded in.
      await page.locator(`[data-copy="${value}"]`).first().waitFor({ state: 'attached' });
      zones[`${host} ${type}`] = [value];
    }
    app.resolver.zones = zones;
    await click(button('Check DNS now'));
    await page.locator('.said', { hasText: 'All required DNS records were found' }).waitFor();
    assert.equal((await app.get<DomainRecord>('/v1/domains/shop.test')).body.status, 'verified');
  });

  it('6: makes a key that works', async () => {
    await menu('Developer');
    await click(page.getByRole('link', { name: 'New API key' }));
    await page.getByLabel('Name').fill('shop');
    await page.getByLabel('Your current password').fill(PASSWORD);
    await click(button('Create key'));
    const key = await page.locator('#the-key').innerText();
    const mail = { from: 'hi@shop.test', to: 'ana@fine.test', subject: 'With a new key', text: 'x' };
    assert.equal((await app.request('POST', '/v1/messages', mail, { key })).status, 202);
  });

  it('7: rotates the DKIM keys of a domain', async () => {
    await find('shop.test');
    await click(page.getByText('Rotate the DKIM keys…'));
    await click(button('Create new keys'));
    await says('DKIM rotation', 'Publish their records');
    const { dkim } = (await app.get<DomainRecord>('/v1/domains/shop.test')).body;
    for (const { selector, state } of dkim) if (state !== 'active') await says(new RegExp(selector));
    assert.equal(new Set(dkim.map(({ state }) => state)).size, 2);
  });

  it('8: edits a template and publishes it', async () => {
    const draft = { name: 'Receipt', alias: 'receipt', subject: 'Hello', html: '<p>One</p>', publish: true };
    await app.request('POST', '/v1/templates', draft);
    await menu('Templates');
    await click(page.getByRole('link', { name: 'Receipt', exact: true }));
    await page.getByLabel('HTML', { exact: true }).fill('<p>Two</p>');
    await click(button('Save and publish'));
    await says('Saved as version 2. Sends use it now.');
    const { body } = await app.get<{ html: string; published_version: number }>('/v1/templates/receipt');
    assert.deepEqual([body.html, body.published_version], ['<p>Two</p>', 2]);
  });

  it('9: lifts a suppression', async () => {
    await menu('Suppressions');
    await click(page.locator('tr', { hasText: 'ana@gone.test' }).getByText('Remove…'));
    await click(
      page.locator('tr', { hasText: 'ana@gone.test' }).getByRole('button', { name: 'Remove, and mail it again' }),
    );
    await says('ana@gone.test is mailed again');
    assert.equal((await app.get('/v1/suppressions/ana@gone.test')).status, 404);
  });

  it('10: finds a call by its request id, also one that made no message', async () => {
    const { headers } = await app.request('POST', '/v1/messages', {
      from: 'hi@shop.test',
      to: 'no address',
      subject: 'x',
      text: 'x',
    });
    const id = headers.get('x-request-id') ?? '';
    assert.match(id, /^req_/);
    await find(id);
    await says(
      'POST /v1/messages',
      /400 invalid_recipient/,
      '`to` does not match the address format rule: there is no @.',
    );
  });

  it('11: invites a person', async () => {
    await click(page.locator('button.who'));
    await click(page.locator('#who').getByRole('link', { name: 'Team' }));
    await page.getByLabel('E-mail address').fill('bo@example.net');
    await page.getByLabel('Your current password').fill(PASSWORD);
    await click(button('Create a link to hand over'));
    const link = await page.locator('main pre').innerText();
    const guest = await openWindow(app.url);
    try {
      await guest.page.goto(new URL(link).pathname);
      await guest.page.getByText('bo@example.net').first().waitFor();
    } finally {
      await guest.context.close();
    }
  });

  it("12: a lane's limit and why it is so: the receiver's and a person's", async () => {
    await menu('Queue');
    await click(page.locator('#live').getByRole('link', { name: 'google', exact: true }));
    await says(/takes about \d+ mails a minute: "4\.7\.28/);
    const limits = page.locator('#live').getByRole('table', { name: 'Limits' }).locator('tbody tr');
    const shown = async (): Promise<(string | undefined)[][]> =>
      (await limits.allInnerTexts())
        .map((row) => row.split('\t'))
        .map(([what, to, by, , why]) => [what, to, by, why])
        .filter(([what]) => what?.startsWith('mails per minute') === true);
    const theirs = ['mails per minute to gmail.com', '6', 'receiver', TOO_FAST.slice('421 '.length)];
    assert.deepEqual(await shown(), [theirs]);
    await page.getByLabel('Mails a minute').fill('2');
    await page.getByLabel('Note').first().fill('ticket 99');
    await click(button('Limit it'));
    await says('The lane is limited.', /Mail to google is limited to 2 mails a minute/);
    assert.deepEqual(await shown(), [
      ['mails per minute', '2', 'ana@example.net', 'set by the operator: ticket 99'],
      theirs,
    ]);
  });

  it('13: tries the mail of a destination now', async () => {
    await menu('Queue');
    await click(page.locator('tr', { hasText: 'gmail.com' }).getByRole('button', { name: 'Try now' }));
    await says(/Pauses between connections end\./);
  });
});
