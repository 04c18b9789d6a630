import assert from 'node:assert/strict';
import type {
  Attempt,
  EventRecord,
  MessageDetails,
  Report,
  Suppression,
  WebhookDelivery,
} from '../../src/client/types.ts';
import { timelineOf, type History, type Moment } from '../../src/dashboard/timeline.ts';

const at = (minute: number): string => `2026-01-31T10:${String(minute).padStart(2, '0')}:00.000Z`;
const ana = 'ana@dest.test';

const message = {
  id: 'msg_1',
  subject: 's',
  created_at: at(0),
  status: 'bounced',
  test: false,
  request_id: 'req_1',
  metadata: {},
  recipients: [{ email: ana, status: 'bounced', next_attempt_at: null }],
  attempts: [],
  events: [],
} as unknown as MessageDetails;

const attempt = (number: number, outcome: Attempt['outcome'], reply: string): Attempt => ({
  object: 'attempt',
  id: `att_${String(number)}`,
  recipient: ana,
  number,
  started_at: at(number),
  ended_at: at(number),
  mx: 'mx.dest.test',
  ip: '192.0.2.1',
  source: null,
  tls: { protocol: 'TLSv1.3', cipher: 'X', verified: true, policy: 'opportunistic' },
  timings_ms: { dns: 0, connect: 3, banner: 2, tls: 4, mail: 1, rcpt: 1, data: 0, dot: 0 },
  outcome,
  smtp_code: Number(reply.slice(0, 3)),
  enhanced_code: null,
  smtp_reply: reply,
  class: outcome === 'accepted' ? null : 'transient',
  reason: outcome === 'accepted' ? null : 'rate_limited',
  next_attempt_at: null,
});

const event = (type: string, minute: number, detail: object): EventRecord =>
  ({
    id: `evt_${type}`,
    type,
    timestamp: at(minute),
    data: { recipient: ana, [type]: detail },
  }) as unknown as EventRecord;

const report: Report = {
  object: 'report',
  size: 1,
  id: 'rep_1',
  kind: 'auto_reply',
  received_at: at(1),
  recipient: ana,
  sender: ana,
  verified: true,
};

const call = (type: string, n: number, code: number | null): WebhookDelivery =>
  ({
    id: `whd_${String(n)}`,
    webhook_id: 'whk_1',
    event_id: `evt_${type}`,
    event_type: type,
    status: code === 200 ? 'delivered' : 'failed',
    status_code: code,
    error: code === null ? 'timed out' : null,
    attempt: n,
    ms: 5,
    next_attempt_at: null,
  }) as unknown as WebhookDelivery;

const entry = (minute: number): Suppression => ({
  object: 'suppression',
  id: 'sup_1',
  email: ana,
  reason: 'complaint',
  scope: 'account',
  source_message_id: 'msg_1',
  note: 'asked by phone',
  created_at: at(minute),
  created_by: 'bounce',
  expires_at: null,
});

const told = (given: Partial<Omit<History, 'message'>> & { message?: Partial<MessageDetails> }): Moment[] =>
  timelineOf({
    reports: [],
    suppressions: [],
    calls: [],
    endpoints: new Map([['whk_1', 'https://hooks.test/']]),
    request: null,
    waits: [],
    here: '/messages/msg_1',
    now: Date.parse(at(30)),
    ...given,
    message: { ...message, ...given.message },
  });
const whats = (moments: readonly Moment[]): string[] => moments.map(({ what }) => what);

