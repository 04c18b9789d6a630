/**
 * This node's shares of the lanes that other nodes send to as well (lane-shares.ts). Every two seconds, and soon after a lane begins to
 * want more than one connection, it reads what the others have reserved and writes what it has. A share is lowered in memory first and
 * in its row once the connections are closed; it is raised by a serializable transaction only, so that two nodes never take the same
 * connection. While the database is away nothing is raised, and what is reserved stays so.
 *
 * A node that is alone has the whole of every limit and no rows. When another one joins, that one takes no second connection to any lane
 * until this one has announced what it has.
 */
import type { Clock, Timer } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { groupBy } from '../../base/sets.ts';
import type { Connection } from '../../storage/connection.ts';
import type { Database } from '../../storage/database.ts';
import type { Nodes } from '../../storage/nodes.ts';
import { announce, haveOthersAnnounced, readOthers, withdraw, writeOwn, type LaneRow } from './lane-share-rows.ts';
import { isWanted, decideShare, wholeLane, type LaneLook, type LaneShare, type LaneShares } from './lane-shares.ts';
import type { Learnt } from './throttle.ts';

/** The need of a lane for connections, and its limits. */
export interface LaneDemand extends Pick<LaneLook, 'demand' | 'hasRate' | 'allowed'> {
  readonly learnt: Learnt;
}

/** The lanes of the engine. */
export interface SharedLanes {
  demandOf(lane: string): LaneDemand;
  /** Counts the connections to the lane that are open, being opened or being closed. */
  open(lane: string): number;
  /** Returns the lanes with more than one connection. */
  withSeveral(): readonly string[];
  /** Takes over what another node has learnt, where that is newer. */
  learn(lane: string, learnt: Learnt): void;
  /** The share is smaller: idle connections beyond it are closed. */
  shrink(lane: string): void;
  /** The share is larger: mail that waits may go. */
  pump(lane: string): void;
}

export interface NodeSharesDeps {
  db: Pick<Database, 'commit'>;
  clock: Clock;
  log: Pick<Log, 'error'>;
  nodes: Pick<Nodes, 'epoch' | 'hasOthers' | 'list' | 'onChange'>;
  lanes: SharedLanes;
}

const LOOK_MS = 2000;
/** Lanes that begin to want more connections within this time are written together. */
const GATHERED_MS = 20;
/** Lanes of one transaction. */
const MOST_AT_ONCE = 500;

export class NodeShares implements LaneShares {
  private readonly deps: NodeSharesDeps;
  /** The shares of the lanes that this node has rows for, or will have with the next look. */
  private readonly shares = new Map<string, LaneShare>();
  /** The rows as they were last written, by lane, as JSON: those that have not changed are not written again. */
  private readonly written = new Map<string, string>();
  /** The lanes of the look that comes soon; null for all. */
  private next: Set<string> | null = new Set();
  /** The share of a lane of which nothing was read yet. */
  private first: LaneShare = wholeLane;
  private isSharing = false;
  private hasAnnounced = false;
  private timer: Timer | null = null;
  private soonTimer: Timer | null = null;
  private looking: Promise<void> | null = null;
  private isFailing = false;
  private isStopped = true;

  constructor(deps: NodeSharesDeps) {
    this.deps = deps;
  }

  /** Shares from now on while other servers are there. They take more than one connection only when this one has announced what it has. */
  start(): void {
    this.isStopped = false;
    this.deps.nodes.onChange(() => this.nodesChanged());
    this.nodesChanged();
  }

  stop(): void {
    this.isStopped = true;
    this.timer?.cancel();
    this.soonTimer?.cancel();
  }

  of(lane: string): LaneShare {
    if (!this.isSharing) {
      if (!this.deps.nodes.hasOthers || this.isStopped) return wholeLane;
      this.begin();
    }
    const share = this.shares.get(lane);
    if (share !== undefined) return share;
    if (!isWanted(this.deps.lanes.demandOf(lane))) return this.first;
    this.shares.set(lane, this.first);
    this.soon(lane);
    return this.first;
  }

  soon(lane: string): void {
    this.next?.add(lane);
    this.lookSoon();
  }

  private lookSoon(): void {
    if (!this.isSharing || this.isStopped) return;
    this.soonTimer ??= this.deps.clock.after(
      GATHERED_MS,
      () => {
        this.soonTimer = null;
        void this.look();
      },
      { background: true },
    );
  }

  private nodesChanged(): void {
    if (this.isStopped) return;
    if (!this.isSharing && this.deps.nodes.hasOthers) this.begin();
    else this.allSoon();
  }

  private allSoon(): void {
    this.next = null;
    this.lookSoon();
  }

  private plan(): void {
    this.timer?.cancel();
    if (this.isStopped || !this.isSharing) return;
    const look = (): void => {
      this.next = null;
      void this.look().finally(() => this.plan());
    };
    this.timer = this.deps.clock.after(LOOK_MS, look, { background: true });
  }

