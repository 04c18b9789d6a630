/** Block lists that take up our address and let it go, and the other entries on the time line of a reputation. */
import assert from 'node:assert/strict';
import { limitRow } from '../support/harness/limit-rows.ts';
import { listingRule } from '../../src/operator/listings.ts';
import type { ArgsOf, ResultOf } from '../../src/operator/routes.ts';
import { Office } from './office.ts';

const IP = '5.9.10.11';
const ASKED = (list: string): string => `11.10.9.5.${list} A`;
const HOUR_MS = 3_600_000;

describe('operator/listings', () => {
  let office: Office;
  let look: () => Promise<number>;
  beforeEach(async () => {
    office = await Office.open();
    const config = { ...office.config, doctor: { ...office.config.doctor, blocklists: ['a.example', 'b.example'] } };
    office.resolver.zones = { [ASKED('a.example')]: [], [ASKED('b.example')]: [] };
    const rule = listingRule({ ...office.deps, config, machine: { addresses: () => [IP, 'fe80::1'] } });
    look = () => rule.step();
  });
  afterEach(() => office.close());

  const reputation = (args: ArgsOf<'reputation'> = {}): Promise<ResultOf<'reputation'>> =>
    office.run('reputation', args);
  const say = (list: string, answer: string[] | 'SERVFAIL'): void => {
    office.resolver.zones = { ...office.resolver.zones, [ASKED(list)]: answer };
  };
  const kinds = async (): Promise<string[]> => (await reputation()).moments.map(({ kind, what }) => `${kind} ${what}`);

  it('tells of the begin and the end of a listing, once each', async () => {
    await look();
    assert.deepEqual(await kinds(), []);
    assert.deepEqual(
      (await reputation()).block_lists.map(({ ip, list, state }) => [ip, list, state]),
      [
        [IP, 'a.example', 'clear'],
        [IP, 'b.example', 'clear'],
      ],
    );
    say('a.example', ['127.0.0.2', '127.0.0.4']);
    office.clock.advance(6 * HOUR_MS);
    await look();
    await look();
    assert.deepEqual(await kinds(), [`listed ${IP} by a.example (127.0.0.2, 127.0.0.4)`]);
    say('a.example', []);
    office.clock.advance(6 * HOUR_MS);
    await look();
    assert.deepEqual(await kinds(), [
      `listed ${IP} by a.example (127.0.0.2, 127.0.0.4)`,
      `unlisted ${IP} by a.example`,
    ]);
    assert.deepEqual(
      office.logged.map(({ event }) => event).filter((event) => event !== undefined),
      ['listed', 'unlisted'],
    );
  });

  for (const [reason, answer, state] of [
    ['does not answer', 'SERVFAIL', 'silent'],
    ['refuses our resolver', ['127.255.255.254'], 'refused'],
  ] as const) {
    it(`takes a list that ${reason} for neither a listing nor the end of one`, async () => {
      say('a.example', ['127.0.0.2']);
      await look();
      say('a.example', typeof answer === 'string' ? answer : [...answer]);
      say('b.example', typeof answer === 'string' ? answer : [...answer]);
      await look();
      assert.deepEqual(await kinds(), [`listed ${IP} by a.example (127.0.0.2)`]);
      assert.deepEqual(
        (await reputation()).block_lists.map((one) => one.state),
        [state, state],
      );
    });
  }

  it('ends no listing behind a NAT while DNS does not tell our address', async () => {
    const config = { ...office.config, doctor: { ...office.config.doctor, blocklists: ['a.example'] } };
    const rule = listingRule({ ...office.deps, config, machine: { addresses: () => ['10.0.0.5'] } });
    const name = `${config.smtp.hostname} A`;
    office.resolver.zones = { ...office.resolver.zones, [name]: [IP] };
    say('a.example', ['127.0.0.2']);
    await rule.step();
    office.resolver.zones = { ...office.resolver.zones, [name]: 'SERVFAIL' };
    await rule.step();
    assert.deepEqual(await kinds(), [`listed ${IP} by a.example (127.0.0.2)`]);
    assert.equal((await reputation()).block_lists.length, 1);
  });

  it('ends a listing of an address that is ours no more', async () => {
    say('a.example', ['127.0.0.2']);
    await look();
    const config = { ...office.config, doctor: { ...office.config.doctor, blocklists: [] } };
    await listingRule({ ...office.deps, config }).step();
    assert.equal((await kinds()).length, 2);
  });

  it('asks about the addresses of all nodes that deliver, whichever of them leads', async () => {
    const [one, two, door] = [office.deps.nodes.list()[0], '5.9.10.12', '5.9.10.13'];
    assert.ok(one);
    office.resolver.zones = { ...office.resolver.zones, '12.10.9.5.a.example A': ['127.0.0.2'] };
    const nodes = [one, { ...one, epoch: 2, name: 'two' }, { ...one, epoch: 3, name: 'door', isDelivering: false }];
    let shown = [
      { epoch: 2, key: '', value: JSON.stringify([two]) },
      { epoch: 3, key: '', value: JSON.stringify([door]) },
    ];
    const { prepared } = office.deps.db;
    const rule = listingRule({
      ...office.deps,
      config: { ...office.config, doctor: { ...office.config.doctor, blocklists: ['a.example'] } },
      machine: { addresses: () => [IP] },
      // The table of figures is there on PostgreSQL only.
      db: {
        commit: office.deps.db.commit,
        reader: office.deps.db.reader,
        prepared: { ...prepared, all: () => Promise.resolve(shown as never) },
      },
      nodes: { ...office.deps.nodes, hasOthers: true, list: () => nodes },
    });
    const asked = async (): Promise<string[]> => (await reputation()).block_lists.map(({ ip }) => ip);
    await rule.step();
    assert.deepEqual([await asked(), await kinds()], [[IP, two], [`listed ${two} by a.example (127.0.0.2)`]]);
    // The node with the address is being restarted, and then it is gone for good.
    shown = shown.slice(1);
    await rule.step();
    assert.deepEqual([await asked(), (await kinds()).length], [[IP, two], 1]);
    nodes.splice(1, 1);
    await rule.step();
    assert.deepEqual([await asked(), (await kinds()).length], [[IP], 2]);
  });

  it('has what people changed, each account its own, and what concerns the server where that is asked for', async () => {
    const other = await office.run('accounts.add', { name: 'Other' });
    await office.ask('createDomain', { body: { name: 'shop.example' } });
    await office.ask('createDomain', { account: other.id, body: { name: 'other.example' } });
    await office.run('queue.hold', { domain: 'dest.test' });
    await office.deps.db.commit.insert({
      limits: [limitRow({ since: office.clock.now(), until: office.clock.now() + HOUR_MS, cause: '554 <b>no</b>' })],
    });
    const what = ({ moments }: ResultOf<'reputation'>): string[] => moments.map((one) => one.what).sort();
    assert.deepEqual(what(await reputation({ server: false })), ['added the domain shop.example']);
    assert.deepEqual(what(await reputation({ account: other.id, server: false })), ['added the domain other.example']);
    assert.deepEqual(what(await reputation()), [
      'added the domain shop.example',
      'held the domain dest.test',
      "the system's address by mx.dest.test: 554 <b>no</b>",
    ]);
    office.clock.advance(31 * 24 * HOUR_MS);
    assert.deepEqual(what(await reputation()), []);
    await assert.rejects(reputation({ days: 0 }), /days/);
  });
});
