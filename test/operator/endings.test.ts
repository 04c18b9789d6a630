/** Removals for good: a person erased from the mail of all accounts, and an account removed with all of its rows. */
import assert from 'node:assert/strict';
import { operatorCaller } from '../../src/api/inside.ts';
import { newReceived } from '../../src/inbound/received.ts';
import { tables, type DeliveryRow } from '../../src/storage/tables.ts';
import { Office } from './office.ts';

describe('operator: what ends for good', () => {
  let office: Office;
  let leaving = '';
  beforeEach(async () => {
    office = await Office.open();
    leaving = (await office.run('accounts.add', { name: 'Leaving' })).id;
    const account = 'Leaving';
    await office.ask('createDomain', { account, body: { name: 'leaving.test', trusted: true } });
    await office.ask('createKey', { account, body: { name: 'shop', scopes: ['send'] } });
    await office.ask('createWebhook', { account, body: { url: 'https://hooks.test/x', events: ['delivered'] } });
    await office.ask('createSuppression', { account, body: { email: 'no@dest.test' } });
    await office.ask('createStream', { account, body: { slug: 'news', name: 'News', type: 'broadcast' } });
  });
  afterEach(() => office.close());

  const send = async (to: string): Promise<string> =>
    (
      await office.ask<{ id: string }>('sendMessage', {
        account: 'Leaving',
        body: {
          from: 'a@leaving.test',
          to,
          subject: 'Order 17',
          text: 'x',
          tags: ['order'],
          metadata: { order: '17' },
        },
      })
    ).id;

  /** Tables that still have rows of the account, with their number. */
  async function left(): Promise<string[]> {
    const found: string[] = [];
    for (const [table, { columns }] of Object.entries(tables)) {
      if (!Object.hasOwn(columns, 'account_id')) continue;
      const [row] = await office.deps.db
        .reader(table)
        .where({ account_id: leaving })
        .count<{ n: number }[]>({ n: '*' });
      if (Number(row?.n) > 0) found.push(table);
    }
    return found;
  }
  const dry = (name: string, body: object): Promise<unknown> =>
    office.perform(operatorCaller(), name, { body: { ...body, dry_run: true } });

  it('removes an account with all of its rows, and nothing of others', async () => {
    const kept = await office.mail('a@dest.test');
    const done = await send('a@dest.test');
    await office.happen(done, { kind: 'canceled' });
    await send('b@dest.test');
    await office.run('queue.hold', { account: 'Leaving' });
    const session = { ip: '192.0.2.1', helo: 'mx.dest.test', sender: 'a@dest.test', recipients: ['x@leaving.test'] };
    const mail = newReceived(session, { account_id: leaving, name: 'leaving.test' }, 1, office.clock.now());
    const source = { received_id: mail.id, raw: Buffer.from('x') };
    await office.deps.db.commit.insert({ received: [mail], received_sources: [source] });
    assert.ok((await left()).length > 10);
    await assert.rejects(office.run('accounts.remove', { account: 'Leaving' }), { code: 'invalid_state' });
    assert.deepEqual(await dry('accounts.remove', { account: 'Leaving' }), {
      object: 'dry_run',
      would: 'cancel 1 delivery, and remove the account Leaving with 1 key, 1 webhook, 1 domain and 2 messages',
      ...{ waiting: 1, messages: 2, keys: 1, webhooks: 1, domains: 1 },
    });
    const removed = await office.run('accounts.remove', { account: 'Leaving', exported: true });
    assert.deepEqual(removed, {
      ...{ object: 'removed_account', id: leaving, name: 'Leaving' },
      ...{ canceled: 1, messages: 2, keys: 1, webhooks: 1, domains: 1 },
    });
    assert.deepEqual(await left(), []);
    assert.deepEqual(await office.deps.db.reader('received_sources'), []);
    assert.deepEqual(
      (await office.run('accounts.list', {})).data.map(({ name }) => name),
      ['default'],
    );
    assert.equal((await office.run('books', {})).balanced, true);
    assert.deepEqual((await office.run('queue.holds', {})).data, []);
    const rows = await office.deps.db.reader<DeliveryRow>('deliveries');
    assert.deepEqual(
      rows.map(({ message_id: id, status }) => [id, status]),
      [[kept, 'queued']],
    );
    const last = (await office.audit()).at(-1);
    assert.deepEqual([last?.operation, last?.account_id, last?.object_id], ['accounts.remove', null, 'Leaving']);
    // The name and the domain are free again.
    await office.run('accounts.add', { name: 'Leaving' });
    await office.ask('createDomain', { account: 'Leaving', body: { name: 'leaving.test', trusted: true } });
  });

  it('does not remove an account while its mail is on the wire, and goes on when it is asked again', async () => {
    const id = await send('a@dest.test');
    await office.happen(id, { kind: 'claimed', epoch: 1, leaseUntil: office.clock.now() + 60_000 });
    const remove = () => office.run('accounts.remove', { account: 'Leaving', exported: true });
    await assert.rejects(remove(), { code: 'invalid_state', message: /being sent right now/ });
    await office.deps.db.commit.transact((tx) => tx.run('UPDATE deliveries SET claim_epoch = NULL'));
    await remove();
    assert.deepEqual(await left(), []);
  });

  it('does not remove the account that the server itself uses', async () => {
    await assert.rejects(office.run('accounts.remove', { account: 'default', exported: true }), {
      code: 'invalid_state',
    });
    await assert.rejects(dry('accounts.remove', { account: 'default' }), { code: 'invalid_state' });
  });

  it('erases a person from the mail of all accounts, or of one', async () => {
    await office.mail('gone@dest.test');
    await send('Gone@dest.test');
    await send('stays@dest.test');
    const session = { ip: '192.0.2.1', helo: 'mx.dest.test', sender: 'only@dest.test', recipients: ['x@leaving.test'] };
    const mail = newReceived(session, { account_id: leaving, name: 'leaving.test' }, 1, office.clock.now());
    await office.deps.db.commit.insert({ received: [{ ...mail, from_key: 'only@dest.test', status: 'read' }] });
    await office.run('recipients.erase', { email: 'only@dest.test' });
    assert.deepEqual(await office.deps.db.reader('received'), []);
    const addresses = async (): Promise<string[]> =>
      (await office.deps.db.reader<DeliveryRow>('deliveries').orderBy('id')).map(({ address }) => address);
    const email = 'gone@DEST.test';
    assert.deepEqual(await dry('recipients.erase', { email }), {
      ...{ object: 'dry_run', would: 'erase 2 recipients of mail of default, Leaving' },
      ...{ accounts: 2, recipients: 2 },
    });
    assert.ok((await addresses()).includes('gone@dest.test'));
    assert.deepEqual(await office.run('recipients.erase', { email, account: 'Leaving' }), {
      ...{ object: 'erasure', accounts: ['Leaving'], recipients: 1 },
    });
    assert.deepEqual(await office.run('recipients.erase', { email }), {
      ...{ object: 'erasure', accounts: ['default'], recipients: 1 },
    });
    assert.deepEqual(await addresses(), ['erased@erased.invalid', 'erased@erased.invalid', 'stays@dest.test']);
    await assert.rejects(office.run('recipients.erase', { email }), { code: 'not_found' });
    const audit = JSON.stringify((await office.audit()).filter(({ operation }) => operation === 'recipients.erase'));
    assert.doesNotMatch(audit, /gone@/i);
  });
});
