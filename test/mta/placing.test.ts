import assert from 'node:assert/strict';
import type { Engine } from '../../src/mta/engine.ts';
import { Placing } from '../../src/mta/placing.ts';
import type { Job } from '../../src/mta/due-queue.ts';
import { laneName } from '../../src/mta/names.ts';
import { NOW } from '../support/harness/mail-rows.ts';
import { settleEventLoop } from '../support/harness/event-loop.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

interface State {
  restUntil?: number | null;
  isFull?: boolean;
  /** The stream that the limit is about. */
  stream?: string | null;
}

const limit = { kind: 'count', quota: { rule: 'news', of: 'hour', most: 1, each: [] } };

/** The parts that `mayGo` asks, and what they were told. */
function world({ restUntil = null, isFull = false, stream = null }: State): {
  placing: Placing;
  told: string[];
} {
  const told: string[] = [];
  const tell =
    (what: string) =>
    (...args: unknown[]): void =>
      void told.push([what, ...args.filter((one) => typeof one === 'string')].join(' '));
  const operator = { name: 'google', maxConnections: 1 };
  const site = { kind: 'site', name: 'mx.a.test', hosts: [{ name: 'mx.a.test' }], operator, relay: null };
  const engine = {
    clock: new FakeClock(NOW),
    owners: { isOurs: () => true },
    sites: { known: () => site },
    control: {
      allowanceOf: () =>
        restUntil === null
          ? { kind: 'go', probed: [] }
          : { kind: 'wait', limit: { ...limit, stream }, until: restUntil },
      take: tell('take'),
      putBack: tell('put back in'),
    },
    sources: { named: false },
    limits: { counts: { holdBy: () => ({ by: 'rule:news' }) } },
    pool: { waitOf: () => (isFull ? { until: null } : null) },
    aside: { add: tell('aside') },
    dueQueue: { rest: tell('rest') },
  };
  return { placing: new Placing(engine as unknown as Engine), told };
}

const job = (): Job => ({ id: 'dlv_1', domain: 'a.test', source: 'one', ahead: {}, account: 'acc' }) as unknown as Job;
const LANE = laneName('mx.a.test', 'one');

describe('mta/placing: a mail at its turn', () => {
  for (const [what, state, expected, told] of [
    ['rests if a limit covers it', { restUntil: NOW + 5000 }, false, ['rest']],
    ['is put aside if no host of its domain can be had', { isFull: true }, false, [`aside ${LANE}`]],
    ['is held if a rule lets no more of its stream go', { restUntil: NOW + 5000, stream: 'news' }, 'held', []],
    ['rests while mail under way uses up the rest', { restUntil: NOW + 2000, stream: 'news' }, false, ['rest']],
    ['goes, and is counted', {}, true, [`take ${LANE}`]],
  ] as const)
    it(what, () => {
      const { placing, told: heard } = world(state);
      const one = job();
      const may = placing.mayGo(LANE, one);
      assert.deepEqual([typeof may === 'object' ? may.kind : may, heard], [expected, told]);
      assert.deepEqual([one.pacedLane, one.ahead === undefined], may === true ? [LANE, false] : [undefined, true]);
    });
});

