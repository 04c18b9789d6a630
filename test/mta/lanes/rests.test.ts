import assert from 'node:assert/strict';
import fc from 'fast-check';
import { type MailKey, type RestKind, Rests } from '../../../src/mta/lanes/rests.ts';

const MINUTE = 60_000;
const mail: MailKey = { account: 'acc_1', domain: 'dest.test' };
const times = (rests: Rests, count: number, kind: RestKind, of: MailKey, now: number): ReturnType<Rests['refused']>[] =>
  Array.from({ length: count }, () => rests.refused(kind, of, 'no', now));

describe('mta/lanes/rests', () => {
  const restsOf = (isShared: boolean, isRelay = false): Rests =>
    new Rests({ isShared: () => isShared, isRelay: () => isRelay });
  const own = (): Rests => restsOf(false);
  const shared = (): Rests => restsOf(true);

  it('begin with the fifth refusal of us in a row, or the tenth of an overloaded server', () => {
    for (const [kind, enough, until] of [
      ['sender', 5, 2 * MINUTE],
      ['load', 10, MINUTE],
    ] as const) {
      const rests = own();
      assert.ok(times(rests, enough - 1, kind, mail, 0).every((one) => one === null));
      assert.equal(rests.of(mail, 0), null);
      const begun = rests.refused(kind, mail, 'the last', 0);
      assert.deepEqual([begun?.isNew, begun?.rest.until, begun?.rest.cause], [true, until, 'the last']);
      assert.equal(rests.of(mail, 0)?.kind, kind);
      assert.equal(rests.of(mail, until), null, 'then one mail tries');
    }
  });

  it('do not begin while mail is accepted in between, and after lately accepted mail only with the twentieth', () => {
    const rests = own();
    rests.accepted(mail, 0);
    for (let round = 0; round < 10; round++) {
      assert.ok(times(rests, 19, 'sender', mail, round).every((one) => one === null));
      rests.accepted(mail, round);
    }
    assert.ok(times(rests, 19, 'sender', mail, 100).every((one) => one === null));
    assert.equal(rests.refused('sender', mail, 'no', 100)?.isNew, true);
  });

  it('a success long ago counts no more', () => {
    const rests = own();
    rests.accepted(mail, 0);
    times(rests, 4, 'sender', mail, 10 * MINUTE);
    assert.equal(rests.refused('sender', mail, 'no', 10 * MINUTE)?.isNew, true);
  });

  it('are about the account whose mail was refused, and for an overloaded server about all accounts', () => {
    const rests = own();
    const other = { ...mail, account: 'acc_2' };
    times(rests, 5, 'sender', mail, 0);
    assert.deepEqual([rests.of(mail, 0)?.kind, rests.of(other, 0)], ['sender', null]);
    times(rests, 10, 'load', mail, 0);
    assert.equal(rests.of(other, 0)?.kind, 'load');
  });

  it('of the senders are about all accounts where several are refused in a row, lately accepted mail or not', () => {
    for (const isWarm of [false, true]) {
      const rests = own();
      if (isWarm) rests.accepted(mail, 0);
      const kinds = Array.from(
        { length: 10 },
        (_, count) => rests.refused('sender', { ...mail, account: `acc_${count % 4}` }, 'no', 0)?.rest.account,
      );
      assert.deepEqual(kinds, [...Array<undefined>(9).fill(undefined), null]);
      assert.equal(rests.of({ ...mail, account: 'acc_9' }, 0)?.kind, 'sender');
      const [over] = rests.accepted(mail, 2 * MINUTE);
      assert.equal(over?.account, null);
      assert.equal(rests.of({ ...mail, account: 'acc_9' }, 2 * MINUTE), null);
    }
  });

  it('of the senders are never about all accounts because of one of them, or where mail is accepted between', () => {
    const rests = own();
    rests.accepted(mail, 0);
    times(rests, 100, 'sender', mail, 0);
    times(rests, 4, 'sender', { ...mail, account: 'acc_2' }, 0);
    assert.equal(rests.of({ ...mail, account: 'acc_3' }, 0), null);
    const mixed = own();
    for (let round = 0; round < 5; round++) {
      for (const account of ['acc_1', 'acc_2', 'acc_3']) times(mixed, 3, 'sender', { ...mail, account }, 0);
      mixed.accepted({ ...mail, account: 'acc_4' }, 0);
    }
    assert.deepEqual(mixed.list(), []);
  });

  it('for what is the same for all senders are about all accounts at once', () => {
    const rests = own();
    rests.accepted(mail, 0);
    const refused = Array.from({ length: 5 }, () =>
      rests.refused('sender', { account: null, domain: 'dest.test' }, 'TLS', 0),
    );
    assert.deepEqual(
      refused.map((one) => one?.isNew),
      [undefined, undefined, undefined, undefined, true],
    );
    assert.deepEqual([rests.of(mail, 0)?.account, rests.of({ ...mail, account: 'acc_2' }, 0)?.account], [null, null]);
  });

  it('of the senders, of a lane of many organisations, are about one domain until three answer so', () => {
    const rests = shared();
    const refuse = (domain: string): void => {
      for (let count = 0; count < 10; count++) rests.refused('sender', { account: `acc_${count}`, domain }, 'no', 0);
    };
    refuse('a.test');
    const at = (domain: string) => rests.of({ account: 'acc_99', domain }, 0)?.domain;
    assert.deepEqual([at('a.test'), at('never-met.test')], ['a.test', undefined]);
    refuse('b.test');
    refuse('c.test');
    assert.equal(at('never-met.test'), null);
  });

  it('of a lane of many organisations are about one domain, until three answer so', () => {
    const rests = shared();
    const at = (domain: string): MailKey => ({ account: 'acc_1', domain });
    times(rests, 30, 'load', at('a.test'), 0);
    assert.deepEqual([rests.of(at('a.test'), 0)?.domain, rests.of(at('b.test'), 0)], ['a.test', null]);
    const lane = shared();
    for (let count = 0; count < 4; count++)
      for (const one of ['a.test', 'b.test', 'c.test']) lane.refused('load', at(one), 'no', 0);
    assert.equal(lane.of(at('never-met.test'), 0)?.domain, null, 'the operator says so');
  });

  it('become longer while the one that tries is refused in the same way, and are bounded', () => {
    const rests = own();
    times(rests, 5, 'sender', mail, 0);
    let now = 0;
    const pauses: number[] = [];
    for (let count = 0; count < 8; count++) {
      const until = rests.of(mail, now)?.until ?? NaN;
      pauses.push((until - now) / MINUTE);
      now = until;
      rests.begin(mail, now);
      assert.equal(rests.of(mail, now)?.isProbing, true, 'the others wait for it');
      const again = rests.refused('sender', mail, 'still no', now);
      assert.deepEqual([again?.isNew, again?.rest.cause, again?.rest.since], [false, 'still no', 0]);
    }
    assert.deepEqual(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
  });

  it('what was under way when a rest began does not prolong it', () => {
    const rests = own();
    times(rests, 5, 'sender', mail, 0);
    const late = times(rests, 10, 'sender', mail, 1000);
    assert.ok(late.every((one) => one?.rest.until === 2 * MINUTE && !one.isNew));
  });

  it('end with the first mail that is accepted', () => {
    const rests = own();
    times(rests, 5, 'sender', mail, 0);
    times(rests, 10, 'load', mail, 0);
    assert.deepEqual(
      rests.accepted(mail, 5).map(({ kind }) => kind),
      ['load', 'sender'],
    );
    assert.deepEqual([rests.of(mail, 5), rests.list()], [null, []]);
  });

  it('a try that says nothing about it lets the next one try', () => {
    const rests = own();
    times(rests, 5, 'sender', mail, 0);
    rests.begin(mail, 2 * MINUTE);
    rests.ended(mail);
    assert.equal(rests.of(mail, 2 * MINUTE), null);
  });

  it("end at once on an operator's request, for a domain or for all", () => {
    const rests = shared();
    const other = { ...mail, domain: 'other.test' };
    times(rests, 10, 'load', mail, 0);
    times(rests, 10, 'load', other, 0);
    assert.equal(rests.tryNow('dest.test', 5), 1);
    assert.deepEqual([rests.of(mail, 5), rests.of(other, 5)?.domain], [null, 'other.test']);
    assert.equal(rests.tryNow(null, 5), 2);
    assert.equal(rests.of(other, 5), null);
  });

  for (const [lane, rests, resting] of [
    ['of a site, one domain', own(), []],
    ["of an operator's lane, one domain", shared(), []],
    ['of a smarthost, whose route asks for it, all mail', restsOf(false, true), [null]],
  ] as const)
    it(`for TLS that is missing are about the mail whose policy it is: ${lane}`, () => {
      for (const domain of ['a.test', 'b.test', 'c.test']) rests.refused('tls', { ...mail, domain }, 'no', 0);
      assert.deepEqual(
        rests.list().map(({ domain }) => domain),
        resting,
      );
      times(rests, 2, 'tls', { ...mail, domain: 'a.test' }, 0);
      assert.equal(rests.of({ ...mail, domain: 'a.test' }, 0)?.kind, 'tls');
      assert.equal(rests.of({ ...mail, domain: 'd.test' }, 0)?.kind, resting.length === 0 ? undefined : 'tls');
    });

  it('last as long as before when the clock is set', () => {
    const rests = own();
    times(rests, 5, 'sender', mail, 0);
    rests.shift(3_600_000);
    assert.deepEqual(
      rests.list().map(({ since, until }) => [since, until]),
      [[3_600_000, 3_600_000 + 2 * MINUTE]],
    );
  });

  it('keep no endless reply, and no endless number of parts', () => {
    const rests = shared();
    for (let at = 0; at < 2000; at++)
      for (let count = 0; count < 10; count++)
        rests.refused('load', { account: 'a', domain: `d${at}.test` }, 'x'.repeat(5000), 0);
    assert.ok(rests.list().length <= 1000);
    assert.ok(rests.list().every(({ cause }) => cause.length <= 500));
  });

  it('costs nearly no memory in a lane without rests, of which there are thousands', () => {
    const before = process.memoryUsage().arrayBuffers;
    const lanes = Array.from({ length: 1000 }, own);
    assert.ok(process.memoryUsage().arrayBuffers - before < 1_000_000);
    assert.equal(lanes.length, 1000);
  });

  it('nothing rests longer than an hour without a try, whatever happens', () => {
    const event = fc.record({
      what: fc.constantFrom('load', 'sender', 'accepted', 'begin', 'ended', 'tryNow'),
      account: fc.constantFrom('a', 'b'),
      domain: fc.constantFrom('x.test', 'y.test', 'z.test', 'u.test'),
      wait: fc.nat({ max: 5 * MINUTE }),
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 200 }), fc.boolean(), (events, isShared) => {
        const rests = restsOf(isShared);
        let now = 0;
        for (const { what, account, domain, wait } of events) {
          now += wait;
          const of = { account, domain };
          if (what === 'load' || what === 'sender') rests.refused(what, of, 'no', now);
          else if (what === 'accepted') {
            rests.accepted(of, now);
            assert.equal(rests.of(of, now), null);
          } else if (what === 'begin') rests.begin(of, now);
          else if (what === 'ended') rests.ended(of);
          else rests.tryNow(domain, now);
          assert.ok(rests.list().every(({ until }) => until - now <= 60 * MINUTE));
          if (!isShared) assert.ok(rests.list().every((rest) => rest.domain === null));
        }
      }),
    );
  });
});
