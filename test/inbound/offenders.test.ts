import assert from 'node:assert/strict';
import { Offenders } from '../../src/inbound/offenders.ts';

describe('inbound/offenders', () => {
  const MINUTE = 60_000;

  it('shuts an address out after so many faults, for so long', () => {
    const offenders = new Offenders({ most: 3, forMs: 10 * MINUTE });
    assert.deepEqual([0, 1].map((now) => offenders.note('192.0.2.1', now)), [1, 2]); // prettier-ignore
    assert.equal(offenders.isShutOut('192.0.2.1', 2), false);
    offenders.note('192.0.2.1', 2);
    assert.equal(offenders.isShutOut('192.0.2.1', 3), true);
    assert.equal(offenders.isShutOut('192.0.2.2', 3), false);
    assert.equal(offenders.isShutOut('192.0.2.1', 10 * MINUTE + 2), false);
  });

  it('forgets faults of long ago, and forgives', () => {
    const offenders = new Offenders({ most: 2, forMs: MINUTE });
    offenders.note('192.0.2.1', 0);
    assert.equal(offenders.note('192.0.2.1', 2 * MINUTE), 1);
    offenders.forgive('192.0.2.1');
    assert.equal(offenders.note('192.0.2.1', 2 * MINUTE), 1);
  });

  it('takes a whole /64 for one', () => {
    const offenders = new Offenders({ most: 1, forMs: MINUTE });
    offenders.note('2001:db8::1', 0);
    assert.equal(offenders.isShutOut('2001:db8::ffff:2', 1), true);
    assert.equal(offenders.isShutOut('2001:db8:0:1::1', 1), false);
  });

  it('remembers a bounded number', () => {
    const offenders = new Offenders({ most: 1, forMs: MINUTE });
    for (let i = 0; i < 20_001; i++) offenders.note(`10.${String(i >> 16)}.${String((i >> 8) & 255)}.${String(i & 255)}`, 0); // prettier-ignore
    assert.equal(offenders.isShutOut('10.0.0.0', 1), false);
    assert.equal(offenders.isShutOut('10.0.78.32', 1), true);
  });
});
