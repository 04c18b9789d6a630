import assert from 'node:assert/strict';
import type { LaneView } from '../../../src/scheduling/lanes.ts';
import type { Log } from '../../../src/base/log.ts';
import { byHand } from '../../support/harness/limit-rows.ts';
import type { LimitBook } from '../../../src/messages/limits/book.ts';
import type { Grounds, Outcome, Subject, Verdict } from '../../../src/messages/delivery/delivery.ts';
import type { GateWait } from '../../../src/mta/connection/pooled-host.ts';
import type { LaneControl } from '../../../src/mta/lanes/lane-control.ts';
import { wholeLane, type LanePart } from '../../../src/mta/lanes/node-parts.ts';
import type { MailKey } from '../../../src/messages/limits/limit.ts';
import type { Site } from '../../../src/mta/sites/sites.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';
import { NOW } from '../../support/harness/mail-rows.ts';
import { accepted, factsOf } from '../../support/harness/outcomes.ts';
import { answers, controlIn, limitsInMemory } from '../lane-world.ts';

const MINUTE = 60_000;
const LANE = 'mx.dest.test';
const mail: MailKey = { account: 'acc_1', domain: 'dest.test' };
const site: Site = {
  kind: 'site',
  name: LANE,
  hosts: [{ name: 'mx.dest.test', port: 25, addresses: [] }],
  relay: null,
};
const farm: Site = { ...site, name: 'farm', operator: { name: 'farm', mx: ['farm.test'] } };
const soft: Verdict = { class: 'soft', reason: 'other' };

