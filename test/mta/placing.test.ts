import assert from 'node:assert/strict';
import { Placing, type PlacingDeps } from '../../src/mta/placing.ts';
import type { Job } from '../../src/mta/due-queue.ts';
import { laneName } from '../../src/mta/names.ts';
import { NOW } from '../support/harness/mail-rows.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';

/** The parts that `mayGo` asks, and what they were told. */
function world({ restUntil = null, isFull = false }: { restUntil?: number | null; isFull?: boolean }): {
  placing: Placing;
  told: string[];
} {
  const told: string[] = [];
  const tell =
    (what: string) =>
    (...args: unknown[]): void =>
      void told.push([what, ...args.filter((one) => typeof one === 'string')].join(' '));
  const operator = { name: 'google', maxConnections: 1 };
  const site = { kind: 'site', name: 'mx.a.test', hosts: [{ name: 'mx.a.test' }], operator, relay: null };
  const deps = {
    clock: new FakeClock(NOW),
    owners: { isOurs: () => true },
    sites: { known: () => site },
    control: { restUntil: () => restUntil, take: tell('take'), putBack: tell('put back in') },
    sources: { putBack: tell('put back') },
    pool: { waitOf: () => (isFull ? { until: null } : null) },
    aside: { add: tell('aside') },
    dueQueue: { rest: tell('rest') },
  };
  return { placing: new Placing(deps as unknown as PlacingDeps), told };
}

/** A mail that was prepared ahead, and counted against what its source may send today. */
const job = (): Job =>
  ({ id: 'dlv_1', domain: 'a.test', source: 'one', quotaSite: 'mx.a.test', account: 'acc' }) as unknown as Job;
const LANE = laneName('mx.a.test', 'one');

describe('mta/placing: what a mail that does not go was counted against is given back', () => {
  for (const [what, state, told] of [
    ['where its part of the lane rests', { restUntil: NOW + 1000 }, ['put back one mx.a.test', 'rest']],
    ['where no host of its domain can be had', { isFull: true }, ['put back one mx.a.test', `aside ${LANE}`]],
    ['but not where it goes', {}, [`take ${LANE}`]],
  ] as const)
    it(what, () => {
      const { placing, told: heard } = world(state);
      const one = job();
      assert.equal(placing.mayGo(LANE, one), told.length === 1);
      assert.deepEqual(heard, told);
      assert.equal(one.quotaSite, told.length === 1 ? 'mx.a.test' : undefined);
    });
});
