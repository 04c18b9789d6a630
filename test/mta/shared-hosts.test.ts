import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { MailOperator } from '../../src/mta/sites/sites.ts';
import { LaneWorld } from './lane-world.ts';

const MINUTE = 60_000;
const farm: MailOperator = { name: 'farm', mx: [] };

/** The most that fall into any second. */
function mostInASecond(times: readonly number[]): number {
  return Math.max(0, ...times.map((from) => times.filter((at) => at >= from && at < from + 1000).length));
}

describe('mta: lanes that share hosts', () => {
  it('a host that takes fewer from now on is dialled a few times and no more', async () => {
    const world = new LaneWorld();
    world.mail('a.test', 20_000, ['mx']);
    const host = world.host('mx');
    await world.run(60_000, () => host.open === 10);
    assert.equal(host.open, 10);
    host.cap = 1;
    const before = host.dials.length;
    await world.run(30_000);
    const refused = host.refusals;
    assert.ok(refused.length <= 30, `${refused.length} of ${host.dials.length - before} dials were refused`);
    assert.ok(mostInASecond(refused) <= 3);
    assert.deepEqual(world.errors, []);
  });

  it('two lanes with a host in common that takes one connection: both get on, and hardly a dial is refused', async () => {
    const world = new LaneWorld();
    world.host('a').cap = 1;
    world.mail('one.test', 3000, ['a']);
    world.mail('two.test', 3000, ['a']);
    await world.run(25_000);
    const { refusals } = world.host('a');
    assert.ok(refusals.length <= 10, String(refusals.length));
    const [one, two] = [world.deliveredTo('one.test'), world.deliveredTo('two.test')];
    assert.ok(one > 80 && two > 80, `${one} and ${two}`);
  });

  it('neither lane starves where each connection carries one mail', async () => {
    const world = new LaneWorld();
    Object.assign(world.host('a'), { cap: 1, mailMax: 1, serviceMs: 500 });
    world.mail('one.test', 300, ['a']);
    world.mail('two.test', 300, ['a']);
    await world.run(2 * MINUTE);
    const [one, two] = [world.deliveredTo('one.test'), world.deliveredTo('two.test')];
    assert.ok(Math.min(one, two) > 20 && Math.abs(one - two) < 15, `${one} and ${two}`);
  });

  it('asks for no more connections than it delivers mails, or hardly', async () => {
    const world = new LaneWorld();
    for (const domain of ['one.test', 'two.test', 'three.test']) world.mail(domain, 1500, ['a']);
    await world.run(10 * MINUTE, () => [...world.delivered.values()].flat().length === 4500);
    const mails = 4500;
    assert.equal([...world.delivered.values()].flat().length, mails);
    assert.ok(world.takes < mails * 1.5, `${world.takes} takes`);
    assert.ok(world.prepared < mails * 1.5, `${world.prepared} prepared`);
    assert.equal(world.claims, mails, 'what has no connection is not claimed');
  });

  it('one connection for two lanes: few mails are made ready in vain', async () => {
    const world = new LaneWorld();
    world.host('a').cap = 1;
    for (const domain of ['one.test', 'two.test']) world.mail(domain, 300, ['a']);
    await world.run(10 * MINUTE, () => [...world.delivered.values()].flat().length === 600);
    assert.equal([...world.delivered.values()].flat().length, 600);
    assert.ok(world.prepared < 900, `${world.prepared} prepared for 600 mails`);
  });

  it('a lane that waits for another’s dial learns that it has failed', async () => {
    const world = new LaneWorld();
    const host = world.host('a');
    host.isUp = false;
    host.dialMs = 5000;
    world.mail('one.test', 1, ['a']);
    world.mail('two.test', 1, ['a']);
    await world.run(4000);
    host.isUp = true;
    host.isUp = false;
    await world.run(3000);
    host.isUp = true;
    await world.run(20_000);
    assert.equal(world.deliveredTo('two.test'), 1);
  });

  it("an operator's tenant whose host takes one connection uses that one all the time", async () => {
    const world = new LaneWorld();
    world.host('a').cap = 1;
    world.mail('tenant.test', 200, ['a'], farm);
    await world.run(30_000);
    assert.ok(world.deliveredTo('tenant.test') >= 190, String(world.deliveredTo('tenant.test')));
  });

  it("an operator's tenant whose host is dead keeps nobody waiting", async () => {
    const world = new LaneWorld();
    world.host('dead').isUp = false;
    world.mail('dead.test', 40, ['dead'], farm);
    for (let at = 0; at < 20; at++) world.mail(`t${at}.test`, 10, [`mx${at}`], farm);
    await world.run(20_000);
    const healthy = [...world.delivered.values()].flat();
    assert.equal(healthy.length, 200);
    assert.ok(world.host('dead').dials.length <= 4);
  });

  it('a host that takes more again is used by five connections within three minutes', async () => {
    const world = new LaneWorld();
    const host = world.host('a');
    host.cap = 1;
    world.mail('one.test', 60_000, ['a']);
    await world.run(MINUTE);
    assert.ok(host.open <= 1);
    host.cap = Infinity;
    await world.run(3 * MINUTE);
    assert.ok(host.open >= 5, String(host.open));
  });

  it('wakes some lane whenever a connection may be had, whatever hosts do', async () => {
    const change = fc.record({
      after: fc.nat({ max: 30_000 }),
      host: fc.constantFrom('a', 'b'),
      cap: fc.constantFrom(1, 2, 3, 100),
      isUp: fc.boolean(),
      dialMs: fc.constantFrom(5, 500, 10_000),
      serviceMs: fc.constantFrom(5, 300, 5000),
    });
    const mail = fc.record({
      lane: fc.constantFrom('one.test', 'two.test', 'three.test', 'tenant1.test', 'tenant2.test'),
      count: fc.integer({ min: 1, max: 20 }),
    });
    const ways: Record<string, [hosts: string[], operator: MailOperator | null]> = {
      'one.test': [['a'], null],
      'two.test': [['a', 'b'], null],
      'three.test': [['b'], null],
      'tenant1.test': [['a'], farm],
      'tenant2.test': [['b'], farm],
    };
    const steps = fc.array(fc.tuple(change, mail), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(steps, fc.integer({ min: 1, max: 5 }), async (plan, maxPerHost) => {
        const world = new LaneWorld(5, maxPerHost);
        let sent = 0;
        for (const [{ after, host, ...state }, { lane, count }] of plan) {
          Object.assign(world.host(host), state);
          const [hosts, operator] = ways[lane] ?? [[], null];
          world.mail(lane, count, hosts, operator);
          sent += count;
          await world.run(after);
        }
        for (const host of world.hosts.values()) Object.assign(host, { isUp: true, cap: 1, dialMs: 5, serviceMs: 5 });
        const count = (): number => [...world.delivered.values()].flat().length;
        // The longest pause of a host that was dead is a quarter of an hour, and a fifth.
        await world.run(40 * MINUTE, () => count() === sent);
        assert.deepEqual(world.errors, []);
        assert.equal(count(), sent);
      }),
      { numRuns: 150 },
    );
  });
});
