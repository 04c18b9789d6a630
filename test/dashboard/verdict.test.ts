/** The sentence under the subject of a message: what happened, and what to do. */
import assert from 'node:assert/strict';
import { bounceReasons } from '../../src/config/bounce-rule.ts';
import { reasonChoices, reasonText, verdictOf, type VerdictFacts } from '../../src/dashboard/verdict.ts';

const at = (second: number): string => new Date(Date.UTC(2026, 0, 31, 10, 0, second)).toISOString();
const lena = 'lena@gone.test';

type Message = VerdictFacts['message'];
const facts = (
  status: Message['status'],
  more: Partial<Message> = {},
  rest: Partial<Omit<VerdictFacts, 'message'>> = {},
): VerdictFacts => ({
  message: {
    status,
    status_at: at(2),
    created_at: at(0),
    send_at: null,
    test: false,
    engagement: {
      opens: 0,
      clicks: 0,
      bot_opens: 0,
      bot_clicks: 0,
      first_opened_at: null,
      last_opened_at: null,
      first_clicked_at: null,
    },
    recipients: [{ email: lena, status, status_at: at(2) }],
    attempts: [],
    events: [],
    ...more,
  },
  waits: [],
  blocking: [],
  ...rest,
});
const attempt = (outcome: 'accepted' | 'refused' | 'deferred', reason: string | null) => ({
  recipient: lena,
  outcome,
  reason,
  mx: 'mx.gone.test',
  smtp_reply: null,
});
const refused = (reason: string) => ({ attempts: [attempt('refused', reason)] });
const blocking = (reason: 'hard_bounce' | 'complaint') => ({ blocking: [{ email: lena, reason }] });
const waits = (reason: VerdictFacts['waits'][number]['reason'], summary: string, until: string | null) => ({
  waits: [{ email: lena, reason, summary, until }],
});
const opened = { ...facts('delivered').message.engagement, opens: 1 };

describe('dashboard: the verdict on a message', () => {
  for (const [name, given, tone, text, next] of [
    [
      'delivered',
      facts('delivered', { attempts: [attempt('accepted', null)] }),
      'good',
      'Delivered: mx.gone.test took it after 2 s.',
      null,
    ],
    [
      'delivered and opened',
      facts('delivered', { engagement: opened }),
      'good',
      'Delivered: gone.test took it after 2 s. It was opened.',
      null,
    ],
    ['simulated', facts('delivered', { test: true }), 'good', 'Delivered: the simulator took it after 2 s.', null],
    [
      'bounced and suppressed',
      facts('bounced', refused('mailbox_not_found'), blocking('hard_bounce')),
      'red',
      'Not delivered: the mailbox does not exist at gone.test. lena@gone.test gets no more mail until you lift that.',
      null,
    ],
    [
      'bounced, and not suppressed',
      facts('bounced', refused('mailbox_full')),
      'red',
      'Not delivered: the mailbox is full at gone.test. Send it again later, or ask for another address.',
      null,
    ],
    [
      'bounced later, by mail',
      facts('bounced', {
        attempts: [attempt('accepted', null)],
        events: [{ type: 'bounced', data: { recipient: lena, bounced: { reason: 'spam' } } }],
      }),
      'red',
      'Not delivered: gone.test takes it for spam. Change the content before you send it again.',
      null,
    ],
    [
      'refused for a reason of a later release',
      facts('bounced', refused('moonlight')),
      'red',
      'Not delivered: gone.test refused it. The answer below says why.',
      null,
    ],
    [
      'complained',
      facts('complained', {}, blocking('complaint')),
      'red',
      'Delivered, and reported as spam by its recipient. lena@gone.test gets no more mail until you lift that.',
      null,
    ],
    [
      'suppressed',
      facts('suppressed', {}, blocking('hard_bounce')),
      'amber',
      'Not sent: lena@gone.test is on the suppression list, as an earlier mail to it bounced. Lift that, and send it again.',
      null,
    ],
    [
      'suppressed, and lifted since',
      facts('suppressed'),
      'amber',
      'Not sent: it was on the suppression list. It is not there any more: you can send it again.',
      null,
    ],
    [
      'given up',
      facts('failed', refused('expired')),
      'red',
      'Given up: gone.test did not take it in time. Send it again later, or ask for another address.',
      null,
    ],
    ['canceled', facts('canceled'), 'blue', 'Canceled before it was sent.', null],
    [
      'scheduled',
      facts('scheduled', { send_at: at(50) }),
      'blue',
      'Waiting for its time.',
      { text: 'It is sent', at: at(50) },
    ],
    [
      'deferred',
      facts(
        'deferred',
        { attempts: [attempt('deferred', 'rate_limited')] },
        waits('waiting_for_retry', 'It waits for attempt 2.', at(40)),
      ),
      'amber',
      'Not delivered yet: gone.test takes mail from us only slowly.',
      { text: 'The next try is', at: at(40) },
    ],
    [
      'held',
      facts('queued', {}, waits('held', 'It is held: there is a hold on the domain gone.test.', null)),
      'amber',
      'Held: there is a hold on the domain gone.test.',
      null,
    ],
    [
      'due',
      facts('queued', {}, waits('queued', 'It is due and waits for its turn.', null)),
      'blue',
      'Waiting: it is due and waits for its turn.',
      null,
    ],
    [
      'being sent',
      facts('sent', {}, waits('being_sent', 'It is being sent now.', null)),
      'blue',
      'It is being sent now.',
      null,
    ],
  ] as const)
    it(`says of mail that is ${name}`, () => {
      assert.deepEqual(verdictOf(given), { tone, text, next });
    });

  it('counts several recipients, and says what became of the first that is lost', () => {
    const recipients = (['delivered', 'delivered', 'deferred', 'bounced'] as const).map((status, n) => ({
      email: n === 3 ? lena : `${String(n)}@fine.test`,
      status,
      status_at: at(2),
    }));
    assert.deepEqual(verdictOf(facts('delivered', { recipients, ...refused('mailbox_not_found') })), {
      tone: 'red',
      text: '2 of 4 recipients have it, 1 waits, 1 does not get it. lena@gone.test: not delivered: the mailbox does not exist at gone.test.',
      next: null,
    });
    assert.equal(
      verdictOf(facts('delivered', { recipients: recipients.slice(0, 2) })).text,
      '2 of 2 recipients have it.',
    );
  });

  it('has words for every reason, and two sentences at most', () => {
    assert.deepEqual(reasonChoices.map(([reason]) => reason).sort(), [...bounceReasons].sort());
    for (const reason of bounceReasons) {
      assert.ok(reasonText(reason).length <= 25, reason);
      const { text } = verdictOf(facts('bounced', refused(reason)));
      assert.ok(text.split(/[.!?](?:\s|$)/).filter((one) => one !== '').length <= 2, text);
    }
    assert.equal(reasonText(null), '');
    assert.equal(reasonText('hard_bounce'), 'hard bounce');
  });
});
