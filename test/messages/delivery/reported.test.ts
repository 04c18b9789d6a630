import assert from 'node:assert/strict';
import { bouncedBy, complainedBy } from '../../../src/messages/delivery/reported.ts';

describe('messages/delivery/reported', () => {
  for (const [text, expected] of [
    ['Mon, 1 Jun 2026 10:00:00 +0000', '2026-06-01T10:00:00.000Z'],
    ['9999-12-31T23:59:59Z', '9999-12-31T23:59:59.000Z'],
    ['+010000-01-01T00:00:00Z', null],
    ['Fri, 31 Dec 99999 10:00:00 +0000', null],
    ['-000001-01-01T00:00:00Z', null],
    ['yesterday', null],
  ] as const)
    it(`takes ${JSON.stringify(text)} for ${String(expected)}`, () => {
      const change = complainedBy({ type: 'abuse', source: 'jmrp', userAgent: null, arrivalDate: text });
      const at = change?.kind === 'complained' ? change.arrivalDate : undefined;
      assert.equal(change?.kind === 'complained' ? change.source : null, 'jmrp');
      assert.equal(at == null ? at : new Date(at).toISOString(), expected);
    });

  type Group = readonly [address: string, original: string | null, action: string | null];
  /** The address by whose failure the delivery to `ownKey` bounces, or null. */
  const bouncing = (groups: readonly Group[], ownKey: string): string | null => {
    const recipients = groups.map(([address, original, action]) => ({
      address,
      original,
      action,
      code: null,
      status: null,
      diagnostic: address,
      verdict: null,
    }));
    const change = bouncedBy(recipients, ownKey, 'report');
    return change?.kind === 'bounced' ? change.smtpReply : null;
  };
  for (const [what, groups, failed] of [
    ['it failed', [['ana@dest.test', null, 'failed']], 'ana@dest.test'],
    ['it failed, in other letters', [['Ana@DEST.test', null, 'failed']], 'Ana@DEST.test'],
    ['the report names another one', [['bo@else.test', null, 'failed']], 'bo@else.test'],
    ['what it was forwarded to failed', [['bo@else.test', 'ana@dest.test', 'failed']], 'bo@else.test'],
    [
      'it failed, and another one as well',
      [
        ['bo@else.test', null, 'failed'],
        ['ana@dest.test', null, 'failed'],
      ],
      'ana@dest.test',
    ],
    ...(['expanded', 'delivered', 'relayed', 'delayed'] as const).map(
      (action) =>
        [
          `it was ${action}, and another one failed`,
          [
            ['ana@dest.test', null, action],
            ['bo@else.test', null, 'failed'],
          ],
          null,
        ] as const,
    ),
    [
      'it was expanded, and one of its own failed',
      [
        ['ana@dest.test', 'ana@dest.test', 'expanded'],
        ['bo@else.test', 'ana@dest.test', 'failed'],
      ],
      null,
    ],
    [
      'one of those that it was forwarded to failed',
      [
        ['bo@else.test', 'ana@dest.test', 'failed'],
        ['cy@else.test', 'ana@dest.test', 'relayed'],
      ],
      null,
    ],
    [
      'all of those that it was forwarded to failed',
      [
        ['bo@else.test', 'ana@dest.test', 'failed'],
        ['cy@else.test', 'ana@dest.test', 'failed'],
      ],
      'bo@else.test',
    ],
    [
      'the report does not say what became of it',
      [
        ['ana@dest.test', null, null],
        ['bo@else.test', null, 'failed'],
      ],
      null,
    ],
  ] as readonly (readonly [string, readonly Group[], string | null])[])
    it(`bounces ${failed === null ? 'nothing' : `by ${failed}`}: ${what}`, () => {
      assert.equal(bouncing(groups, 'ana@dest.test'), failed);
    });

  for (const [standIn, address, expected] of [
    ['report', 'bo@else.test', 'hard'],
    ['notice', 'bo@else.test', 'undetermined'],
    ['letter', 'bo@else.test', null],
    ['notice', 'ana@dest.test', 'hard'],
    ['letter', 'ana@dest.test', 'hard'],
  ] as const)
    it(`takes the failure of ${address} in a ${standIn} for ${String(expected)}`, () => {
      const verdict = { class: 'hard', reason: 'mailbox_not_found' } as const;
      const one = { address, original: null, action: 'failed', code: null, status: null, diagnostic: null, verdict };
      const change = bouncedBy([one], 'ana@dest.test', standIn);
      assert.equal(change?.kind === 'bounced' ? change.verdict.class : null, expected);
    });

  for (const spelt of ['ana@bücher.test', 'ANA@XN--BCHER-KVA.test', '"ana"@bücher.test'])
    it(`knows the address as ${spelt}`, () => {
      const other = ['bo@else.test', null, 'failed'] as const;
      assert.equal(bouncing([[spelt, null, 'delivered'], other], 'ana@xn--bcher-kva.test'), null);
      assert.equal(bouncing([other, [spelt, null, 'failed']], 'ana@xn--bcher-kva.test'), spelt);
    });
});
