import assert from 'node:assert/strict';
import type { MessageDetails } from '../../src/client/types.ts';
import { timelineOf } from '../../src/dashboard/timeline.ts';

const message = {
  id: 'msg_1',
  subject: 's',
  created_at: '2026-01-31T10:00:00.000Z',
  status: 'bounced',
  test: false,
  request_id: null,
  metadata: {},
  recipients: [{ email: 'ana@dest.test', status: 'bounced', next_attempt_at: null }],
  attempts: [],
  events: [
    {
      type: 'bounced',
      timestamp: '2026-01-31T10:02:00.000Z',
      data: { recipient: 'ana@dest.test', bounced: { reason: 'mailbox_not_found', smtp_reply: '550 no' } },
    },
  ],
} as unknown as MessageDetails;
const report = {
  object: 'report' as const,
  size: 1,
  id: 'rep_1',
  kind: 'auto_reply',
  received_at: '2026-01-31T10:01:00.000Z',
  recipient: 'ana@dest.test',
  sender: 'ana@dest.test',
  verified: true,
};

describe('dashboard/timeline', () => {
  it('has what came back by mail in its place, with the link to its source', () => {
    const moments = timelineOf(message, [report], '/messages/msg_1');
    assert.deepEqual(
      moments.map(({ what, href }) => [what, href]),
      [
        ['accepted', undefined],
        ['auto reply', '/messages/msg_1/reports/rep_1'],
        ['bounced', undefined],
      ],
    );
    assert.deepEqual(moments[1]?.facts, ['from ana@dest.test']);
  });

  it('says of a report without proof that it changed nothing, and that it can be confirmed', () => {
    const [, moment] = timelineOf({ ...message, events: [] }, [{ ...report, verified: false }], '/messages/msg_1');
    assert.equal(moment?.isUnverified, true);
    assert.match(moment.facts?.join() ?? '', /unverified/);
  });

  it('names the null sender of a bounce, and says that a mail is not read yet', () => {
    const [, moment] = timelineOf(
      { ...message, events: [] },
      [{ ...report, kind: null, sender: '' }],
      '/messages/msg_1',
    );
    assert.deepEqual([moment?.what, moment?.facts], ['not read yet', ['from the null sender']]);
  });
});
