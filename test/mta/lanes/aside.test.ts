import assert from 'node:assert/strict';
import { createAside, type Aside } from '../../../src/mta/lanes/aside.ts';
import type { Job } from '../../../src/mta/due-queue.ts';
import { FakeClock } from '../../support/fakes/fake-clock.ts';

const job = (id: string): Job => ({ id }) as Job;

describe('mta/lanes/aside', () => {
  let clock: FakeClock;
  let aside: Aside;
  let back: string[];
  beforeEach(() => {
    clock = new FakeClock();
    back = [];
    aside = createAside({ clock }, (lane, jobs) => back.push(...jobs.map(({ id }) => `${lane}:${id}`)));
  });
  afterEach(() => {
    aside.stop();
    assert.equal(clock.nextAt(), null, 'a timer was left');
  });

  it('jobs come back when the gate of their host opens, and not before', () => {
    aside.add('farm', ['a:25'], job('1'), clock.monotonic() + 60_000);
    aside.add('farm', ['a:25'], job('2'), clock.monotonic() + 60_000);
    assert.deepEqual([aside.count('farm'), aside.lanesWaiting('a:25'), aside.lanesWaiting('b:25')], [2, ['farm'], []]);
    clock.advance(59_999);
    assert.deepEqual(back, []);
    clock.advance(1);
    assert.deepEqual(back, ['farm:1', 'farm:2']);
    assert.deepEqual([aside.count('farm'), aside.lanesWaiting('a:25')], [0, []]);
  });

  it('come back after two seconds where the time is not known', () => {
    aside.add('farm', ['a:25'], job('1'), null);
    clock.advance(2000);
    assert.deepEqual(back, ['farm:1']);
  });

  it('those that come back late can be taken out, with the time that is left', () => {
    aside.add('farm', ['a:25'], job('1'), clock.monotonic() + 60_000);
    aside.add('farm', ['a:25'], job('2'), clock.monotonic() + 90_000);
    aside.add('farm', ['b:25'], job('3'), null);
    clock.advance(1000);
    assert.deepEqual(
      aside.takeOut(5_000, () => true).map(({ jobs, wait }) => [jobs.map(({ id }) => id), wait]),
      [[['1', '2'], 59_000]],
    );
    assert.deepEqual([aside.count('farm'), aside.lanesWaiting('a:25')], [1, []]);
    clock.advance(120_000);
    assert.deepEqual(back, ['farm:3']);
  });

  it('of those that come back late, only some are taken out, and the others come back in time', () => {
    for (const id of ['1', '2']) aside.add('farm', ['a:25'], job(id), clock.monotonic() + 60_000);
    assert.deepEqual(
      aside.takeOut(5_000, ({ id }) => id === '1').map(({ jobs }) => jobs.map(({ id }) => id)),
      [['1']],
    );
    assert.deepEqual([aside.count('farm'), aside.lanesWaiting('a:25')], [1, ['farm']]);
    clock.advance(60_000);
    assert.deepEqual(back, ['farm:2']);
  });

  it('as many come back as the lane may have connections, those that waited longest first', () => {
    for (const id of ['1', '2', '3', '4']) aside.add('farm', ['a:25', 'b:25'], job(id), null);
    aside.wake('farm', 'b:25', 1);
    assert.deepEqual([back, aside.count('farm')], [['farm:1'], 3]);
    aside.wake('farm', 'a:25', 2);
    assert.deepEqual(back, ['farm:1', 'farm:2', 'farm:3']);
    aside.wake('farm', 'a:25', 5);
    assert.deepEqual([back.at(-1), aside.lanesWaiting('a:25'), aside.lanesWaiting('b:25')], ['farm:4', [], []]);
  });

  it('of other hosts, and of other lanes, none comes back', () => {
    aside.add('farm', ['a:25'], job('1'), null);
    aside.add('mill', ['a:25'], job('2'), null);
    aside.wake('farm', 'c:25', 9);
    aside.wake('other', 'a:25', 9);
    assert.deepEqual(back, []);
    assert.deepEqual(aside.lanesWaiting('a:25'), ['farm', 'mill']);
    aside.wakeLane('mill');
    assert.deepEqual([back, aside.count('farm')], [['mill:2'], 1]);
  });

  it('a job that is put aside again while it comes back is not woken a second time', () => {
    let rounds = 0;
    const again: Aside = createAside({ clock }, (lane, jobs) => {
      if (++rounds > 100) throw new Error('for ever');
      for (const one of jobs) again.add(lane, ['a:25'], one, null);
    });
    again.add('farm', ['a:25'], job('1'), null);
    // Another set of hosts with one in common keeps the host known meanwhile.
    again.add('farm', ['a:25', 'b:25'], job('2'), null);
    again.wake('farm', 'a:25', Infinity);
    assert.ok(rounds <= 2, String(rounds));
    assert.equal(again.count('farm'), 2);
    again.wakeLane('farm');
    assert.ok(rounds <= 4, String(rounds));
    again.stop();
  });

  it('names a lane once that waits by several sets of hosts', () => {
    aside.add('farm', ['a:25'], job('1'), null);
    aside.add('farm', ['a:25', 'b:25'], job('2'), null);
    assert.deepEqual(aside.lanesWaiting('a:25'), ['farm']);
  });

  it('gives nothing back once it is stopped', () => {
    aside.add('farm', ['a:25'], job('1'), null);
    aside.stop();
    clock.advance(60_000);
    assert.deepEqual(back, []);
  });
});
