/**
 * This process among those that use the database. It has a row in `nodes` while it may write, says every two seconds that it lives, and removes the
 * rows of dead ones. Of the servers with the role `chores`, the one with the smallest epoch leads.
 */
import { hostname } from 'node:os';
import type { Clock, Timer } from '../../base/clock.ts';
import { isStorageTrouble } from '../commit.ts';
import { DatabaseRefusal } from '../mark.ts';
import {
  MOST_CLOCK_OFF_MS,
  rolesIn,
  type NodeRecord,
  type Nodes,
  type NodeSelf,
  clockOffIn,
  WRONG_CLOCK_MS,
} from '../nodes.ts';
import { isConnectionLoss, type PostgresConnection } from './connection.ts';
import type { NodeMessages } from './node-messages.ts';

/** A node that was seen to give no sign of life for this long is dead. It is longer than a node trusts its own lease. */
export const DEAD_AFTER_MS = 12_000;
/** After a pause of this length nothing is known about the others: the database was away, or this process was stopped. */
const LONGEST_GAP_MS = 5000;

/** A row of `nodes` with its last sign of life. */
export interface NodeRow {
  epoch: number;
  name: string;
  version: string;
  facts: string;
  is_command: number;
  is_draining: number;
  since_ms: number;
  beat: string;
  quiet_ms: number;
}

const readNodes = `SELECT n.epoch, n.name, n.version, n.facts, n.is_command, n.is_draining,
    (extract(epoch FROM n.begun_at) * 1000)::bigint AS since_ms, b.at::text AS beat,
    (extract(epoch FROM clock_timestamp() - b.at) * 1000)::bigint AS quiet_ms
  FROM nodes n JOIN node_beats b ON b.epoch = n.epoch ORDER BY n.epoch`;

/** How long each of the others has given no sign of life, by this process's own clock: the clock of the database may have been away. */
export class Silences {
  private readonly seen = new Map<number, { beat: string; since: number }>();
  private lastLook = -Infinity;

  /** Notes what was read; returns the nodes that are dead. `now` is monotonic, in ms. */
  look(others: readonly NodeRow[], now: number): NodeRow[] {
    if (now - this.lastLook > LONGEST_GAP_MS) this.seen.clear();
    const { lastLook } = this;
    this.lastLook = now;
    for (const epoch of this.seen.keys()) if (others.every((one) => one.epoch !== epoch)) this.seen.delete(epoch);
    return others.filter((one) => {
      const before = this.seen.get(one.epoch);
      if (before?.beat !== one.beat) {
        // A new sign of life was given since the last look: how long ago is told by the database, whose clock may have been set meanwhile.
        const since = before === undefined ? now : Math.max(lastLook, now - Math.max(0, one.quiet_ms));
        this.seen.set(one.epoch, { beat: one.beat, since });
      }
      return before?.beat === one.beat && now - before.since >= DEAD_AFTER_MS;
    });
  }

  /** Returns in how many ms the first of the others is dead if it stays silent; Infinity if there are none. */
  untilDead(now: number): number {
    return Math.min(...[...this.seen.values()].map(({ since }) => since + DEAD_AFTER_MS - now));
  }
}

/** A comparison of the clocks: how far that of this machine was ahead of the database's, in ms, give or take `withinMs`. */
interface ClockLook {
  readonly aheadMs: number;
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
  return { row, look: { aheadMs: sentAtWall + withinMs - (row?.now_ms ?? NaN), withinMs } };
}

/** Returns how far the own clock is ahead of the database's, in ms (less than 0: behind); 0 if that is not sure to be more than `most`. */
export const offBeyond = (most: number, { aheadMs, withinMs }: ClockLook): number =>
  Math.abs(aheadMs) - withinMs > most ? Math.round(aheadMs) : 0;

type Other = Pick<NodeRecord, 'facts' | 'isCommand' | 'quietMs'>;

/**
 * Returns how far the own clock is ahead if it is wrong and another living server says that its own is right; else 0. Rows carry the time of their
 * node, so one whose clock is wrong leaves. If none is right, the database's may be the wrong one, and all stay: otherwise no mail would be sent.
 */
