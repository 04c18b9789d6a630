/**
 * Writes beside housekeeping, and whom to blame for those that wait long: the unit that ran before them or with them, the commit
 * itself (an fsync of this machine), or a checkpoint, which the WAL-index tells.
 */
import { closeSync, openSync, readSync } from 'node:fs';
import type { Committer, Work } from '../../src/storage/commit.ts';
import { insertRows } from '../../src/storage/rows.ts';

/** One piece of a rule's work, in milliseconds of `performance.now()`. */
interface Unit {
  rule: string;
  began: number;
  ended: number;
}

export interface Write {
  ms: number;
  /** Its parts, for people. */
  blame: string;
}

/** In the file `-shm`: a number that grows when the WAL begins again, and, behind two copies of the header, how many of its frames are in the database. */
const SALT_AT = 32;
const BACKFILLED_AT = 96;

export class Watch {
  readonly writes: Write[] = [];
  /** For how long each unit of housekeeping held the writer, in ms: the fsync of its group is not its own. */
  readonly holds: { rule: string; ms: number }[] = [];
  /** The account whose requests come in now. */
  rule = '';
  /** Housekeeping is given this instead of the committer. */
  readonly commit: Committer;
  private readonly units: Unit[] = [];
  private readonly real: Committer;
  private readonly shm: number;

  constructor(real: Committer, file: string) {
    this.real = real;
    this.shm = openSync(`${file}-shm`, 'r');
    this.commit = {
      ...real,
      transact: (run) => real.transact((tx) => this.noted(() => run(tx))),
    };
  }

  /** One write of a row. */
  async write(name: string): Promise<void> {
    let turn = 0;
    const work: Work<string, undefined> = {
      name: 'probe',
      run: async (tx, names) => {
        turn = performance.now();
        await insertRows(tx, [{ settings: names.map((one) => ({ name: one, value: 'x' })) }]);
        return names.map(() => undefined);
      },
    };
    const before = this.checkpoints();
    const from = performance.now();
    await this.real.submit(work, name);
    const to = performance.now();
    const after = this.checkpoints();
    this.writes.push({
      ms: to - from,
      blame: [
        `${(turn - from).toFixed(1)} ms until its turn${this.during(from, turn)}`,
        `${(to - turn).toFixed(1)} ms in its group${this.during(turn, to)}`,
        ...(after === before ? [] : ['a checkpoint']),
      ].join(', '),
    });
    this.units.splice(0, Math.max(0, this.units.length - 20));
  }

  close(): void {
    closeSync(this.shm);
  }

  private async noted<Output>(run: () => Promise<Output>): Promise<Output> {
    const unit: Unit = { rule: this.rule, began: performance.now(), ended: Infinity };
    this.units.push(unit);
    try {
      return await run();
    } finally {
      unit.ended = performance.now();
      this.holds.push({ rule: unit.rule, ms: unit.ended - unit.began });
    }
  }

  /** The units that ran in this time, and for how long of it. */
  private during(from: number, to: number): string {
    const found = this.units
      .map(({ rule, began, ended }) => ({ rule, ms: Math.min(ended, to) - Math.max(began, from) }))
      .filter(({ ms }) => ms > 0.1)
      .map(({ rule, ms }) => `${rule} ${ms.toFixed(1)} ms`);
    return found.length === 0 ? '' : ` (${found.join(', ')})`;
  }

  /** Changes with each checkpoint. */
  private checkpoints(): string {
    const bytes = Buffer.alloc(BACKFILLED_AT + 4);
    readSync(this.shm, bytes, 0, bytes.length, 0);
    return `${String(bytes.readUInt32BE(SALT_AT))} ${String(bytes.readUInt32LE(BACKFILLED_AT))}`;
  }
}
