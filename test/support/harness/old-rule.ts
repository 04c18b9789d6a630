/** One of the rules of housekeeping about a fixed age, by its name. */
import assert from 'node:assert/strict';
import type { Clock } from '../../../src/base/clock.ts';
import type { Rule } from '../../../src/housekeeping/housekeeping.ts';
import { oldRowRules } from '../../../src/housekeeping/old-rows.ts';
import type { Database } from '../../../src/storage/database.ts';

const KEPT_MS = 90 * 86_400_000;

export function oldRule(db: Database, clock: Clock, name: string): Rule {
  const trust = { isTrusted: () => true };
  const retention = { audit: KEPT_MS, events: KEPT_MS };
  const found = oldRowRules({ db, clock, trust, retention, usedUp: () => undefined }).find((one) => one.name === name);
  assert.ok(found !== undefined, name);
  return found;
}