  /** Begins to share: lanes keep the connections that they have, and reserve them before the others take any. */
  private begin(): void {
    const { lanes } = this.deps;
    this.isSharing = true;
    this.hasAnnounced = false;
    this.noteNodes();
    for (const lane of lanes.withSeveral()) this.shares.set(lane, { ...this.first, connections: lanes.open(lane) });
    this.allSoon();
    this.plan();
  }

  private noteNodes(): void {
    const servers = this.deps.nodes.list().filter(({ isCommand }) => !isCommand).length;
    this.first = { connections: 1, others: 0, fraction: 1 / Math.max(1, servers) };
  }

  /** Looks once more where a look is under way, as that one may have read before what has changed. */
  private async look(): Promise<void> {
    await this.looking;
    if (this.isStopped || !this.isSharing) return;
    this.looking ??= this.lookOnce()
      .then(
        () => {
          this.isFailing = false;
        },
        (err: unknown) => this.reportFailure(err),
      )
      .finally(() => {
        this.looking = null;
      });
    await this.looking;
  }

  private reportFailure(err: unknown): void {
    // While the database is away every look fails: one line says so.
    if (!this.isFailing && !this.isStopped)
      this.deps.log.error(
        { event: 'lane_shares_failed', err },
        'the connections of other nodes could not be read: those of this node grow no more until they can',
      );
    this.isFailing = true;
    // The next look is at all lanes, and writes them all: it is not known which rows were written.
    this.next = null;
    this.written.clear();
  }

  private async lookOnce(): Promise<void> {
    const { db, nodes } = this.deps;
    if (!nodes.hasOthers && (await db.commit.transact((tx) => withdraw(tx, nodes.epoch)))) {
      this.end();
      return;
    }
    this.noteNodes();
    const lanes = [...this.shares.keys()].filter((lane) => this.next?.has(lane) !== false);
    this.next = new Set();
    if (lanes.length === 0 && this.hasAnnounced) return;
    for (let from = 0; from === 0 || from < lanes.length; from += MOST_AT_ONCE) {
      const some = lanes.slice(from, from + MOST_AT_ONCE);
      const isLast = from + MOST_AT_ONCE >= lanes.length;
      const found = await db.commit.transact((tx) => this.settle(tx, some, isLast));
      for (const [lane, decided] of found) this.apply(lane, decided);
    }
    this.hasAnnounced = true;
  }

  /** This node is alone: the limits are its own. */
  private end(): void {
    this.isSharing = false;
    this.timer?.cancel();
    const lanes = [...this.shares.keys()];
    this.shares.clear();
    this.written.clear();
    for (const lane of lanes) this.deps.lanes.pump(lane);
  }

  /** Reads and writes these lanes. Shares that shrink do so at once; the others are applied after the commit. */
  private async settle(tx: Connection, lanes: readonly string[], isLast: boolean): Promise<Map<string, Decided>> {
    const { epoch } = this.deps.nodes;
    const mayRaise = await haveOthersAnnounced(tx, epoch);
    const others = groupBy(await readOthers(tx, epoch, lanes), ({ lane }) => lane);
    const found = new Map<string, Decided>();
    const rows: LaneRow[] = [];
    const gone: string[] = [];
    for (const lane of lanes) {
      const decided = this.decide(lane, others.get(lane) ?? [], mayRaise);
      found.set(lane, decided);
      if (decided.row === null) gone.push(lane);
      else if (JSON.stringify(decided.row) !== this.written.get(lane)) rows.push(decided.row);
    }
    await writeOwn(tx, epoch, rows, gone);
    if (isLast && !this.hasAnnounced) await announce(tx, epoch);
    return found;
  }

  private decide(lane: string, others: readonly LaneRow[], mayRaise: boolean): Decided {
    const { nodes, lanes } = this.deps;
    for (const { learnt } of others) lanes.learn(lane, learnt);
    const { learnt, ...wants } = lanes.demandOf(lane);
    const before = this.shares.get(lane) ?? this.first;
    const look = { ...wants, epoch: nodes.epoch, had: before.connections, open: lanes.open(lane), mayRaise };
    const { share, claim } = decideShare(look, others);
    if (share.connections < before.connections) {
      this.shares.set(lane, { ...before, connections: share.connections });
      lanes.shrink(lane);
    }
    return { share, row: claim === null ? null : { ...claim, lane, learnt: learntOf(learnt) } };
  }

  private apply(lane: string, { share, row }: Decided): void {
    const before = this.shares.get(lane) ?? this.first;
    if (row === null) {
      this.shares.delete(lane);
      this.written.delete(lane);
      return;
    }
    this.written.set(lane, JSON.stringify(row));
    this.shares.set(lane, share);
    if (share.connections > before.connections || share.fraction > before.fraction) this.deps.lanes.pump(lane);
  }
}

/** The share of a lane, and its row; null where it needs none any more. */
interface Decided {
  share: LaneShare;
  row: LaneRow | null;
}

const learntOf = ({ limit, ceiling, halvedAt, cause }: Learnt): Learnt => ({ limit, ceiling, halvedAt, cause });
