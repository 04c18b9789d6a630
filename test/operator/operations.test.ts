import type { CreatedKey, Domain, Key, Message, MessageDetails } from '../../src/client/types.ts';
import assert from 'node:assert/strict';
import { Problem } from '../../src/base/problem.ts';
import { operatorCaller } from '../../src/api/inside.ts';
import type { AskedOf } from '../../src/operator/door/operator.ts';
import type { MessageRow } from '../../src/storage/tables.ts';
import { Office } from './office.ts';

describe('operator: wrong arguments', () => {
  let office: Office;
  before(async () => {
    office = await Office.open();
  });
  after(() => office.close());

  for (const [name, args, code, field, reason] of [
    ['accounts.add', {}, 'missing_field', 'name', 'a name is needed'],
    ['accounts.add', { name: 'a', plam: 'pro' }, 'unknown_field', 'plam', 'a typing error'],
    ['accounts.add', { name: 'a', plan: 'gold' }, 'invalid_field', 'plan', 'plans are settings'],
    ['accounts.add', { name: '  ' }, 'invalid_field', 'name', 'an empty name'],
    ['accounts.add', { name: 'default' }, 'already_exists', 'name', 'there is one from the start'],
    ['accounts.plan', { account: 'nobody', plan: 'pro' }, 'not_found', 'account', 'no such account'],
    [
      'accounts.plan',
      { account: 'default', plan: 'toString' },
      'invalid_field',
      'plan',
      'an inherited name is no plan',
    ],
    ['createKey', { body: { name: 'k', scopes: [] } }, 'invalid_field', 'scopes', 'a key that opens nothing'],
    ['createKey', { body: { name: 'k', scopes: ['sned'] } }, 'invalid_field', 'scopes[0]', 'no such scope'],
    ['createKey', { body: { name: 'k', scopes: 'send' } }, 'invalid_type', 'scopes', 'a list is needed'],
    ['createKey', { body: { name: 'k', scopes: ['send'], mode: 'prod' } }, 'invalid_field', 'mode', 'no such mode'],
    ['createKey', { body: { name: 'k', scopes: ['send'], ttl: -1 } }, 'invalid_field', 'ttl', 'an end in the past'],
    [
      'createKey',
      { body: { name: 'k', scopes: ['send'], allowed_ips: ['::1', 'x'] } },
      'invalid_field',
      'allowed_ips[1]',
      'no address',
    ],
    [
      'createKey',
      { account: 'nobody', body: { name: 'k', scopes: ['send'] } },
      'not_found',
      'account',
      'no such account',
    ],
    ['revokeKey', { params: { id: 'key_x' } }, 'not_found', 'id', 'no such key'],
    ['createDomain', { body: { name: 'not a domain' } }, 'invalid_field', 'name', 'no domain name'],
    ['createDomain', { body: { name: 'a.test', return_path: '-' } }, 'invalid_field', 'return_path', 'no domain name'],
    ['getDomain', { params: { id: 'a.test' } }, 'not_found', 'id', 'never added'],
    ['verifyDomain', { params: { id: 'a.test' } }, 'not_found', 'id', 'never added'],
    ['getMessage', { params: { id: 'msg_x' } }, 'not_found', 'id', 'no such message'],
    ['messages.trace', { id: 17 }, 'invalid_type', 'id', 'no text'],
    ['listMessages', { query: { status: 'lost' } }, 'invalid_parameter', 'status', 'no such status'],
    [
      'sendMessage',
      { body: { to: 'b@dest.test', subject: 's', text: 'x' } },
      'missing_field',
      'from',
      'a sender is needed',
    ],
    [
      'sendMessage',
      { body: { from: 'a@x.test', to: 'nobody', subject: 's', text: 'x' } },
      'invalid_recipient',
      'to',
      'no address',
    ],
    [
      'sendMessage',
      { body: { from: 'a@x.test', to: 'b@dest.test', subject: 's' } },
      'missing_content',
      'html',
      'nothing to say',
    ],
    [
      'sendMessage',
      { body: { from: 'a@x.test', to: 'b@dest.test', subject: 's', text: 'x' } },
      'domain_not_verified',
      'from',
      'a foreign domain',
    ],
    ['queue.list', { limit: 0 }, 'invalid_field', 'limit', 'none at all'],
    ['queue.list', { account: 'nobody' }, 'not_found', 'account', 'no such account'],
    ['queue.flush', {}, 'invalid_field', null, 'everything must be said'],
    ['queue.flush', { all: true, domain: 'a.test' }, 'invalid_field', null, 'one of them'],
    ['queue.flush', { message_id: 'msg_x' }, 'not_found', 'message_id', 'no such message'],
  ] as const) {
    it(`${name} ${JSON.stringify(args)} is ${code}: ${reason}`, async () => {
      const asked = args as AskedOf;
      const performed = async (): Promise<unknown> =>
        name.includes('.') ? office.perform(operatorCaller(), name, { body: args }) : office.ask(name, asked);
      await assert.rejects(performed(), (error: unknown) => {
        assert.ok(error instanceof Problem, String(error));
        assert.deepEqual([error.code, error.field], [code, field]);
        return true;
      });
    });
  }
});