export function wrongBeside(look: ClockLook, others: readonly Other[]): number {
  const isRight = ({ facts, isCommand, quietMs }: Other): boolean =>
    !isCommand && quietMs < DEAD_AFTER_MS && Math.abs(clockOffIn(facts)) <= WRONG_CLOCK_MS;
  return others.some(isRight) ? offBeyond(WRONG_CLOCK_MS, look) : 0;
}

/** Signs of life in a row that must agree before a node leaves: a single one may be given while the clock is being set. */
const WRONG_LOOKS = 3;

const BEAT_MS = 2000;
const LOOK_MS = 250;
/**
 * Time without an answer to a sign of life after which the server hangs, or is gone. The system would wait for a quarter of an hour, or for two
 * hours. No lock is waited for as long (`lock_timeout`).
 */
const SILENT_MS = 6000;
/** Records that are older than this are so because the database is away: no node has given a sign of life since. */
const STALE_MS = 3000;
/** A node trusts itself for this long after it sent its last good sign of life. Others take over only later (`DEAD_AFTER_MS`). */
const LEASE_MS = 10_000;

/** The database's time while the statement runs. */
const NOW_MS = '(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

/** Removes a node that has given no sign of life since it was read. */
const REMOVE_SILENT = `DELETE FROM nodes WHERE epoch = ?
    AND EXISTS (SELECT 1 FROM node_beats b WHERE b.epoch = nodes.epoch AND b.at::text = ?) RETURNING epoch`;

/** The next sign of life looks again after a lost connection, a failing disk or a conflict (SQLSTATE class 40). Other errors are bugs. */
function ignoreTrouble(error: unknown): void {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (!isStorageTrouble(error) && !isConnectionLoss(error) && !code.startsWith('40')) throw error;
}

const removeNode = (connection: PostgresConnection, epoch: number): Promise<void> =>
  connection.run('DELETE FROM nodes WHERE epoch = ?', [epoch]);

interface Waiting {
  connection: PostgresConnection;
  clock: Pick<Clock, 'after' | 'monotonic'>;
}

/** Removes the rows of dead nodes `inTheWay`. Throws `DatabaseRefusal` if one lives: silent ones are watched until a sign of life or their death. */
export async function clearAway(
  { connection, clock }: Waiting,
  inTheWay: (other: NodeRow) => string | null,
): Promise<void> {
  const firstBeats = new Map<number, string>();
  const began = clock.monotonic();
  for (;;) {
    let isUnclear = false;
    for (const other of await connection.all<NodeRow>(readNodes)) {
      const why = inTheWay(other);
      if (why === null) continue;
      const firstBeat = firstBeats.get(other.epoch) ?? other.beat;
      firstBeats.set(other.epoch, firstBeat);
      if (firstBeat !== other.beat) throw new DatabaseRefusal('in_use', why);
      // Two signs of life were watched for: the database's clock may have been set.
      if (other.quiet_ms >= DEAD_AFTER_MS && clock.monotonic() - began >= BEAT_MS * 2)
        await removeNode(connection, other.epoch);
      else isUnclear = true;
    }
    if (!isUnclear) return;
    await new Promise<void>((resolve) => void clock.after(LOOK_MS, resolve));
  }
}

/** Removes the rows of dead nodes. Throws `DatabaseRefusal` when any other lives, which takes two seconds to see. */
export const standAlone = (waiting: Waiting): Promise<void> =>
  clearAway(waiting, ({ name }) => `another server or command of Posthorn, on ${name}, uses the database`);

/** The numbers of the transactions of this node, which several writers share. */
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

export interface Node {
  readonly epoch: number;
  readonly numbers: MarkerNumbers;
  readonly isOver: boolean;
  /** Notes that the row was removed; tells the program once. */
  end(): void;
}

export interface NodeDeps {
  connection: PostgresConnection;
  clock: Clock;
  messages: NodeMessages;
  /** Called once when the row was removed by another node. */
  takenOver(): void;
  /** Called when the clock of this machine begins to differ from that of the database, and with 0 when it no longer does. */
  clockDiffers?(aheadMs: number): void;
  /** Called once when the clock is wrong while that of another node is right: this one has to leave. */
  clockWrong?(aheadMs: number): void;
}

