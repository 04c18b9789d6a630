import fc from 'fast-check';
import assert from 'node:assert/strict';
import { decide, isWaiting, type Decision } from '../../../src/messages/delivery/decide.ts';
import {
  HELD_WITHOUT_END,
  type DeliveryState,
  type DeliveryStatus,
  type DeliveryChange,
  type Hit,
  type Outcome,
  type Verdict,
} from '../../../src/messages/delivery/delivery.ts';
import { deliveryStatuses } from '../../../src/storage/tables.ts';
import { HOUR, NOW, deliveryState } from '../../support/harness/mail-rows.ts';
import { accepted, deferred, factsOf, failed, refused, uncertain } from '../../support/harness/outcomes.ts';

const EPOCH = 7;
const LEASE = NOW + HOUR;
const RETRY = NOW + 60_000;
const MINUTE = 60_000;

const statuses: readonly DeliveryStatus[] = [
  'scheduled',
  'queued',
  'sent',
  'deferred',
  'delivered',
  'bounced',
  'complained',
  'suppressed',
  'failed',
  'canceled',
];

const hit = (bot: Hit['bot'] = null): Hit => ({ at: NOW, ip: '192.0.2.1', userAgent: 'Reader/1.0', bot });
const claimed: Extract<DeliveryChange, { kind: 'claimed' }> = {
  kind: 'claimed',
  epoch: EPOCH,
  leaseUntil: LEASE,
};
const outcome = (of: Outcome, attempt = 1): DeliveryChange => ({ kind: 'outcome', epoch: EPOCH, attempt, outcome: of });
const softReport: Verdict = { class: 'soft', reason: 'mailbox_full' };
const bounced = (verdict: Verdict = { class: 'hard', reason: 'mailbox_not_found' }): DeliveryChange => ({
  kind: 'bounced',
  verdict,
  smtpCode: 550,
  enhancedCode: '5.1.1',
  smtpReply: 'no such user, says the report',
});
const complained: DeliveryChange = {
  kind: 'complained',
  feedbackType: 'abuse',
  source: 'arf',
  arrivalDate: NOW,
  userAgent: 'FBL/1.0',
};
const opened = (bot: Hit['bot'] = null): DeliveryChange => ({
  kind: 'opened',
  hit: hit(bot),
  client: 'Mail',
  os: null,
  device: null,
});
const clicked: DeliveryChange = { kind: 'clicked', hit: hit(), url: 'https://acme.test/', linkId: '3', part: 'html' };

/** A delivery of this status as it waits or has ended. */
const resting = (status: DeliveryStatus, changes: Partial<DeliveryState> = {}): DeliveryState =>
  deliveryState({
    status,
    dueAt: isWaiting(status) ? NOW : null,
    attemptCount: status === 'queued' ? 0 : 1,
    ...changes,
  });
/** A delivery in a worker's hand. */
const held = (status: 'sent' | 'deferred', changes: Partial<DeliveryState> = {}): DeliveryState =>
  resting(status, { claimEpoch: EPOCH, dueAt: LEASE, ...changes });

