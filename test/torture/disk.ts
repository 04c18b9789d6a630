/**
 * A disk that loses its power: what was synced stands, of what was written after that any part may be there, in any order,
 * in blocks of 4 KiB that may be torn at a sector. Pure.
 */
import type { Step } from './trace.ts';

const BLOCK = 4096;
const SECTOR = 512;

type Change = Extract<Step, { kind: 'write' | 'truncate' }>;

interface File {
  durable: Buffer;
  /** Since the last sync, oldest first. */
  pending: Change[];
}

export class Disk {
  private readonly files = new Map<string, File>();

  /** The contents of the file before the first step, all of it durable. */
  put(name: string, bytes: Buffer): void {
    this.files.set(name, { durable: bytes, pending: [] });
  }

  apply(step: Exclude<Step, { kind: 'told' }>): void {
    const file = this.files.get(step.file) ?? { durable: Buffer.alloc(0), pending: [] };
    this.files.set(step.file, file);
    if (step.kind !== 'sync') {
      file.pending.push(step);
      return;
    }
    for (const change of file.pending) file.durable = changed(file.durable, change);
    file.pending = [];
  }

  /** How many changes a loss of power could lose. */
  get atRisk(): number {
    return [...this.files.values()].reduce((sum, { pending }) => sum + pending.length, 0);
  }

  /** The files as they may be found after a loss of power now. `random` gives numbers in [0, 1). */
  image(random: () => number): Map<string, Buffer> {
    const kept = random();
    return new Map([...this.files].map(([name, file]) => [name, afterLoss(file, kept, random)]));
  }
}

/** `kept` is the share of blocks that made it to the disk whole; half of the others are torn. */
function afterLoss({ durable, pending }: File, kept: number, random: () => number): Buffer {
  let bytes: Buffer = Buffer.from(durable);
  for (const change of pending) {
    if (change.kind === 'truncate') {
      if (random() < kept) bytes = changed(bytes, change);
      continue;
    }
    for (const block of blocksOf(change)) {
      if (random() < kept) bytes = changed(bytes, block);
      else if (random() < 0.5) bytes = changed(bytes, torn(block, random));
    }
  }
  return bytes;
}

function changed(bytes: Buffer, change: Change): Buffer {
  if (change.kind === 'truncate') return resized(bytes, change.size);
  const end = change.at + change.bytes.length;
  const whole = end > bytes.length ? resized(bytes, end) : bytes;
  change.bytes.copy(whole, change.at);
  return whole;
}

/** Another length; what is new holds zeros, as a hole in a file does. */
function resized(bytes: Buffer, size: number): Buffer {
  const other = Buffer.alloc(size);
  bytes.copy(other, 0, 0, Math.min(size, bytes.length));
  return other;
}

function blocksOf({ file, at, bytes }: Extract<Change, { kind: 'write' }>): Extract<Change, { kind: 'write' }>[] {
  const blocks: Extract<Change, { kind: 'write' }>[] = [];
  for (let from = 0; from < bytes.length;) {
    const to = Math.min(bytes.length, from + BLOCK - ((at + from) % BLOCK));
    blocks.push({ kind: 'write', file, at: at + from, bytes: bytes.subarray(from, to) });
    from = to;
  }
  return blocks;
}

/** Up to some sector the new bytes, beyond it the old. */
function torn(block: Extract<Change, { kind: 'write' }>, random: () => number): Extract<Change, { kind: 'write' }> {
  const end = block.at + block.bytes.length;
  const sectors = Math.ceil(end / SECTOR) - Math.floor(block.at / SECTOR);
  const cut = (Math.floor(block.at / SECTOR) + Math.floor(random() * sectors)) * SECTOR;
  return { ...block, bytes: block.bytes.subarray(0, Math.max(0, cut - block.at)) };
}
