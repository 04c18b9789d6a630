import assert from 'node:assert/strict';
import fc from 'fast-check';
import { Disk } from './disk.ts';

const FILE = 'f';
const write = (at: number, fill: number, length: number) => ({
  kind: 'write' as const,
  file: FILE,
  at,
  bytes: Buffer.alloc(length, fill),
});
const found = (disk: Disk, random: () => number): Buffer => disk.image(random).get(FILE) ?? Buffer.alloc(0);
const nothingKept = (): number => 0.999;
const allKept = (() => {
  // The first number is the share that is kept, the others stay below it.
  let first = true;
  return (): number => {
    const number = first ? 0.999 : 0;
    first = !first;
    return number;
  };
})();

describe('a disk that loses its power', () => {
  it('keeps what was synced, whatever is lost', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 0.999 }), { minLength: 1, maxLength: 40 }), (numbers) => {
        const disk = new Disk();
        disk.put(FILE, Buffer.alloc(8192, 1));
        disk.apply(write(4096, 2, 4096));
        disk.apply({ kind: 'sync', file: FILE });
        disk.apply(write(0, 3, 4096));
        let at = 0;
        const bytes = found(disk, () => numbers[at++ % numbers.length] ?? 0);
        assert.deepEqual(bytes.subarray(4096), Buffer.alloc(4096, 2));
        // A torn block is new up to a sector and old beyond it.
        const edge = bytes.indexOf(1);
        const isNew = edge < 0 || edge >= 4096 ? 4096 : edge;
        assert.equal(isNew % 512, 0);
        assert.deepEqual(bytes.subarray(0, isNew), Buffer.alloc(isNew, 3));
        assert.deepEqual(bytes.subarray(isNew, 4096), Buffer.alloc(4096 - isNew, 1));
      }),
    );
  });

  it('may lose all that was not synced, or nothing of it', () => {
    const disk = new Disk();
    disk.put(FILE, Buffer.alloc(10, 1));
    disk.apply(write(5, 2, 10));
    assert.equal(disk.atRisk, 1);
    assert.deepEqual(found(disk, nothingKept), Buffer.alloc(10, 1));
    assert.deepEqual(found(disk, allKept), Buffer.concat([Buffer.alloc(5, 1), Buffer.alloc(10, 2)]));
    disk.apply({ kind: 'truncate', file: FILE, size: 3 });
    assert.deepEqual(found(disk, nothingKept), Buffer.alloc(10, 1));
    disk.apply({ kind: 'sync', file: FILE });
    assert.equal(disk.atRisk, 0);
    assert.deepEqual(found(disk, nothingKept), Buffer.alloc(3, 1));
  });
});
