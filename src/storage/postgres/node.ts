/**
 * This server among those that use the database. A server has a row in `nodes` while it may write, and says every two seconds that it lives.
 * A server that starts removes the rows of servers that are dead, and is refused
 * while another one lives: one server at a time.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import type { Clock } from '../../base/clock.ts';
import { DatabaseRefusal } from '../database-refusal.ts';
import type { PostgresConnection } from './connection.ts';

/** Tells the runs of a process number apart. */
const PROCESS = randomUUID();

/** The epochs of databases that this process has open. */
const openHere = new Set<number>();

/** A server without a sign of life for this long is dead, by the clock of the database. */
const DEAD_AFTER_MS = 15_000;
const BEAT_MS = 2000;
const LOOK_MS = 250;

interface OtherNode {
  epoch: number;
  name: string;
  machine: string;
  pid: number;
  process: string;
  beat: string;
  age_ms: number;
}

const readNodes = `SELECT n.epoch, n.name, n.machine, n.pid, n.process, b.at::text AS beat,
    (extract(epoch FROM clock_timestamp() - b.at) * 1000)::bigint AS age_ms
  FROM nodes n JOIN node_beats b ON b.epoch = n.epoch ORDER BY n.epoch`;

/** Removes the rows of dead servers. Throws `DatabaseRefusal` when another server lives, which takes two seconds to see. */
export async function standAlone(connection: PostgresConnection, clock: Pick<Clock, 'after'>): Promise<void> {
  const machine = thisMachine();
  const firstBeats = new Map<number, string>();
  for (;;) {
    const others = await connection.all<OtherNode>(readNodes);
    if (others.length === 0) return;
    for (const other of others) {
      const state = stateOf(other, machine, firstBeats.get(other.epoch) ?? null);
      if (state === 'dead') await connection.run('DELETE FROM nodes WHERE epoch = ?', [other.epoch]);
      if (state === 'alive')
        throw new DatabaseRefusal(
          'in_use',
          `another server or command of Posthorn, on ${other.name}, uses the database`,
        );
      if (!firstBeats.has(other.epoch)) firstBeats.set(other.epoch, other.beat);
    }
    await new Promise<void>((resolve) => void clock.after(LOOK_MS, resolve));
  }
}

/** Says whether another server lives. Of one on this machine the process is looked at, of others their signs of life. */
function stateOf(other: OtherNode, machine: string, firstBeat: string | null): 'alive' | 'dead' | 'unclear' {
  if (other.process === PROCESS) return openHere.has(other.epoch) ? 'alive' : 'dead';
  if (other.machine === machine && (other.pid === process.pid || !isRunning(other.pid))) return 'dead';
  if (other.age_ms >= DEAD_AFTER_MS) return 'dead';
  return firstBeat !== null && firstBeat !== other.beat ? 'alive' : 'unclear';
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH');
  }
}

/** Returns what is the same for processes that see each other's numbers: this run of the machine, and the container on it. */
function thisMachine(): string {
  try {
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    // Only Linux has these; elsewhere a name is the best there is.
    return hostname();
  }
}

/** The numbers of the transactions of this server, which several writers share. */
export class MarkerNumbers {
  private last = 0;
  private readonly open = new Set<number>();

  take(): number {
    this.open.add(++this.last);
    return this.last;
  }

  /** Its transaction will not be run again. */
  settle(n: number): void {
    this.open.delete(n);
  }

  /** The markers before this number are never asked for again. */
  get floor(): number {
    return Math.min(this.last + 1, ...this.open);
  }
}

/** This server's row. */
export interface Node {
  readonly epoch: number;
  readonly numbers: MarkerNumbers;
  readonly isOver: boolean;
  /** Notes that the row was removed; tells the program once. */
  end(): void;
  /** Removes the row. */
  leave(): Promise<void>;
}

/** Begins an epoch and adds the row of this server. */
export async function joinNodes(
  connection: PostgresConnection,
  { clock, takenOver }: { clock: Clock; takenOver: () => void },
): Promise<Node> {
  const [row] = await connection.all<{ epoch: number }>(
    `WITH begun AS (
       INSERT INTO settings (name, value) VALUES ('epoch', '1')
       ON CONFLICT (name) DO UPDATE SET value = CAST(settings.value AS BIGINT) + 1 RETURNING value
     ), node AS (
       INSERT INTO nodes (epoch, name, machine, pid, process) SELECT CAST(value AS BIGINT), ?, ?, ?, ? FROM begun RETURNING epoch
     )
     INSERT INTO node_beats (epoch, at) SELECT epoch, clock_timestamp() FROM node RETURNING epoch`,
    [hostname(), thisMachine(), process.pid, PROCESS],
  );
  if (row === undefined) throw new Error('the node was not written');
  const { epoch } = row;
  openHere.add(epoch);

  let isOver = false;
  let isLeaving = false;
  let timer = clock.after(BEAT_MS, beat);
  function end(): void {
    if (isOver || isLeaving) return;
    isOver = true;
    takenOver();
  }
  function beat(): void {
    connection
      .all('UPDATE node_beats SET at = clock_timestamp() WHERE epoch = ? RETURNING epoch', [epoch])
      // While the database cannot be reached no other server can take it over either.
      .then(
        (rows) => rows.length > 0 || end(),
        () => undefined,
      )
      .finally(() => {
        if (!isLeaving && !isOver) timer = clock.after(BEAT_MS, beat);
      });
  }
  return {
    epoch,
    numbers: new MarkerNumbers(),
    get isOver() {
      return isOver;
    },
    end,
    async leave() {
      isLeaving = true;
      timer.cancel();
      openHere.delete(epoch);
      // Where it cannot be removed, the next server finds it dead.
      await connection.run('DELETE FROM nodes WHERE epoch = ?', [epoch]).catch(() => undefined);
    },
  };
}