/** The change, the state that it needs, and the status that follows each status; a status that is not named stays as it is. */
const arrows: readonly {
  name: string;
  change: DeliveryChange;
  held?: true;
  now?: number;
  to: Partial<Record<DeliveryStatus, { status: DeliveryStatus; events?: readonly string[]; via?: DeliveryStatus }>>;
}[] = [
  {
    name: 'a claim',
    change: claimed,
    to: {
      scheduled: { status: 'sent', events: ['sent'], via: 'queued' },
      queued: { status: 'sent', events: ['sent'] },
      sent: { status: 'sent' },
      deferred: { status: 'deferred' },
    },
  },
  {
    name: 'a claim of a suppressed address',
    change: { ...claimed, suppressedBy: { id: 'sup_1', reason: 'manual' } },
    to: {
      scheduled: { status: 'suppressed', events: ['suppressed'] },
      queued: { status: 'suppressed', events: ['suppressed'] },
      sent: { status: 'suppressed', events: ['suppressed'] },
      deferred: { status: 'suppressed', events: ['suppressed'] },
    },
  },
  {
    name: 'a claim after its time ran out',
    change: claimed,
    now: NOW + 73 * HOUR,
    to: {
      scheduled: { status: 'bounced', events: ['bounced'], via: 'queued' },
      queued: { status: 'bounced', events: ['bounced'] },
      sent: { status: 'bounced', events: ['bounced'] },
      deferred: { status: 'bounced', events: ['bounced'] },
    },
  },
  {
    name: 'an accepted outcome',
    change: outcome(accepted()),
    held: true,
    to: {
      sent: { status: 'delivered', events: ['delivered'] },
      deferred: { status: 'delivered', events: ['delivered'] },
    },
  },
  {
    name: 'a refused outcome',
    change: outcome(refused()),
    held: true,
    to: { sent: { status: 'bounced', events: ['bounced'] }, deferred: { status: 'bounced', events: ['bounced'] } },
  },
  {
    name: 'a deferred outcome',
    change: outcome(deferred(RETRY)),
    held: true,
    to: { sent: { status: 'deferred', events: ['deferred'] }, deferred: { status: 'deferred', events: ['deferred'] } },
  },
  {
    name: 'an uncertain outcome',
    change: outcome(uncertain(RETRY)),
    held: true,
    to: { sent: { status: 'deferred', events: ['deferred'] }, deferred: { status: 'deferred', events: ['deferred'] } },
  },
  {
    name: 'a failed outcome',
    change: outcome(failed()),
    held: true,
    to: { sent: { status: 'failed', events: ['failed'] }, deferred: { status: 'failed', events: ['failed'] } },
  },
  {
    name: 'a claim given back untried',
    change: { kind: 'released', epoch: EPOCH, attempt: 1, dueAt: RETRY },
    held: true,
    to: { sent: { status: 'deferred', events: ['deferred'] }, deferred: { status: 'deferred' } },
  },
  {
    name: 'the end of the program that held it',
    change: { kind: 'orphaned', epoch: EPOCH, retryAt: RETRY },
    held: true,
    to: { sent: { status: 'deferred', events: ['deferred'] }, deferred: { status: 'deferred', events: ['deferred'] } },
  },
  {
    name: 'another time of sending, to come',
    change: { kind: 'rescheduled', sendAt: NOW + HOUR, giveUpAt: NOW + 73 * HOUR },
    to: { scheduled: { status: 'scheduled', events: [] }, queued: { status: 'scheduled', events: [] } },
  },
  {
    name: 'another time of sending, which is now',
    change: { kind: 'rescheduled', sendAt: NOW - 1, giveUpAt: NOW + 72 * HOUR },
    to: { scheduled: { status: 'queued', events: [] }, queued: { status: 'queued', events: [] } },
  },
  {
    name: 'a look at the clock when its time of sending has come',
    change: { kind: 'came_due' },
    to: { scheduled: { status: 'queued', events: [] } },
  },
  {
    name: 'a look at the clock when its time has run out',
    change: { kind: 'aged' },
    now: NOW + 72 * HOUR,
    to: {
      scheduled: { status: 'bounced', events: ['bounced'], via: 'queued' },
      queued: { status: 'bounced', events: ['bounced'] },
      sent: { status: 'bounced', events: ['bounced'] },
      deferred: { status: 'bounced', events: ['bounced'] },
    },
  },
  { name: 'a look at the clock before that', change: { kind: 'aged' }, now: NOW + 72 * HOUR - 1, to: {} },
  {
    name: 'a cancel',
    change: { kind: 'canceled' },
    to: {
      scheduled: { status: 'canceled' },
      queued: { status: 'canceled' },
      sent: { status: 'canceled' },
      deferred: { status: 'canceled' },
    },
  },
  {
    name: 'a bounce mail',
    change: bounced(),
    to: {
      sent: { status: 'bounced', events: ['bounced'] },
      deferred: { status: 'bounced', events: ['bounced'] },
      delivered: { status: 'bounced', events: ['bounced'] },
    },
  },
  {
    name: 'a complaint',
    change: complained,
    to: {
      sent: { status: 'complained', events: ['complained'] },
      deferred: { status: 'complained', events: ['complained'] },
      delivered: { status: 'complained', events: ['complained'] },
      bounced: { status: 'complained', events: ['complained'] },
    },
  },
  {
    name: 'a pixel load',
    change: opened(),
    to: Object.fromEntries(
      (['sent', 'deferred', 'delivered', 'bounced', 'complained'] as const).map((status) => [
        status,
        { status, events: ['opened'] },
      ]),
    ),
  },
  {
    name: 'a followed link',
    change: clicked,
    to: Object.fromEntries(
      (['sent', 'deferred', 'delivered', 'bounced', 'complained'] as const).map((status) => [
        status,
        { status, events: ['clicked'] },
      ]),
    ),
  },
  {
    name: 'a wish for no more mail',
    change: { kind: 'unsubscribed', method: 'page' },
    to: Object.fromEntries(deliveryStatuses.map((status) => [status, { status, events: ['unsubscribed'] }])),
  },
  {
    name: 'a flush',
    change: { kind: 'flushed' },
    to: { queued: { status: 'queued' }, sent: { status: 'sent' }, deferred: { status: 'deferred' } },
  },
];

const typesOf = (decision: Decision): string[] => decision.events.map(({ type }) => type);
const detailOf = (decision: Decision): Readonly<Record<string, unknown>> => decision.events[0]?.detail ?? {};

