/** A handful of the zoo's scenarios in simulated time, against the same bars as outside. */
import assert from 'node:assert/strict';
import { detailsOf, isHeld } from './row.ts';
import { scenarios } from './scenarios/all.ts';
import { simulate } from './simulation.ts';

const PLAYED = [
  'cap-drop-restart',
  'shared-host',
  'hot-mailbox',
  'greylist',
  'unknown-users',
  'selective',
  'dead-tenant',
  'tenant-blocklist',
  'banned-address',
  'must-starttls',
  'die-at-dot',
  'busy-outlook',
  'rate-60',
  'dns-servfail',
];

describe('zoo of receivers', () => {
  for (const scenario of scenarios.filter(({ name }) => PLAYED.includes(name))) {
    it(`${scenario.name}: ${scenario.about}`, async () => {
      const row = await simulate(scenario);
      assert.ok(isHeld(row), detailsOf(row));
    });
  }
});
