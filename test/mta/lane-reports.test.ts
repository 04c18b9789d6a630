import assert from 'node:assert/strict';
import type { Engine } from '../../src/mta/engine.ts';
import { LaneReports } from '../../src/mta/lane-reports.ts';

/** Lanes by name, with their workers and jobs, and the number of reports that were made. */
function world(
  lanes: Readonly<Record<string, { waiting: number; slots: number }>>,
  limited: readonly string[] = [],
  resting: readonly string[] = [],
) {
  let reports = 0;
  const view = (name: string) => ({ name, waiting: 0, slots: 0, ...lanes[name] });
  const engine = {
    lanes: { view, views: () => Object.keys(lanes).map(view) },
    control: {
      names: () => [...limited],
      atRest: () => resting,
      report: () => {
        reports++;
        return { limit: 1 };
      },
    },
    aside: { count: () => 0 },
  };
  return { reports: new LaneReports(engine as unknown as Engine), made: () => reports };
}

describe('mta/lane-reports: the list of lanes', () => {
  const thousands = Object.fromEntries(
    Array.from({ length: 20_000 }, (_, n) => [
      `mx${String(n)}.test`,
      { waiting: 20_000 - n, slots: n % 100 === 0 ? n / 100 : 0 },
    ]),
  );

  it('has those with the most workers, of twenty thousand lanes, and no report is made of the others', async () => {
    const { reports, made } = world(thousands, ['mx1.test']);
    const busiest = await reports.lanes(50, 'busiest');
    assert.deepEqual(
      [busiest.length, busiest[0]?.name, busiest[0]?.slots, busiest[49]?.slots, made()],
      [50, 'mx19900.test', 199, 150, 50],
    );
  });

  it('has those with the most jobs, and others have a turn while the reports are made', async () => {
    const { reports, made } = world(thousands);
    const madeAtTurns: number[] = [];
    const turn = (): void => {
      madeAtTurns.push(made());
      if (made() < 1_000) setImmediate(turn);
    };
    setImmediate(turn);
    const fullest = await reports.lanes(1_000, 'fullest');
    assert.deepEqual(
      [fullest.length, fullest[0]?.name, fullest[999]?.name, made()],
      [1_000, 'mx0.test', 'mx999.test', 1_000],
    );
    assert.ok(
      madeAtTurns.every((count, at) => count - (madeAtTurns[at - 1] ?? 0) <= 100),
      madeAtTurns.join(),
    );
  });

  it('has lanes that wait and those with a limit behind them, where few work', async () => {
    const lanes = {
      'a.test': { waiting: 1, slots: 0 },
      'b.test': { waiting: 9, slots: 0 },
      'c.test': { waiting: 0, slots: 1 },
    };
    const { reports } = world(lanes, ['limited.test']);
    const names = async (most: number, first: 'fullest' | 'busiest'): Promise<string[]> =>
      (await reports.lanes(most, first)).map(({ name }) => name);
    assert.deepEqual(await names(10, 'busiest'), ['c.test', 'b.test', 'a.test', 'limited.test']);
    assert.deepEqual(await names(10, 'fullest'), ['b.test', 'a.test', 'c.test', 'limited.test']);
    assert.deepEqual(await names(2, 'fullest'), ['b.test', 'a.test']);
  });

  it('has lanes that rest though thousands of others are fuller, half of the list at most', async () => {
    const { reports } = world(thousands, [], ['rests.test']);
    const fullest = await reports.lanes(1_000, 'fullest');
    assert.deepEqual([fullest.length, fullest[0]?.name, fullest[1]?.name], [1_000, 'rests.test', 'mx0.test']);
    const many = Array.from({ length: 3_000 }, (_, n) => `rests${String(n)}.test`);
    const halved = await world(thousands, [], many).reports.lanes(1_000, 'fullest');
    assert.deepEqual([halved[499]?.name, halved[500]?.name], ['rests499.test', 'mx0.test']);
  });
});
