/**
 * The marker that each group writes, `commits (epoch, n)` (writer.ts): its number, which stays the same while the group is run again, and what
 * its two constraints say.
 */
import type { Connection } from '../connection.ts';
import type { Node } from './node.ts';

const UNIQUE_VIOLATION = '23505';
const FOREIGN_KEY_VIOLATION = '23503';
/** Transactions after which markers are removed that are never asked for again. */
const KEPT_MARKERS = 1000;
/**
 * How far back such markers are looked for: ten times, as a transaction that removes them may be rolled back. Without an end, it would walk
 * over all that were removed since the oldest snapshot of the database.
 */
const SOUGHT_MARKERS = 10 * KEPT_MARKERS;

const REMOVE_MARKERS = 'DELETE FROM commits WHERE epoch = ? AND n >= ? AND n < ?';

export class GroupMarker {
  private readonly node: Pick<Node, 'epoch' | 'numbers'>;
  /** The number of the group, until it is committed or given up. */
  private n: number | null = null;

  constructor(node: Pick<Node, 'epoch' | 'numbers'>) {
    this.node = node;
  }

  /** The number of the group; 0 while there is none. */
  get number(): number {
    return this.n ?? 0;
  }

  /** Sends the statements that write the marker, with the number of the run before if that is not settled. */
  write(connection: Pick<Connection, 'run'>): Promise<void>[] {
    const { epoch, numbers } = this.node;
    const n = (this.n ??= numbers.take());
    return [
      connection.run('INSERT INTO commits (epoch, n) VALUES (?, ?)', [epoch, n]),
      ...(n % KEPT_MARKERS === 0 ? [connection.run(REMOVE_MARKERS, [epoch, n - SOUGHT_MARKERS, numbers.floor])] : []),
    ];
  }

  /** Ends the number: the group is committed, or given up for good. */
  settle(): void {
    if (this.n !== null) this.node.numbers.settle(this.n);
    this.n = null;
  }
}

export const refusalOf = (error: unknown): { code?: string; constraint?: string } =>
  error instanceof Error ? (error as { code?: string; constraint?: string }) : {};

/** True if the marker of a group is there already: an earlier run of it was committed. */
export function isMarkerThere(error: unknown): boolean {
  const { code, constraint } = refusalOf(error);
  return code === UNIQUE_VIOLATION && constraint === 'commits_pkey';
}

/** True if the row of the node is gone, to which markers refer. */
export function isNodeGone(error: unknown): boolean {
  const { code, constraint = '' } = refusalOf(error);
  return code === FOREIGN_KEY_VIOLATION && constraint.startsWith('commits_');
}
