/** People are told by mail that an endpoint of theirs is not called any more: once each, and without what its URL keeps secret. */
import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { addMember } from '../../src/members/member-store.ts';
import type { MemberRow } from '../../src/storage/tables.ts';
import { startTestApp, zonesFor, type TestApp } from '../support/harness/app.ts';
import { startMailServer, type FakeMailServer, type ReceivedMail } from '../support/fakes/fake-mail-server.ts';
import { startReceiver, type WebhookReceiver } from '../support/fakes/webhook-receiver.ts';

describe('journey: the notice of a disabled webhook', () => {
  let app: TestApp;
  let server: FakeMailServer;
  let receiver: WebhookReceiver;

  const begin = async (smtp: object = {}): Promise<void> => {
    receiver = await startReceiver();
    server = await startMailServer({ extensions: ['PIPELINING', '8BITMIME', 'SIZE 50000000'] });
    app = await startTestApp({
      mailPort: server.port,
      zones: zonesFor('people.test', 'acme.test'),
      settings: { webhooks: { allowHttp: true, allowCidrs: ['127.0.0.0/8'] }, smtp },
    });
  };
  afterEach(async () => {
    await receiver.close();
    await app.stop();
    await server.close();
  });

  const join = (
    email: string,
    { role = 'developer', accounts = [] }: { role?: MemberRow['role']; accounts?: string[] } = {},
  ) =>
    addMember(
      { db: app.app.db, clock: app.clock },
      { email, role, accountIds: accounts, passwordHash: null, createdBy: 'operator' },
    );

  const accountOf = async (id: string): Promise<string> => {
    const [row] = await app.app.db.prepared.all<{ account_id: string }>(
      'SELECT account_id FROM webhooks WHERE id = ?',
      [id],
    );
    return row?.account_id ?? assert.fail('there is no such endpoint');
  };

  const register = async (): Promise<string> => {
    const url = `${receiver.url}?key=very-secret`;
    const { body } = await app.request<{ id: string }>('POST', '/v1/webhooks', { url, events: ['delivered'] });
    return body.id;
  };

  /** The endpoint says that it is gone, and all mail that causes has been taken. */
  const gone = async (id: string): Promise<ReceivedMail[]> => {
    receiver.answer = 410;
    await app.send({ from: 'hi@simulator.posthorn.test', to: 'delivered@simulator.posthorn.test' });
    while ((await app.get<{ status: string }>(`/v1/webhooks/${id}`)).body.status === 'active') await turn();
    const told = (): number =>
      Number(app.logged.find(({ event }) => event === 'webhook_disabled')?.['told'] ?? Number.NaN);
    while (Number.isNaN(told())) await turn();
    while (server.sessions.flatMap(({ mails }) => mails).length < told()) await turn();
    await app.settled();
    return server.sessions.flatMap(({ mails }) => mails);
  };
  const recipients = (mails: readonly ReceivedMail[]): string[] => mails.flatMap(({ to }) => to).sort();

  it('goes to each member of the account, signed by its domain, with what to do and without secrets', async () => {
    await begin();
    const id = await register();
    const account = await accountOf(id);
    await join('ana@people.test', { accounts: [account] });
    await join('ben@people.test', { accounts: [account] });
    await join('root@people.test', { role: 'administrator' });
    await join('stranger@people.test');
    const mails = await gone(id);
    assert.deepEqual(recipients(mails), ['ana@people.test', 'ben@people.test']);
    const [{ data, from } = assert.fail()] = mails;
    assert.equal(from, '');
    assert.match(data, /^DKIM-Signature: v=1;[\s\S]*?d=acme\.test/);
    assert.match(data, /^From: Posthorn <postmaster@acme\.test>\r$/m);
    assert.match(data, /^Subject: The webhook to 127\.0\.0\.1:\d+ was disabled\r$/m);
    assert.match(data, /^Auto-Submitted: auto-generated\r$/m);
    assert.match(data, /answered 410 Gone/);
    assert.ok(data.includes(`/webhooks/${id}`));
    assert.ok(!data.includes('very-secret'));
    assert.ok((await app.operator.call('books', {})).balanced);
    const own = await app.get<{ data: unknown[] }>('/v1/messages');
    assert.equal(own.body.data.length, 1, 'the notices are no mail of the account');
  });

  it('goes to the administrators where no member sees the account', async () => {
    await begin({ operatorAddress: 'op@people.test' });
    const id = await register();
    await join('root@people.test', { role: 'administrator' });
    await join('stranger@people.test');
    assert.deepEqual(recipients(await gone(id)), ['root@people.test']);
  });

  it('goes to the operator where there are no people', async () => {
    await begin({ operatorAddress: 'op@people.test' });
    assert.deepEqual(recipients(await gone(await register())), ['op@people.test']);
  });

  it('is no mail where nobody is known', async () => {
    await begin();
    assert.deepEqual(recipients(await gone(await register())), []);
  });
});