describe('messages/decide', () => {
  describe('holds', () => {
    const OPERATORS = 'hld_00000000000000000000000001';
    const hold = (changes: Partial<Extract<DeliveryChange, { kind: 'held' }>> = {}): DeliveryChange => ({
      kind: 'held',
      by: OPERATORS,
      since: NOW,
      until: null,
      ...changes,
    });
    const apply = (state: DeliveryState, ...changes: (readonly [DeliveryChange, number])[]): DeliveryState =>
      changes.reduce((before, [change, at]) => decide(before, change, at).state, state);
    const freed: DeliveryChange = { kind: 'freed' };
    const limit = NOW + 72 * HOUR;

    for (const [name, state, steps, expected] of [
      ['rests without end', {}, [[hold(), NOW + 5]], { heldBy: OPERATORS, heldAt: NOW, dueAt: HELD_WITHOUT_END }],
      ['rests until its end', {}, [[hold({ until: NOW + HOUR }), NOW + 5]], { dueAt: NOW + HOUR }],
      ['rests no longer than its sender wants', { expiresAt: NOW + HOUR }, [[hold(), NOW]], { dueAt: NOW + HOUR }],
      [
        'is looked at when its own time is over where we hold it',
        {},
        [[hold({ by: 'stream:a/b' }), NOW]],
        { heldBy: 'stream:a/b', dueAt: limit },
      ],
      [
        'gets back the time of an operator’s hold',
        {},
        [
          [hold(), NOW + HOUR],
          [freed, NOW + 9 * HOUR],
        ],
        { heldBy: null, dueAt: NOW + 9 * HOUR, giveUpAt: limit + 9 * HOUR },
      ],
      [
        'gets back no time that an overlapping hold has given',
        {},
        [
          [hold(), NOW],
          [freed, NOW + HOUR],
          [hold({ by: 'hld_2' }), NOW + HOUR],
          [freed, NOW + 3 * HOUR],
        ],
        { giveUpAt: limit + 3 * HOUR },
      ],
      [
        'gets it back when one hold follows another unseen',
        {},
        [
          [hold(), NOW],
          [hold({ by: 'stream:a/b' }), NOW + HOUR],
          [freed, NOW + 2 * HOUR],
        ],
        { giveUpAt: limit + HOUR },
      ],
      [
        'gets back none from before it was to be sent',
        { queuedAt: NOW + HOUR },
        [
          [hold(), NOW + HOUR],
          [freed, NOW + 2 * HOUR],
        ],
        { giveUpAt: limit + HOUR },
      ],
      [
        'gets none back beyond what its sender wants',
        { expiresAt: limit },
        [
          [hold(), NOW],
          [freed, NOW + HOUR],
        ],
        { giveUpAt: limit },
      ],
      [
        'gets none back from a hold of our own',
        {},
        [
          [hold({ by: 'domain:a.test' }), NOW],
          [freed, NOW + HOUR],
        ],
        { heldBy: null, giveUpAt: limit },
      ],
      [
        'gets it back when a claim finds the hold ended',
        {},
        [
          [hold({ until: NOW + HOUR }), NOW],
          [claimed, NOW + HOUR],
        ],
        { status: 'sent', heldBy: null, giveUpAt: limit + HOUR },
      ],
      [
        'outlives its limit while it is held',
        {},
        [
          [hold(), NOW],
          [{ kind: 'aged' }, NOW + 100 * HOUR],
        ],
        { status: 'queued', heldBy: OPERATORS },
      ],
      [
        'does not outlive expires_at',
        { expiresAt: NOW + HOUR, giveUpAt: NOW + HOUR },
        [
          [hold(), NOW],
          [hold(), NOW + HOUR],
        ],
        { status: 'bounced', heldBy: null, dueAt: null },
      ],
      ['does not outlive its limit where we hold it', {}, [[hold({ by: 'stream:a/b' }), limit]], { status: 'bounced' }],
      [
        'is not flushed',
        {},
        [
          [hold(), NOW],
          [{ kind: 'flushed' }, NOW + 1],
        ],
        { dueAt: HELD_WITHOUT_END },
      ],
      [
        'is canceled',
        {},
        [
          [hold(), NOW],
          [{ kind: 'canceled' }, NOW + 1],
        ],
        { status: 'canceled', heldBy: null, dueAt: null },
      ],
      ['is not freed while it is not held', { dueAt: NOW + HOUR }, [[freed, NOW]], { dueAt: NOW + HOUR }],
    ] as const) {
      it(`mail ${name}`, () => {
        const after = apply(deliveryState(state), ...steps);
        assert.deepEqual({ ...after, ...expected }, after);
      });
    }

    it('leaves alone what is being sent', () => {
      const state = held('sent');
      assert.deepEqual([decide(state, hold(), NOW).applied, decide(state, freed, NOW).applied], [false, false]);
    });
  });

  describe('the arrows', () => {
    for (const { name, change, now = NOW, to, ...row } of arrows) {
      for (const status of statuses) {
        const isHeld = row.held === true && (status === 'sent' || status === 'deferred');
        const before = isHeld ? held(status) : resting(status);
        const arrow = to[status];
        if (arrow === undefined) {
          it(`${name} leaves ${status} alone`, () => {
            const decision = decide(before, change, now);
            assert.equal(decision.applied, false);
            assert.deepEqual(decision.state, before);
            assert.deepEqual([decision.steps, decision.events, decision.suppress], [[], [], null]);
          });
          continue;
        }
        it(`${name}: ${status} -> ${arrow.status}`, () => {
          const decision = decide(before, change, now);
          assert.equal(decision.applied, true);
          assert.equal(decision.state.status, arrow.status);
          assert.deepEqual(typesOf(decision), arrow.events ?? []);
          const way = [status, ...(arrow.via === undefined ? [] : [arrow.via]), arrow.status];
          const steps = way.slice(1).flatMap((next, at) => (next === way[at] ? [] : [[way[at], next]]));
          assert.deepEqual(decision.steps, steps, 'the books go the way of the table');
          assert.equal(decision.state.dueAt !== null, isWaiting(arrow.status), 'due exactly while waiting');
          if (!isWaiting(arrow.status))
            assert.equal(decision.state.claimEpoch, null, 'finished mail belongs to nobody');
        });
      }
    }
  });

  describe('claims', () => {
    it('count the attempt and set the next time before anybody is dialled', () => {
      const { state } = decide(resting('queued'), claimed, NOW);
      assert.deepEqual([state.attemptCount, state.claimEpoch, state.dueAt], [1, EPOCH, LEASE]);
    });

    it('tell of `sent` once only', () => {
      const { state } = decide(resting('queued'), claimed, NOW);
      const released = decide(state, { kind: 'released', epoch: EPOCH, attempt: 1, dueAt: RETRY }, NOW).state;
      const again = decide(released, claimed, RETRY);
      assert.deepEqual([again.applied, again.events, again.state.attemptCount], [true, [], 1]);
    });

    for (const [reason, before] of [
      ['not yet due', resting('deferred', { dueAt: NOW + 1 })],
      ['scheduled for later', resting('scheduled', { dueAt: NOW + HOUR })],
      ['in another worker’s hand', held('sent')],
    ] as const) {
      it(`are refused where it is ${reason}`, () => {
        assert.equal(decide(before, claimed, NOW).applied, false);
      });
    }

    it('take over what outlived its lease; what its old holder still says is only noted', () => {
      const stuck = held('sent', { dueAt: NOW - 1 });
      const taken = decide(stuck, claimed, NOW);
      assert.deepEqual([taken.applied, taken.state.attemptCount, taken.state.dueAt], [true, 2, LEASE]);
      const late = decide(taken.state, outcome(refused(), 1), NOW);
      assert.deepEqual([late.applied, late.state, late.attempt?.outcome], [false, taken.state, 'refused']);
    });

    describe('of mail whose time ran out while the program did not run', () => {
      const giveUpAt = NOW - HOUR;
      const late = { ...claimed, extraTime: { startedAt: NOW - MINUTE, until: NOW + 6 * HOUR } };
      const missed = (changes: Partial<DeliveryState> = {}): DeliveryState =>
        resting('deferred', { dueAt: giveUpAt - HOUR, giveUpAt, ...changes });

      it('are tried in the extra time, by the schedule', () => {
        const taken = decide(missed(), late, NOW);
        assert.deepEqual([taken.state.claimEpoch, taken.state.giveUpAt], [EPOCH, NOW + 6 * HOUR]);
        const after = decide(taken.state, outcome(deferred(RETRY), 2), NOW);
        assert.equal(after.attempt?.nextAttemptAt, RETRY);
        assert.equal(decide(after.state, late, NOW + 6 * HOUR).state.status, 'bounced');
      });

      it('are given up where that is over, too', () => {
        assert.equal(decide(missed(), late, NOW + 6 * HOUR).state.status, 'bounced');
      });

      it('are given up where it ran out while the program ran', () => {
        const again = { ...late, extraTime: { ...late.extraTime, startedAt: giveUpAt - 1 } };
        assert.equal(decide(missed(), again, NOW).state.status, 'bounced');
      });

      it("end at the sender's own limit", () => {
        assert.equal(decide(missed({ expiresAt: giveUpAt }), late, NOW).state.status, 'bounced');
        assert.equal(decide(missed({ expiresAt: NOW + HOUR }), late, NOW).state.giveUpAt, NOW + HOUR);
      });
    });

    it('do not put test mail or an old age above one another: age goes first', () => {
      const old = decide(
        resting('queued'),
        { ...claimed, suppressedBy: { id: 'sup_1', reason: 'manual' } },
        NOW + 80 * HOUR,
      );
      assert.equal(old.state.status, 'bounced');
    });
  });

  describe('outcomes that come too late', () => {
    it('still count where the mail was accepted, was taken back, and no newer attempt has begun', () => {
      const taken = decide(held('sent'), { kind: 'orphaned', epoch: EPOCH, retryAt: RETRY }, NOW).state;
      const late = decide(taken, outcome(accepted()), NOW);
      assert.deepEqual(
        [late.applied, late.state.status, late.state.dueAt, late.attempt?.outcome],
        [true, 'delivered', null, 'accepted'],
      );
      const again = { kind: 'claimed', epoch: EPOCH + 1, leaseUntil: LEASE } as const;
      const claimed = decide(taken, again, RETRY).state;
      assert.equal(decide(claimed, outcome(accepted()), RETRY).applied, false, 'a newer attempt has begun');
      assert.equal(decide(taken, outcome(refused()), NOW).applied, false, 'a refusal is found again');
    });

    for (const [reason, before, change] of [
      ['of an older attempt', held('deferred', { attemptCount: 2 }), outcome(accepted(), 1)],
      [
        'of an older attempt after the newer one has ended',
        resting('deferred', { attemptCount: 2 }),
        outcome(accepted(), 1),
      ],
      ['of an older run of the program', held('sent', { claimEpoch: EPOCH + 1 }), outcome(accepted())],
      ['after a bounce mail', resting('bounced'), outcome(accepted())],
      ['after a complaint', resting('complained'), outcome(accepted())],
      ['of a claim that was given back', resting('sent'), outcome(accepted())],
    ] as const) {
      it(`are noted and move nothing: ${reason}`, () => {
        const decision = decide(before, change, NOW);
        assert.equal(decision.applied, false);
        assert.deepEqual(decision.state, before);
        assert.deepEqual([decision.events, decision.steps], [[], []]);
        assert.deepEqual(decision.attempt, {
          facts: factsOf(),
          outcome: 'accepted',
          verdict: null,
          nextAttemptAt: null,
        });
      });
    }
  });

  describe('cancelling', () => {
    it('waits for the transaction that is open', () => {
      assert.equal(decide(held('sent'), { kind: 'canceled' }, NOW).applied, false);
    });
  });

  describe('a bounce mail that overtakes our own note', () => {
    it('ends the attempt under way', () => {
      const decision = decide(held('sent'), bounced(), NOW);
      assert.deepEqual(
        [decision.state.status, decision.state.claimEpoch, decision.state.dueAt],
        ['bounced', null, null],
      );
    });

    it('is marked as asynchronous and has the report’s words and the host that had taken it', () => {
      const before = resting('delivered', {
        lastReply: { smtpCode: 250, enhancedCode: '2.0.0', smtpReply: 'OK', mx: 'mx1.dest.test' },
      });
      assert.deepEqual(detailOf(decide(before, bounced(), NOW)), {
        class: 'hard',
        reason: 'mailbox_not_found',
        async: true,
        smtp_code: 550,
        enhanced_code: '5.1.1',
        smtp_reply: 'no such user, says the report',
        mx: 'mx1.dest.test',
        attempts: 1,
        suppression_added: true,
      });
    });
  });

  describe('what the events say', () => {
    it('sent', () => {
      assert.deepEqual(detailOf(decide(resting('queued'), claimed, NOW)), { attempt: 1, mx: null, sending_ip: null });
    });

    it('delivered', () => {
      assert.deepEqual(detailOf(decide(held('sent'), outcome(accepted()), NOW)), {
        mx: 'mx1.dest.test',
        ip: '192.0.2.25',
        smtp_code: 250,
        smtp_reply: '2.0.0 OK',
        tls: 'TLSv1.3',
        attempt: 1,
        queue_ms: 310,
        via_relay: false,
      });
    });

    it('delivered, by a smarthost, before the clock was set right', () => {
      const relayed: Outcome = { kind: 'accepted', viaRelay: true, facts: factsOf({ endedAt: NOW - 5000, tls: null }) };
      const detail = detailOf(decide(held('sent'), outcome(relayed), NOW));
      assert.deepEqual([detail['via_relay'], detail['queue_ms'], detail['tls']], [true, 0, null]);
    });

    it('bounced', () => {
      assert.deepEqual(detailOf(decide(held('sent'), outcome(refused()), NOW)), {
        class: 'hard',
        reason: 'mailbox_not_found',
        async: false,
        smtp_code: 550,
        enhanced_code: '5.1.1',
        smtp_reply: '5.1.1 no such user',
        mx: 'mx1.dest.test',
        attempts: 1,
        suppression_added: true,
      });
    });

    it('bounced for age: with the last reply, which says why it never arrived', () => {
      const lastReply = { smtpCode: 451, enhancedCode: '4.3.0', smtpReply: 'later', mx: 'mx1.dest.test' };
      const detail = detailOf(
        decide(resting('deferred', { lastReply, attemptCount: 9 }), { kind: 'aged' }, NOW + 72 * HOUR),
      );
      assert.deepEqual(
        [detail['class'], detail['reason'], detail['smtp_reply'], detail['attempts'], detail['suppression_added']],
        ['soft', 'expired', 'later', 9, false],
      );
    });

    it('bounced for age: with what it waited for, where nobody has answered', () => {
      const nobody = { smtpCode: null, enhancedCode: null, smtpReply: null, mx: null };
      const aged = { kind: 'aged', waitedFor: 'DNS does not tell where its mail goes.' } as const;
      const detail = detailOf(decide(resting('queued', { lastReply: nobody, attemptCount: 0 }), aged, NOW + 72 * HOUR));
      assert.deepEqual([detail['reason'], detail['smtp_reply']], ['expired', aged.waitedFor]);
      const lastReply = { ...nobody, smtpCode: 451, smtpReply: 'later', mx: 'mx1.dest.test' };
      const answered = detailOf(decide(resting('deferred', { lastReply }), aged, NOW + 72 * HOUR));
      assert.equal(answered['smtp_reply'], 'later', 'an answer says more');
    });

    it('failed for age: where it was we who held it back, and not a host that says the same', () => {
      const end = NOW + 72 * HOUR;
      const ours = { smtpCode: null, enhancedCode: '4.3.5', smtpReply: 'no key signs for acme.test', mx: null };
      const failed = decide(resting('deferred', { lastReply: ours }), { kind: 'aged' }, end);
      assert.deepEqual(failed.steps, [['deferred', 'failed']]);
      assert.deepEqual(detailOf(failed), {
        reason: 'expired',
        message: 'it expired while it was held back here: no key signs for acme.test',
      });
      const theirs = { ...ours, smtpCode: 451, mx: 'mx1.dest.test' };
      assert.equal(decide(resting('deferred', { lastReply: theirs }), { kind: 'aged' }, end).state.status, 'bounced');
    });

    it('deferred', () => {
      assert.deepEqual(detailOf(decide(held('sent'), outcome(deferred(RETRY)), NOW)), {
        attempt: 1,
        mx: 'mx1.dest.test',
        smtp_code: 451,
        enhanced_code: '4.3.0',
        smtp_reply: '4.3.0 later',
        reason: 'other',
        next_attempt_at: '2026-01-31T09:31:00.000Z',
      });
    });

    it('suppressed', () => {
      const decision = decide(
        resting('queued'),
        { ...claimed, suppressedBy: { id: 'sup_1', reason: 'complaint' } },
        NOW,
      );
      assert.deepEqual(detailOf(decision), { reason: 'complaint', suppression_id: 'sup_1' });
    });

    it('failed', () => {
      assert.deepEqual(detailOf(decide(held('sent'), outcome(failed()), NOW)), {
        reason: 'unbuildable',
        message: 'no content',
      });
    });

    it('complained', () => {
      assert.deepEqual(detailOf(decide(resting('delivered'), complained, NOW)), {
        feedback_type: 'abuse',
        source: 'arf',
        arrival_date: '2026-01-31T09:30:00.000Z',
        user_agent: 'FBL/1.0',
        suppression_added: true,
      });
    });

    it('opened and clicked', () => {
      const person = { first: true, ip: '192.0.2.1', user_agent: 'Reader/1.0', is_bot: false, bot: null };
      assert.deepEqual(detailOf(decide(resting('delivered'), opened(), NOW)), {
        ...person,
        client: 'Mail',
        os: null,
        device: null,
      });
      assert.deepEqual(detailOf(decide(resting('delivered'), clicked, NOW)), {
        ...person,
        url: 'https://acme.test/',
        link_id: '3',
        part: 'html',
      });
    });

    it('opened again, and by a machine, which is flagged and not counted', () => {
      const once = decide(resting('delivered'), opened(), NOW).state;
      assert.equal(once.opens, 1);
      assert.equal(detailOf(decide(once, opened(), NOW))['first'], false);
      const machine = decide(resting('delivered'), opened('apple_mpp'), NOW);
      assert.deepEqual([machine.state.opens, machine.events[0]?.machine], [0, true]);
      assert.deepEqual(
        [detailOf(machine)['first'], detailOf(machine)['is_bot'], detailOf(machine)['bot']],
        [false, true, 'apple_mpp'],
      );
    });

    for (const [bot, state, at, why] of [
      [null, resting('delivered', { deliveredAt: NOW }), NOW + 2000, 'two seconds after the delivery'],
      ['prefetch', resting('delivered', { deliveredAt: NOW }), NOW + 1999, 'so soon after the delivery'],
      ['prefetch', resting('delivered', { deliveredAt: NOW }), NOW - 5, 'before our own note of the delivery'],
      ['prefetch', held('sent'), NOW, 'while the attempt still runs'],
      [null, resting('sent'), NOW, 'after an attempt whose end nobody knows'],
      [null, resting('bounced'), NOW, 'after a bounce that was none'],
      [
        null,
        resting('delivered', { deliveredAt: NOW, test: true }),
        NOW,
        'of simulated mail, which reaches no machine',
      ],
    ] as const) {
      it(`opened by ${bot ?? 'a person'}: ${why}`, () => {
        const decision = decide(state, { ...opened(), hit: { ...hit(), at } } as DeliveryChange, NOW);
        assert.equal(detailOf(decision)['bot'], bot);
        assert.equal(decision.state.opens, bot === null ? 1 : 0);
      });
    }

    it('clicked at once is no machine by that alone', () => {
      assert.equal(detailOf(decide(resting('delivered', { deliveredAt: NOW }), clicked, NOW))['bot'], null);
    });

    it('unsubscribed, which suppresses for its stream, but nothing that is simulated', () => {
      const wish: DeliveryChange = { kind: 'unsubscribed', method: 'mailto' };
      const decision = decide(resting('delivered', { stream: 'news' }), wish, NOW);
      assert.deepEqual([detailOf(decision), decision.suppress], [{ stream: 'news', method: 'mailto' }, 'unsubscribe']);
      assert.equal(decide(resting('delivered', { test: true }), wish, NOW).suppress, null);
    });

    it('unsubscribed a second time, which has no second event', () => {
      const wish: DeliveryChange = { kind: 'unsubscribed', method: 'page' };
      const first = decide(resting('delivered'), wish, NOW);
      const second = decide(first.state, wish, NOW);
      assert.deepEqual([typesOf(first), typesOf(second), second.suppress], [['unsubscribed'], [], 'unsubscribe']);
    });

    it('of an erased recipient, which suppresses no address but that in a link', () => {
      const erased = resting('delivered', { erased: true });
      const gone: DeliveryChange = {
        kind: 'bounced',
        verdict: { class: 'hard', reason: 'mailbox_not_found' },
        smtpCode: 550,
        enhancedCode: '5.1.1',
        smtpReply: null,
      };
      for (const change of [gone, complained]) {
        const decision = decide(erased, change, NOW);
        assert.deepEqual([decision.suppress, detailOf(decision)['suppression_added']], [null, false], change.kind);
      }
      const wish = { kind: 'unsubscribed', method: 'mailto' } as const;
      assert.equal(decide(erased, wish, NOW).suppress, null);
      assert.equal(decide(erased, { ...wish, email: 'ana@dest.test' }, NOW).suppress, 'unsubscribe');
    });

    it('cut at their limits, and never in the middle of a character', () => {
      const long = '💌'.repeat(3000);
      const replies = decide(held('sent'), outcome({ ...accepted(), facts: factsOf({ smtpReply: `x${long}` }) }), NOW);
      const links = decide(
        resting('sent'),
        { ...clicked, url: `x${long}`, hit: { ...hit(), userAgent: `x${long}` } },
        NOW,
      );
      for (const [text, most] of [
        [detailOf(replies)['smtp_reply'], 1000],
        [detailOf(links)['url'], 2048],
        [detailOf(links)['user_agent'], 512],
      ] as const) {
        assert.ok(typeof text === 'string' && text.length <= most && text.length >= most - 1 && text.isWellFormed());
      }
    });
  });

  describe('suppression', () => {
    const hard = (reason: Verdict['reason']): Verdict => ({ class: 'hard', reason });
    for (const [reason, verdict, expected] of [
      ['an unknown mailbox', hard('mailbox_not_found'), 'hard_bounce'],
      ['a disabled mailbox', hard('mailbox_disabled'), 'hard_bounce'],
      ['a domain that does not exist', hard('domain_not_found'), 'hard_bounce'],
      ['a domain that takes no mail', hard('null_mx'), 'hard_bounce'],
      ['a full mailbox', { class: 'soft', reason: 'mailbox_full' }, null],
      ['a mailbox that is unknown for now', { class: 'soft', reason: 'mailbox_not_found' }, null],
      ['a block', { class: 'block', reason: 'reputation' }, null],
      ['a policy, even if called hard', hard('policy'), null],
      ['spam, even if called hard', hard('spam'), null],
      ['a loop', { class: 'undetermined', reason: 'routing_loop' }, null],
    ] as const) {
      it(`${expected === null ? 'not ' : ''}for ${reason}`, () => {
        const decision = decide(held('sent'), outcome(refused(verdict)), NOW);
        assert.equal(decision.suppress, expected);
        assert.equal(detailOf(decision)['suppression_added'], expected !== null);
        assert.equal(decide(resting('delivered'), bounced(verdict), NOW).suppress, expected, 'and so for bounce mails');
      });
    }

    it('for a complaint', () => {
      assert.equal(decide(resting('bounced'), complained, NOW).suppress, 'complaint');
    });

    it('never by test mail', () => {
      const refusal = decide(held('sent', { test: true }), outcome(refused()), NOW);
      const complaint = decide(resting('delivered', { test: true }), complained, NOW);
      for (const decision of [refusal, complaint]) {
        assert.equal(decision.suppress, null);
        assert.equal(detailOf(decision)['suppression_added'], false);
      }
    });
  });

  describe('retries', () => {
    it('are looked at no later than when the time runs out', () => {
      const before = held('deferred', { giveUpAt: NOW + MINUTE });
      const decision = decide(before, outcome(deferred(NOW + HOUR)), NOW);
      assert.equal(decision.state.dueAt, NOW + MINUTE);
      assert.equal(decision.attempt?.nextAttemptAt, null, 'nothing is tried then');
    });

    it('spend no attempt where nothing was tried', () => {
      const decision = decide(
        held('deferred', { attemptCount: 4 }),
        { kind: 'released', epoch: EPOCH, attempt: 4, dueAt: RETRY },
        NOW,
      );
      assert.deepEqual(
        [decision.state.attemptCount, decision.state.dueAt, decision.state.claimEpoch],
        [3, RETRY, null],
      );
      assert.equal(decision.attempt, null);
    });

    it('of an orphan keep its attempt number and say that nobody knows', () => {
      const decision = decide(held('sent'), { kind: 'orphaned', epoch: EPOCH, retryAt: RETRY }, NOW);
      assert.deepEqual([decision.state.attemptCount, decision.attempt?.outcome], [1, 'uncertain']);
      assert.equal(decide(held('sent'), { kind: 'orphaned', epoch: EPOCH - 1, retryAt: RETRY }, NOW).applied, false);
    });

    it('a flush makes it due now, unless it is on its way', () => {
      assert.equal(decide(resting('deferred', { dueAt: NOW + HOUR }), { kind: 'flushed' }, NOW).state.dueAt, NOW);
      assert.equal(decide(held('deferred'), { kind: 'flushed' }, NOW).applied, false);
    });
  });

  describe('a full mailbox', () => {
    const full = deferred(RETRY, { verdict: softReport });

    it('is tried again after the first time, however long the mail was held before', () => {
      const waited = held('sent', { queuedAt: NOW - 48 * HOUR });
      const { state, steps } = decide(waited, outcome(full), NOW);
      assert.deepEqual([steps, state.fullSince], [[['sent', 'deferred']], NOW]);
    });

    it('bounces once it was found full for a day', () => {
      const found = (fullSince: number): string =>
        decide(held('deferred', { queuedAt: NOW - 48 * HOUR, fullSince }), outcome(full), NOW).state.status;
      assert.deepEqual([found(NOW - 24 * HOUR + 1), found(NOW - 24 * HOUR)], ['deferred', 'bounced']);
    });
  });

  describe('scheduled mail under a hold', () => {
    const hold: DeliveryChange = { kind: 'held', by: 'hld_1', since: NOW - HOUR, until: null };

    it('is queued once its send_at has come', () => {
      const due = decide(resting('scheduled', { queuedAt: NOW, dueAt: NOW }), hold, NOW);
      assert.deepEqual([due.steps, due.state.status, due.state.heldBy], [[['scheduled', 'queued']], 'queued', 'hld_1']);
    });

    it('and stays scheduled before', () => {
      const later = decide(resting('scheduled', { queuedAt: NOW + HOUR, dueAt: NOW + HOUR }), hold, NOW);
      assert.deepEqual([later.steps, later.state.status], [[], 'scheduled']);
    });
  });

  it('names no next attempt where the time of the mail is over before', () => {
    const decision = decide(held('sent', { giveUpAt: RETRY }), outcome(deferred(RETRY + MINUTE)), NOW);
    assert.deepEqual([decision.state.dueAt, decision.attempt?.nextAttemptAt], [RETRY, null]);
    assert.equal(detailOf(decision)['next_attempt_at'], null);
  });

  describe('a domain that does not exist', () => {
    const noDomain = (attempt: number): DeliveryChange => outcome(deferred(RETRY, { noDomain: true }), attempt);
    const after = (minutes: readonly number[]): DeliveryState => {
      let state = held('sent');
      for (const [index, at] of minutes.entries()) {
        state = decide(state, noDomain(index + 1), NOW + at * MINUTE).state;
        if (state.status === 'deferred') state = { ...state, claimEpoch: EPOCH, attemptCount: index + 2 };
      }
      return state;
    };

    it('is deferred until three answers over 20 minutes agree, then bounces as hard and is suppressed', () => {
      assert.equal(after([0]).status, 'deferred');
      assert.equal(after([0, 30]).status, 'deferred');
      assert.equal(after([0, 1, 6]).status, 'deferred');
      assert.equal(after([0, 1, 21]).status, 'bounced');
      const last = decide(after([0, 1]), noDomain(3), NOW + 21 * MINUTE);
      assert.equal(last.suppress, 'hard_bounce');
      const { class: kind, reason, enhanced_code } = detailOf(last);
      assert.deepEqual([kind, reason, enhanced_code], ['hard', 'domain_not_found', '5.1.2']);
      assert.deepEqual([last.attempt?.outcome, last.attempt?.facts.enhancedCode], ['refused', '5.1.2']);
    });

    for (const other of [deferred(RETRY), uncertain(RETRY)]) {
      it(`begins anew after an outcome that was ${other.kind}`, () => {
        const { state } = decide(after([0, 1]), outcome(other, 3), NOW + 10 * MINUTE);
        assert.deepEqual([state.noDomainCount, state.noDomainSince], [0, null]);
      });
    }
  });

  describe('whatever happens in whatever order', () => {
    const anyVerdict = fc.constantFrom<Verdict>({ class: 'hard', reason: 'mailbox_not_found' }, softReport, {
      class: 'block',
      reason: 'spam',
    });
    const anyOutcome: fc.Arbitrary<Outcome> = fc.oneof(
      fc.constant(accepted()),
      anyVerdict.map((verdict) => refused(verdict)),
      fc.constant(deferred(RETRY)),
      fc.constant(deferred(RETRY, { noDomain: true })),
      fc.constant(uncertain(RETRY)),
      fc.constant(failed()),
    );
    const near = fc.integer({ min: EPOCH - 1, max: EPOCH + 1 });
    const attempt = fc.integer({ min: 0, max: 4 });
    const anyChange: fc.Arbitrary<DeliveryChange> = fc.oneof(
      {
        weight: 4,
        arbitrary: near.map((epoch): DeliveryChange => ({
          kind: 'claimed',
          epoch,
          leaseUntil: NOW + HOUR,
        })),
      },
      fc.constant<DeliveryChange>({ ...claimed, suppressedBy: { id: 'sup_1', reason: 'manual' } }),
      {
        weight: 6,
        arbitrary: fc
          .tuple(near, attempt, anyOutcome)
          .map(([epoch, number, of]): DeliveryChange => ({ kind: 'outcome', epoch, attempt: number, outcome: of })),
      },
      fc
        .tuple(near, attempt)
        .map(([epoch, number]): DeliveryChange => ({ kind: 'released', epoch, attempt: number, dueAt: RETRY })),
      near.map((epoch): DeliveryChange => ({ kind: 'orphaned', epoch, retryAt: RETRY })),
      fc.constantFrom<DeliveryChange>(
        { kind: 'aged' },
        { kind: 'came_due' },
        { kind: 'canceled' },
        { kind: 'flushed' },
        complained,
        opened(),
        opened('scanner'),
        clicked,
        { kind: 'unsubscribed', method: 'one_click' },
      ),
      anyVerdict.map((verdict) => bounced(verdict)),
    );
    const allowed = new Set([
      'scheduled queued',
      'queued sent',
      'sent delivered',
      'deferred delivered',
      'sent deferred',
      'queued bounced',
      'sent bounced',
      'deferred bounced',
      'scheduled canceled',
      'queued canceled',
      'sent canceled',
      'deferred canceled',
      'scheduled suppressed',
      'queued suppressed',
      'sent suppressed',
      'deferred suppressed',
      'queued failed',
      'sent failed',
      'deferred failed',
      'delivered bounced',
      'sent complained',
      'deferred complained',
      'delivered complained',
      'bounced complained',
    ]);

    it('the books equal the state, only arrows of the table are gone, and what waits is due', () => {
      const begin = fc.constantFrom<DeliveryState>(
        resting('queued'),
        resting('scheduled', { attemptCount: 0 }),
        resting('queued', { test: true }),
      );
      const step = fc.tuple(anyChange, fc.constantFrom(0, MINUTE, 25 * MINUTE, 2 * HOUR, 40 * HOUR));
      fc.assert(
        fc.property(begin, fc.array(step, { maxLength: 40 }), (start, changes) => {
          let state = start;
          let now = NOW;
          const books = new Map<string, number>([[start.status, 1]]);
          for (const [change, wait] of changes) {
            now += wait;
            const decision = decide(state, change, now);
            for (const [from, to] of decision.steps) {
              assert.ok(allowed.has(`${from} ${to}`), `${from} -> ${to} by ${change.kind}`);
              books.set(from, (books.get(from) ?? 0) - 1);
              books.set(to, (books.get(to) ?? 0) + 1);
            }
            if (!decision.applied) assert.deepEqual(decision.state, state);
            if (decision.suppress !== null) assert.equal(state.test, false);
            assert.equal(decision.steps.length === 0, decision.state.status === state.status);
            state = decision.state;
            assert.equal(state.dueAt !== null, isWaiting(state.status));
            assert.ok(state.attemptCount >= 0);
            assert.ok(state.claimEpoch === null || isWaiting(state.status));
            assert.deepEqual(
              [...books].filter(([, n]) => n !== 0),
              [[state.status, 1]],
            );
          }
        }),
        { numRuns: 2000 },
      );
    });
  });
});
