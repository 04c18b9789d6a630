import assert from 'node:assert/strict';
import { randomFrom } from './random.ts';
import { floorOf, slopeOf } from './slope.ts';

const MINUTE = 60_000;
const line = (start: number, perHour: number, minutes = 60): { at: number; value: number }[] =>
  Array.from({ length: minutes }, (_, minute) => ({ at: minute * MINUTE, value: start + (perHour * minute) / 60 }));

describe('the slope of a figure', () => {
  for (const [name, samples, perHour] of [
    ['flat', line(200, 0), 0],
    ['rising', line(200, 3), 3],
    ['falling', line(200, -12), -12],
    ['of three samples', line(1, 60, 3), 60],
  ] as const)
    it(`${name}: ${String(perHour)} an hour, without an error`, () => {
      const slope = slopeOf(samples);
      assert.ok(Math.abs(slope.perHour - perHour) < 1e-9 && slope.error < 1e-6, JSON.stringify(slope));
    });

  it('is found in noise, within three times its error', () => {
    const random = randomFrom(5);
    const noisy = line(200, 4, 600).map(({ at, value }) => ({ at, value: value + random() * 10 }));
    const { perHour, error } = slopeOf(noisy);
    assert.ok(error > 0 && Math.abs(perHour - 4) < 3 * error, `${String(perHour)} ± ${String(error)}`);
  });

  it('is not there for fewer than three samples', () => {
    assert.ok(Number.isNaN(slopeOf(line(1, 1, 2)).perHour));
  });
});

describe('the floor of a figure', () => {
  it('is the least sample of each window', () => {
    const samples = [
      { at: 0, value: 5 },
      { at: 10, value: 3 },
      { at: 50, value: 4 },
      { at: 100, value: 9 },
      { at: 170, value: 8 },
    ];
    assert.deepEqual(floorOf(samples, 100), [samples[1], samples[4]]);
    assert.deepEqual(floorOf([], 100), []);
  });
  it('shows no slope where only the garbage between two collections moves', () => {
    const sawtooth = Array.from({ length: 360 }, (_, n) => ({ at: n * 10_000, value: 200 + (n % 6) * 10 }));
    assert.equal(slopeOf(floorOf(sawtooth, MINUTE)).perHour, 0);
  });
});
