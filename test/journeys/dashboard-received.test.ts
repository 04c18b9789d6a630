/** The pages of received mail: the switch of a domain, the list, one mail in the sandbox, its files, and the time line of what it answers. */
import assert from 'node:assert/strict';
import { createTransport } from 'nodemailer';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { signedIn, type Browser } from '../support/harness/browser.ts';
import { htmlFaults } from '../support/harness/html.ts';

describe('dashboard: received mail', () => {
  let server: FakeMailServer;
  let app: TestApp;
  let browser: Browser;
  before(async () => {
    server = await startMailServer();
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
    browser = await signedIn(app.url, app.operator);
  });
  after(async () => {
    await app.stop();
    await server.close();
  });

  it('is switched on, listed, shown in a sandbox, and joined with the message that it answers', async () => {
    const { data } = (await app.get<{ data: { id: string }[] }>('/v1/domains')).body;
    const domain = `/domains/${data[0]?.id ?? ''}`;
    await browser.open(domain);
    const page = await browser.submit(domain, {
      track_opens: '',
      track_clicks: '',
      receiving: '1',
      receiving_addresses: 'support reply+*',
    });
    assert.equal(page.status, 200, page.html);
    assert.match(page.html, /name="receiving" value="1" checked/);
    assert.match(page.html, /Receiving/);

    const sent = await app.send();
    await app.follow().of(sent.id, 'delivered');
    const transport = createTransport({ host: '127.0.0.1', port: app.app.ports.mx ?? 0, ignoreTLS: true });
    await transport.sendMail({
      from: 'Ana <ana@dest.test>',
      to: 'support@acme.test',
      subject: 'Re: <Welcome>',
      inReplyTo: sent.rfc_message_id,
      html: '<script>alert(1)</script><p>Thank you</p>',
      attachments: [{ filename: 'a "b".txt', content: 'octets' }],
    });
    const events = await app.follow().of(sent.id, 'received');
    const { id } = events.at(-1)?.data['received'] as { id: string };

    const list = await browser.open('/messages/received');
    assert.deepEqual(htmlFaults(list.html), []);
    assert.match(list.html, /Re: &lt;Welcome&gt;/);
    assert.match((await browser.open('/messages/received?from=other%40dest.test')).html, /Nothing matches/);

    const shown = await browser.open(`/messages/received/${id}`);
    assert.deepEqual(htmlFaults(shown.html), []);
    assert.match(shown.html, new RegExp(`<iframe src="/messages/received/${id}/html" sandbox`));
    assert.match(shown.html, new RegExp(`href="/messages/${sent.id}"`));
    const preview = await browser.open(`/messages/received/${id}/html`);
    assert.match(preview.headers.get('content-security-policy') ?? '', /default-src 'none'.*sandbox/);
    const file = await browser.open(`/messages/received/${id}/files/0`);
    assert.equal(file.html, 'octets');
    assert.match(file.headers.get('content-disposition') ?? '', /^attachment/);
    assert.equal(file.headers.get('content-type'), 'application/octet-stream');

    assert.match((await browser.open('/events?type=received')).html, new RegExp(`href="/messages/${sent.id}"`));
    const timeline = (await browser.open(`/messages/${sent.id}`)).html;
    assert.match(timeline, /Answered/);
    assert.match(timeline, new RegExp(`/messages/received/${id}`));

    await browser.open(`/messages/received/${id}`);
    assert.equal((await browser.submit(`/messages/received/${id}/erase`)).at, '/messages/received');
    assert.equal((await browser.open(`/messages/received/${id}`)).status, 404);
  });
});