describe('operator/operations', () => {
  let office: Office;
  beforeEach(async () => {
    office = await Office.open();
  });
  afterEach(() => office.close());

  it('writes an audit line for what was done, in the same transaction for a mail, and for what was refused', async () => {
    await office.run('accounts.add', { name: 'Acme' });
    await office.mail('b@dest.test');
    await assert.rejects(office.ask('revokeKey', { params: { id: 'key_x' } }));
    await office.ask<{ data: Key[] }>('listKeys', {});
    const lines = await office.audit();
    assert.deepEqual(
      lines.map(({ actor, method, endpoint, status, result, error_code }) => [
        actor,
        method,
        endpoint,
        status,
        result,
        error_code,
      ]),
      [
        ['operator', 'CLI', 'accounts.add', 200, 'ok', null],
        ['operator', 'CLI', '/v1/domains', 201, 'ok', null],
        ['operator', 'CLI', '/v1/messages', 202, 'ok', null],
        ['operator', 'CLI', '/v1/keys/{id}', 404, 'refused', 'not_found'],
      ],
    );
    const [message] = await office.deps.db.reader<MessageRow>('messages');
    assert.equal(lines[2]?.request_id, message?.request_id);
    const { data } = await office.run('accounts.list', {});
    assert.deepEqual(
      lines.map(({ account_id }) => data.find(({ id }) => id === account_id)?.name),
      ['Acme', 'default', 'default', 'default'],
    );
  });

  it('adds nobody to the team where the invitation cannot be mailed since no server runs', async () => {
    const args = { email: 'bo@acme.test', role: 'administrator' as const, accounts: [], mail: true };
    await assert.rejects(office.run('team.add', args), /the server is not running/);
    assert.deepEqual((await office.run('team.list', {})).data, []);
  });
});

describe('operator: accounts, keys, domains', () => {
  let office: Office;
  beforeEach(async () => {
    office = await Office.open();
  });
  afterEach(() => office.close());

  it('adds accounts, oldest first, and changes their plan', async () => {
    const made = await office.run('accounts.add', { name: 'Acme', plan: 'pro' });
    assert.deepEqual(
      { ...made, id: '' },
      { object: 'account', id: '', name: 'Acme', plan: 'pro', paused: false, created_at: '2026-01-31T09:30:00.000Z' },
    );
    assert.equal((await office.run('accounts.add', { name: 'Beta' })).plan, 'standard');
    assert.equal((await office.run('accounts.plan', { account: 'Acme', plan: 'starter' })).plan, 'starter');
    const { data } = await office.run('accounts.list', {});
    assert.deepEqual(
      data.map(({ name, plan }) => [name, plan]),
      [
        ['default', 'unlimited'],
        ['Acme', 'starter'],
        ['Beta', 'standard'],
      ],
    );
  });

  it('creates a key, lists it without its secret, and revokes it at once', async () => {
    const made = await office.ask<CreatedKey>('createKey', {
      body: {
        name: 'shop',
        scopes: ['send'],
        mode: 'test',
        ttl: 1,
        allowed_ips: ['192.0.2.9/24'],
        domains: ['A.test'],
      },
    });
    assert.match(made.key, /^ak_test_/);
    assert.deepEqual(
      [made.mode, made.allowed_ips, made.domains, made.expires_at, made.created_by],
      ['test', ['192.0.2.0/24'], ['a.test'], '2026-01-31T09:30:01.000Z', 'operator'],
    );
    const { key, ...record } = made;
    assert.deepEqual((await office.ask<{ data: Key[] }>('listKeys', {})).data, [record]);
    assert.ok(!JSON.stringify(await office.deps.db.reader('api_keys')).includes(key));
    const revoked = await office.ask('revokeKey', { params: { id: made.id } });
    assert.deepEqual(revoked, { ...record, revoked_at: '2026-01-31T09:30:00.000Z' });
    assert.deepEqual(office.forgotten, [made.prefix.slice('ak_test_'.length)]);
  });

  it('keeps the keys of accounts apart', async () => {
    await office.run('accounts.add', { name: 'Acme' });
    await office.ask<{ id: string; key: string }>('createKey', {
      account: 'Acme',
      body: { name: 'theirs', scopes: ['send'] },
    });
    assert.deepEqual((await office.ask<{ data: Key[] }>('listKeys', {})).data, []);
    assert.equal((await office.ask<{ data: Key[] }>('listKeys', { account: 'Acme' })).data.length, 1);
  });

  it('adds a domain with records to paste, and verifies it once they are in DNS', async () => {
    const added = await office.ask<Domain>('createDomain', {
      body: { name: 'Sender.test', return_path: 'bounce.sender.test' },
    });
    assert.deepEqual([added.name, added.status, added.return_path], ['sender.test', 'pending', 'bounce.sender.test']);
    assert.deepEqual(
      added.records.map(({ purpose, type }) => [purpose, type]),
      [
        ['dkim', 'TXT'],
        ['dkim', 'TXT'],
        ['return_path', 'MX'],
        ['spf', 'TXT'],
        ['dmarc', 'TXT'],
      ],
    );
    assert.equal((await office.ask<Domain>('verifyDomain', { params: { id: 'sender.test' } })).status, 'pending');
    for (const { host, type, value } of added.records) office.resolver.zones[`${host} ${type}`] = [value];
    assert.equal((await office.ask<Domain>('verifyDomain', { params: { id: added.id } })).status, 'verified');
    assert.ok(office.forgotten.includes('sender.test'));
    const { data } = await office.ask<{ data: Domain[] }>('listDomains', { query: { status: 'any' } });
    assert.deepEqual(data, [await office.ask<Domain>('getDomain', { params: { id: 'SENDER.test.' } })]);
  });

  it('trusts a domain without DNS', async () => {
    assert.equal(
      (await office.ask<Domain>('createDomain', { body: { name: 'intern.test', trusted: true } })).status,
      'verified',
    );
    assert.deepEqual(office.resolver.asked, []);
  });
});

