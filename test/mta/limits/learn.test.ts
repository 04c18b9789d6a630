import fc from 'fast-check';
import assert from 'node:assert/strict';
import type { Grounds, Outcome, Subject } from '../../../src/messages/delivery/delivery.ts';
import { isClosing, keyOf, stands, type Limit, type MailKey } from '../../../src/messages/limits/limit.ts';
import { allowance, connectionsOf } from '../../../src/mta/limits/allowance.ts';
import { firstConnections, learn, type LaneFacts } from '../../../src/mta/limits/learn.ts';
import { answers } from '../lane-world.ts';
import { accepted, factsOf } from '../../support/harness/outcomes.ts';

const MINUTE = 60_000;
const NOW = 1_767_225_600_000;
const limitsOfLane = { initial: 2, max: 10 };

/** The limits of one source, and the answers that taught them. */
class Receivers {
  now = NOW;
  readonly limits = new Map<string, Limit>();
  readonly probes = new Set<string>();
  private asking: readonly string[] = [];
  private acceptedAt = -Infinity;
  private readonly own: Partial<LaneFacts>;

  constructor(own: Partial<LaneFacts> = {}) {
    this.own = own;
  }

  /** Returns until when the mail waits; null if it may go to the site now. */
  waits(mail: MailKey, site = 'a.test'): number | null {
    const found = allowance(
      this.at(site),
      mail,
      { probes: this.probes, trafficOf: () => null, fullUntil: () => 0 },
      this.now,
    );
    if (found.kind === 'wait') return found.until;
    for (const limit of found.probed) this.probes.add(keyOf(limit));
    return null;
  }

  answer(outcome: Outcome, mail: MailKey, site = 'a.test', own: Partial<LaneFacts> = {}): Outcome {
    const first = firstConnections({ site, source: '', domain: null, account: null }, limitsOfLane, NOW);
    if (!this.limits.has(keyOf(first))) this.limits.set(keyOf(first), first);
    const lane: LaneFacts = {
      site,
      source: '',
      isShared: false,
      isRelay: false,
      connections: limitsOfLane,
      isFull: true,
      hasOtherSource: false,
      asking: this.asking,
      acceptedAt: this.acceptedAt,
      lastMinute: () => 0,
      ...this.own,
      ...own,
    };
    for (const limit of this.at(site)) this.probes.delete(keyOf(limit));
    const of = (domain: string | null): Limit[] =>
      this.at(site).filter((limit) => limit.domain === null || limit.domain === domain);
    const known = { get: (key: string) => this.limits.get(key), of };
    const lesson = learn(known, lane, mail, outcome, answers, this.now);
    for (const limit of lesson.changed) this.limits.set(keyOf(limit), limit);
    for (const limit of lesson.ended) this.limits.delete(keyOf(limit));
    this.asking = lesson.asking;
    if (outcome.kind === 'accepted') this.acceptedAt = this.now;
    return lesson.outcome;
  }

  standing(): string[] {
    return [...this.limits.values()].filter((one) => stands(one) && isClosing(one)).map(keyOf);
  }

  at(site: string): Limit[] {
    return [...this.limits.values()].filter((one) => one.site === site || one.site === '');
  }
}

const said = (about: Subject, code: number, text = 'no', reason: 'policy' | 'tls_required' = 'policy'): Outcome => {
  const facts = factsOf({ smtpCode: code, enhancedCode: null, smtpReply: text });
  const grounds: Grounds = { rule: 'x', infrastructure: false, greylisting: false, about };
  return code >= 500
    ? { kind: 'refused', facts, verdict: { class: 'block', reason }, grounds }
    : { kind: 'deferred', facts, verdict: { class: 'soft', reason }, retryAt: NOW + MINUTE, grounds };
};
const of = (account: string, domain = 'a.test'): MailKey => ({ account, domain });
const many = (count: number, act: (at: number) => void): void => {
  for (let at = 0; at < count; at++) act(at);
};

