/** Old rows go, unfinished ones stay, and the books balance all the same. */
import assert from 'node:assert/strict';
import { startMailServer, type FakeMailServer } from '../support/fakes/fake-mail-server.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';

const DAY = 86_400_000;

describe('journey: retention', () => {
  // Hundreds of commits, each with its fsync.
  let server: FakeMailServer;
  let app: TestApp;

  beforeEach(async () => {
    server = await startMailServer();
    app = await startTestApp({ mailPort: server.port, zones: zonesFor('dest.test') });
  });
  afterEach(async () => {
    await app.stop();
    await server.close();
  });

  const rowsIn = async (table: string): Promise<number> =>
    (await app.app.db.prepared.all<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table}`))[0]?.n ?? -1;
  /**
   * Lets every rule run to its end: rules run hourly, steps follow each other after a pause. Goes on until `isDone` returns true, since a
   * step takes more rounds where one of the connections is slow.
   */
  async function keepHouse(isDone: () => boolean | Promise<boolean> = () => true): Promise<void> {
    for (let round = 0; round < 300 || !(await isDone()); round++) {
      app.clock.advance(round % 300 < 3 ? 3_600_000 : 1000);
      // A turn of each reader and then of the writer: a step that has begun has ended after both.
      await Promise.all([app.app.db.prepared.all('SELECT 1'), app.app.db.maintenance.all('SELECT 1')]);
      await Promise.all([app.app.db.reader.raw('SELECT 1'), app.app.db.reader.raw('SELECT 1')]);
      await app.app.db.commit.transact(() => Promise.resolve());
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  it('takes bodies first, then messages and events, and leaves what waits', async () => {
    const sent = [];
    for (let n = 0; n < 60; n++)
      sent.push(
        await app.send({
          tags: ['t'],
          metadata: { order: String(n) },
          attachments: [{ filename: 'a.txt', content: 'AAAA' }],
        }),
      );
    await app.settled();
    const send_at = new Date(app.clock.now() + 29 * DAY).toISOString();
    const waiting = await app.send({ send_at });
    const first = sent[0]?.id ?? '';

    app.clock.advance(28 * DAY);
    await keepHouse();
    assert.equal(await rowsIn('contents'), 61, 'nothing is old enough');

    app.clock.advance(3 * DAY);
    await app.settled();
    await keepHouse(async () => (await rowsIn('attachments')) === 0);
    const { body } = await app.get<{ html: null; text: null }>(`/v1/messages/${first}/content`);
    assert.deepEqual([body.html, body.text], [null, null]);
    const again = await app.request<{ error: { code: string } }>('POST', `/v1/messages/${first}/resend`);
    assert.deepEqual([again.status, again.body.error.code], [409, 'invalid_state']);
    assert.equal((await app.message(waiting.id)).status, 'delivered');
    await app.balanced();

    app.clock.advance(60 * DAY);
    const tables = ['messages', 'deliveries', 'attempts', 'message_tags', 'message_metadata', 'events'];
    await keepHouse(async () => (await Promise.all(tables.map(rowsIn))).every((count) => count <= 2));
    assert.equal((await app.get(`/v1/messages/${first}`)).status, 404);
    await app.balanced();
    assert.ok((await rowsIn('counters')) > 0, 'the books outlive what they count');
  });

  it('never touches mail that is not finished, nor the body that it shares', async () => {
    const send_at = new Date(app.clock.now() + 30 * DAY).toISOString();
    const body = {
      from: 'hi@acme.test',
      subject: 's',
      text: 'shared',
      recipients: [{ to: 'a@dest.test' }, { to: 'b@dest.test', send_at }],
    };
    const { body: batch } = await app.request<{ data: { id: string }[] }>('POST', '/v1/messages', body);
    await app.settled();
    await app.app.db.commit.transact((tx) => tx.run('UPDATE deliveries SET give_up_at = give_up_at + ?', [400 * DAY]));
    await app.operator.call('accounts.pause', { account: 'default', paused: true });
    app.clock.advance(45 * DAY);
    await keepHouse();
    const { body: content } = await app.get<{ text: string }>(`/v1/messages/${batch.data[0]?.id ?? ''}/content`);
    assert.equal(content.text, 'shared');
    await app.balanced();
  });

  it('leaves the tags, metadata and words of mail that waits among what goes', async () => {
    const marked = { subject: 'Your receipt', tags: ['receipt'], metadata: { order: '1' } };
    const tables = ['message_tags', 'message_metadata', 'message_words'];
    await app.send(marked);
    const send_at = new Date(app.clock.now() + 20 * DAY).toISOString();
    const waiting = await app.send({ ...marked, send_at });
    await app.send(marked);
    await app.settled();
    await app.request('PATCH', '/v1/settings', { retention: { messages_days: 2 } });
    app.clock.advance(3 * DAY);
    const owners = (table: string): Promise<{ message_id: string }[]> =>
      app.app.db.prepared.all(`SELECT DISTINCT message_id FROM ${table}`);
    await keepHouse(async () => (await Promise.all(tables.map(owners))).every(({ length }) => length <= 1));
    for (const table of tables) assert.deepEqual(await owners(table), [{ message_id: waiting.id }], table);
    await app.balanced();
  });

  it('takes the body that a bulk send shares, and the bulk send, with the last of its messages', async () => {
    const body = {
      from: 'hi@acme.test',
      subject: 's',
      text: 'shared',
      recipients: [{ to: 'a@dest.test' }, { to: 'b@dest.test' }],
    };
    await app.request('POST', '/v1/messages', body);
    await app.settled();
    await app.request('PATCH', '/v1/settings', { retention: { messages_days: 2 } });
    app.clock.advance(3 * DAY);
    const tables = ['messages', 'contents', 'batches'];
    await keepHouse(async () => (await Promise.all(tables.map(rowsIn))).every((count) => count === 0));
    await app.balanced();
  });

  for (const [first, second] of [
    ['shared', 'each its own'],
    ['each its own', 'shared'],
  ] as const)
    it(`takes all bodies but that of an entry that waits, shared or its own (${first} before ${second})`, async () => {
      const send_at = new Date(app.clock.now() + 10 * DAY).toISOString();
      const recipients = ['a', 'b', 'c', 'd'].map((name) => ({
        to: `${name}@dest.test`,
        ...(name === 'c' ? { send_at } : {}),
      }));
      for (const kind of [first, second])
        await app.request('POST', '/v1/messages', {
          from: 'hi@acme.test',
          subject: 's',
          ...(kind === 'shared'
            ? { text: 'the same', recipients }
            : { text: 'for {{name}}', recipients: recipients.map((one) => ({ ...one, variables: { name: one.to } })) }),
        });
      await app.settled();
      assert.equal(await rowsIn('contents'), 5);
      await app.request('PATCH', '/v1/settings', { retention: { content_days: 2 } });
      app.clock.advance(3 * DAY);
      await keepHouse(async () => (await rowsIn('contents')) <= 2);
      assert.equal(await rowsIn('contents'), 2);
      app.clock.advance(8 * DAY);
      await app.settled();
      await keepHouse(async () => (await rowsIn('contents')) === 0);
    });

  it('keeps an account’s bodies for as long as the account asks', async () => {
    const message = await app.send();
    await app.settled();
    const changed = await app.request('PATCH', '/v1/settings', { retention: { content_days: 3 } });
    if (changed.status !== 200) assert.fail(changed.text);
    app.clock.advance(4 * DAY);
    const textOf = async (): Promise<string | null> =>
      (await app.get<{ text: string | null }>(`/v1/messages/${message.id}/content`)).body.text;
    await keepHouse(async () => (await textOf()) === null);
  });

  it('keeps an account’s events for as long as the account asks, and those of others for longer', async () => {
    await app.operator.call('accounts.add', { name: 'other', plan: 'unlimited' });
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      account: 'other',
      body: { name: 'other', scopes: ['send', 'event:read', 'settings'] },
    });
    const to = 'bounced@simulator.posthorn.test';
    const events = async (as?: string): Promise<number> =>
      (await app.get<{ data: unknown[] }>('/v1/events?limit=1000', as === undefined ? {} : { key: as })).body.data
        .length;
    for (let n = 0; n < 30; n++) await app.send({ to });
    await app.send({ to, from: 'hi@simulator.posthorn.test' }, { key });
    await app.settled();
    assert.deepEqual([await events(), await events(key)], [60, 2]);
    await app.request('PATCH', '/v1/settings', { retention: { events_days: 2 } });
    await app.request('PATCH', '/v1/settings', { retention: { events_days: 20 } }, { key });
    app.clock.advance(3 * DAY);
    await app.send({ to });
    await app.settled();
    await keepHouse(async () => (await events()) <= 2);
    assert.deepEqual([await events(), await events(key)], [2, 2], 'what is young, and what is another’s');
    app.clock.advance(20 * DAY);
    await keepHouse(async () => (await events()) + (await events(key)) === 0);
    await app.balanced();
  });
});
