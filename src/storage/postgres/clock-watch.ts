/**
 * Compares the clock of this machine with that of the database, which all nodes have in common, since rows carry the time of the node that
 * wrote them. A node whose clock is wrong leaves while another node's is right. If none is right, the database's clock may be the wrong
 * one, and all nodes stay: otherwise no mail would be sent at all.
 */
import type { Clock } from '../../base/clock.ts';
import { clockOffIn, WRONG_CLOCK_MS, type NodeRecord } from '../nodes.ts';
import { DEAD_AFTER_MS } from './node-life.ts';

/** Looks in a row that must agree: a single one may be taken while the clock is being set or the process does not run. */
const LOOKS = 3;
const LOOK_AGAIN_MS = 250;

/** The clock was read before and after a statement that read that of the database. */
export interface ClockLook {
  /** The time of this machine in the middle between the question and the answer. */
  readonly ownMs: number;
  readonly databaseMs: number;
  /** The database's clock was read at most this many ms earlier or later than that. */
  readonly withinMs: number;
}

/** Runs a statement whose first row has the time of the database as `now_ms`; returns that row and what the clocks said. */
export async function lookAtClocks<Row extends { now_ms: number }>(
  clock: Pick<Clock, 'now' | 'monotonic'>,
  run: () => Promise<readonly Row[]>,
): Promise<{ row: Row | undefined; look: ClockLook }> {
  const sentAt = clock.monotonic();
  const sentAtWall = clock.now();
  const [row] = await run();
  const withinMs = (clock.monotonic() - sentAt) / 2;
  // Without a row nothing is known.
  return { row, look: { ownMs: sentAtWall + withinMs, databaseMs: row?.now_ms ?? NaN, withinMs } };
}

/** Returns how far the own clock is ahead of the database's, in ms (less than 0: behind); 0 if that is not sure to be more than `most`. */
export function offBeyond(most: number, { ownMs, databaseMs, withinMs }: ClockLook): number {
  const off = ownMs - databaseMs;
  return Math.abs(off) - withinMs > most ? Math.round(off) : 0;
}

/** Returns whether the clock of a living server is known to be right, as far as it says itself. */
const isRight = ({ facts, isCommand, quietMs }: Pick<NodeRecord, 'facts' | 'isCommand' | 'quietMs'>): boolean =>
  !isCommand && quietMs < DEAD_AFTER_MS && Math.abs(clockOffIn(facts)) <= WRONG_CLOCK_MS;

/** Counts looks in a row that show a wrong clock beside another one that is right. */
export class ClockWatch {
  private looks = 0;
  private side = 0;

  /** Notes a look; returns how far the clock is ahead if this node has to leave for it, else null. */
  note(look: ClockLook, others: readonly Pick<NodeRecord, 'facts' | 'isCommand' | 'quietMs'>[]): number | null {
    const off = offBeyond(WRONG_CLOCK_MS, look);
    const side = others.some(isRight) ? Math.sign(off) : 0;
    this.looks = side === 0 ? 0 : side === this.side ? this.looks + 1 : 1;
    this.side = side;
    return this.looks >= LOOKS ? off : null;
  }

  /** True after a look that showed a wrong clock. */
  get suspects(): boolean {
    return this.looks > 0;
  }
}

/** Looks until the clock is known to be right or wrong; returns how far a wrong one is ahead, else null. */
export async function wrongBy(
  clock: Pick<Clock, 'sleep'>,
  look: () => Promise<ClockLook>,
  others: () => Promise<readonly Pick<NodeRecord, 'facts' | 'isCommand' | 'quietMs'>[]>,
): Promise<number | null> {
  const watch = new ClockWatch();
  for (;;) {
    const off = watch.note(await look(), await others());
    if (off !== null || !watch.suspects) return off;
    await clock.sleep(LOOK_AGAIN_MS);
  }
}
