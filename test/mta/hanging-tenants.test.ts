import assert from 'node:assert/strict';
import type { MailOperator } from '../../src/mta/sites/sites.ts';
import { LaneWorld } from './lane-world.ts';

const farm: MailOperator = { name: 'farm', mx: [] };

describe("mta: hosts of an operator's tenants that let us wait", () => {
  it('keep a worker each, and not the lane from the mail of the others', async () => {
    const world = new LaneWorld();
    for (let at = 0; at < 5; at++) {
      world.mail(`hangs${at}.test`, 20, [`silent${at}`], farm);
      world.host(`silent${at}`).dialMs = 300_000;
    }
    for (let at = 0; at < 20; at++) world.mail(`t${at}.test`, 10, [`mx${at}`], farm);
    await world.run(20_000);
    for (let at = 0; at < 20; at++) assert.equal(world.deliveredTo(`t${at}.test`), 10, `t${at}.test`);
    assert.ok(world.host('silent0').dials.length === 1, 'one dial to a host that does not answer');
    assert.deepEqual(world.errors, []);
  });
});