describe('mta/lanes/lane-control', () => {
  let clock: FakeClock;
  let control: LaneControl;
  let view: Omit<LaneView, 'name'>;
  let waitsForSlot: boolean;
  let asideOf: string | null;
  let limits: LimitBook;
  let part: LanePart;
  let wait: GateWait | null;
  let cap: { cap: number; cause: string; ageMs: number } | null;
  let pumped: number;
  let woken: number;
  let tried: string[];
  let logged: Record<string, unknown>[];

  beforeEach(() => {
    clock = new FakeClock(NOW);
    view = { waiting: 100, slots: 10 };
    part = wholeLane;
    waitsForSlot = false;
    asideOf = null;
    [wait, cap, pumped, woken, tried, logged] = [null, null, 0, 0, [], []];
    limits = limitsInMemory(clock);
    const note = (fields: Record<string, unknown>): unknown => logged.push(fields);
    const log: Log = { debug: note, info: note, warn: note, error: note, child: () => log };
    const shaping = [
      {
        name: 'half',
        match: { text: 'one in two' },
        count: 2,
        within: MINUTE,
        action: 'slow',
        for: 0,
        dryRun: false,
      },
      {
        name: 'own',
        match: { text: 'so slow' },
        count: 2,
        within: MINUTE,
        action: 'pause',
        for: 5 * MINUTE,
        dryRun: false,
      },
    ] as const;
    control = controlIn({
      clock,
      log,
      pool: {
        room: () => (wait === null ? 20 : 0),
        usedBy: () => 0,
        waitingLong: () => new Map(),
        waitOf: () => wait,
        capOf: () => cap,
        tryNow: (hosts: readonly string[] | null) => tried.push(...(hosts ?? ['all'])),
      },
      limits,
      parts: { of: () => part },
      lanes: { view: (name: string) => ({ name, ...view }), waitsForSlot: () => waitsForSlot, pump: () => pumped++ },
      aside: { has: (lane: string) => asideOf === lane },
      dueQueue: { wake: () => woken++ },
      options: { lane: { initial: 2, max: 10 }, answers, shaping },
    });
    control.register(LANE, site, null);
  });
  afterEach(() => {
    control.stop();
  });

  const said = (about: Subject, code: number, text = 'no'): Outcome => {
    const facts = factsOf({ smtpCode: code, enhancedCode: null, smtpReply: text, startedAt: clock.now() });
    const grounds: Grounds = { rule: 'x', infrastructure: false, greylisting: false, about };
    return code >= 500
      ? { kind: 'refused', facts, verdict: { class: 'block', reason: 'policy' }, grounds }
      : { kind: 'deferred', facts, verdict: soft, retryAt: clock.now() + MINUTE, grounds };
  };
  const learn = (outcome: Outcome, of: MailKey = mail, lane = LANE): Outcome => {
    control.take(lane, of);
    return control.learn(lane, of, outcome);
  };
  /** Until when a limit that closes keeps the mail back, or null. */
  const restUntil = (lane: string, of: MailKey): number | null => {
    const found = control.allowanceOf(lane, of);
    return found.kind === 'wait' && found.limit.kind !== 'rate' ? found.until : null;
  };
  const many = (count: number, make: () => Outcome, of: MailKey = mail, lane = LANE): Outcome[] =>
    Array.from({ length: count }, () => learn(make(), of, lane));

  for (const about of ['recipient', 'message', 'domain'] as const)
    it(`a thousand refusals about the ${about} slow nothing down: the lane grows as with accepted mail`, () => {
      many(1000, () => said(about, 450, 'so slow'));
      many(1000, () => said(about, 550, 'so slow'));
      assert.ok(control.slots(LANE) >= 2);
      assert.equal(restUntil(LANE, mail), null);
      assert.deepEqual(
        (control.report(LANE)?.changes ?? []).filter(({ cause }) => cause !== 'growth after successes'),
        [],
      );
    });

  it('grows while all of it is in use, and says why', () => {
    many(30, () => accepted());
    assert.ok(control.slots(LANE) > 2);
    const [first] = control.report(LANE)?.changes ?? [];
    assert.deepEqual(first, { at: NOW, what: 'connections', to: '4 connections', cause: 'growth after successes' });
    const slots = control.slots(LANE);
    view = { waiting: 0, slots: 1 };
    many(100, () => accepted());
    assert.equal(control.slots(LANE), slots);
  });

  it('tells for how long it lets no worker begin, where that is known', () => {
    view = { waiting: 100, slots: 0 };
    assert.equal(control.closedFor(LANE, 5_000), null);
    const until = clock.monotonic() + 60_000;
    wait = { why: 'closed', until, how: 'unreachable', cause: 'connection refused', since: clock.monotonic() };
    assert.equal(control.slots(LANE), 0);
    assert.equal(control.closedFor(LANE, 5_000), 60_000);
    clock.advance(20_000);
    assert.deepEqual([control.closedFor(LANE, 5_000), control.closedFor(LANE, 40_001)], [40_000, null]);
    wait = null;
    assert.equal(control.closedFor(LANE, 5_000), null);
    assert.equal(control.closedFor('never.seen', 5_000), null);
  });

  describe('while other nodes send there, too', () => {
    it('has its part of the connections, and says so where mail waits for one', () => {
      part = { nodes: 3, isNew: false };
      view = { waiting: 5, slots: 1 };
      assert.equal(control.slots(LANE), 1, 'of two');
      assert.equal(control.report(LANE)?.limit, 2, 'that of all nodes');
      const message = '3 nodes have mail for mx.dest.test and share its limits: each has 1 connection.';
      assert.deepEqual(
        control.waits(LANE, mail, site).map((one) => [one.reason, one.message]),
        [['connections_in_use', message]],
      );
      view = { waiting: 0, slots: 1 };
      assert.deepEqual(control.waits(LANE, mail, site), []);
      many(30, () => accepted());
      part = { nodes: 4, isNew: false };
      assert.deepEqual([control.slots(LANE), control.mostConnections(LANE)], [1, 1]);
    });

    it('begins with one connection while the others may not know of it', () => {
      part = { nodes: 2, isNew: true };
      view = { waiting: 100, slots: 1 };
      many(30, () => accepted());
      assert.equal(control.slots(LANE), 1);
      part = { nodes: 2, isNew: false };
      assert.ok(control.slots(LANE) > 1);
    });

    it('sends its part of the mails a minute that the operator allows, at least one', () => {
      limits.put([byHand({ kind: 'limit', site: LANE, perMinute: 60 }, NOW)]);
      part = { nodes: 4, isNew: false };
      control.take(LANE, mail);
      assert.equal(control.slots(LANE), 0);
      clock.advance(3999);
      assert.equal(control.slots(LANE), 0);
      clock.advance(1);
      assert.ok(control.slots(LANE) > 0);
      assert.match(
        control.waits(LANE, mail, site)[0]?.message ?? '',
        /limited to 60 mails a minute, which the nodes share: this one sends 15 of them/,
      );
      limits.put([byHand({ kind: 'limit', site: LANE, perMinute: 2 }, NOW)]);
      control.take(LANE, mail);
      clock.advance(60_000);
      assert.ok(control.slots(LANE) > 0);
    });

    it('has no mail for the lane while all of it is closed', () => {
      view = { waiting: 100, slots: 0 };
      assert.equal(control.mails(LANE), 100);
      many(10, () => said('load', 451, '4.3.2 overloaded'));
      assert.equal(control.mails(LANE), 0);
    });
  });

  it('a rate makes a pace, with its cause', () => {
    many(30, () => accepted());
    learn(said('rate', 450, '4.7.1 too much mail'));
    assert.deepEqual([control.report(LANE)?.perMinute, control.slots(LANE)], [31, 0]);
    assert.deepEqual((control.report(LANE)?.changes ?? []).at(-1), {
      at: NOW,
      what: 'pace',
      to: '31 mails a minute',
      cause: '4.7.1 too much mail',
    });
    clock.advance(62_000);
    assert.ok(pumped > 0, 'the lane is looked at when the next mail may go');
    assert.ok(control.slots(LANE) > 0);
  });

  it('an overloaded server gets fewer connections, and rests after ten such answers with one mail to try', () => {
    many(9, () => said('load', 451, '4.3.2 overloaded'));
    assert.deepEqual([control.slots(LANE), restUntil(LANE, mail)], [1, null]);
    learn(said('load', 451, '4.3.2 overloaded'));
    assert.equal(restUntil(LANE, mail), NOW + MINUTE);
    assert.equal(control.slots(LANE), 0);
    assert.deepEqual(control.atRest(), [LANE]);
    clock.advance(MINUTE);
    assert.equal(control.slots(LANE), 1, 'one mail tries');
    control.take(LANE, mail);
    assert.equal(restUntil(LANE, mail), clock.now() + 2000, 'and the others wait for it');
    control.learn(LANE, mail, accepted());
    assert.deepEqual(
      [restUntil(LANE, mail), (control.report(LANE)?.changes ?? []).at(-1)?.to],
      [null, 'the rest is over'],
    );
    assert.ok(woken > 0, 'what waits on disk is looked at');
  });

  it('what is refused of us bounces a handful of times; from then on it waits', () => {
    const kinds = many(300, () => said('sender', 550, '5.7.26 unauthenticated')).map(({ kind }) => kind);
    assert.ok(kinds.filter((kind) => kind === 'refused').length <= 5, String(kinds.indexOf('deferred')));
    const last = learn(said('sender', 550, '5.7.26 unauthenticated'));
    assert.equal(
      last.kind === 'deferred' && last.retryAt,
      NOW + 2 * MINUTE + 2000,
      'behind mail that was not refused yet',
    );
    const passing = learn(said('sender', 450, '4.7.25 unauthenticated'));
    assert.equal(passing.kind === 'deferred' && passing.retryAt, NOW + 2 * MINUTE + 2000, 'a passing refusal as well');
    assert.equal(last.facts.smtpReply, '5.7.26 unauthenticated', 'with what was said');
    assert.equal(logged.filter(({ event }) => event === 'lane_rests').length, 1, 'the operator is told once');
    assert.equal(restUntil(LANE, { ...mail, account: 'acc_2' }), null, 'mail of other accounts goes on');
  });

  it('a demand for TLS stops the mail of all accounts', () => {
    const told = said('sender', 530, '5.7.0 Must issue a STARTTLS command first');
    const needsTls: Outcome = { ...told, kind: 'refused', verdict: { class: 'block', reason: 'tls_required' } };
    many(3, () => needsTls);
    many(2, () => ({ ...told, kind: 'deferred', verdict: { class: 'soft', reason: 'tls_required' }, retryAt: NOW }));
    assert.equal(restUntil(LANE, { ...mail, account: 'acc_2' }), NOW + 2 * MINUTE);
  });

  it('a receiver that refuses only some mails still bounces those', () => {
    for (let round = 0; round < 50; round++) {
      learn(accepted());
      assert.ok(many(10, () => said('sender', 550)).every(({ kind }) => kind === 'refused'));
    }
    assert.deepEqual(control.atRest(), []);
  });

  it('unknown users bounce, however many', () => {
    assert.ok(many(500, () => said('recipient', 550)).every(({ kind }) => kind === 'refused'));
  });

  it('a probe that is refused for the mailbox lets the next one try', () => {
    many(5, () => said('sender', 550));
    clock.advance(2 * MINUTE);
    learn(said('recipient', 550));
    assert.equal(restUntil(LANE, mail), null);
  });

  it('a probe that is answered with something else lets the next one try', () => {
    many(5, () => said('sender', 550));
    clock.advance(2 * MINUTE);
    learn(said('load', 451));
    assert.equal(restUntil(LANE, mail), null);
    many(9, () => said('load', 451));
    clock.advance(MINUTE);
    learn(said('sender', 550));
    assert.deepEqual(
      control.waits(LANE, mail, site).map(({ reason }) => reason),
      ['receiver_refuses_us'],
    );
  });

  it('a try that is asked for by hand does not wait for one that is under way', () => {
    many(5, () => said('sender', 550));
    clock.advance(2 * MINUTE);
    control.take(LANE, mail);
    assert.notEqual(restUntil(LANE, mail), null);
    control.tryNow(LANE, 'dest.test');
    assert.equal(restUntil(LANE, mail), null);
  });

  it("an operator's lane rests for one domain until three of them are answered so", () => {
    control.register('farm', farm, null);
    const at = (domain: string): MailKey => ({ account: 'acc_1', domain });
    many(20, () => said('sender', 550), at('a.test'), 'farm');
    assert.notEqual(restUntil('farm', at('a.test')), null);
    assert.equal(restUntil('farm', at('b.test')), null);
    for (const domain of ['b.test', 'c.test']) many(20, () => said('sender', 550), at(domain), 'farm');
    assert.notEqual(restUntil('farm', at('never-met.test')), null);
  });

  describe("where a domain of an operator's lane asks for less", () => {
    const at = (domain: string): MailKey => ({ account: 'acc_1', domain });
    const [rate, load, connections] = [
      () => said('rate', 450, 'too much mail, so slow'),
      () => said('load', 451, '4.3.2 overloaded, so slow'),
      () => said('connections', 421, '4.7.0 too many connections, so slow'),
    ];
    const limits = (): (number | null | undefined)[] => [control.report('farm')?.perMinute, control.slots('farm')];
    const perMinuteOf = (domain: string): string[] =>
      control
        .waits('farm', at(domain), null)
        .flatMap(({ reason, message }) => (reason === 'rate_limited' ? [message] : []));
    beforeEach(() => {
      control.register('farm', farm, null);
    });

    for (const [about, answer] of Object.entries({ rate, load, connections }))
      it(`leaves the lane as it is, whatever it has accepted before: ${about}`, () => {
        many(9, answer, at('full.test'), 'farm');
        assert.deepEqual(limits(), [null, 2], 'bug: a cold lane');
        many(60, accepted, at('well.test'), 'farm');
        many(9, answer, at('full.test'), 'farm');
        assert.deepEqual(limits(), [null, 10]);
        assert.equal(restUntil('farm', at('well.test')), null);
        assert.deepEqual(
          (control.report('farm')?.changes ?? []).filter(({ what }) => what === 'rule'),
          [],
        );
      });

    it('gives each domain the mails a minute that it takes', () => {
      many(30, accepted, at('small.test'), 'farm');
      many(90, accepted, at('large.test'), 'farm');
      for (const domain of ['small.test', 'large.test']) learn(rate(), at(domain), 'farm');
      assert.match(perMinuteOf('small.test').join(), /^small\.test \(farm\) takes about 31 mails a minute/);
      assert.match(perMinuteOf('large.test').join(), /^large\.test \(farm\) takes about 91 mails a minute/);
      assert.deepEqual([perMinuteOf('other.test'), ...limits()], [[], null, 10]);
    });

    for (const [about, answer, expected] of [
      ['rate', rate, [6, 0]],
      ['load', load, [null, 5]],
      ['connections', connections, [null, 5]],
    ] as const)
      it(`slows all of it with the third domain in a row: ${about}`, () => {
        many(60, accepted, at('well.test'), 'farm');
        clock.advance(2 * MINUTE);
        for (const domain of ['a.test', 'b.test', 'a.test']) learn(answer(), at(domain), 'farm');
        learn(accepted(), at('well.test'), 'farm');
        for (const domain of ['c.test', 'd.test']) learn(answer(), at(domain), 'farm');
        assert.deepEqual(limits(), [null, 10]);
        clock.advance(2 * MINUTE);
        learn(answer(), at('e.test'), 'farm');
        assert.deepEqual(limits(), expected);
        learn(accepted(), at('well.test'), 'farm');
        const [number] = expected;
        assert.equal(
          limits()[0],
          number === null ? null : number + 1,
          'a mail under way adds itself, and ends nothing',
        );
      });
  });

  it('a flush forgets the pace that was learnt', () => {
    learn(said('rate', 450, 'too much mail'));
    assert.notEqual(control.report(LANE)?.perMinute, null);
    control.tryNow(LANE, null);
    assert.equal(control.report(LANE)?.perMinute, null);
  });

  it('a rule of shaping rests the lane, by the answers that are about it', () => {
    many(2, () => said('load', 451, 'so slow'));
    assert.equal(control.slots(LANE), 0);
    assert.match((control.report(LANE)?.changes ?? []).at(-1)?.cause ?? '', /^own: so slow/);
    const [first] = control.waits(LANE, mail, site);
    assert.deepEqual([first?.reason, first?.by, first?.until], ['receiver_resting', 'us', NOW + 5 * MINUTE]);
    clock.advance(5 * MINUTE);
    assert.equal(control.slots(LANE), 1);
  });

  it('a rule of shaping that slows the lane is named as what has set its connections', () => {
    many(60, accepted);
    many(2, () => said('sender', 450, 'one in two'));
    const { limits = [], limit, cause } = control.report(LANE) ?? {};
    assert.equal(limit, 5);
    assert.match(cause ?? '', /^half: one in two/);
    assert.deepEqual(
      limits.map(({ what, to, by }) => [what, to, by]),
      [['connections', 5, 'rule']],
    );
  });

  it("a rule of shaping closes an operator's lane for one domain only, where an answer asks that one for less", () => {
    control.register('farm', farm, null);
    const at = (domain: string): MailKey => ({ account: 'acc_1', domain });
    many(2, () => said('rate', 451, 'so slow'), at('a.test'), 'farm');
    assert.equal(restUntil('farm', at('a.test')), NOW + 5 * MINUTE);
    assert.equal(restUntil('farm', at('b.test')), null);
    const [first] = control.waits('farm', at('a.test'), farm);
    assert.match(first?.message ?? '', /^Mail to a\.test \(farm\) waits by a shaping rule/);
    for (const domain of ['b.test', 'c.test', 'd.test']) learn(said('rate', 451, 'so slow'), at(domain), 'farm');
    assert.equal(restUntil('farm', at('never-met.test')), NOW + 5 * MINUTE, 'three domains in a row: all of it');
  });

  it('starts no worker while no connection can be had, and looks again when one can, or after two seconds', () => {
    wait = { why: 'closed', how: 'unreachable', until: clock.monotonic() + 10_000, cause: 'refused', since: 0 };
    assert.equal(control.slots(LANE), 0);
    clock.advance(9_999);
    assert.equal(pumped, 0);
    clock.advance(1);
    assert.equal(pumped, 1);
    wait = { why: 'probing', how: 'unreachable', until: null, cause: 'refused', since: 0 };
    assert.equal(control.slots(LANE), 0);
    clock.advance(2000);
    assert.equal(pumped, 2);
  });

  it('a worker that found none is followed by another after a second, or when the pool calls', () => {
    control.foundNone(LANE);
    assert.equal(control.slots(LANE), 0);
    clock.advance(1000);
    assert.deepEqual([pumped, control.slots(LANE)], [1, 2]);
    control.foundNone(LANE);
    control.wake(LANE);
    assert.deepEqual([pumped, control.slots(LANE)], [2, 2]);
  });

  it("tells a host's cap once", () => {
    cap = { cap: 3, cause: '421 too many connections', ageMs: 0 };
    for (let count = 0; count < 5; count++) control.noteRefusedConnection(LANE, '421 too many connections');
    assert.deepEqual(control.report(LANE)?.changes ?? [], [
      { at: NOW, what: 'connections', to: '3 connections', cause: '421 too many connections' },
    ]);
    assert.deepEqual([control.report(LANE)?.limit, control.report(LANE)?.cause], [2, 'start']);
  });

  it("the operator's limits bind, and are told as theirs", () => {
    limits.put([byHand({ kind: 'limit', site: LANE, connections: 1, perMinute: 30, cause: 'by hand' }, NOW - 5)]);
    assert.equal(control.slots(LANE), 1);
    control.take(LANE, mail);
    assert.equal(control.slots(LANE), 0, 'one in two seconds');
    const report = control.report(LANE);
    assert.deepEqual([report?.limit, report?.cause, report?.perMinute], [1, 'set by the operator', 30]);
    assert.deepEqual(
      report?.limits.filter(({ by }) => by === 'operator').map(({ what, cause }) => [what, cause]),
      [
        ['connections', 'set by the operator: by hand'],
        ['mails_per_minute', 'set by the operator: by hand'],
      ],
    );
  });

  it("ends rests, pauses and closed gates on an operator's request", () => {
    many(10, () => said('load', 451, 'so slow'));
    assert.equal(control.slots(LANE), 0);
    control.tryNow(LANE, null);
    assert.deepEqual([control.slots(LANE), restUntil(LANE, mail), tried], [1, null, ['mx.dest.test:25']]);
  });

  it('rests last as long as before when the clock is set', () => {
    many(10, () => said('load', 451));
    clock.jump(3_600_000);
    control.shift(3_600_000);
    assert.equal(restUntil(LANE, mail), NOW + 3_600_000 + MINUTE);
  });

  it('says why nothing goes, the most telling first', () => {
    many(10, () => said('load', 451, '4.3.2 overloaded'));
    wait = {
      why: 'closed',
      how: 'unreachable',
      until: clock.monotonic() + 10_000,
      cause: 'connection refused',
      since: 1,
    };
    const waits = control.waits(LANE, mail, site);
    assert.deepEqual(
      waits.map(({ reason, by, stops }) => [reason, by, stops]),
      [
        ['receiver_overloaded', 'receiver', true],
        ['destination_parked', 'receiver', true],
      ],
    );
    assert.match(waits[0]?.message ?? '', /cannot take mail now: "4\.3\.2 overloaded"/);
    assert.match(waits[1]?.message ?? '', /^mx\.dest\.test cannot be reached.*"connection refused"/);
  });

  it('says that the lane waits for a connection of this server', () => {
    waitsForSlot = true;
    view = { waiting: 100, slots: 0 };
    const [wait] = control.waits(LANE, mail, site);
    assert.deepEqual([wait?.reason, wait?.by, wait?.stops], ['connections_in_use', 'us', false]);
    assert.match(wait?.message ?? '', /^All connections of this server are in use/);
  });

  it("never blames another tenant's hosts", () => {
    control.register('farm', farm, null);
    wait = { why: 'closed', how: 'unreachable', until: 10_000, cause: 'x', since: 0 };
    const own = { ...farm, hosts: [{ name: 'other.farm.test', port: 25, addresses: [] }] };
    assert.match(control.waits('farm', mail, own)[0]?.message ?? '', /^other\.farm\.test /);
  });

  it("is not parked by the host that an operator's lane met last", () => {
    control.register('farm', farm, null);
    wait = { why: 'closed', how: 'unreachable', until: 10_000, cause: 'x', since: 0 };
    cap = { cap: 1, cause: 'x', ageMs: 0 };
    const waits = (): unknown =>
      control.report('farm')?.waits.map(({ reason, stops, message }) => [reason, stops, message]);
    assert.deepEqual([control.report('farm')?.parkedUntil, waits()], [null, []]);
    asideOf = 'farm';
    assert.equal(control.report('farm')?.parkedUntil, null);
    assert.deepEqual(waits(), [
      [
        'destination_parked',
        false,
        'Mail for domains whose own hosts cannot be had waits for these; the other mail goes.',
      ],
    ]);
    control.noteRefusedConnection('farm', '421 too many connections');
    assert.deepEqual(control.report('farm')?.changes ?? [], []);
  });

  it('keeps 10,000 lanes, and those of which jobs are aside, but what rests is not forgotten', () => {
    many(10, () => said('load', 451));
    asideOf = 'aside';
    view = { waiting: 0, slots: 0 };
    clock.advance(1);
    for (const name of [LANE, 'aside', ...Array.from({ length: 10_050 }, (_, at) => `l${String(at)}`)]) {
      if (name !== LANE) control.learn(name, mail, accepted());
      control.noteEmpty(name);
    }
    assert.equal(control.names().length, 10_000);
    assert.deepEqual([control.names().includes(LANE), control.names().includes('aside')], [false, true]);
    control.register(LANE, site, null);
    assert.equal(control.slots(LANE), 0);
  });

  it('gives a lane that it does not know one worker, and mail that needs no connection many', () => {
    assert.deepEqual([control.slots('mx.unknown.test'), control.slots('~simulator')], [1, 64]);
    control.register('~mx.dest.test', { ...site, name: '~mx.dest.test' }, null);
    assert.equal(control.slots('~mx.dest.test'), 2, 'a host with such a name has the limits of any other');
  });
});