describe('mta/placing: look-ups of destinations', () => {
  /** Sites whose look-ups end when the test says so, and the jobs that came into lanes. */
  function lookUps(): {
    placing: Placing;
    clock: FakeClock;
    asked: string[];
    found: (domain: string) => Promise<void>;
    fail: (domain: string) => Promise<void>;
    offered: string[];
    done: string[];
    /** Lanes that reports know. */
    registered: string[];
    stop: () => void;
  } {
    const clock = new FakeClock(NOW);
    const asked: string[] = [];
    const offered: string[] = [];
    const done: string[] = [];
    const registered: string[] = [];
    const answers = new Map<string, { resolve: (site: unknown) => void; reject: (error: Error) => void }>();
    let isStopping = false;
    const engine = {
      clock,
      log: { error: () => undefined },
      sites: {
        known: () => null,
        find: (domain: string) => {
          asked.push(domain);
          return new Promise((resolve, reject) => answers.set(domain, { resolve, reject }));
        },
      },
      sources: { named: false, choose: () => ({ name: null }) },
      limits: { counts: { needStreams: false } },
      control: { register: (lane: string) => registered.push(lane) },
      lanes: { offer: (_lane: string, { id }: Job) => offered.push(id), view: () => ({ waiting: 0, slots: 0 }) },
      dueQueue: { done: ({ id }: Job) => done.push(id) },
      get isStopping() {
        return isStopping;
      },
    };
    const settled = async (settle: () => void): Promise<void> => {
      settle();
      await new Promise((resolve) => setImmediate(resolve));
    };
    return {
      placing: new Placing(engine as unknown as Engine),
      clock,
      asked,
      found: (domain) =>
        settled(() => answers.get(domain)?.resolve({ kind: 'site', name: domain, hosts: [], relay: null })),
      fail: (domain) => settled(() => answers.get(domain)?.reject(new Error('the database is gone'))),
      offered,
      done,
      registered,
      stop: () => {
        isStopping = true;
      },
    };
  }

  const mail = (id: string, domain: string, { share = 'a', order = 1 } = {}): Job =>
    ({ id, domain, share, class: order }) as unknown as Job;

  it('asks once for a domain however many of its mails wait, and places all of them', async () => {
    const { placing, asked, found, offered } = lookUps();
    for (const id of ['one', 'two', 'three']) placing.place(mail(id, 'x.test', { share: id }));
    assert.deepEqual([asked, placing.isLookingUp('x.test')], [['x.test'], true]);
    await found('x.test');
    assert.deepEqual([offered, placing.isLookingUp('x.test')], [['one', 'two', 'three'], false]);
  });

  it('asks for 500 domains at once, and says of the others that they are being looked up', async () => {
    const { placing, asked, found } = lookUps();
    for (let at = 0; at < 20_000; at++) placing.place(mail(`m${String(at)}`, `d${String(at)}.test`));
    assert.equal(asked.length, 500);
    assert.ok(placing.isLookingUp('d19999.test'));
    await found('d7.test');
    assert.deepEqual([asked.length, asked.at(-1)], [501, 'd500.test']);
  });

  it("an account with 20,000 domains keeps neither another account's mail waiting nor its own single mail", async () => {
    const { placing, asked, found } = lookUps();
    for (let at = 0; at < 20_000; at++) placing.place(mail(`m${String(at)}`, `d${String(at)}.test`));
    placing.place(mail('other', 'other.test', { share: 'b' }));
    placing.place(mail('single', 'single.test', { order: 0 }));
    placing.place(mail('same', 'd19999.test', { order: 0 }));
    for (let at = 0; at < 6; at++) await found(`d${String(at)}.test`);
    for (const domain of ['other.test', 'single.test', 'd19999.test']) assert.ok(asked.includes(domain), domain);
  });

  it('domains whose DNS is silent do not keep others waiting', async () => {
    const { placing, asked, clock, found, offered } = lookUps();
    for (let at = 0; at < 500; at++) placing.place(mail(`m${String(at)}`, `dead${String(at)}.test`));
    placing.place(mail('good', 'good.test'));
    assert.ok(!asked.includes('good.test'));
    clock.advance(2_000);
    await settleEventLoop();
    assert.ok(asked.includes('good.test'));
    await found('good.test');
    await found('dead3.test');
    assert.deepEqual(offered, ['good', 'm3']);
    for (let at = 0; at < 1_000; at++) placing.place(mail(`n${String(at)}`, `e${String(at)}.test`));
    assert.equal(asked.length, 1_001, 'a slow look-up that ends frees no second place');
  });

  it('mail whose look-up fails falls due again, and the next domain is asked for', async () => {
    const { placing, asked, fail, done } = lookUps();
    for (let at = 0; at < 501; at++) placing.place(mail(`m${String(at)}`, `d${String(at)}.test`));
    placing.place(mail('second', 'd0.test'));
    await fail('d0.test');
    assert.deepEqual([done, asked.at(-1), placing.isLookingUp('d0.test')], [['m0', 'second'], 'd500.test', false]);
  });

  it('looks up for reports in turns with due mail, once for both, and lets them know the lane', async () => {
    const { placing, asked, found, offered, registered } = lookUps();
    for (let at = 0; at < 600; at++) placing.place(mail(`m${String(at)}`, `d${String(at)}.test`));
    for (const domain of ['report.test', 'both.test', 'd599.test']) placing.lookUpForReports(domain);
    placing.place(mail('both', 'both.test'));
    assert.ok(placing.isLookingUp('report.test'));
    for (let at = 0; at < 4; at++) await found(`d${String(at)}.test`);
    assert.deepEqual(asked.slice(500), ['d500.test', 'report.test', 'd501.test', 'both.test']);
    for (const domain of ['report.test', 'both.test']) await found(domain);
    assert.deepEqual([registered.includes('report.test'), placing.isLookingUp('report.test')], [true, false]);
    assert.deepEqual(offered.slice(4), ['both']);
  });

  it('looks up nothing for reports where thousands of domains have due mail to look up', async () => {
    const { placing, asked, found } = lookUps();
    for (let at = 0; at < 1_000; at++) placing.place(mail(`m${String(at)}`, `d${String(at)}.test`));
    placing.lookUpForReports('report.test');
    assert.ok(!placing.isLookingUp('report.test'));
    await found('d0.test');
    placing.lookUpForReports('report.test');
    assert.ok(placing.isLookingUp('report.test'));
    for (let at = 0; at < 20_000; at++) placing.lookUpForReports(`r${String(at)}.test`);
    assert.ok(!placing.isLookingUp('r0.test'));
    assert.equal(asked.length, 501);
  });

  it('asks for no more when the server stops', async () => {
    const { placing, asked, found, stop } = lookUps();
    for (let at = 0; at < 600; at++) placing.place(mail(`m${String(at)}`, `d${String(at)}.test`));
    stop();
    await found('d0.test');
    assert.equal(asked.length, 500);
  });
});