/** Returns how far the clock of this machine is ahead if it is wrong and that of another node is right; 0 if it may join. */
export async function clockInTheWay(
  connection: PostgresConnection,
  clock: Pick<Clock, 'now' | 'monotonic'>,
): Promise<number> {
  const read = (): Promise<{ now_ms: number }[]> => connection.all(`SELECT ${NOW_MS} AS now_ms`);
  const { look } = await lookAtClocks(clock, read);
  const others = await connection.all<NodeRow>(readNodes);
  return wrongBeside(
    look,
    others.map((row) => recordOf(row, false)),
  );
}

/** Begins an epoch, adds the row of this node and keeps it alive. `self` is null for a command; a server drains until it is told to take work. */
export async function joinNodes(deps: NodeDeps, self: NodeSelf | null): Promise<JoinedNode> {
  const { name, version, facts } = self ?? { name: hostname(), version: '', facts: '{}' };
  const write = (): Promise<{ epoch: number; now_ms: number }[]> =>
    deps.connection.all(
      `WITH begun AS (
         INSERT INTO settings (name, value) VALUES ('epoch', '1')
         ON CONFLICT (name) DO UPDATE SET value = CAST(settings.value AS BIGINT) + 1 RETURNING value
       ), node AS (
         INSERT INTO nodes (epoch, name, version, facts, is_command, is_draining)
         SELECT CAST(value AS BIGINT), ?, ?, ?, CAST(? AS BOOLEAN), CAST(? AS BOOLEAN) FROM begun RETURNING epoch
       )
       INSERT INTO node_beats (epoch, at) SELECT epoch, clock_timestamp() FROM node RETURNING epoch, ${NOW_MS} AS now_ms`,
      [name, version, facts, String(self === null), String(self !== null)],
    );
  const { row, look } = await lookAtClocks(deps.clock, write);
  if (row === undefined) throw new Error('the node was not written');
  const joined = new JoinedNode(deps, row.epoch, { name, facts });
  await joined.begin(look);
  return joined;
}

/** This node: what the writers need of it, and what the program sees of the others. */
export class JoinedNode implements Node, Nodes {
  readonly epoch: number;
  readonly name: string;
  readonly numbers = new MarkerNumbers();
  readonly leads: Promise<void>;
  /** The greatest number of an event that a sign of life saw. */
  lastEvent = 0;
  private readonly deps: NodeDeps;
  private readonly silences = new Silences();
  private records: readonly NodeRecord[] = [];
  /** When the records were read, by the monotonic clock. */
  private readAt = 0;
  private readonly changeListeners: (() => void)[] = [];
  private beginLeading: () => void = () => undefined;
  private timer: { cancel(): void } | null = null;
  /** When the last good sign of life was sent, by the monotonic clock. */
  private signedAt: number;
  /** Null until the first sign of life. */
  private newestEvent: number | null = null;
  private facts: string;
  /** The facts that the row in the database has, without those of the clock. */
  private written: string;
  /** How far the clock of this node is ahead of that of the database, as its facts say, in ms. */
  private clockOffMs = 0;
  /** Signs of life in a row for which the clock was wrong. */
  private wrongLooks = 0;
  private isLeaving = false;
  private hasEnded = false;

  constructor(deps: NodeDeps, epoch: number, { name, facts }: Pick<NodeSelf, 'name' | 'facts'>) {
    this.deps = deps;
    this.epoch = epoch;
    this.name = name;
    this.facts = facts;
    this.written = facts;
    deps.messages.epoch = epoch;
    this.signedAt = deps.clock.monotonic();
    this.leads = new Promise((resolve) => {
      this.beginLeading = resolve;
    });
    deps.messages.listen((message) => {
      // A node joined, left or was asked to drain.
      if (message?.about === 'nodes') this.look().catch(ignoreTrouble);
    });
  }

  /** Reads the other nodes, tells them of this one, and gives signs of life from now on. */
  async begin(clocks: ClockLook): Promise<void> {
    await this.noteFacts(clocks);
    await this.look();
    this.tell({ about: 'nodes', hint: null });
    this.schedule();
  }

