import assert from 'node:assert/strict';
import { Problem } from '../../src/base/problem.ts';
import { submissionOptions } from '../../src/inbound/submission.ts';

const NOW = Date.parse('2026-01-31T09:30:00Z');
const read = (...fields: [string, ...string[]][]) =>
  submissionOptions(new Map(fields.map(([name, ...values]) => [name, values])), NOW);
const nothing = {
  stream: null,
  tags: [],
  metadata: {},
  sendAt: null,
  idempotencyKey: null,
  trackOpens: false,
  trackClicks: false,
};

describe('inbound/submission-options', () => {
  for (const [fields, expected] of [
    [[], {}],
    [[['stream', 'broadcast']], { stream: 'broadcast' }],
    [[['tag', 'a, b', 'c', 'a']], { tags: ['a', 'b', 'c'] }],
    [[['tag', 'Password Reset, a@b,Größe']], { tags: ['Password Reset', 'a@b', 'Größe'] }],
    [[['metadata', 'order=17', 'x=a=b', 'empty=']], { metadata: { order: '17', x: 'a=b', empty: '' } }],
    [[['send-at', '2026-01-31T10:30:00+01:00']], { sendAt: null }],
    [[['send-at', '2026-01-31T12:30:00+01:00']], { sendAt: NOW + 2 * 3_600_000 }],
    [[['idempotency-key', 'k-1']], { idempotencyKey: 'k-1' }],
    [
      [
        ['track-opens', 'false'],
        ['track-clicks', 'no'],
      ],
      {},
    ],
    [
      [
        ['track-opens', ' True '],
        ['track-clicks', '1'],
      ],
      { trackOpens: true, trackClicks: true },
    ],
  ] as [[string, ...string[]][], object][])
    it(`reads ${JSON.stringify(fields)}`, () => {
      assert.deepEqual(read(...fields), { ...nothing, ...expected });
    });

  for (const [fields, code, field] of [
    [[['colour', 'red']], 'unknown_field', 'X-Posthorn-Colour'],
    [[['stream', 'a', 'b']], 'invalid_field', 'X-Posthorn-Stream'],
    [[['stream', 'Not A Slug']], 'invalid_field', 'X-Posthorn-Stream'],
    [[['tag', 'a\tb']], 'invalid_field', 'X-Posthorn-Tag'],
    [[['tag', Array.from({ length: 11 }, (_, i) => `t${String(i)}`).join(',')]], 'invalid_field', 'X-Posthorn-Tag'],
    [[['metadata', 'no equals']], 'invalid_field', 'X-Posthorn-Metadata'],
    [[['metadata', `a=${'x'.repeat(501)}`]], 'invalid_field', 'X-Posthorn-Metadata'],
    [
      [['metadata', ...Array.from({ length: 51 }, (_, i) => `a${String(i)}=1`)]],
      'invalid_field',
      'X-Posthorn-Metadata',
    ],
    [[['send-at', 'soon']], 'invalid_send_at', 'X-Posthorn-Send-At'],
    [[['send-at', '2027-01-31T10:30:00Z']], 'invalid_send_at', 'X-Posthorn-Send-At'],
    [[['send-at', '2025-01-31T10:30:00Z']], 'invalid_send_at', 'X-Posthorn-Send-At'],
    [[['idempotency-key', 'with space']], 'invalid_idempotency_key', 'X-Posthorn-Idempotency-Key'],
    [[['track-opens', 'maybe']], 'invalid_field', 'X-Posthorn-Track-Opens'],
    [[['track-clicks', 'true', 'true']], 'invalid_field', 'X-Posthorn-Track-Clicks'],
  ] as [[string, ...string[]][], string, string][])
    it(`refuses ${JSON.stringify(fields).slice(0, 60)}`, () => {
      assert.throws(
        () => read(...fields),
        (error) => error instanceof Problem && error.code === code && error.field === field,
      );
    });
});
