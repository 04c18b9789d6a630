import assert from 'node:assert/strict';
import { HELD_WITHOUT_END } from '../../../src/messages/delivery/delivery.ts';
import type { Hold } from '../../../src/messages/delivery/holds.ts';
import { nextTries, reasonOf, whyWaiting, type LaneWait, type Reason } from '../../../src/messages/delivery/why.ts';
import type { DeliveryRow } from '../../../src/storage/tables.ts';
import { ACCOUNT, HOUR, NOW, deliveryRow } from '../../support/harness/mail-rows.ts';

const MINUTE = 60_000;
const rfc = (at: number): string => new Date(at).toISOString();
const wait = (changes: Partial<LaneWait> = {}): LaneWait => ({
  reason: 'receiver_overloaded',
  message: 'It cannot take mail now.',
  since: NOW - MINUTE,
  until: NOW + MINUTE,
  by: 'receiver',
  stops: true,
  ...changes,
});
const hold: Hold = { by: 'hold_1', since: NOW - HOUR, until: null, why: 'there is a hold on the domain dest.test' };

function why(row: Partial<DeliveryRow>, waits: LaneWait[] = [], held: Hold | null = null): Reason {
  return reasonOf(deliveryRow(row), { held, now: NOW, waits });
}

describe('messages/why', () => {
  it('of a mail that is finished, under way or scheduled says so, whatever its lane waits for', () => {
    for (const [row, reason] of [
      [{ due_at: null, status: 'delivered' }, 'finished'],
      [{ claim_epoch: 3, status: 'sent', due_at: NOW + HOUR }, 'being_sent'],
      [{ status: 'scheduled', due_at: NOW + HOUR }, 'scheduled'],
    ] as const)
      assert.equal(why(row, [wait()], hold).reason, reason);
    const scheduled = why({ status: 'scheduled', due_at: NOW + HOUR });
    assert.deepEqual([scheduled.until, scheduled.set_by], [rfc(NOW + HOUR), 'sender']);
  });

  it('a hold goes before all that the lane waits for, and says who set it', () => {
    const told = why({ due_at: NOW }, [wait()], hold);
    assert.deepEqual(told, {
      reason: 'held',
      message: 'It is held: there is a hold on the domain dest.test.',
      summary: 'It is held: there is a hold on the domain dest.test.',
      since: rfc(hold.since),
      until: null,
      set_by: 'operator',
    });
    assert.equal(why({ due_at: NOW }, [], { ...hold, setBy: 'receiver' }).set_by, 'receiver');
  });

  it('a mark whose hold has ended is told as that', () => {
    assert.match(why({ held_by: 'hold_1', due_at: HELD_WITHOUT_END }).message, /has ended/);
  });

  it('of a mail that is due gives what its lane waits for, with since, until and by whom', () => {
    const told = why({ due_at: NOW - 1 }, [wait(), wait({ reason: 'destination_parked' })]);
    assert.deepEqual(told, {
      reason: 'receiver_overloaded',
      message: 'It cannot take mail now.',
      summary: 'It cannot take mail now.',
      since: rfc(NOW - MINUTE),
      until: rfc(NOW + MINUTE),
      set_by: 'receiver',
    });
  });

  it('a mail that waits for its retry says so, and what else there is, unless that lasts longer', () => {
    const row = {
      due_at: NOW + HOUR,
      status: 'deferred',
      attempt_count: 2,
      smtp_code: 450,
      smtp_reply: '4.2.0 later',
    } as const;
    const told = why(row, [wait({ until: NOW + MINUTE })]);
    assert.deepEqual([told.reason, told.until], ['waiting_for_retry', rfc(NOW + HOUR)]);
    assert.match(told.message, /attempt 3\. The last answer was: 450 4\.2\.0 later\. Also: It cannot take mail now\./);
    assert.equal(told.summary, 'It waits for attempt 3. Also: It cannot take mail now.', 'without the last answer');
    assert.equal(why(row, [wait({ until: NOW + 2 * HOUR })]).reason, 'receiver_overloaded');
    assert.equal(why(row, [wait({ until: null })]).reason, 'receiver_overloaded');
    assert.equal(why(row, [wait({ until: NOW + 2 * HOUR, stops: false })]).reason, 'waiting_for_retry');
  });

  it('a mail that waits for its retry names the pace that its own answer has set', () => {
    const row = {
      due_at: NOW + HOUR,
      status: 'deferred',
      attempt_count: 1,
      smtp_code: 421,
      smtp_reply: '4.7.28 slow',
    } as const;
    const pace = wait({
      reason: 'rate_limited',
      message: 'Google takes about 1 mail a minute.',
      until: null,
      stops: false,
    });
    assert.equal(why(row, [pace]).summary, 'It waits for attempt 2. Also: Google takes about 1 mail a minute.');
  });

  it('a retry after no answer at all is set by this server', () => {
    const row = { due_at: NOW + HOUR, status: 'deferred', attempt_count: 1 } as const;
    assert.equal(why({ ...row, smtp_code: null, smtp_reply: 'connection timed out' }).set_by, 'us');
    assert.equal(why({ ...row, smtp_code: 450, smtp_reply: '4.2.0 later' }).set_by, 'receiver');
  });

  it('gives the last answer beside the reason of the lane, with its code once', () => {
    const row = { due_at: NOW, smtp_code: 450, smtp_reply: '450 4.2.0 later' };
    assert.match(why(row, [wait()]).message, /cannot take mail now\. The last answer was: 450 4\.2\.0 later$/);
  });

  it('of a mail that nothing keeps says that its turn will come', () => {
    assert.deepEqual([why({ due_at: NOW }).reason, why({ due_at: NOW }).set_by], ['queued', 'us']);
  });

  it('tells the next try: when the mail is due, or when its lane goes on', async () => {
    const rest = wait({ until: NOW + MINUTE });
    const busy = wait({ reason: 'connections_in_use', until: null, stops: false });
    const rows: [row: Partial<DeliveryRow>, waits: LaneWait[], next: number | null][] = [
      [{ due_at: NOW - HOUR }, [], NOW - HOUR],
      [{ due_at: NOW - HOUR }, [busy], NOW - HOUR],
      [{ due_at: NOW - HOUR }, [rest, busy], NOW + MINUTE],
      [{ due_at: NOW + 2 * MINUTE }, [rest], NOW + 2 * MINUTE],
      [{ due_at: NOW - HOUR, give_up_at: NOW + 1000 }, [rest], null],
      [{ due_at: NOW - HOUR, claim_epoch: 3 }, [rest], null],
      [{ due_at: HELD_WITHOUT_END, held_by: 'hold_1' }, [rest], null],
      [{ due_at: null, status: 'delivered' }, [rest], null],
    ];
    const waitsOf = new Map(rows.map(([, waits], at) => [`d${String(at)}.test`, waits]));
    const told = await nextTries(
      (mails) => Promise.resolve(mails.map(({ domain }) => ({ held: null, waits: waitsOf.get(domain) ?? [] }))),
      rows.map(([row], at) => deliveryRow({ give_up_at: NOW + 72 * HOUR, ...row, domain: `d${String(at)}.test` })),
      NOW,
    );
    assert.deepEqual(
      told,
      rows.map(([, , next]) => (next === null ? null : rfc(next))),
    );
  });

  it('asks for each recipient of a message by its own domain, and for simulated mail no hold', async () => {
    const rows = [
      deliveryRow({ domain: 'a.test', address: 'x@a.test', due_at: NOW }),
      deliveryRow({ domain: 'b.test', address: 'x@b.test', due_at: NOW, test: 1 }),
    ];
    const asked: string[] = [];
    const told = await whyWaiting(
      {
        db: { prepared: { all: () => Promise.resolve(rows as never[]) } as never },
        holdOf: ({ domain }) => Promise.resolve(domain === 'a.test' ? null : hold),
        laneFacts: (mails) => {
          asked.push(...mails.map(({ domain, account }) => `${domain} ${account}`));
          return Promise.resolve(
            mails.map(({ domain }) => ({
              waits: [],
              held: domain === 'a.test' ? { ...hold, why: 'its lane is held' } : hold,
            })),
          );
        },
      },
      {
        ...{ id: 'msg_1', account_id: ACCOUNT, stream: 'transactional', from_domain: 'acme.test', created_at: NOW },
        ...{ batch_id: null, key_id: null },
      },
      NOW,
    );
    assert.deepEqual(asked, [`a.test ${ACCOUNT}`, `b.test ${ACCOUNT}`]);
    assert.deepEqual(
      told.map(({ email, reason, message }) => [email, reason, message]),
      [
        ['x@a.test', 'held', 'It is held: its lane is held.'],
        ['x@b.test', 'queued', 'It is due and waits for its turn.'],
      ],
    );
  });
});