  get isOver(): boolean {
    return this.hasEnded;
  }

  get isLeader(): boolean {
    return this.records.some(({ epoch, isLeader }) => isLeader && epoch === this.epoch);
  }

  get holdsLease(): boolean {
    return !this.hasEnded && this.deps.clock.monotonic() - this.signedAt < LEASE_MS;
  }

  get hasOthers(): boolean {
    return this.records.some(({ epoch, isCommand }) => !isCommand && epoch !== this.epoch);
  }

  list(): readonly NodeRecord[] {
    const age = this.deps.clock.monotonic() - this.readAt;
    if (age < STALE_MS) return this.records;
    return this.records.map((one) => ({ ...one, quietMs: one.quietMs + age }));
  }

  tell(message: Parameters<Nodes['tell']>[0]): void {
    // Commands are over before they could hear anything.
    if (this.hasOthers) this.deps.messages.tell(message);
  }

  listen(listener: Parameters<Nodes['listen']>[0]): void {
    this.deps.messages.listen(listener);
  }

  onChange(listener: () => void): void {
    this.changeListeners.push(listener);
  }

  async ended(epochs: readonly number[]): Promise<number[]> {
    if (epochs.length === 0) return [];
    const rows = await this.deps.connection.all<{ epoch: number }>('SELECT epoch FROM nodes');
    const living = new Set(rows.map(({ epoch }) => epoch));
    return epochs.filter((epoch) => !living.has(epoch));
  }

  describe(facts: string): void {
    this.facts = facts;
  }

  async setDraining(epoch: number, isDraining: boolean): Promise<void> {
    const { connection } = this.deps;
    await connection.run('UPDATE nodes SET is_draining = CAST(? AS BOOLEAN) WHERE epoch = ?', [
      String(isDraining),
      epoch,
    ]);
    await this.nodesChanged();
  }

  async remove(epoch: number): Promise<void> {
    await removeNode(this.deps.connection, epoch);
    await this.nodesChanged();
  }

  end(): void {
    if (this.hasEnded || this.isLeaving) return;
    this.hasEnded = true;
    this.deps.takenOver();
  }

  async leave(): Promise<void> {
    this.isLeaving = true;
    this.timer?.cancel();
    // If this fails, another node removes it.
    await removeNode(this.deps.connection, this.epoch).catch(() => undefined);
    if (this.hasOthers) await this.deps.messages.flush({ about: 'nodes', hint: null });
  }

  private async nodesChanged(): Promise<void> {
    this.tell({ about: 'nodes', hint: null });
    await this.look();
  }

  private schedule(): void {
    const { clock } = this.deps;
    // A silent node is removed as soon as it may be, since its mail waits for that.
    const ms = Math.min(BEAT_MS, Math.max(LOOK_MS, this.silences.untilDead(clock.monotonic())));
    if (!this.isLeaving && !this.hasEnded) this.timer = clock.after(ms, () => void this.beat());
  }

  private async beat(): Promise<void> {
    const { clock, connection } = this.deps;
    const sentAt = clock.monotonic();
    const silence = this.watchSilence();
    try {
      const sign = (): Promise<{ event: number | null; now_ms: number }[]> =>
        connection.all(
          `UPDATE node_beats SET at = clock_timestamp() WHERE epoch = ?
           RETURNING (SELECT MAX(sequence) FROM events) AS event, ${NOW_MS} AS now_ms`,
          [this.epoch],
        );
      const { row, look } = await lookAtClocks(clock, sign);
      silence.heard();
      if (row === undefined) {
        this.end();
        return;
      }
      this.signedAt = sentAt;
      this.noteEvent(row.event);
      await this.noteFacts(look);
      silence.heard();
      await this.look();
      this.watchClock(look);
    } catch (error) {
      // While the database cannot be reached the lease runs out by itself, and writes say why they fail.
      ignoreTrouble(error);
    } finally {
      silence.cancel();
      this.schedule();
    }
  }

