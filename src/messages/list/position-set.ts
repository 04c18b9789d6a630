/**
 * Sets of positions within a block, as bytes: a list of 16-bit numbers where they are few, a bit for each position where they are
 * many. Pure.
 */

/** Messages of a block. */
export const BLOCK_SIZE = 4096;

const BITMAP_BYTES = BLOCK_SIZE / 8;

/** Which positions, by bits. */
export type Bitmap = Uint32Array;

/** Positions ascend, none comes twice. */
export function encodePositions(positions: readonly number[]): Buffer {
  if (positions.length * 2 < BITMAP_BYTES) {
    const list = Buffer.allocUnsafe(positions.length * 2);
    for (const [at, position] of positions.entries()) list.writeUInt16LE(position, at * 2);
    return list;
  }
  const bits = Buffer.alloc(BITMAP_BYTES);
  for (const position of positions) bits[position >> 3] = (bits[position >> 3] ?? 0) | (1 << (position & 7));
  return bits;
}

/** What `encodePositions` wrote. */
export function decodePositions(bytes: Uint8Array): Bitmap {
  const bitmap = new Uint32Array(BITMAP_BYTES / 4);
  if (bytes.length === BITMAP_BYTES) {
    new Uint8Array(bitmap.buffer).set(bytes);
    return bitmap;
  }
  for (let at = 0; at + 1 < bytes.length; at += 2) {
    const position = (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8);
    bitmap[position >> 5] = (bitmap[position >> 5] ?? 0) | (1 << (position & 31));
  }
  return bitmap;
}

/** Positions of bytes that `fits` has a 1 for. */
export function positionsOf(bytes: Uint8Array, fits: Uint8Array): Bitmap {
  const bitmap = new Uint32Array(BITMAP_BYTES / 4);
  for (let at = 0; at < bytes.length; at++)
    if (fits[bytes[at] ?? 0] === 1) bitmap[at >> 5] = (bitmap[at >> 5] ?? 0) | (1 << (at & 31));
  return bitmap;
}

/** Takes out of `bitmap` what is not in `other`; says whether anything is left. */
export function intersect(bitmap: Bitmap, other: Bitmap): boolean {
  let left = 0;
  for (let at = 0; at < bitmap.length; at++) {
    const word = (bitmap[at] ?? 0) & (other[at] ?? 0);
    bitmap[at] = word;
    left |= word;
  }
  return left !== 0;
}

/** In ascending order. */
export function positionsIn(bitmap: Bitmap): number[] {
  const positions: number[] = [];
  for (const [at, word] of bitmap.entries())
    for (let rest = word; rest !== 0; rest &= rest - 1) positions.push(at * 32 + 31 - Math.clz32(rest & -rest));
  return positions;
}
