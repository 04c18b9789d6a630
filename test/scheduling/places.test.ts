import assert from 'node:assert/strict';
import { Places, turnOf } from '../../src/scheduling/places.ts';

/** Takes places until there are no more; returns how many. */
function takeAll(places: Places<string>, turn: string): number {
  let count = 0;
  for (; places.mayHave(turn); count++) places.take(turn);
  return count;
}

describe('places', () => {
  for (const [most, ofClass, ofShare] of [
    [1, 1, 0],
    [9, 9, 0],
    [10, 9, 1],
    [19, 18, 1],
    [20, 18, 1],
    [100, 90, 5],
    [10_000, 9_000, 500],
  ] as const)
    it(`of ${String(most)}, class 1 of a share may have ${String(ofClass)}, and its class 0 then ${String(ofShare)} more`, () => {
      const places = new Places<string>(() => most, { hasReserve: true });
      assert.deepEqual([takeAll(places, '1 a'), takeAll(places, '0 a')], [ofClass, ofShare]);
    });

  it('leaves a twentieth to class 0 however many shares have mail of class 1', () => {
    const places = new Places<string>(() => 100, { hasReserve: true });
    assert.deepEqual(
      ['1 a', '1 b', '1 c', '1 d', '0 e', '0 f'].map((turn) => takeAll(places, turn)),
      [90, 3, 1, 1, 3, 1],
    );
  });

  for (const [most, taken] of [
    [19, [19, 0, 0, 0, 0]],
    [20, [19, 1, 0, 0, 0]],
    [50, [48, 1, 1, 0, 0]],
    [100, [95, 3, 1, 1, 0]],
    [1_000, [950, 30, 1, 1, 1]],
    [10_000, [9_500, 300, 1, 1, 1]],
  ] as const)
    it(`of ${String(most)}, leaves places to others where two accounts take all that they may`, () => {
      const places = new Places<string>(() => most, { hasReserve: true });
      assert.deepEqual(
        ['0 a', '0 b', '0 c', '0 d', '0 e'].map((turn) => takeAll(places, turn)),
        taken,
      );
    });

  it('leaves places to others where two accounts with broadcasts take all that they may, however many have one', () => {
    const places = new Places<string>(() => 1_000, { hasReserve: true });
    for (let n = 0; n < 300; n++) places.take(`1 ${String(n)}`);
    assert.deepEqual(
      ['1 a', '1 b', '1 c', '0 c', '0 a', '0 d'].map((turn) => takeAll(places, turn)),
      [630, 1, 1, 48, 1, 1],
    );
  });

  it('lets work go on in the stead of others, though the last places are kept', () => {
    const places = new Places<string>(() => 1_000, { hasReserve: true });
    for (const turn of ['0 a', '0 b', '0 c', '0 d']) takeAll(places, turn);
    for (const [turn, instead, may] of [
      ['0 c', undefined, false],
      ['0 c', '0 a', true],
      ['0 c', '0 d', true],
      ['0 a', '0 b', false],
      ['0 new', undefined, true],
      ['0 new', '0 d', true],
    ] as const)
      assert.equal(places.mayHave(turn, instead), may, `${turn} instead of ${String(instead)}`);
  });

  it('gives all to whoever asks where there is no reserve', () => {
    const places = new Places<string>(() => 100, { hasReserve: false });
    assert.equal(takeAll(places, '1 a'), 100);
  });

  it('says what may be had in the stead of another', () => {
    const places = new Places<string>(() => 100, { hasReserve: true });
    takeAll(places, '1 a');
    takeAll(places, '0 a');
    for (const [turn, instead, may] of [
      ['1 a', '1 a', true],
      ['0 a', '1 a', true],
      ['1 a', '0 a', false],
      ['1 a', '0 b', false],
      ['0 a', '0 b', false],
      ['0 b', '1 a', true],
    ] as const)
      assert.equal(places.mayHave(turn, instead), may, `${turn} instead of ${instead}`);
    for (const turn of ['0 b', '0 d', '0 e']) takeAll(places, turn);
    assert.deepEqual(
      [places.mayHave('0 c'), places.mayHave('0 c', '0 b'), places.mayHave('1 c', '0 b')],
      [false, true, true],
    );
  });

  it('counts back to nothing', () => {
    const places = new Places<string>(() => 100, { hasReserve: true });
    const turns = ['0 a', '1 a', '1 b', '1 a'];
    for (const turn of turns) places.take(turn);
    assert.equal(places.taken, 4);
    for (const turn of turns) places.giveBack(turn);
    assert.equal(places.taken, 0);
    assert.equal(takeAll(places, '1 a'), 90);
  });

  it('know a class and share by the job', () => {
    assert.deepEqual(
      [0, 1, 2].map((order) => turnOf({ class: order, share: 'acc 1' })),
      ['0 acc 1', '1 acc 1', '1 acc 1'],
    );
  });
});

