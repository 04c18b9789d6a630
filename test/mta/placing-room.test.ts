import assert from 'node:assert/strict';
import type { Job } from '../../src/mta/due-queue.ts';
import type { Engine } from '../../src/mta/engine.ts';
import { Placing } from '../../src/mta/placing.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { NOW } from '../support/harness/mail-rows.ts';

interface Given {
  waiting: number;
  slots: number;
  /** For how long the lane may have no worker, in ms. */
  closedFor?: number;
  /** Workers whose host has kept them waiting for long. */
  late?: number;
}

/** Makes room in these lanes, with this one job put aside, and returns which jobs rest until when, and whose quota was released. */
async function restsIn(
  lanes: Readonly<Record<string, Given>>,
  {
    asideWait,
    isStopping = false,
    isNeeded = true,
  }: { asideWait?: number; isStopping?: boolean; isNeeded?: boolean } = {},
) {
  const clock = new FakeClock(NOW);
  const rests: [id: string, afterMs: number][] = [];
  let released = 0;
  const jobs = (name: string): Job[] =>
    Array.from(
      { length: lanes[name]?.waiting ?? 0 },
      (_, n) => ({ id: `${name} ${String(n)}`, pacedLane: 'a lane' }) as Job,
    );
  const placing = new Placing({
    clock,
    lanes: {
      views: () => Object.entries(lanes).map(([name, { waiting, slots }]) => ({ name, waiting, slots })),
      withdraw: (name: string, most: number, unwanted: (job: Job) => boolean) =>
        jobs(name).slice(most).filter(unwanted),
    },
    control: {
      putBack: () => released++,
      closedFor: (name: string, ms: number) =>
        (lanes[name]?.closedFor ?? 0) >= ms ? (lanes[name]?.closedFor ?? null) : null,
    },
    pool: { waitingLong: () => new Map(Object.entries(lanes).map(([name, { late = 0 }]) => [name, late])) },
    aside: {
      takeOut: (ms: number, unwanted: (job: Job) => boolean) =>
        asideWait !== undefined && asideWait >= ms
          ? [{ jobs: [{ id: 'aside', pacedLane: 'a lane' } as Job].filter(unwanted), wait: asideWait }]
          : [],
    },
    dueQueue: {
      rest: ({ id }: Job, until: number) => void rests.push([id, until - NOW]),
      needsPlaceOf: () => isNeeded,
    },
    isStopping,
  } as unknown as Engine);
  await placing.makeRoom();
  assert.equal(released, rests.length);
  return rests;
}

describe('mta/placing: room in memory', () => {
  const cases: [what: string, lane: Given, resting: number, restMs?: number][] = [
    [
      'a lane whose hosts are closed for twenty seconds rests as long',
      { waiting: 2, slots: 0, closedFor: 20_000 },
      2,
      20_000,
    ],
    [
      'one whose hosts are closed for longer is looked at again',
      { waiting: 2, slots: 0, closedFor: 900_000 },
      2,
      30_000,
    ],
    ['a lane that opens soon keeps twenty jobs', { waiting: 50, slots: 0, closedFor: 4_999 }, 30, 5_000],
    ['a lane that waits for a slot keeps twenty jobs', { waiting: 21, slots: 0 }, 1, 5_000],
    ['a lane all of whose workers are kept waiting rests for a while', { waiting: 2, slots: 3, late: 3 }, 2, 5_000],
    ['a lane one of whose workers goes on keeps twenty for each', { waiting: 70, slots: 3, late: 2 }, 10, 5_000],
    ['a lane with few jobs keeps them', { waiting: 60, slots: 3 }, 0],
    ['a lane without waiting jobs has none to give', { waiting: 0, slots: 1, late: 1 }, 0],
  ];
  for (const [what, lane, resting, restMs] of cases)
    it(what, async () => {
      const rests = await restsIn({ mx: lane });
      assert.equal(rests.length, resting);
      assert.ok(rests.every(([, ms]) => ms === restMs));
    });

  it('jobs that are put aside rest until they would come back, unless that is soon', async () => {
    assert.deepEqual(await restsIn({}, { asideWait: 20_000 }), [['aside', 20_000]]);
    assert.deepEqual(await restsIn({}, { asideWait: 2_000 }), []);
  });

  it('jobs whose place helps none of the groups that wait stay', async () => {
    const lanes = { mx: { waiting: 50, slots: 1 }, closed: { waiting: 2, slots: 0, closedFor: 20_000 } };
    assert.equal((await restsIn(lanes)).length, 32);
    assert.deepEqual(await restsIn(lanes, { asideWait: 20_000, isNeeded: false }), []);
  });

  it('stops with the engine', async () => {
    assert.deepEqual(await restsIn({ mx: { waiting: 2, slots: 0, closedFor: 20_000 } }, { isStopping: true }), []);
  });
});
