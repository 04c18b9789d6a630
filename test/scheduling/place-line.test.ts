import assert from 'node:assert/strict';
import { PlaceLine } from '../../src/scheduling/place-line.ts';
import { Places } from '../../src/scheduling/places.ts';

describe('scheduling/place-line', () => {
  let places: Places;
  let line: PlaceLine<string>;
  beforeEach(() => {
    places = new Places(() => 20, { hasReserve: true });
    line = new PlaceLine(places);
  });

  /** Takes all places that may be had, and returns the items in order. */
  function takeAll(): string[] {
    const taken: string[] = [];
    for (let next = line.next(); next !== undefined; next = line.next()) {
      places.add(next.turn);
      taken.push(next.item);
    }
    return taken;
  }

  it('gives the classes their turns, and the shares of a class', () => {
    for (const turn of ['0 a', '0 b', '1 a', '1 b']) for (const n of [1, 2]) line.add(turn, `${turn} ${String(n)}`);
    assert.equal(line.all, 8);
    assert.deepEqual(takeAll(), ['0 a 1', '1 a 1', '0 b 1', '1 b 1', '0 a 2', '1 a 2', '0 b 2', '1 b 2']);
    assert.equal(line.all, 0);
  });

  it('passes over those that may have no place', () => {
    for (let n = 0; n < 30; n++) line.add('1 a', `a${String(n)}`);
    assert.equal(takeAll().length, 18);
    assert.deepEqual([line.some(), line.some('1 a'), line.some('0 b')], [false, true, false]);
    line.add('1 b', 'b');
    line.add('1 b', 'b again');
    assert.deepEqual(
      [line.some(), takeAll(), line.some()],
      [true, ['b'], false],
      'the last are for those that have none',
    );
    line.add('0 c', 'c');
    assert.deepEqual(takeAll(), ['c']);
    line.add('0 c', 'c');
    assert.deepEqual([line.some(), line.some('1 a')], [false, true], 'it may have that of one that has several');
  });

  it('finds those without a place behind thousands that wait, and asks few of them', () => {
    let asked = 0;
    places = new Places(
      () => {
        asked++;
        return 1_000;
      },
      { hasReserve: true },
    );
    line = new PlaceLine(places);
    for (let n = 0; n < 950; n++) places.add('0 a');
    for (let n = 0; n < 42; n++) places.add('0 b');
    const accounts = Array.from({ length: 3_000 }, (_, n) => `0 c${String(n)}`);
    for (const turn of ['0 a', '0 b', ...accounts]) for (const n of [1, 2]) line.add(turn, `${turn} ${String(n)}`);
    assert.equal(takeAll().length, 8);
    asked = 0;
    places.remove('0 a');
    assert.deepEqual(takeAll(), ['0 c8 1'], 'those without a place go first');
    for (const turn of accounts) for (const n of [1, 2]) line.delete(turn, `${turn} ${String(n)}`);
    places.remove('0 a');
    assert.deepEqual(takeAll(), [], 'the last ones are kept');
    assert.deepEqual(
      ['0 a', '0 b', '0 c1', undefined].map((instead) => line.some(instead)),
      [true, true, false, false],
      'one of several should be given up for the line of others',
    );
    for (let n = 0; n < 20; n++) places.remove('0 a');
    line.add('0 c1', 'c1 again');
    assert.deepEqual(takeAll(), ['0 a 1']);
    assert.ok(asked < 200, String(asked));
  });

  it('lets items go that wait no more', () => {
    line.add('0 a', 'x');
    line.add('1 b', 'x');
    line.delete('0 a', 'x');
    line.delete('0 none', 'x');
    assert.deepEqual([line.all, takeAll()], [1, ['x']]);
  });
});
