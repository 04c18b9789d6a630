import assert from 'node:assert/strict';
import { Places, turnOf } from '../../src/scheduling/places.ts';

/** Takes places until there are no more; returns how many. */
function takeAll(places: Places, turn: string): number {
  let count = 0;
  for (; places.mayHave(turn); count++) places.add(turn);
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
      const places = new Places(() => most, { hasReserve: true });
      assert.deepEqual([takeAll(places, '1 a'), takeAll(places, '0 a')], [ofClass, ofShare]);
    });

  it('leaves a twentieth to class 0 however many shares have mail of class 1', () => {
    const places = new Places(() => 100, { hasReserve: true });
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
      const places = new Places(() => most, { hasReserve: true });
      assert.deepEqual(
        ['0 a', '0 b', '0 c', '0 d', '0 e'].map((turn) => takeAll(places, turn)),
        taken,
      );
    });

  it('leaves places to others where two accounts with broadcasts take all that they may, however many have one', () => {
    const places = new Places(() => 1_000, { hasReserve: true });
    for (let n = 0; n < 300; n++) places.add(`1 ${String(n)}`);
    assert.deepEqual(
      ['1 a', '1 b', '1 c', '0 c', '0 a', '0 d'].map((turn) => takeAll(places, turn)),
      [630, 1, 1, 48, 1, 1],
    );
  });

  it('lets work go on in the stead of others, though the last places are kept', () => {
    const places = new Places(() => 1_000, { hasReserve: true });
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

  it('tell of turns that have their first place or none', () => {
    const places = new Places(() => 1_000, { hasReserve: true });
    const told: string[] = [];
    places.listen((turn) => told.push(`${turn}: ${String(places.of(turn))}`));
    for (const turn of ['0 a', '0 a', '1 a']) places.add(turn);
    for (const turn of ['0 a', '0 a', '1 a']) places.remove(turn);
    assert.deepEqual(told, ['0 a: 1', '1 a: 1', '0 a: 0', '1 a: 0']);
  });

  it('gives all to whoever asks where there is no reserve', () => {
    const places = new Places(() => 100, { hasReserve: false });
    assert.equal(takeAll(places, '1 a'), 100);
  });

  it('says what may be had in the stead of another', () => {
    const places = new Places(() => 100, { hasReserve: true });
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
    const places = new Places(() => 100, { hasReserve: true });
    const turns = ['0 a', '1 a', '1 b', '1 a'];
    for (const turn of turns) places.add(turn);
    assert.equal(places.taken, 4);
    for (const turn of turns) places.remove(turn);
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
