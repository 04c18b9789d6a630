/** The page of a message: its time line with attempts, webhook calls and what it waits for, and its buttons. */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { signedIn, type Browser } from '../support/harness/browser.ts';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { htmlFaults } from '../support/harness/html.ts';
import { startReceiver, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';

interface CallList {
  data: { webhook_id: string; event_id: string; status_code: number }[];
}

describe('dashboard: the page of a message', () => {
  let server: FakeMailServer;
  let receiver: WebhookReceiver;
  let app: TestApp;
  let browser: Browser;
  let answer: string;

  beforeEach(async () => {
    answer = '421 4.7.28 <slow> down';
    server = await startMailServer({ script: { rcpt: () => answer } });
    receiver = await startReceiver();
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] } },
    });
    browser = await signedIn(app.url, app.operator);
  });
  afterEach(async () => {
    await receiver.close();
    await app.stop();
    await server.close();
  });

  /** Returns the calls about a message once there is one: it is written after the endpoint has answered. */
  async function callsOf(id: string): Promise<CallList> {
    for (;;) {
      const { body } = await app.get<CallList>(`/v1/messages/${id}/webhook-deliveries`);
      if (body.data.length > 0) return body;
      await turn();
    }
  }

  const timeline = (html: string): string =>
    /<ol class="timeline">([\s\S]*?)<\/ol>\n<\/div>|<ol class="timeline">[\s\S]*<\/ol>/.exec(html)?.[0] ?? '';

  it('keeps the search field, with the problem, where a search is refused', async () => {
    for (const q of ['batch:nope', 'x'.repeat(201), `tag:${'x'.repeat(129)}`, `order:${'x'.repeat(501)}`]) {
      const { status, html } = await browser.open(`/messages?q=${q}`);
      assert.equal(status, 400, q);
      assert.ok(html.includes(`name="q" type="search" value="${q}"`), q);
      assert.match(html, /That did not work/, q);
    }
  });

  it('says who sent it, each reply once, and what it waits for', async () => {
    const { id } = await app.send();
    await app.follow().of(id, 'deferred');
    const { html } = await browser.open(`/messages/${id}`);
    const line = timeline(html);
    assert.match(line, /by the key [^<]+ over the API/);
    assert.equal(html.match(/>421 4\.7\.28 &lt;slow&gt; down/g)?.length, 1, 'the reply stands once');
    assert.match(line, /It waits for attempt 2\. <span class="at">now<\/span>[\s\S]*next try <time/);
    assert.deepEqual(htmlFaults(html), []);
  });

  it('shows the calls to webhooks with their answers, and leads to them', async () => {
    const made = await app.request<{ id: string }>('POST', '/v1/webhooks', {
      url: receiver.url,
      events: ['delivered'],
    });
    answer = '250 2.1.5 ok';
    const { id } = await app.send();
    await app.follow().of(id, 'delivered');
    await receiver.reached(1);
    const body = await callsOf(id);
    assert.deepEqual(
      body.data.map(({ webhook_id: webhook, status_code: code }) => [webhook, code]),
      [[made.body.id, 204]],
    );
    const { html } = await browser.open(`/messages/${id}`);
    assert.match(html, /1 webhook call: <span class="k-good">204<\/span>/);
    const event = body.data[0]?.event_id ?? '';
    assert.match(html, new RegExp(`href="/webhooks/${made.body.id}\\?event_id&#x3D;${event}#deliveries"`));
    const calls = await browser.open(`/webhooks/${made.body.id}?event_id=${event}`);
    assert.match(calls.html, new RegExp(`Only calls for the event <code>${event}`));
    assert.match(calls.html, /<td class="n" data-l="code">204/);
    const none = await browser.open(`/webhooks/${made.body.id}?event_id=evt_none`);
    assert.doesNotMatch(none.html, /<td class="n" data-l="code">204/);
    for (const page of [html, calls.html]) assert.deepEqual(htmlFaults(page), []);
    const missing = await app.get('/v1/messages/msg_01jz5w8q3hf2m9d4x6k7c1b0na/webhook-deliveries');
    assert.equal(missing.status, 404);
  });

  it('tries it now, and sends it again or cancels it behind a question that needs no script', async () => {
    const { id } = await app.send();
    await app.follow().of(id, 'deferred');
    const { html } = await browser.open(`/messages/${id}`);
    for (const [summary, button] of [
      ['Send again…', 'Send it again'],
      ['Cancel…', 'Cancel now'],
    ] as const)
      assert.match(
        html,
        new RegExp(`<details class="ask[^>]*><summary>${summary}</summary>[\\s\\S]*?<button[^>]*>${button}`),
      );
    assert.match(html, /title="At once, [^>]*>Try now</);
    answer = '250 2.1.5 ok';
    const back = await browser.submit('/queue/flush', { back: `/messages/${id}`, message_id: id });
    assert.equal(back.at, `/messages/${id}`);
    await app.follow().of(id, 'delivered');
    assert.doesNotMatch((await browser.open(`/messages/${id}`)).html, />Try now</);
    const again = await browser.submit(`/messages/${id}/resend`);
    assert.match(again.at, /^\/messages\/msg_/);
    assert.notEqual(again.at, `/messages/${id}`);
    await app.settled();
  });

  it('says its verdict, and sends a copy to another address alone', async () => {
    answer = '550 5.1.1 no such user';
    const { id } = await app.send({ cc: 'bo@dest.test' });
    await app.follow().of(id, 'bounced');
    await app.settled();
    const { html } = await browser.open(`/messages/${id}`);
    assert.match(
      html,
      /0 of 2 recipients have it, 2 do not get it\. ana@dest\.test: not delivered: the mailbox does not exist at dest\.test\./,
    );
    answer = '250 2.1.5 ok';
    const again = await browser.submit(`/messages/${id}/resend`, { to: 'new@dest.test' });
    const copy = again.at.slice('/messages/'.length);
    await app.follow().of(copy, 'delivered');
    assert.deepEqual(
      (await app.message(copy)).recipients.map(({ email }) => email),
      ['new@dest.test'],
    );
    const refused = await app.request('POST', `/v1/messages/${id}/resend`, { to: 'nobody' });
    assert.equal(refused.status, 400, refused.text);
  });

  it('shows why mail did not arrive in the list, and finds it by that and by what people paste', async () => {
    answer = '550 5.1.1 no such user';
    const { id } = await app.send({ to: 'lena.fischer@dest.test', subject: 'Your order #88777' });
    await app.follow().of(id, 'bounced');
    for (const q of ['', '#88777', '88777', 'fischer', 'dest.test', 'status:bounced', 'status:bounced,failed']) {
      const { html } = await browser.open(`/messages?q=${encodeURIComponent(q)}`);
      assert.match(html, new RegExp(`no such mailbox</span><td class="clip most lead"><a href="/messages/${id}"`), q);
    }
    assert.match((await browser.open('/messages?reason=mailbox_not_found')).html, new RegExp(id));
    assert.doesNotMatch((await browser.open('/messages?reason=spam')).html, new RegExp(`href="/messages/${id}`));
    assert.equal(
      (await app.get<{ data: { reason: string }[] }>('/v1/messages')).body.data[0]?.reason,
      'mailbox_not_found',
    );
  });

  it('sends chosen messages again, and lifts what keeps them back', async () => {
    answer = '550 5.1.1 no such user';
    const ids = [(await app.send({ to: 'a@dest.test' })).id, (await app.send({ to: 'b@dest.test' })).id];
    for (const id of ids) await app.follow().of(id, 'bounced');
    await browser.open('/messages');
    const back = '/messages';
    const stopped = await browser.submit('/messages/chosen', { id: ids, act: 'again', back });
    assert.match(stopped.html, /0 messages sent again\. Not the others: a recipient is on the suppression list/);
    assert.match(
      (await browser.submit('/messages/chosen', { id: ids, act: 'lift', back })).html,
      /2 suppressions lifted\./,
    );
    answer = '250 2.1.5 ok';
    const sent = await browser.submit('/messages/chosen', { id: ids, act: 'again', back });
    assert.match(sent.html, /2 messages sent again\./);
    await app.settled();
    const newer = new Date(app.clock.now() - 1000).toISOString();
    const news = await browser.open(`/messages/news?back=/messages&created_after=${encodeURIComponent(newer)}`);
    assert.match(news.html, /<a href="\/messages">\d+ new messages<\/a>/);
  });

  it('makes a link for a person without a login, which ends after two days and shows no content', async () => {
    answer = '550 5.1.1 no such user';
    const { id } = await app.send({ subject: 'Shared', html: '<p>Secret words</p>' });
    await app.follow().of(id, 'bounced');
    await browser.open(`/messages/${id}`);
    const { html } = await browser.submit(`/messages/${id}/share`);
    const place = /\/shared\/[\w.-]+/.exec(html)?.[0] ?? '';
    const guest = async (where: string): Promise<[number, string]> => {
      const response = await fetch(`${app.url}${where}`, { headers: { accept: 'text/html' } });
      return [response.status, await response.text()];
    };
    const [status, shown] = await guest(place);
    assert.equal(status, 200, shown);
    assert.deepEqual(htmlFaults(shown), []);
    assert.match(shown, /Shared[\s\S]*Not delivered: the mailbox does not exist at dest\.test/);
    assert.doesNotMatch(shown, /Secret words|<button(?![^>]*copy)|hx-get/);
    assert.match((await browser.open('/developer/actions')).html, /made a link to the message/);
    const changed = place.replace(/.(?=.{40}$)/, (letter) => (letter === 'A' ? 'B' : 'A'));
    for (const wrong of [`${place}x`, changed, '/shared/x', '/shared/a.b.c.d'])
      assert.equal((await guest(wrong))[0], 404, wrong);
    app.clock.advance(48 * 3_600_000);
    assert.equal((await guest(place))[0], 404);
  });

  it('says who is suppressed before it sends again, and lifts that with it', async () => {
    answer = '250 2.1.5 ok';
    const { id } = await app.send();
    await app.follow().of(id, 'delivered');
    const suppress = (more: object) =>
      app.request('POST', '/v1/suppressions', { email: 'Ana@dest.test', reason: 'complaint', ...more });
    const stopped = /is suppressed \([a-z ]+\)\./;
    await suppress({ stream: 'broadcast' });
    assert.doesNotMatch((await browser.open(`/messages/${id}`)).html, stopped, 'of another stream');
    await suppress({});
    const { html } = await browser.open(`/messages/${id}`);
    assert.match(html, /Ana@dest\.test is suppressed \(complaint\)\.<\/p>/);
    assert.match(html, /name="force" value="1" required[\s\S]*name="lift" value="1">Lift and send</);
    assert.match(html, /<details class="ask lead"><summary>Lift the suppression…<\/summary>/);
    assert.equal((await browser.submit(`/messages/${id}/lift`)).status, 409, 'a complaint is lifted only on purpose');
    assert.match((await browser.submit(`/messages/${id}/lift`, { force: '1' })).html, /1 suppression lifted/);
    assert.doesNotMatch((await browser.open(`/messages/${id}`)).html, /Lift the suppression/);
    await suppress({});
    assert.doesNotMatch(html, /Send to the others/);
    assert.match((await browser.submit(`/messages/${id}/resend`)).html, /Nothing was sent: see why below\./);
    assert.equal((await browser.submit(`/messages/${id}/resend`, { lift: '1' })).status, 409);
    const again = await browser.submit(`/messages/${id}/resend`, { lift: '1', force: '1' });
    await app.follow().of(again.at.slice('/messages/'.length), 'delivered');
    const { body } = await app.get<{ data: { scope: string }[] }>('/v1/suppressions');
    assert.deepEqual(
      body.data.map(({ scope }) => scope),
      ['stream:broadcast'],
    );
    const actions = await browser.open('/developer/actions');
    assert.match(actions.html, /removed ana@dest\.test from suppressions/i);
  });
});
