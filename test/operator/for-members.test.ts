/** Operations that members may perform, asked for the facts about the server that only administrators see. */
import assert from 'node:assert/strict';
import { memberCaller } from '../../src/api/inside.ts';
import type { Caller } from '../../src/keys/caller.ts';
import type { ResultOf } from '../../src/operator/routes.ts';
import { limitRow } from '../support/harness/limit-rows.ts';
import { Office } from './office.ts';

const MARK = 'zebrafinch';

describe('operator: what members who are no administrators are answered', () => {
  let office: Office;
  let administrator: Caller;
  let member: Caller;
  before(async () => {
    office = await Office.open();
    const { data } = await office.run('accounts.list', {});
    const id = data.find(({ name }) => name === 'default')?.id ?? assert.fail('no account');
    const callerAs = (role: 'administrator' | 'read_only'): Caller =>
      memberCaller({ id: 'mem_1', email: 'bo@example.net', role }, { id, plan: 'standard', paused: 0 });
    administrator = callerAs('administrator');
    member = callerAs('read_only');
    const since = office.clock.now();
    office.sources = [
      {
        name: null,
        pool: 'default',
        ipv4: null,
        ipv6: null,
        ehlo: 'mail.example.com',
        absent: [],
        paused: false,
        blocks: [{ site: MARK, since, until: since + 60_000, reply: '550 blocked' }],
        warmUp: [],
      },
    ];
    await office.run('queue.hold', { domain: `${MARK}.test` });
    await office.deps.db.commit.insert({
      limits: [limitRow({ site: MARK, since, until: since + 60_000, cause: '550 blocked' })],
    });
    await office.ask('createDomain', { body: { name: 'acme.test' } });
  });
  after(() => office.close());

  const textOf = async (name: string, args: object, by: Caller): Promise<string> =>
    JSON.stringify(await office.perform(by, name, { body: args }));

  for (const [name, args] of [
    ['needs', { server: true }],
    ['needs', {}],
    ['reputation', { server: true }],
    ['reputation', {}],
  ] as const)
    it(`answers ${name} ${JSON.stringify(args)} with the server's items to administrators alone`, async () => {
      assert.match(await textOf(name, args, administrator), new RegExp(MARK));
      assert.doesNotMatch(await textOf(name, args, member), new RegExp(MARK));
    });

  it('answers a member with the items of the account', async () => {
    const { data } = (await office.perform(member, 'needs', { body: { server: true } })) as ResultOf<'needs'>;
    assert.deepEqual(
      data.map(({ kind }) => kind),
      ['domain_unverified'],
    );
  });

  it('refuses what is no operation for members before it looks at the arguments', async () => {
    for (const name of ['createKey', 'accounts.list', 'queue.hold'])
      for (const body of [{}, { nonsense: true }])
        await assert.rejects(office.perform(member, name, { body }), /Your role does not allow this/, name);
  });

  it('lets no key perform an operation of the server, whatever its scopes', async () => {
    const key: Caller = { ...member, scopes: ['message:read', 'stats:read'], keyName: 'k' };
    delete key.member;
    delete key.hasServer;
    for (const name of ['needs', 'accounts.list', 'queue.hold'])
      await assert.rejects(office.perform(key, name, { body: {} }), { code: 'insufficient_scope' });
  });

  it('takes no other account from a member', async () => {
    const { id } = await office.run('accounts.add', { name: 'Other' });
    await office.ask('createDomain', { account: id, body: { name: 'other.test' } });
    assert.match(await textOf('needs', { account: id }, administrator), /other\.test/);
    assert.doesNotMatch(await textOf('needs', { account: id }, member), /other\.test/);
  });
});
