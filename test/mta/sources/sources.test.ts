/** The sources of several nodes on one database: which a node uses, and what it learns of blocks of the others. */
import assert from 'node:assert/strict';
import { Sources, type ConfiguredSource } from '../../../src/mta/sources/sources.ts';
import { WarmUp } from '../../../src/mta/sources/warm-up.ts';
import type { Outcome } from '../../../src/messages/delivery/delivery.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { HOUR, NOW } from '../../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';

const noLog = { debug() {}, info() {}, warn() {}, error() {}, child: () => noLog };
const listed = {
  kind: 'refused',
  facts: { smtpReply: '554 5.7.1 listed' },
  verdict: { class: 'block', reason: 'reputation' },
  grounds: { rule: 'listed', infrastructure: false, greylisting: false, about: 'block_list' },
} as unknown as Outcome;

const source = (name: string, node: string | null, pool = 'default'): ConfiguredSource => ({
  ...{ name, node, pool, ehlo: 'mail.test', ipv4: '192.0.2.1', ipv6: null },
});

describe('mta/sources', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock(NOW);
  });
  afterEach(() => temp.close());

  async function open(
    name: string,
    settings: readonly ConfiguredSource[] = [],
    { isShared = true, isDelivering = true } = {},
  ): Promise<Sources> {
    const { db } = temp;
    const deps = {
      db,
      clock,
      log: noLog,
      book: { ofSource: () => null, ofLane: () => null },
      absent: new Map<string, number>(),
    };
    const warmUp = new WarmUp({ db, clock, log: noLog }, new Map());
    const sources = new Sources(
      { ...deps, warmUp },
      { hostname: 'mail.test', settings, node: { name, isDelivering, isShared } },
    );
    await sources.load();
    return sources;
  }

  /** Resolves when what the nodes have begun to write is written. */
  const written = (): Promise<void> => temp.db.commit.transact(() => Promise.resolve());
  const storedSources = async (): Promise<string[]> =>
    (await temp.db.prepared.all<{ source: string }>('SELECT source FROM source_blocks ORDER BY source')).map(
      (row) => row.source,
    );
  const namesOf = (sources: Sources): (string | null)[] => sources.list().map(({ name }) => name);

  const settings = [
    source('out1', 'one'),
    source('out2', 'two'),
    source('shared', null),
    source('bulk', 'two', 'news'),
  ];

  it('are those of the node and those of none', async () => {
    assert.deepEqual(namesOf(await open('one', settings)), ['out1', 'shared']);
    assert.deepEqual(namesOf(await open('two', settings)), ['out2', 'shared', 'bulk']);
    // A node without delivery needs none.
    const three = await open('three', [source('out1', 'one')], { isDelivering: false });
    assert.deepEqual([namesOf(three), three.named], [[], true]);
  });

  it('are chosen again for greylisted mail where the node has them', async () => {
    const two = await open('two', settings);
    const chosen = (last: string): string | null =>
      two.choose({ pool: 'default', last }, { site: 'google', domain: null }, () => 0).name;
    for (let turn = 0; turn < 3; turn++) assert.equal(chosen('shared'), 'shared');
    assert.ok(['out2', 'shared'].includes(chosen('out1') ?? ''));
  });

  it('that every node may use are left alone by all when one learns of a block, and used by all when it is ended', async () => {
    const [one, two] = [await open('one', settings), await open('two', settings)];
    one.note('shared', 'google', listed);
    one.note('out1', 'google', listed);
    // Before it is written, too.
    await one.reread();
    assert.equal(one.isFree('shared', 'google'), false);
    await written();
    await Promise.all([one.reread(), two.reread()]);
    assert.deepEqual(
      [one, two].map((node) => [node.isFree('shared', 'google'), node.isFree('shared', 'yahoo')]),
      [
        [false, true],
        [false, true],
      ],
    );
    assert.equal(two.isFree('out2', 'google'), true);
    assert.equal(await two.unblock('shared'), 1);
    assert.equal(two.isFree('shared', 'google'), true);
    await one.reread();
    assert.deepEqual([one.isFree('shared', 'google'), one.isFree('out1', 'google')], [true, false]);
    clock.advance(HOUR);
    assert.equal(one.isFree('out1', 'google'), true);
  });

  describe('at an operator that serves many organisations', () => {
    const accepted = { kind: 'accepted', facts: {} } as unknown as Outcome;
    const frees = (sources: Sources): boolean[] => [
      sources.isFree('out1', 'google', 'one.test'),
      sources.isFree('out1', 'google', 'two.test'),
      sources.isFree('out1', 'google'),
    ];

    it('are kept from the one recipient domain that has them on a list, whose mail takes another source', async () => {
      const one = await open('one', settings);
      const block = one.note('out1', 'google', listed, 'one.test');
      assert.equal(block?.site, 'google (one.test)');
      assert.equal(one.note('out1', 'google', listed, 'one.test'), null);
      assert.deepEqual(frees(one), [false, true, true]);
      const chosen = (domain: string): string | null =>
        one.choose({ pool: 'default', last: 'out1' }, { site: 'google', domain }, () => 0).name;
      assert.deepEqual([chosen('one.test'), chosen('two.test')], ['shared', 'out1']);
      assert.deepEqual([one.take('out1', 'google', 'one.test'), one.take('out1', 'google', 'two.test')], [false, true]);
      assert.equal(one.heldBy('default', 'google', 'one.test'), null);
      one.note('shared', 'google', listed, 'one.test');
      assert.equal(one.heldBy('default', 'google'), null);
      assert.equal(one.heldBy('default', 'google', 'two.test'), null);
      const hold = one.heldBy('default', 'google', 'one.test');
      assert.equal(hold?.by, 'pool:default@google (one.test)');
      assert.deepEqual(one.holdOf(hold.by), hold);
      await written();
      assert.deepEqual(frees(await open('one', settings)), [false, true, true], 'also after a restart');
      assert.equal(await one.unblockSite('google'), 2);
      assert.equal(one.holdOf(hold.by), null);
      assert.deepEqual(frees(await open('one', settings)), [true, true, true]);
    });

    it('are kept from all of it once three domains in a row say so', async () => {
      const one = await open('one', settings);
      for (const domain of ['one.test', 'two.test']) one.note('out1', 'google', listed, domain);
      assert.equal(one.isFree('out1', 'google'), true);
      assert.equal(one.note('out1', 'google', listed, 'three.test')?.site, 'google');
      assert.equal(one.isFree('out1', 'google', 'four.test'), false);
      assert.equal(one.isFree('shared', 'google'), true);
    });

    it('are not, where mail was accepted between', async () => {
      const one = await open('one', settings);
      for (const domain of ['one.test', 'two.test']) one.note('out1', 'google', listed, domain);
      one.note('out1', 'google', accepted, 'four.test');
      assert.equal(one.note('out1', 'google', listed, 'three.test')?.site, 'google (three.test)');
      assert.equal(one.isFree('out1', 'google'), true);
    });
  });

  it('have a system address at each node, whose blocks concern no other', async () => {
    const [one, two] = [await open('one'), await open('two')];
    one.note(null, 'google', listed);
    await written();
    await Promise.all([one.reread(), two.reread()]);
    assert.deepEqual([one.isFree(null, 'google'), two.isFree(null, 'google')], [false, true]);
    assert.deepEqual(await storedSources(), ['@one']);
    assert.equal(two.list()[0]?.blocks.length, 0);
    // A source may have the name of a node.
    const named = await open('one', [source('one', null)]);
    assert.equal(named.isFree('one', 'google'), true);
    assert.equal((await open('one')).isFree(null, 'google'), false, 'also after a restart');
    assert.equal(await two.unblock(null), 0);
    assert.equal(await one.unblock(null), 1);
    assert.deepEqual(await storedSources(), []);
  });

  it('have no name for the system address where there is one server', async () => {
    const only = await open('one', [], { isShared: false });
    only.note(null, 'google', listed);
    await written();
    assert.deepEqual(await storedSources(), ['']);
    assert.equal((await open('renamed', [], { isShared: false })).isFree(null, 'google'), false);
  });
});
