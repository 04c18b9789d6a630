/** Limits that people set by hand, over a real database: what they cover, what another node changes, and what has ended. */
import assert from 'node:assert/strict';
import { LimitBook } from '../../../src/messages/limits/book.ts';
import { scopeOf, type Limit, type MailFacts } from '../../../src/messages/limits/limit.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { byHand } from '../../support/harness/limit-rows.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';
import { quietLog } from '../../mta/lane-world.ts';

const mail: MailFacts = {
  accountId: 'acc_1',
  stream: 'news',
  fromDomain: 'acme.test',
  domain: 'dest.test',
  messageId: 'msg_1',
  batchId: 'bat_1',
  keyId: 'key_1',
  createdAt: 1000,
};

describe('messages/limits: holds', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock();
  });
  afterEach(() => temp.close());

  const open = async (): Promise<LimitBook> => {
    const book = new LimitBook(
      { db: temp.db, clock, log: quietLog, announce: () => undefined, changed: () => undefined },
      { node: null },
    );
    await book.load();
    return book;
  };
  const hold = (id: string, own: Partial<Limit> = {}): Limit =>
    byHand({ id, domain: 'dest.test', ...own }, clock.now());
  const idsOf = (limits: readonly Limit[]): (string | null)[] => limits.map(({ id }) => id);

  for (const [what, own, others] of [
    ['a message', { message: 'msg_1' }, { messageId: 'msg_2' }],
    ['a bulk send', { batch: 'bat_1' }, { batchId: null }],
    ['a key', { key: 'key_1' }, { keyId: 'key_2' }],
    ['a stream of an account', { account: 'acc_1', stream: 'news' }, { accountId: 'acc_2' }],
    ['a domain', { domain: 'dest.test' }, { domain: 'other.test' }],
    ['an account', { account: 'acc_1' }, { accountId: 'acc_2' }],
    ['a domain for one account', { domain: 'dest.test', account: 'acc_1' }, { accountId: 'acc_2' }],
    ['a stream to a domain', { account: 'acc_1', stream: 'news', domain: 'dest.test' }, { domain: 'other.test' }],
    ['a key to a domain', { key: 'key_1', domain: 'dest.test' }, { keyId: null }],
  ] as const)
    it(`a hold on ${what} covers that and nothing else`, async () => {
      const book = await open();
      await book.add(byHand({ id: 'a', ...own }, clock.now()));
      assert.equal(book.holdOn(mail)?.id, 'a');
      assert.equal(book.holdOn({ ...mail, ...others }), null);
    });

  it('a hold on all mail covers all, and one that does not catch new mail lets later mail go', async () => {
    const book = await open();
    await book.add(byHand({ id: 'all', catchesNew: false }, clock.now()));
    assert.equal(book.holdOn({ ...mail, createdAt: clock.now() })?.id, 'all');
    assert.equal(book.holdOn({ ...mail, createdAt: clock.now() + 1 }), null);
  });

  it('has the holds of lanes and sources apart from those of mail', async () => {
    const book = await open();
    await book.add(byHand({ id: 'site', site: 'mx.dest.test' }, clock.now()));
    await book.add(byHand({ id: 'lane', site: 'mx.dest.test', source: 'out1' }, clock.now()));
    await book.add(byHand({ id: 'source', source: 'out1' }, clock.now()));
    assert.equal(book.holdOn(mail), null);
    assert.deepEqual(
      [book.ofLane('mx.dest.test')?.id, book.ofLane('mx.dest.test/out1')?.id, book.ofSource('out1')?.id],
      ['site', 'lane', 'source'],
    );
    assert.deepEqual([book.ofLane('mx.other.test'), book.ofSource('out2')], [null, null]);
  });

  it('says in words what they are about', () => {
    for (const [own, scope, target] of [
      [{ site: 'mx.a.test', source: 'out1' }, 'lane', 'mx.a.test/out1'],
      [{ source: 'out1' }, 'source', 'out1'],
      [{ domain: 'a.test', account: 'acc_1' }, 'account', 'acc_1 (domain a.test)'],
      [{ account: 'acc_1', stream: 'news' }, 'stream', 'news'],
      [{}, 'all', 'mail'],
    ] as const)
      assert.deepEqual(scopeOf(byHand(own, 0)), { scope, target });
  });

  it('reads what another node has added and ended', async () => {
    const [one, two] = [await open(), await open()];
    await one.add(hold('a'));
    assert.equal(two.has('a'), false);
    assert.deepEqual(idsOf(await two.reread()), ['a']);
    assert.ok(two.has('a'));
    assert.deepEqual(await two.reread(), []);
    clock.advance(1);
    await two.endByHand(['a']);
    assert.ok(one.has('a'));
    assert.deepEqual(idsOf(await one.reread()), ['a']);
    assert.deepEqual([one.has('a'), one.listByHand(), (await open()).listByHand()], [false, [], []]);
  });

  it('a limit of a lane takes the place of its last one, and what has ended by itself has no effect', async () => {
    const book = await open();
    const limit = { kind: 'limit', domain: null, site: 'mx.dest.test' } as const;
    await book.add(hold('a', { ...limit, connections: 7 }));
    await book.add(hold('b', { ...limit, connections: 6, until: clock.now() + 1000 }));
    assert.deepEqual([book.limitOf('mx.dest.test')?.connections, idsOf(book.listByHand())], [6, ['b']]);
    assert.ok(
      book
        .at('mx.dest.test', '')
        .of(null)
        .some(({ id }) => id === 'b'),
    );
    clock.advance(1000);
    assert.deepEqual([book.limitOf('mx.dest.test'), book.listByHand()], [null, []]);
    assert.deepEqual(book.at('mx.dest.test', '').of(null), []);
  });
});