describe('mta/limits/learn: what one answer closes', () => {
  const rows: readonly [Subject, number, count: number, own: Partial<LaneFacts>, expected: string[]][] = [
    ['recipient', 450, 100, {}, []],
    ['message', 550, 100, {}, []],
    ['domain', 550, 100, {}, []],
    ['host', 421, 100, {}, []],
    ['ourselves', 451, 100, {}, []],
    ['block_list', 550, 1, {}, ['block_list a.test  * *']],
    ['block_list', 450, 1, {}, ['block_list a.test  * *']],
    ['block_list', 550, 1, { isShared: true }, ['block_list a.test  a.test *']],
    ['sender', 550, 4, {}, []],
    ['sender', 550, 5, {}, ['sender a.test  * acc']],
    ['sender', 550, 5, { isShared: true }, ['sender a.test  a.test acc']],
    ['load', 451, 9, {}, []],
    ['load', 451, 10, {}, ['load a.test  * *']],
    ['load', 451, 10, { isShared: true }, ['load a.test  a.test *']],
    ['tls', 450, 3, {}, ['tls a.test  a.test *']],
    ['tls', 450, 3, { isRelay: true }, ['tls a.test  * *']],
  ];
  for (const [about, code, count, own, expected] of rows)
    it(`${about} ${String(code)}, ${String(count)} times${JSON.stringify(own)}`, () => {
      const receivers = new Receivers(own);
      many(count, () => receivers.answer(said(about, code), of('acc')));
      assert.deepEqual(receivers.standing(), expected);
    });

  it('an accepted mail between begins the count anew', () => {
    const receivers = new Receivers();
    many(20, () => {
      many(4, () => receivers.answer(said('sender', 550), of('acc')));
      receivers.now += 11 * MINUTE;
      receivers.answer(accepted(), of('acc'));
      receivers.now += 11 * MINUTE;
    });
    assert.deepEqual(receivers.standing(), []);
  });

  it('a receiver that judges each mail refuses some in a row by chance', () => {
    const receivers = new Receivers();
    receivers.answer(accepted(), of('acc'));
    many(19, () => receivers.answer(said('sender', 550), of('acc')));
    assert.deepEqual(receivers.standing(), []);
    receivers.answer(said('sender', 550), of('acc'));
    assert.deepEqual(receivers.standing(), ['sender a.test  * acc']);
  });

  it('ten refused senders of several accounts close it for all, no account alone', () => {
    const alone = new Receivers();
    many(30, () => alone.answer(said('sender', 550), of('acc')));
    assert.deepEqual(alone.standing(), ['sender a.test  * acc']);
    const several = new Receivers();
    many(10, (at) => several.answer(said('sender', 550), of(`acc${String(at)}`)));
    assert.deepEqual(several.standing(), ['sender a.test  * *']);
  });

  it('three domains of an operator close all of it, two do not', () => {
    const receivers = new Receivers({ isShared: true });
    for (const domain of ['a.test', 'b.test']) receivers.answer(said('block_list', 550), of('acc', domain));
    assert.equal(receivers.waits(of('acc', 'c.test')), null);
    receivers.answer(said('block_list', 550), of('acc', 'c.test'));
    assert.equal(receivers.waits(of('acc', 'd.test')), NOW + 2 * MINUTE);
  });

  it('three sites that name the same public list close the source at every site', () => {
    const receivers = new Receivers();
    const listed = said('block_list', 550, '5.7.1 Service unavailable; blocked using zen.spamhaus.org');
    for (const site of ['a.test', 'b.test']) receivers.answer(listed, of('acc', site), site);
    receivers.answer(said('block_list', 550, 'listed at bl.spamcop.net'), of('acc', 'x.test'), 'x.test');
    assert.equal(receivers.waits(of('acc', 'd.test'), 'd.test'), null, 'another list');
    for (const site of ['a.test', 'b.test', 'c.test']) receivers.answer(listed, of('acc', site), site);
    assert.notEqual(receivers.waits(of('acc', 'd.test'), 'd.test'), null);
    receivers.now += 3 * MINUTE;
    assert.equal(receivers.waits(of('acc', 'd.test'), 'd.test'), null, 'one mail tries');
    receivers.answer(accepted(), of('acc', 'd.test'), 'd.test');
    assert.deepEqual(
      receivers.standing().filter((key) => key.startsWith('block_list  ')),
      [],
    );
  });
});

