import assert from 'node:assert/strict';
import type { EventRecord } from '../../src/client/types.ts';
import { trace, type WholeMessage } from '../../src/operator/messages.ts';

const at = (second: number): string => new Date(Date.UTC(2026, 0, 31, 9, 30, second)).toISOString();

const message: WholeMessage = {
  object: 'message',
  request_id: null,
  id: 'msg_1',
  batch_id: null,
  status: 'deferred',
  status_at: at(9),
  reason: 'mailbox_full',
  from: 'a@sender.test',
  to: 'b@dest.test',
  cc: [],
  bcc: [],
  reply_to: [],
  subject: 'Say "hi"',
  stream: 'transactional',
  template_id: null,
  template_version: null,
  tags: [],
  metadata: {},
  send_at: null,
  expires_at: null,
  track_opens: false,
  track_clicks: false,
  test: false,
  rfc_message_id: '<1@sender.test>',
  last_event: null,
  engagement: {
    opens: 0,
    clicks: 0,
    first_opened_at: null,
    last_opened_at: null,
    first_clicked_at: null,
    bot_opens: 0,
    bot_clicks: 0,
  },
  created_at: at(0),
  recipients: [],
  attempts: [],
  events: [],
};

const attempt: WholeMessage['attempts'][number] = {
  object: 'attempt',
  id: 'att_1',
  recipient: 'b@dest.test',
  number: 1,
  started_at: at(1),
  ended_at: at(3),
  mx: 'mx.dest.test',
  ip: '192.0.2.25',
  source: null,
  tls: { protocol: 'TLSv1.3', cipher: 'x', verified: true, policy: 'opportunistic' },
  timings_ms: { dns: 0, connect: 12.4, banner: 0, tls: 0, mail: 0, rcpt: 0, data: 0, dot: 1900 },
  outcome: 'accepted',
  smtp_code: 250,
  enhanced_code: '2.0.0',
  smtp_reply: '2.0.0 ok',
  class: null,
  reason: null,
  next_attempt_at: null,
};

describe('operator/trace', () => {
  const texts = (changes: Partial<WholeMessage>): string[] => trace({ ...message, ...changes }).map(({ text }) => text);

  for (const [changes, expected, reason] of [
    [{}, 'from a@sender.test to b@dest.test: "Say \\"hi\\"" (stream transactional)', 'the plain case'],
    [
      { cc: ['c@d.test'], bcc: ['e@f.test'] },
      'from a@sender.test to b@dest.test and 2 more: "Say \\"hi\\"" (stream transactional)',
      'others',
    ],
    [
      { test: true, send_at: at(5) },
      `from a@sender.test to b@dest.test: "Say \\"hi\\"" (stream transactional, simulated, to be sent at ${at(5)})`,
      'what is special',
    ],
  ] as const) {
    it(`tells the acceptance: ${reason}`, () => {
      assert.deepEqual(
        texts({
          ...changes,
          cc: [...((changes as Partial<WholeMessage>).cc ?? [])],
          bcc: [...((changes as Partial<WholeMessage>).bcc ?? [])],
        }),
        [expected],
      );
    });
  }

  for (const [changes, expected, reason] of [
    [
      {},
      'attempt 1 accepted by mx.dest.test [192.0.2.25], TLSv1.3 verified: 250 2.0.0 ok [2000 ms, connect 12, dot 1900]',
      'accepted',
    ],
    [
      { smtp_reply: '250 ok' },
      'attempt 1 accepted by mx.dest.test [192.0.2.25], TLSv1.3 verified: 250 ok [2000 ms, connect 12, dot 1900]',
      'the code only once',
    ],
    [
      {
        outcome: 'refused',
        class: 'hard',
        reason: 'mailbox_not_found',
        smtp_code: 550,
        smtp_reply: '5.1.1 no such user',
        tls: null,
      },
      'attempt 1 refused (hard, mailbox_not_found) by mx.dest.test [192.0.2.25], no TLS: 550 5.1.1 no such user [2000 ms, connect 12, dot 1900]',
      'refused',
    ],
    [
      {
        outcome: 'deferred',
        class: 'soft',
        reason: 'network',
        mx: null,
        ip: null,
        tls: null,
        smtp_code: null,
        smtp_reply: 'no answer',
        next_attempt_at: at(9),
      },
      `attempt 1 deferred (soft, network) by no connection: no answer [2000 ms, connect 12, dot 1900], next try ${at(9)}`,
      'nobody was reached',
    ],
    [
      { smtp_code: null, smtp_reply: null },
      'attempt 1 accepted by mx.dest.test [192.0.2.25], TLSv1.3 verified [2000 ms, connect 12, dot 1900]',
      'nothing was said',
    ],
  ] as const) {
    it(`tells an attempt: ${reason}`, () => {
      assert.equal(texts({ attempts: [{ ...attempt, ...changes }] })[1], expected);
    });
  }

  it('puts everything in the order of time, and what is to come at the end', () => {
    const event = {
      object: 'event',
      id: 'evt_1',
      type: 'sent',
      timestamp: at(1),
      sequence: 7,
      test: false,
      data: { message_id: 'msg_1', recipient: 'b@dest.test', status: 'sent' },
    } as const;
    const recipient = {
      email: 'b@dest.test',
      type: 'to',
      status: 'deferred',
      status_at: at(3),
      attempt_count: 1,
      next_attempt_at: at(2),
      smtp: null,
    } as const;
    const done = { ...recipient, email: 'c@dest.test', next_attempt_at: null };
    const lines = trace({
      ...message,
      attempts: [attempt],
      events: [event as EventRecord],
      recipients: [recipient, done],
    });
    assert.deepEqual(
      lines.map(({ what, at: time, recipient: who }) => [what, time, who]),
      [
        ['accepted', at(0), null],
        ['event', at(1), 'b@dest.test'],
        ['attempt', at(3), 'b@dest.test'],
        ['next', at(2), 'b@dest.test'],
      ],
    );
    assert.deepEqual([lines[1]?.text, lines[3]?.text], ['sent (event 7), status sent', 'deferred, to be tried again']);
  });
});