describe('scheduling/places: what waits', () => {
  let places: Places<string>;
  beforeEach(() => {
    places = new Places<string>(() => 20, { hasReserve: true });
  });

  /** Takes all places that may be had, and returns the items in order. */
  function takeAll(): string[] {
    const taken: string[] = [];
    for (let next = places.next(); next !== undefined; next = places.next()) {
      places.take(next.turn);
      taken.push(next.item);
    }
    return taken;
  }

  it('gives the classes their turns, and the shares of a class', () => {
    for (const turn of ['0 a', '0 b', '1 a', '1 b']) for (const n of [1, 2]) places.wait(turn, `${turn} ${String(n)}`);
    assert.equal(places.waiting, 8);
    assert.deepEqual(takeAll(), ['0 a 1', '1 a 1', '0 b 1', '1 b 1', '0 a 2', '1 a 2', '0 b 2', '1 b 2']);
    assert.equal(places.waiting, 0);
  });

  it('passes over those that may have no place', () => {
    for (let n = 0; n < 30; n++) places.wait('1 a', `a${String(n)}`);
    assert.equal(takeAll().length, 18);
    assert.deepEqual([places.someWaits(), places.someWaits('1 a'), places.someWaits('0 b')], [false, true, false]);
    places.wait('1 b', 'b');
    places.wait('1 b', 'b again');
    assert.deepEqual(
      [places.someWaits(), takeAll(), places.someWaits()],
      [true, ['b'], false],
      'the last are for those that have none',
    );
    places.wait('0 c', 'c');
    assert.deepEqual(takeAll(), ['c']);
    places.wait('0 c', 'c');
    assert.deepEqual(
      [places.someWaits(), places.someWaits('1 a')],
      [false, true],
      'it may have that of one that has several',
    );
  });

  it('finds those without a place behind thousands that wait, and asks few of them', () => {
    let asked = 0;
    places = new Places<string>(
      () => {
        asked++;
        return 1_000;
      },
      { hasReserve: true },
    );
    for (let n = 0; n < 950; n++) places.take('0 a');
    for (let n = 0; n < 42; n++) places.take('0 b');
    const accounts = Array.from({ length: 3_000 }, (_, n) => `0 c${String(n)}`);
    for (const turn of ['0 a', '0 b', ...accounts]) for (const n of [1, 2]) places.wait(turn, `${turn} ${String(n)}`);
    assert.equal(takeAll().length, 8);
    asked = 0;
    places.giveBack('0 a');
    assert.deepEqual(takeAll(), ['0 c8 1'], 'those without a place go first');
    for (const turn of accounts) for (const n of [1, 2]) places.leave(turn, `${turn} ${String(n)}`);
    places.giveBack('0 a');
    assert.deepEqual(takeAll(), [], 'the last ones are kept');
    assert.deepEqual(
      ['0 a', '0 b', '0 c1', undefined].map((instead) => places.someWaits(instead)),
      [true, true, false, false],
      'one of several should be given up for the line of others',
    );
    for (let n = 0; n < 20; n++) places.giveBack('0 a');
    places.wait('0 c1', 'c1 again');
    assert.deepEqual(takeAll(), ['0 a 1']);
    assert.ok(asked < 200, String(asked));
  });

  it('lets items go that wait no more', () => {
    places.wait('0 a', 'x');
    places.wait('1 b', 'x');
    places.leave('0 a', 'x');
    places.leave('0 none', 'x');
    assert.deepEqual([places.waiting, takeAll()], [1, ['x']]);
  });
});