describe('dashboard/timeline', () => {
  it('says by whom and how it came, with the link to its request', () => {
    for (const [actor, method, title] of [
      ['key:shop', 'POST', 'by the key shop over the API'],
      ['key:shop', 'SMTP', 'by the key shop over SMTP'],
      ['member:bo@acme.test', 'POST', 'by bo@acme.test in the dashboard'],
      ['operator', 'CLI', 'by operator on the command line'],
    ] as const) {
      const [first] = told({
        request: { id: 'aud_1', request_id: 'req_1', actor, method, ip: '192.0.2.9' } as History['request'],
      });
      assert.equal(first?.title, title);
      assert.deepEqual(first.facts, ['from 192.0.2.9']);
      assert.deepEqual(first.links, [{ href: '/developer/log/aud_1', text: 'req_1' }]);
    }
    assert.equal(told({})[0]?.title, 'by Posthorn');
  });

  it('says a reply once: events that repeat an attempt are joined with it', () => {
    const moments = told({
      message: {
        attempts: [attempt(1, 'deferred', '421 4.7.28 slow'), attempt(2, 'refused', '550 no')],
        events: [
          event('sent', 1, { attempt: 1 }),
          event('deferred', 1, { attempt: 1, smtp_reply: '421 4.7.28 slow' }),
          event('bounced', 2, { async: false, smtp_reply: '550 no', reason: 'mailbox_not_found' }),
        ],
      },
    });
    assert.deepEqual(whats(moments), ['accepted', 'deferred', 'bounced']);
    assert.deepEqual(
      moments.map(({ reply }) => reply),
      [undefined, '421 4.7.28 slow', '550 no'],
    );
    assert.equal(
      moments
        .flatMap(({ facts }) => facts)
        .join()
        .includes('421'),
      false,
    );
  });

  it('keeps the steps of the dialogue that took place', () => {
    const [, moment] = told({ message: { attempts: [attempt(1, 'accepted', '250 ok')] } });
    assert.deepEqual(
      moment?.dialogue?.steps.map(({ name, ms }) => [name, ms]),
      [
        ['connect', 3],
        ['banner', 2],
        ['tls', 4],
        ['mail', 1],
        ['rcpt', 1],
      ],
    );
    assert.deepEqual([moment.what, moment.title], ['delivered', 'at mx.dest.test']);
  });

  it('has a mail that came back in its place, and joins it with the event that it caused', () => {
    const answered = told({ reports: [report] });
    assert.deepEqual(
      answered.map(({ what, report: href }) => [what, href]),
      [
        ['accepted', undefined],
        ['auto reply', '/messages/msg_1/reports/rep_1'],
      ],
    );
    const bounced = told({
      message: { events: [event('bounced', 2, { async: true, reason: 'mailbox_full', smtp_reply: '552 full' })] },
      reports: [{ ...report, kind: 'bounce', sender: '' }],
    });
    assert.deepEqual(whats(bounced), ['accepted', 'bounced']);
    assert.deepEqual(
      [bounced[1]?.title, bounced[1]?.reply, bounced[1]?.facts, bounced[1]?.report],
      [
        'later, by mail',
        '552 full',
        ['mailbox full', 'by a mail from the null sender'],
        '/messages/msg_1/reports/rep_1',
      ],
    );
  });

  it('says of a report without proof that it changed nothing, and that it can be confirmed', () => {
    const [, moment] = told({ reports: [{ ...report, kind: 'bounce', verified: false }] });
    assert.equal(moment?.isUnverified, true);
    assert.match(moment.facts.join(), /unverified/);
  });

  it('names the null sender of a bounce, and says that a mail is not read yet', () => {
    const [, moment] = told({ reports: [{ ...report, kind: null, sender: '' }] });
    assert.deepEqual([moment?.what, moment?.facts], ['not read yet', ['from the null sender']]);
  });

  it('shows the last call to each endpoint with the attempt or event that it was about', () => {
    const moments = told({
      message: {
        attempts: [attempt(1, 'accepted', '250 ok')],
        events: [event('delivered', 1, { attempt: 1 }), event('opened', 3, {})],
      },
      calls: [call('delivered', 1, 500), call('delivered', 2, 200), call('opened', 1, null)],
    });
    assert.deepEqual(
      moments.map(({ calls }) => calls.map(({ status_code: code, attempt: n, endpoint }) => [code, n, endpoint])),
      [[], [[200, 2, 'https://hooks.test/']], [[null, 1, 'https://hooks.test/']]],
    );
    assert.equal(moments[1]?.calls[0]?.href, '/webhooks/whk_1?event_id=evt_delivered#deliveries');
  });

  it('folds what machines did into one moment', () => {
    const moments = told({
      message: {
        events: [
          event('opened', 3, { is_bot: true, bot: 'proxy' }),
          event('clicked', 4, { is_bot: true, url: 'https://x.test/' }),
        ],
      },
      calls: [call('opened', 1, 200)],
    });
    assert.deepEqual(whats(moments), ['accepted', '']);
    assert.equal(moments[1]?.title, '2 opens and clicks by machines, not counted');
    assert.deepEqual(moments[1].folded, [
      { at: at(3), what: 'opened', facts: 'proxy' },
      { at: at(4), what: 'clicked', facts: 'https://x.test/' },
    ]);
    assert.equal(moments[1].calls.length, 1);
  });

  it('folds attempts that were deferred with the same answer, each recipient on its own', () => {
    const bo = { ...attempt(2, 'deferred', '451 later'), recipient: 'bo@dest.test' };
    const moments = told({
      message: {
        attempts: [
          attempt(1, 'deferred', '451 later'),
          bo,
          attempt(3, 'deferred', '451 later'),
          attempt(4, 'deferred', '452 full'),
          attempt(5, 'accepted', '250 ok'),
        ],
      },
    });
    assert.deepEqual(whats(moments), ['accepted', 'deferred', 'deferred', 'deferred', 'delivered']);
    assert.equal(moments[2]?.title, '2 times with the same answer, last in attempt 3 at mx.dest.test');
    assert.deepEqual(
      moments.map(({ at: time, folded = [] }) => [time, folded.map((one) => one.at)]),
      [
        [at(0), []],
        [at(2), []],
        [at(3), [at(1), at(3)]],
        [at(4), []],
        [at(5), []],
      ],
    );
  });

  it('tells when an address was suppressed', () => {
    const moments = told({ message: { events: [event('complained', 5, {})] }, suppressions: [entry(9)] });
    assert.deepEqual(whats(moments), ['accepted', 'complained', 'suppressed']);
    assert.match(moments[2]?.title ?? '', /was put on the suppression list: complaint/);
    assert.deepEqual(moments[2]?.facts, ['“asked by phone”']);
    assert.equal(moments[2].links[0]?.href, '/suppressions?q=ana%40dest.test');
  });

  it('ends with what it waits for, once for all recipients that wait for the same', () => {
    const wait = {
      status: 'deferred',
      reason: 'waiting_for_retry',
      message: 'It waits for attempt 2. The last answer was: 421',
      summary: 'It waits for attempt 2.',
      since: null,
      until: at(40),
      set_by: 'receiver',
    } as const;
    const emails = ['a@x.test', 'b@x.test', 'c@x.test', 'd@x.test'];
    const moments = told({
      message: { recipients: emails.map((email) => ({ email })) as MessageDetails['recipients'] },
      waits: emails.map((email) => ({ ...wait, email })),
    });
    assert.equal(moments.length, 2);
    const last = moments.at(-1);
    assert.deepEqual([last?.at, last?.title, last?.wait?.until], [null, 'It waits for attempt 2.', at(40)]);
    assert.deepEqual(last?.facts, ['for a@x.test, b@x.test, c@x.test and 1 more']);
  });
});
