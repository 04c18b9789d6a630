import assert from 'node:assert/strict';
import type { Outcome } from '../../../src/messages/delivery/delivery.ts';
import { allowance } from '../../../src/mta/limits/allowance.ts';
import { LimitBook } from '../../../src/messages/limits/book.ts';
import { learn, type LaneFacts } from '../../../src/mta/limits/learn.ts';
import { keyOf, newLimit, type Limit, type MailKey } from '../../../src/messages/limits/limit.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { NOW } from '../../support/harness/mail-rows.ts';
import { factsOf } from '../../support/harness/outcomes.ts';
import { openTempDatabase, type TempDatabase } from '../../support/harness/temp-database.ts';
import { answers, quietLog } from '../../mta/lane-world.ts';

const MINUTE = 60_000;
const lane: LaneFacts = {
  site: 'a.test',
  source: '',
  isShared: false,
  isRelay: false,
  connections: { initial: 2, max: 10 },
  isFull: true,
  hasOtherSource: false,
  asking: [],
  acceptedAt: -Infinity,
  lastMinute: () => 0,
};

describe('messages/limits/book', () => {
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
    const book = new LimitBook(
      { db: temp.db, clock, log: quietLog, announce: () => announced++, changed: () => undefined },
      { node },
    );
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

  it('finds those of one recipient domain among thousands, with those of the whole lane and of every site', async () => {
    const book = await open();
    const of = (domain: string | null, site = 'a.test'): Limit => closed({ account: null, domain, site });
    book.put([of(null), of(null, ''), of('one.test', 'b.test')]);
    book.put(Array.from({ length: 1000 }, (_, at) => of(`d${String(at)}.test`)));
    const found = (domain: string | null): (string | null)[] =>
      book
        .at('a.test', '')
        .of(domain)
        .map((limit) => `${limit.site} ${limit.domain ?? '*'}`)
        .sort();
    assert.deepEqual(found('d7.test'), [' *', 'a.test *', 'a.test d7.test']);
    assert.deepEqual(found('one.test'), [' *', 'a.test *'], 'of another site');
    assert.deepEqual(found(null), [' *', 'a.test *']);
    book.end([of('d7.test')]);
    assert.deepEqual(found('d7.test'), [' *', 'a.test *']);
    assert.equal(book.at('a.test', '').all().length, 1001);
  });

  for (const about of ['block_list', 'sender'] as const)
    it(`restarts while a receiver refuses us cost no further mail: ${about}`, async () => {
      const mail: MailKey = { account: 'acc', domain: 'a.test' };
      const grounds = { rule: 'x', infrastructure: false, greylisting: false, about };
      let lost = 0;
      for (let start = 0; start < 20; start++) {
        const book = await open();
        const place = book.at('a.test', '');
        for (let tries = 0; tries < 10; tries++) {
          clock.advance(1_000);
          const moment = { probes: new Set<string>(), trafficOf: () => null, fullUntil: () => 0 };
          if (allowance(place.all(), mail, moment, clock.now()).kind === 'wait') continue;
          const facts = factsOf({ smtpCode: 550, enhancedCode: null, smtpReply: 'no', startedAt: clock.now() });
          const refused: Outcome = { kind: 'refused', facts, verdict: { class: 'block', reason: 'policy' }, grounds };
          const lesson = learn(place, lane, mail, refused, answers, clock.now());
          book.put(lesson.changed);
          await book.write();
          if (lesson.outcome.kind === 'refused') lost++;
        }
        clock.advance(10 * MINUTE);
      }
      assert.equal(lost, about === 'sender' ? 5 : 1);
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