describe('mta/limits/learn: a limit about us costs no mail', () => {
  for (const about of ['block_list', 'sender'] as const)
    for (const hours of [1, 10, 60])
      it(`loses five at most, while each try is refused for ${String(hours)} h: ${about}`, () => {
        const receivers = new Receivers();
        let lost = 0;
        let tries = 0;
        let end = 0;
        for (; receivers.now < NOW + hours * 60 * MINUTE; receivers.now += 5_000)
          // Two connections send at once.
          for (const mail of [of('acc'), of('acc')]) {
            if (receivers.waits(mail) !== null) continue;
            tries++;
            if (receivers.answer(said(about, 550), mail).kind === 'refused') lost++;
          }
        assert.ok(lost <= 5, `${String(lost)} lost`);
        assert.ok(tries <= 20 + hours * 2, `${String(tries)} tries`);
        for (end = receivers.now; receivers.waits(of('acc')) !== null;) receivers.now += 1_000;
        assert.ok(receivers.now - end <= 61 * MINUTE);
        receivers.answer(accepted(), of('acc'));
        assert.deepEqual(receivers.standing(), []);
      });

  it('a mail that another source may send waits for that one, the first as well', () => {
    const receivers = new Receivers();
    const outcome = receivers.answer(said('block_list', 550), of('acc'), 'a.test', { hasOtherSource: true });
    assert.equal(outcome.kind === 'deferred' && outcome.retryAt, NOW + 1000);
  });

  it('mail that was not refused yet tries first', () => {
    const receivers = new Receivers();
    receivers.answer(said('block_list', 550), of('acc'));
    const outcome = receivers.answer(said('block_list', 550), of('acc'));
    assert.equal(outcome.kind === 'deferred' && outcome.retryAt, NOW + 2 * MINUTE + 2000);
  });

  it('while one mail finds out, no other goes', () => {
    const receivers = new Receivers();
    receivers.answer(said('block_list', 550), of('acc'));
    receivers.now += 2 * MINUTE;
    assert.equal(receivers.waits(of('acc')), null);
    assert.equal(receivers.waits(of('acc')), receivers.now + 2000);
    assert.equal(connectionsOf(receivers.at('a.test')), 1);
    receivers.answer(said('recipient', 550), of('acc'));
    assert.equal(receivers.waits(of('acc')), null, 'an answer about something else lets the next one try');
  });

  it('whatever the order of answers is, no accepted account waits for another one’s refusals', () => {
    const answer = fc.constantFrom<[Subject, number]>(
      ['sender', 550],
      ['sender', 450],
      ['recipient', 550],
      ['message', 550],
    );
    fc.assert(
      fc.property(fc.array(answer, { maxLength: 200 }), (said_) => {
        const receivers = new Receivers();
        for (const [about, code] of said_) receivers.answer(said(about, code), of('bad'));
        assert.equal(receivers.waits(of('good')), null);
        receivers.answer(accepted(), of('bad'));
        assert.deepEqual(receivers.standing(), []);
      }),
    );
  });
});

describe('mta/limits/learn: connections', () => {
  const connections = (receivers: Receivers): number => connectionsOf(receivers.at('a.test'));

  it('are at the limit after five answers, while all are in use', () => {
    const receivers = new Receivers();
    many(5, () => receivers.answer(accepted(), of('acc')));
    assert.equal(connections(receivers), 10);
    const idle = new Receivers({ isFull: false });
    many(50, () => idle.answer(accepted(), of('acc')));
    assert.equal(connections(idle), 2);
  });

  it('halve once in ten seconds, come back below what was too many, and try one more after a quiet while', () => {
    const receivers = new Receivers();
    many(5, () => receivers.answer(accepted(), of('acc')));
    many(3, () => receivers.answer(said('connections', 421), of('acc')));
    assert.equal(connections(receivers), 5);
    many(100, () => receivers.answer(accepted(), of('acc')));
    assert.equal(connections(receivers), 9);
    receivers.now += 31_000;
    many(20, () => receivers.answer(accepted(), of('acc')));
    assert.equal(connections(receivers), 10);
    receivers.now += 31_000;
    many(20, () => receivers.answer(said('load', 451), of('acc')));
    assert.equal(connections(receivers), 1, 'it is overloaded: one mail tries');
  });
});
