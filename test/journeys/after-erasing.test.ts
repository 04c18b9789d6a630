/** After a person was erased: their mail is still in their mailbox, with its links. */
import assert from 'node:assert/strict';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type SeenEvent, type TestApp } from '../support/harness/app.ts';
import { hrefsOf, pixelOf, readMail, type ReadMail } from '../support/harness/seen-mail.ts';

const BASE = 'https://mail.posthorn.test';
const ONE_CLICK = 'List-Unsubscribe=One-Click';
const AGENT = 'Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:128.0) Gecko/20100101 Firefox/128.0';
const HTML = '<p><a href="https://shop.test/for/ana">Your order</a></p>';

describe('journey: after erasing', () => {
  let server: FakeMailServer;
  let app: TestApp;

  beforeEach(async () => {
    server = await startMailServer();
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('dest.test'),
      settings: { http: { publicUrl: BASE } },
    });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  /** A delivered mail to ana, the id of its message and what she has of it. */
  async function deliver(): Promise<{ id: string; mail: ReadMail }> {
    const { id } = await app.send({
      stream: 'broadcast',
      html: HTML,
      text: null,
      track_opens: true,
      track_clicks: true,
    });
    await app.follow().of(id, 'delivered');
    app.clock.advance(5000);
    const data = server.sessions.flatMap(({ mails }) => mails).at(-1)?.data;
    return { id, mail: await readMail(data ?? assert.fail('nothing was delivered')) };
  }
  const erase = async (): Promise<number> => (await app.request('DELETE', '/v1/recipients/ana%40dest.test')).status;
  const wayOut = ({ header }: ReadMail): string =>
    /^<(https:[^>]+)>/.exec(header('list-unsubscribe') ?? '')?.[1]?.slice(BASE.length) ?? assert.fail('no way out');
  const post = async (path: string, body: string): Promise<string> => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    return (await fetch(app.url + path, { method: 'POST', body, headers })).text();
  };
  const visit = async (url: string): Promise<number> => {
    const headers = { 'user-agent': AGENT };
    return (await fetch(app.url + url.slice(BASE.length), { redirect: 'manual', headers })).status;
  };
  const entries = async (): Promise<Record<string, unknown>[]> =>
    (await app.get<{ data: Record<string, unknown>[] }>('/v1/suppressions')).body.data;
  /** The events of one type. Their form is checked against the description. */
  const eventsOf = async (type: string): Promise<SeenEvent[]> =>
    (await app.get<{ data: SeenEvent[] }>(`/v1/events?type=${type}`)).body.data;
  const settled = async (): Promise<void> => {
    app.clock.advance(2500);
    await app.settled();
    await app.app.db.commit.insert({});
  };

  it('an unsubscription is of the address in the link, is told once, and can be taken back', async () => {
    const { mail } = await deliver();
    assert.equal(await erase(), 204);
    for (let n = 0; n < 3; n++) assert.match(await post(wayOut(mail), ONE_CLICK), /You are unsubscribed/);
    assert.deepEqual(
      (await entries()).map((one) => [one['email'], one['reason'], one['scope'], one['source_message_id']]),
      [['ana@dest.test', 'unsubscribe', 'stream:broadcast', null]],
    );
    assert.equal((await eventsOf('unsubscribed')).length, 1);
    assert.equal((await app.send({ stream: 'broadcast' })).status, 'suppressed');
    assert.match(await post(wayOut(mail), 'action=undo'), /subscribed again/);
    assert.deepEqual(await entries(), []);
    await app.balanced();
  });

  it('many requests at once to unsubscribe make one event', async () => {
    const { mail } = await deliver();
    assert.equal(await erase(), 204);
    await Promise.all(Array.from({ length: 8 }, () => post(wayOut(mail), ONE_CLICK)));
    assert.equal((await eventsOf('unsubscribed')).length, 1);
  });

  it('an entry by hand for the stream keeps no second event away from its first', async () => {
    const { mail } = await deliver();
    await app.request('POST', '/v1/suppressions', { email: 'ana@dest.test', stream: 'broadcast' });
    for (let n = 0; n < 3; n++) await post(wayOut(mail), ONE_CLICK);
    assert.equal((await eventsOf('unsubscribed')).length, 1);
    assert.deepEqual(
      (await entries()).map(({ reason }) => reason),
      ['manual'],
    );
  });

  it('someone whom the customer has subscribed again can unsubscribe again, which is told', async () => {
    const { mail } = await deliver();
    await post(wayOut(mail), ONE_CLICK);
    assert.equal((await app.request('DELETE', '/v1/suppressions/ana%40dest.test')).status, 204);
    await post(wayOut(mail), ONE_CLICK);
    assert.equal((await eventsOf('unsubscribed')).length, 2);
    assert.equal((await entries()).length, 1);
  });

  it('opens and clicks leave nothing personal', async () => {
    const { mail } = await deliver();
    assert.equal(await erase(), 204);
    assert.equal(await visit(pixelOf(mail.html) ?? ''), 200);
    assert.equal(await visit(hrefsOf(mail.html)[0] ?? ''), 302);
    await settled();
    const [[opened], [clicked]] = [await eventsOf('opened'), await eventsOf('clicked')];
    const ofOpen = opened?.data['opened'] as Record<string, unknown>;
    assert.deepEqual(
      ['ip', 'user_agent', 'client', 'os', 'device'].map((name) => ofOpen[name]),
      [null, null, null, null, null],
    );
    const { url, ip, user_agent: agent } = clicked?.data['clicked'] as Record<string, unknown>;
    assert.deepEqual([url, ip, agent], ['https://erased.invalid/', null, null]);
    const stored = JSON.stringify(await app.app.db.reader('events').whereIn('type', ['opened', 'clicked']));
    assert.doesNotMatch(stored, /shop\.test|Mozilla|127\.0\.0\.1/);
  });

  it('opens and clicks from before keep the published form', async () => {
    const { mail } = await deliver();
    await visit(hrefsOf(mail.html)[0] ?? '');
    await settled();
    assert.equal(await erase(), 204);
    const [clicked] = await eventsOf('clicked');
    assert.equal((clicked?.data['clicked'] as Record<string, unknown>)['url'], 'https://erased.invalid/');
    // As versions before have stored it.
    await app.app.db.commit.transact((tx) =>
      tx.run(`UPDATE events SET detail_json = replace(detail_json, '"https://erased.invalid/"', 'null')`),
    );
    const [older] = await eventsOf('clicked');
    assert.equal((older?.data['clicked'] as Record<string, unknown>)['url'], 'https://erased.invalid/');
  });
});
