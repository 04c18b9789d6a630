/** Searches find all spellings: a domain in its own script, capitals, a Message-ID without its brackets. */
import assert from 'node:assert/strict';
import { startTestApp, type TestApp } from '../support/harness/app.ts';

describe('an address that is looked for', () => {
  let app: TestApp;
  let id: string;
  before(async () => {
    app = await startTestApp();
    ({ id } = await app.send({ to: 'Ana@bücher.test', cc: ['bo@xn--bcher-kva.test', 'di+a@b.test'], test: true }));
    await app.follow().of(id, 'delivered');
  });
  after(() => app.stop());

  const rows: [list: string, query: Record<string, string>, found: boolean][] = [
    ['messages', { to: 'ana@bücher.test' }, true],
    ['messages', { to: 'ANA@BÜCHER.test' }, true],
    ['messages', { to: 'Ana <ana@xn--bcher-kva.test>' }, true],
    ['messages', { to: 'bo@bücher.test' }, true],
    ['messages', { to: 'di a@b.test' }, true],
    ['messages', { to: 'cy@bücher.test' }, false],
    ['messages', { from: 'Acme <HI@acme.test>' }, true],
    ['messages', { domain: 'ACME.test' }, true],
    ['messages', { domain: 'äcme.test' }, false],
    ['events', { recipient: 'ana@bücher.test' }, true],
    ['events', { recipient: 'cy@bücher.test' }, false],
  ];
  for (const [list, query, found] of rows) {
    it(`${list} ${JSON.stringify(query)}: ${found ? 'found' : 'not found'}`, async () => {
      const { body } = await app.get<{ data: unknown[] }>(`/v1/${list}?${new URLSearchParams(query).toString()}`);
      assert.equal(body.data.length > 0, found);
    });
  }

  it('must be an address', async () => {
    for (const query of [
      'messages?to=b%C3%BCcher.test',
      'messages?from=',
      'events?recipient=ana',
      'suppressions?email=a',
    ])
      assert.equal(
        (await app.get<{ error: { code: string } }>(`/v1/${query}`)).body.error.code,
        'invalid_parameter',
        query,
      );
  });

  it('in numbers, too', async () => {
    const { id: sent } = await app.send({
      from: 'hi@simulator.posthorn.test',
      to: 'delivered@simulator.posthorn.test',
    });
    await app.follow().of(sent, 'delivered');
    for (const [domain, count] of [
      ['SIMULATOR.posthorn.test', 1],
      ['\uff53imulator.posthorn.test', 1],
      ['äcme.test', 0],
    ] as const) {
      const query = new URLSearchParams({ domain, test: 'true' }).toString();
      const { body } = await app.get<{ total: { sent: number } }>(`/v1/stats?${query}`);
      assert.equal(body.total.sent, count, domain);
    }
  });

  it('as does a Message-ID, with its brackets or without', async () => {
    for (const rfcId of [`<${id}@acme.test>`, `${id}@acme.test`]) {
      const query = new URLSearchParams({ rfc_message_id: rfcId }).toString();
      const { body } = await app.get<{ data: { id: string }[] }>(`/v1/messages?${query}`);
      assert.deepEqual(
        body.data.map((message) => message.id),
        [id],
        rfcId,
      );
    }
  });
});
