/** An erasure removes from the request log the details of requests that name the person, and of no others. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';

describe('journey: erase from the request log', () => {
  let app: TestApp;

  beforeEach(async () => {
    app = await startTestApp();
  });
  afterEach(() => app.stop());

  const erase = async (email: string, key?: string): Promise<number> => {
    const options = key === undefined ? {} : { key };
    return (await app.request('DELETE', `/v1/recipients/${encodeURIComponent(email)}`, undefined, options)).status;
  };

  for (const text of ['@', 'dest.test', 'a', '%', 'ana@', 'ana@dest'])
    it(`erasing ${JSON.stringify(text)}, which is no address, removes nothing`, async () => {
      await app.request('POST', '/v1/messages', { from: 'hi@acme.test', to: 'joan@dest.test', subject: 5 });
      const { status, body } = await app.request<{ error: { code: string; field: string } }>(
        'DELETE',
        `/v1/recipients/${encodeURIComponent(text)}`,
      );
      assert.deepEqual([status, body.error.code, body.error.field], [404, 'not_found', 'email']);
      assert.match(JSON.stringify(await app.app.db.reader('request_details')), /joan@dest\.test/);
    });

  it('erasing a person takes the details of requests that name them, and of nobody else', async () => {
    await app.send({ to: 'ann@dest.test', test: true });
    await app.settled();
    const others = ['anna@dest.test', 'ann@dest.example', 'an_@dest.test', 'ann-@dest.test'];
    const own = ['Ann <ANN@dest.test>', '"Ann" <ann@dest.test>', 'bo@dest.test, ann@dest.test.'];
    for (const to of [...others, ...own])
      await app.request('POST', '/v1/messages', { from: 'hi@acme.test', to, subject: 5 });
    for (const to of own) await app.get(`/v1/messages?to=${encodeURIComponent(to)}`);
    app.clock.advance(1000);
    await app.app.db.commit.insert({});
    assert.equal(await erase('ann@dest.test'), 204);
    const rows = await app.app.db.reader<{ body: string | null; query: string | null }>('request_details');
    const kept = JSON.stringify(rows.map(({ body, query }) => [body, query]));
    for (const to of others) assert.ok(kept.includes(to), to);
    assert.equal(rows.filter((row) => /(?:@|%40)dest/i.test(JSON.stringify(row))).length, others.length, kept);
  });

  it('a test key removes no details of requests with live keys', async () => {
    const { key } = await app.operator.ask<{ id: string; key: string }>('createKey', {
      body: { name: 'sandbox', mode: 'test', scopes: ['send', 'message:delete'] },
    });
    await app.send({ to: 'ana@dest.test' }, { key });
    await app.settled();
    const refused = { from: 'hi@acme.test', to: 'ana@dest.test', subject: 5 };
    const live = await app.request('POST', '/v1/messages', refused);
    await app.request('POST', '/v1/messages', refused, { key });
    assert.equal(await erase('ana@dest.test', key), 204);
    assert.deepEqual(
      (await app.app.db.reader<{ request_id: string }>('request_details')).map(({ request_id: id }) => id),
      [live.headers.get('x-request-id')],
    );
  });
});
