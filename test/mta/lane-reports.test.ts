import assert from 'node:assert/strict';
import { LaneReports, type LaneReportsDeps } from '../../src/mta/lane-reports.ts';

/** Lanes by name, with their workers and jobs, and the number of reports that were made. */
function world(lanes: Readonly<Record<string, { waiting: number; slots: number }>>, limited: readonly string[] = []) {
  let reports = 0;
  const view = (name: string) => ({ name, waiting: 0, slots: 0, ...lanes[name] });
  const deps = {
    lanes: { view, views: () => Object.keys(lanes).map(view) },
    control: {
      limited: () => limited,
      report: () => {
        reports++;
        return { limit: 1 };
      },
    },
    aside: { count: () => 0 },
  };
  return { reports: new LaneReports(deps as unknown as LaneReportsDeps), made: () => reports };
}

describe('mta/lane-reports: the busiest lanes', () => {
  it('are those with the most workers, of twenty thousand lanes, and no report is made of the others', () => {
    const lanes = Object.fromEntries(
      Array.from({ length: 20_000 }, (_, n) => [
        `mx${String(n)}.test`,
        { waiting: 1, slots: n % 100 === 0 ? n / 100 : 0 },
      ]),
    );
    const { reports, made } = world(lanes, ['mx1.test']);
    const busiest = reports.busiest(50);
    assert.deepEqual(
      [busiest.length, busiest[0]?.name, busiest[0]?.slots, busiest[49]?.slots, made()],
      [50, 'mx19900.test', 199, 150, 50],
    );
  });

  it('are followed by lanes that wait and by those with a limit, where few work', () => {
    const lanes = {
      'a.test': { waiting: 1, slots: 0 },
      'b.test': { waiting: 9, slots: 0 },
      'c.test': { waiting: 0, slots: 1 },
    };
    const { reports } = world(lanes, ['limited.test']);
    assert.deepEqual(
      reports.busiest(10).map(({ name }) => name),
      ['c.test', 'b.test', 'a.test', 'limited.test'],
    );
    assert.equal(reports.busiest(2).length, 2);
  });
});
