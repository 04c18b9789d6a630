import assert from 'node:assert/strict';
import { LaneWorld } from './lane-world.ts';

describe('mta: receivers that take their time', () => {
  for (const seconds of [1, 10])
    it(`get the connections of the lane within five answers of ${String(seconds)} s each`, async () => {
      const world = new LaneWorld();
      const host = world.host('mx');
      host.serviceMs = seconds * 1000;
      world.mail('a.test', 400, ['mx']);
      await world.run(6 * host.serviceMs, () => world.deliveredTo('a.test') >= 5);
      await world.run(2 * host.dialMs);
      assert.equal(host.open, 10);
      await world.run(10 * host.serviceMs);
      assert.ok(world.deliveredTo('a.test') >= 90, 'and all of them carry mail');
      assert.deepEqual(world.errors, []);
    });
});
