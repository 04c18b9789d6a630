import assert from 'node:assert/strict';
import type { Job } from '../../src/mta/due-queue.ts';
import { createRoom } from '../../src/mta/room.ts';
import { FakeClock } from '../support/fakes/fake-clock.ts';
import { NOW } from '../support/harness/mail-rows.ts';

interface Given {
  waiting: number;
  slots: number;
  /** When the lane is looked at again that may have no worker. */
  closedUntil?: number;
  /** Workers whose host has kept them waiting for long. */
  late?: number;
}

/** Makes room in these lanes, with this one job put aside, and returns which jobs rest until when, and whose quota was released. */
async function restsIn(lanes: Readonly<Record<string, Given>>, asideWait?: number) {
  const clock = new FakeClock(NOW);
  const rests: [id: string, afterMs: number][] = [];
  const released: string[] = [];
  const jobs = (name: string): Job[] =>
    Array.from({ length: lanes[name]?.waiting ?? 0 }, (_, n) => ({ id: `${name} ${String(n)}` }) as Job);
  const room = createRoom({
    clock,
    lanes: {
      views: () => Object.entries(lanes).map(([name, { waiting, slots }]) => ({ name, waiting, slots })),
      withdraw: jobs,
    },
    control: { closedUntil: (name) => lanes[name]?.closedUntil ?? null },
    pool: { allWaitingLong: () => new Map(Object.entries(lanes).map(([name, { late = 0 }]) => [name, late])) },
    aside: {
      takeOut: (ms) =>
        asideWait !== undefined && asideWait >= ms ? [{ jobs: [{ id: 'aside' } as Job], wait: asideWait }] : [],
    },
    placing: { releaseQuota: ({ id }) => void released.push(id) },
    dueQueue: { rest: ({ id }, until) => void rests.push([id, until - NOW]) },
  });
  await room();
  assert.deepEqual(
    released,
    rests.map(([id]) => id),
  );
  return rests;
}

describe('mta/room', () => {
  const cases: [what: string, lane: Given, restMs: number | null][] = [
    [
      'a lane whose hosts are closed for a minute rests as long',
      { waiting: 2, slots: 0, closedUntil: NOW + 60_000 },
      60_000,
    ],
    ['a lane that is looked at again soon keeps its jobs', { waiting: 2, slots: 0, closedUntil: NOW + 4_999 }, null],
    ['a lane that waits for a slot only keeps them', { waiting: 2, slots: 0 }, null],
    ['a lane all of whose workers are kept waiting rests for a while', { waiting: 2, slots: 3, late: 3 }, 5_000],
    ['a lane one of whose workers goes on keeps them', { waiting: 2, slots: 3, late: 2 }, null],
    ['a lane without waiting jobs has none to give', { waiting: 0, slots: 1, late: 1 }, null],
  ];
  for (const [what, lane, restMs] of cases)
    it(what, async () => {
      const expected =
        restMs === null ? [] : Array.from({ length: lane.waiting }, (_, n) => [`mx ${String(n)}`, restMs]);
      assert.deepEqual(await restsIn({ mx: lane }), expected);
    });

  it('jobs that are put aside rest until they would come back, unless that is soon', async () => {
    assert.deepEqual(await restsIn({}, 30_000), [['aside', 30_000]]);
    assert.deepEqual(await restsIn({}, 2_000), []);
  });
});