  /** Gives the connection up, and the one after it, for as long as no answer comes. */
  private watchSilence(): { heard(): void; cancel(): void } {
    const { clock, connection } = this.deps;
    const plan = (): Timer =>
      clock.after(
        SILENT_MS,
        () => {
          timer = plan();
          connection.drop(Infinity);
        },
        { background: true },
      );
    let timer = plan();
    const cancel = (): void => timer.cancel();
    return {
      heard() {
        cancel();
        timer = plan();
      },
      cancel,
    };
  }

  /** Calls the listeners of events if there are new ones that no message told of. */
  private noteEvent(event: number | null): void {
    if (event !== this.newestEvent && this.hasOthers) this.deps.messages.missed('events');
    this.newestEvent = event;
    this.lastEvent = Math.max(this.lastEvent, event ?? 0);
  }

  /** Writes new facts of this node for the others, and how far its clock differs from that of the database. Writes nothing while nothing changes. */
  private async noteFacts(clocks: ClockLook): Promise<void> {
    const seen = offBeyond(MOST_CLOCK_OFF_MS, clocks);
    const isSame = seen === 0 || this.clockOffMs === 0 ? seen === this.clockOffMs : isNear(seen, this.clockOffMs);
    const { facts } = this;
    if (isSame && facts === this.written) return;
    const clockOffMs = isSame ? this.clockOffMs : seen;
    const text = JSON.stringify({ ...(JSON.parse(facts) as object), clockOffMs });
    await this.deps.connection.run('UPDATE nodes SET facts = ? WHERE epoch = ?', [text, this.epoch]);
    this.clockOffMs = clockOffMs;
    this.written = facts;
    if (!isSame) this.deps.clockDiffers?.(clockOffMs);
  }

  /** Tells the program once if the clock is wrong and that of another node is right. */
  private watchClock(look: ClockLook): void {
    const off = wrongBeside(
      look,
      this.records.filter(({ epoch }) => epoch !== this.epoch),
    );
    this.wrongLooks = off === 0 ? 0 : this.wrongLooks + 1;
    if (this.wrongLooks === WRONG_LOOKS && !this.isLeaving && !this.hasEnded) this.deps.clockWrong?.(off);
  }

  private async look(): Promise<void> {
    const { connection, clock } = this.deps;
    const rows = await connection.all<NodeRow>(readNodes);
    const others = rows.filter(({ epoch }) => epoch !== this.epoch);
    const removed = new Set<number>();
    for (const { epoch, beat } of this.silences.look(others, clock.monotonic())) {
      const gone = await connection.all(REMOVE_SILENT, [epoch, beat]);
      if (gone.length > 0) removed.add(epoch);
    }
    const left = rows.filter(({ epoch }) => !removed.has(epoch));
    const servers = left.filter(({ is_command }) => is_command === 0);
    const leader = leaderOf(servers)?.epoch;
    const before = serversIn(this.records);
    this.records = left.map((one) => recordOf(one, one.epoch === leader));
    this.readAt = clock.monotonic();
    if (this.isLeader) this.beginLeading();
    // The listeners would work on a database that closes.
    if (this.isLeaving) return;
    if (serversIn(this.records) !== before) for (const listener of this.changeListeners) listener();
  }
}

const isNear = (a: number, b: number): boolean => Math.abs(a - b) <= MOST_CLOCK_OFF_MS;

/** If no node has the chores the first one does them: without them the database fills up. */
const leaderOf = (servers: readonly NodeRow[]): NodeRow | undefined =>
  servers.find(({ facts }) => rolesIn(facts).includes('chores')) ?? servers[0];

/** Names the servers that take work, to be compared. */
const serversIn = (records: readonly NodeRecord[]): string =>
  JSON.stringify(records.flatMap(({ epoch, isCommand, isDraining }) => (isCommand ? [] : [[epoch, isDraining]])));

const recordOf = (row: NodeRow, isLeader: boolean): NodeRecord => ({
  epoch: row.epoch,
  name: row.name,
  version: row.version,
  facts: row.facts,
  isDraining: row.is_draining === 1,
  isCommand: row.is_command === 1,
  isLeader,
  isDelivering: rolesIn(row.facts).includes('delivery'),
  since: row.since_ms,
  quietMs: Math.max(0, row.quiet_ms),
});