describe('operator: messages, events, books', () => {
  let office: Office;
  beforeEach(async () => {
    office = await Office.open();
  });
  afterEach(() => office.close());

  it('sends through the same door as the API: stored, queued, rung for', async () => {
    const id = await office.mail('Ana <b@dest.test>');
    const shown = await office.ask<MessageDetails>('getMessage', { params: { id } });
    assert.deepEqual(
      [shown.object, shown.status, shown.to, shown.subject, shown.test],
      ['message', 'queued', 'Ana <b@dest.test>', 'Hello', false],
    );
    assert.deepEqual(
      shown.recipients.map(({ email, status }) => [email, status]),
      [['b@dest.test', 'queued']],
    );
    assert.deepEqual([shown.attempts, shown.events], [[], []]);
    assert.deepEqual(
      office.hints.map(({ domain }) => domain),
      ['dest.test'],
    );
  });

  it('shows and traces what happened, in the order of time', async () => {
    const id = await office.mail('b@dest.test');
    office.clock.advance(1000);
    await office.defer(id, office.clock.now() + 60_000);
    const shown = await office.ask<MessageDetails>('getMessage', { params: { id } });
    assert.deepEqual(
      shown.events.map(({ type }) => type),
      ['sent', 'deferred'],
    );
    assert.equal(shown.attempts[0]?.smtp_reply, '4.2.2 mailbox full');
    const { data } = await office.run('messages.trace', { id });
    assert.deepEqual(
      data.map(({ what }) => what),
      ['accepted', 'event', 'event', 'attempt', 'next'],
    );
    assert.match(
      data[3]?.text ?? '',
      /attempt 1 deferred \(soft, mailbox_full\) by mx1\.dest\.test \[192\.0\.2\.25\], no TLS: 452 4\.2\.2 mailbox full/,
    );
    assert.equal(data[4]?.at, '2026-01-31T09:31:01.000Z');
  });

  it('lists messages, newest first, by status and address', async () => {
    const first = await office.mail('b@dest.test');
    const second = await office.mail('c@dest.test');
    await office.defer(first, office.clock.now() + 60_000);
    const list = (query: Record<string, string> = {}): Promise<{ data: Message[]; has_more: boolean }> =>
      office.ask('listMessages', { query });
    const ids = async (query: Record<string, string>): Promise<string[]> =>
      (await list(query)).data.map(({ id }) => id);
    assert.deepEqual(await ids({}), [second, first]);
    assert.deepEqual(await ids({ limit: '1' }), [second]);
    assert.deepEqual(await ids({ status: 'deferred,bounced' }), [first]);
    assert.deepEqual(await ids({ to: 'c@dest.test', from: 'a@sender.test' }), [second]);
    assert.equal((await list({ limit: '1' })).has_more, true);
  });

  it('balances the books, and tells what is missing', async () => {
    await office.mail('b@dest.test');
    const good = await office.run('books', {});
    assert.deepEqual([good.balanced, good.accepted, good.faults], [true, 1, []]);
    await office.deps.db.commit.transact((tx) => tx.run('DELETE FROM deliveries'));
    const bad = await office.run('books', {});
    assert.equal(bad.balanced, false);
    assert.match(bad.faults.join(), /queued: 1 by the counters, 0 by the rows/);
  });
});
