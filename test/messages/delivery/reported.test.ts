import assert from 'node:assert/strict';
import { complainedBy } from '../../../src/messages/delivery/reported.ts';

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
});
