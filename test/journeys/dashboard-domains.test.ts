/** The pages of a domain: before and after a check, while a lost record is waited for, and once its mail is refused. */
import assert from 'node:assert/strict';
import type { DomainRecord } from '../../src/domains/domain-record.ts';
import { startTestApp, type TestApp } from '../support/harness/app.ts';
import { signedIn, type Browser } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';
import type { Zones } from '../support/fakes/zones.ts';

const HOUR = 3_600_000;
const SPF = 'rp.shop.test TXT';

describe('dashboard: domains', () => {
  let app: TestApp;
  let browser: Browser;
  let whole: Zones;
  let page: string;

  const begin = async (settings: Record<string, unknown> = {}): Promise<void> => {
    app = await startTestApp({ settings });
    browser = await signedIn(app.url, app.operator);
    const { id } = await app.operator.ask<{ id: string }>('createDomain', { body: { name: 'shop.test' } });
    page = `/domains/${id}`;
    whole = { ...app.resolver.zones };
    const { records } = (await app.get<DomainRecord>('/v1/domains/shop.test')).body;
    for (const { host, type, value } of records) whole[`${host} ${type}`] = [value];
    app.resolver.zones = whole;
  };
  afterEach(() => app.stop());

  /** The text of the page's main part, with the boxes that are coloured. */
  const textOf = (html: string): string =>
    html
      .slice(html.indexOf('<main'), html.indexOf('</main>'))
      .replaceAll(/<(?:p|div) class="(said|warn|fault|note)"[^>]*>/g, '[$1] ')
      .replaceAll(/<[^>]*>/g, ' ')
      .replaceAll(/\s+/g, ' ');
  const open = async (where: string): Promise<string> => {
    const { html, status } = await browser.open(where);
    assert.equal(status, 200, html);
    assert.deepEqual(htmlFaults(html), []);
    return textOf(html);
  };
  /** Presses the button of the domain's page. */
  const check = async (): Promise<string> => {
    await browser.open(page);
    const { html } = await browser.submit(`${page}/verify`);
    assert.deepEqual(htmlFaults(html), []);
    return textOf(html);
  };
  const lose = (): void => {
    app.resolver.zones = { ...whole, [SPF]: [] };
  };
  it('a new domain: not asked is not missing, and missing means refused', async () => {
    await begin();
    const before = await open(page);
    assert.match(before, /DNS has not been checked yet/);
    assert.match(
      before,
      /the first check comes within a minute, then one every 2 min\. Mail from shop\.test is sent once/,
    );
    assert.match(before, /Record Type Host Value/);
    assert.doesNotMatch(before, /missing|\[/);
    app.resolver.zones = { ...whole, [SPF]: [] };
    const after = await check();
    assert.match(
      after,
      /\[warn\] The SPF record at rp\.shop\.test is missing\. Mail from shop\.test is refused until a check finds all required records/,
    );
    assert.doesNotMatch(after, /\[said\]/);
    app.resolver.zones = whole;
    assert.match(await check(), /\[said\] All required DNS records were found: mail from it is sent\./);
  });

  it('a verified one says before a check what a lost record means, and after it until when mail goes', async () => {
    await begin();
    await check();
    assert.match(
      await open(page),
      /If a check finds a required record missing, mail is still sent for 3 d, you get a notice by mail, and after that mail is refused\./,
    );
    lose();
    const after = await check();
    assert.doesNotMatch(after, /\[said\]/, 'nothing green');
    assert.match(after, /shop\.test failing/);
    assert.match(
      after,
      /\[warn\] The SPF record at rp\.shop\.test is missing\. Mail from shop\.test is still sent until 2026-02-03 09:30:00 \( in 3 d \), and is refused after that\. What to publish is below\./,
    );
    assert.match(after, /one that does not changes nothing before it ends/);
    assert.match(
      await open('/'),
      /Needs you shop\.test: the SPF record at rp\.shop\.test is missing until 3 Feb 09:30 shop\.test: the SPF record at rp\.shop\.test is missing\. Mail from it is still sent for now, and is refused once the grace period has ended\. Until 2026-02-03 09:30:00 \( in 3 d \)/,
    );
    assert.match(
      await open('/domains'),
      /shop\.test failing The SPF record at rp\.shop\.test is missing; mail is sent until 2026-02-03 09:30:00/,
    );
    app.resolver.zones = whole;
    assert.match(await check(), /\[said\] All required DNS records were found/);
    assert.match(await open('/'), /Nothing needs you/);
  });

  it('a refused one says so in red, since when, why, and what to publish', async () => {
    await begin({ domains: { grace: '6h' } });
    await check();
    lose();
    await check();
    app.clock.advance(6 * HOUR);
    const text = await check();
    assert.match(
      text,
      /\[fault\] Mail from shop\.test is refused since 2026-01-31 15:30:00 , because the SPF record at rp\.shop\.test is missing\. It is accepted again once a check finds all required records\. What to publish is below\./,
    );
    assert.match(
      await open('/'),
      /Needs you Mail from shop\.test is refused, because the SPF record at rp\.shop\.test is missing Mail from [^.]+\.test is refused, because [^.]+\.shop\.test is missing\. Since 2026-01-31 15:30:00/,
    );
    assert.match(
      await open('/domains'),
      /shop\.test refused The SPF record at rp\.shop\.test is missing; mail is refused/,
    );
  });

  it('names the mistake and its cure', async () => {
    await begin();
    await check();
    app.resolver.zones = { ...whole, [SPF]: ['v=spf1 a:mail.posthorn.test ~all', 'v=spf1 -all'] };
    const text = await check();
    assert.match(text, /DNS has: v&#x3D;spf1 a:mail/);
    assert.match(text, /may have only one of its 2 SPF records \(RFC 7208 section 4\.5\)\. Keep this one and delete/);
  });

  it('offers each record in the forms of web forms and zone files', async () => {
    await begin();
    const text = await open(page);
    assert.match(text, /without the domain: rp 10 mail/);
    assert.match(
      text,
      /In quoted strings of at most 255 characters &quot;v&#x3D;DKIM1; k&#x3D;rsa; p&#x3D;[^"]*&quot; &quot;/,
    );
    assert.match(text, /Host, with priority 10 mail\.posthorn\.test/);
    assert.match(text, /Line of a zone file rp\.shop\.test\. 3600 IN MX 10 mail\.posthorn\.test\./);
  });

  it('leads through a rotation of the keys, and never calls the next ones missing', async () => {
    await begin();
    await check();
    assert.doesNotMatch(await open(page), /DKIM rotation/);
    await browser.submit(`${page}/rotate`);
    const waiting = await open(page);
    assert.match(waiting, /DKIM rotation New keys done .* Publish their records Add these records/);
    assert.doesNotMatch(waiting, /missing DKIM|did not answer|Create new keys/);
    assert.match(await open('/domains'), /all 5 found/);
    const { records } = (await app.get<DomainRecord>('/v1/domains/shop.test')).body;
    app.resolver.zones = { ...whole };
    for (const { host, type, value } of records) app.resolver.zones[`${host} ${type}`] = [value];
    const signing = await check();
    assert.match(signing, /Publish their records done Check DNS done The new keys sign\./);
    assert.match(
      signing,
      /until 2026-02-07 09:30:00 \. Delete these records after that: ph202601e?r?\._domainkey\.shop\.test/,
    );
    app.clock.advance(8 * 24 * HOUR);
    await app.settled();
  });

  it('is linked from the doctor, which has the value to copy and folds what is well', async () => {
    await begin();
    await check();
    lose();
    const { html } = await browser.open('/doctor?run');
    assert.deepEqual(htmlFaults(html), []);
    assert.ok(html.includes(`<a href="${page}">shop.test</a>`), 'a link');
    assert.match(html, /data-copy="v&#x3D;spf1 a:mail\.posthorn\.test ~all"/);
    assert.match(html, /<details><summary>\d+ results are ok<\/summary>/);
  });

  it('says that DNS did not answer, and that nothing follows from it', async () => {
    await begin();
    await check();
    app.clock.advance(HOUR);
    app.resolver.zones = { ...whole, [SPF]: 'SERVFAIL' };
    const text = await check();
    assert.match(
      text,
      /\[note\] DNS did not answer for the SPF record at rp\.shop\.test\. That changes nothing: check again later\./,
    );
    assert.doesNotMatch(text, /\[(?:said|warn|fault)\]/);
    assert.match(text, /shop\.test verified/);
  });

  it('a trusted domain never looks broken', async () => {
    await begin();
    await browser.open(page);
    await browser.submit(`${page}/remove`);
    const looks = async (): Promise<void> => {
      for (const where of ['/domains/acme.test', '/domains', '/']) {
        assert.doesNotMatch(
          await open(where),
          /\[(?:warn|fault)\]|missing|not asked|failing|refused since|pending</,
          where,
        );
      }
    };
    await looks();
    assert.match(
      await open('/domains/acme.test'),
      /acme\.test trusted .* Trusted: mail from acme\.test is sent whatever DNS says.* Receivers on the Internet look for those below and DMARC: publish them if mail goes there/,
    );
    assert.match(await open('/domains'), /acme\.test trusted DNS is not checked/);
    await app.request('POST', '/v1/domains/acme.test/verify');
    await looks();
  });

  it('says where there is no grace that a check refuses at once', async () => {
    await begin({ domains: { grace: '0s' } });
    await check();
    assert.match(await open(page), /If a check finds a required record missing, mail from it is refused at once\./);
    lose();
    assert.match(await check(), /\[fault\] Mail from shop\.test is refused since/);
  });
});
