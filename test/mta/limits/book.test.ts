import assert from 'node:assert/strict';
import { LimitBook } from '../../../src/mta/limits/book.ts';
import { keyOf, newLimit, type Limit } from '../../../src/mta/limits/limit.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { NOW } from '../../support/harness/mail-rows.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';
import { quietLog } from '../lane-world.ts';

const MINUTE = 60_000;

describe('mta/limits/book', () => {
  let temp: TempDatabase;
  let clock: FakeClock;
  let announced: number;
  beforeEach(async () => {
    temp = await openTempDatabase();
    clock = new FakeClock(NOW);
    announced = 0;
  });
  afterEach(() => temp.close());

  const open = async (node: string | null = null): Promise<LimitBook> => {
    const book = new LimitBook({ db: temp.db, clock, log: quietLog, announce: () => announced++ }, { node });
    await book.load();
    return book;
  };
  const about = { site: 'a.test', source: '', domain: null, account: null };
  const closed = (own: Partial<Limit> = {}): Limit => ({
    ...newLimit('sender', { ...about, account: 'acc' }, clock.now()),
    until: clock.now() + MINUTE,
    step: 0,
    cause: '550 no',
    evidence: null,
    ...own,
  });
  const recorder = { record: () => Promise.resolve([]) };
  const keysAt = (book: LimitBook, site = 'a.test', source = ''): string[] => book.at(site, source).all().map(keyOf);

  it('writes with the next outcome what has changed, and a start reads it', async () => {
    const book = await open();
    const rows: unknown[] = [];
    book.put([closed()]);
    await book.with({ record: (_, given) => Promise.resolve(void rows.push(given)).then(() => []) }).record([]);
    assert.equal(rows.length, 1);
    assert.equal(announced, 1);
    await book.with({ record: (_, given) => Promise.resolve(void rows.push(given)).then(() => []) }).record([]);
    assert.deepEqual(rows[1], undefined, 'and nothing twice');
    book.put([closed({ step: 1 })]);
    await book.write();
    const [again] = (await open()).at('a.test', '').all();
    assert.deepEqual(again, closed({ step: 1 }));
  });

  it('keeps what could not be written for the next time', async () => {
    const book = await open();
    book.put([closed()]);
    await assert.rejects(book.with({ record: () => Promise.reject(new Error('the disk is full')) }).record([]));
    await book.write();
    assert.deepEqual(keysAt(await open()), [keyOf(closed())]);
  });

  it('writes neither evidence nor a start', async () => {
    const book = await open();
    book.put([
      newLimit('load', about, NOW),
      { ...newLimit('connections', about, NOW), evidence: null, connections: 2 },
    ]);
    await book.with(recorder).record([]);
    await book.write();
    assert.equal(announced, 0);
    book.forget('a.test', '');
    assert.deepEqual(keysAt(book), []);
  });

  it('tells other nodes of limits and of their ends', async () => {
    const [one, two] = [await open('one'), await open('two')];
    one.put([closed()]);
    await one.write();
    assert.deepEqual((await two.reread()).map(keyOf), [keyOf(closed())]);
    assert.deepEqual(keysAt(two), keysAt(one));
    assert.deepEqual(await two.reread(), [], 'once');
    clock.advance(1);
    one.end([closed()]);
    await one.write();
    await two.reread();
    assert.deepEqual([keysAt(one), keysAt(two), keysAt(await open('three'))], [[], [], []]);
  });

  it('has for each site also what holds at every site, and for each source its own', async () => {
    const book = await open();
    const everywhere = closed({ kind: 'block_list', site: '', account: null });
    book.put([everywhere, closed({ source: 'out1' })]);
    assert.deepEqual(keysAt(book, 'b.test'), [keyOf(everywhere)]);
    assert.equal(keysAt(book, 'a.test', 'out1').length, 1);
    assert.equal(book.ofKind('block_list').length, 1);
  });

  it('names the system address after the node where each has another', async () => {
    assert.deepEqual([(await open()).storedName(null), (await open('one')).storedName(null)], ['', '@one']);
    assert.equal((await open('one')).storedName('out1'), 'out1');
  });

  it('lets limits last as long as before when the clock is set', async () => {
    const book = await open();
    book.put([closed()]);
    book.shift(5_000);
    assert.equal(book.at('a.test', '').all()[0]?.until, NOW + MINUTE + 5_000);
  });
});
