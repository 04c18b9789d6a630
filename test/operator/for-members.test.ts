/** Operations that members may perform, asked for the facts about the server that only administrators see. */
import assert from 'node:assert/strict';
import { limitRow } from '../support/harness/limit-rows.ts';
import { perform, type By, type ResultOf } from '../../src/operator/operations.ts';
import { Office } from './office.ts';

const MARK = 'zebrafinch';

describe('operator: what members who are no administrators are answered', () => {
  let office: Office;
  let administrator: By;
  let member: By;
  before(async () => {
    office = await Office.open();
    const { data } = await office.run('accounts.list', {});
    const acting = { actor: 'member:bo@example.net', ip: null, method: 'DASHBOARD', user_agent: null };
    administrator = { acting };
    const account = data.find(({ name }) => name === 'default')?.id ?? assert.fail('no account');
    member = { acting, within: { account, scopes: ['message:read', 'stats:read'] } };
    const since = office.clock.now();
    office.sources = [
      {
        name: null,
        pool: 'default',
        ipv4: null,
        ipv6: null,
        ehlo: 'mail.example.com',
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

  const textOf = async (name: string, args: object, by: By): Promise<string> =>
    JSON.stringify(await perform(office.deps, name, args, by));

  for (const [name, args] of [
    ['needs', { server: true }],
    ['needs', {}],
    ['reputation.moments', { server: true }],
    ['reputation.moments', {}],
  ] as const)
    it(`answers ${name} ${JSON.stringify(args)} with the server's items to administrators alone`, async () => {
      assert.match(await textOf(name, args, administrator), new RegExp(MARK));
      assert.doesNotMatch(await textOf(name, args, member), new RegExp(MARK));
    });

  it('answers a member with the items of the account', async () => {
    const { data } = (await perform(office.deps, 'needs', { server: true }, member)) as ResultOf<'needs'>;
    assert.deepEqual(
      data.map(({ kind }) => kind),
      ['domain_unverified'],
    );
  });

  it('refuses what is no operation for members before it looks at the arguments', async () => {
    // The names of the API's operations are the operator's way into it, in any account.
    for (const name of ['listKeys', 'createKey', 'accounts.list', 'nothing'])
      for (const args of [{}, { nonsense: true }, null])
        await assert.rejects(perform(office.deps, name, args, member), /Your role does not allow this/, name);
  });

  it('takes no other account from a member', async () => {
    const { id } = await office.run('accounts.add', { name: 'Other' });
    await office.ask('createDomain', { account: id, body: { name: 'other.test' } });
    assert.match(await textOf('needs', { account: id }, administrator), /other\.test/);
    assert.doesNotMatch(await textOf('needs', { account: id }, member), /other\.test/);
  });
});
