import assert from 'node:assert/strict';
import { rfc3339 } from '../../src/base/rfc3339.ts';

describe('base/rfc3339', () => {
  it('writes UTC with milliseconds, and null for no time', () => {
    assert.equal(rfc3339(0), '1970-01-01T00:00:00.000Z');
    assert.equal(rfc3339(1769851802481), '2026-01-31T09:30:02.481Z');
    assert.equal(rfc3339(null), null);
  });
});
