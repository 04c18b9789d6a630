/**
 * Divides the limits of a lane between the nodes that have mail for it: each has an equal part. A node that has more than one mail for a lane
 * says so by a row in `lane_nodes`, and every two seconds reads which others do. It begins with one connection if others send there, until
 * these have read its row. So all nodes together have at most the lane's limit of connections and one more for each node but the first.
 */
import type { Timer } from '../../base/clock.ts';
import { statement } from '../../storage/sql.ts';
import type { Engine } from '../engine.ts';

export interface LanePart {
  /** The nodes among which a limit is divided, this one included. */
  readonly nodes: number;
  /** The others may not know yet that this one sends there: it has one connection. */
  readonly isNew: boolean;
}

export const wholeLane: LanePart = { nodes: 1, isNew: false };

const LOOK_MS = 2_000;
/** Lanes that get more mail within this time are written together. */
const GATHERED_MS = 20;
/** By then every other node has read a row, or written its own after this one joined. */
const KNOWN_MS = 2_500;
const JOINED_MS = 5_000;
const MOST_AT_ONCE = 500;

const insertion = statement(
  ({ listed }) =>
    `INSERT INTO lane_nodes (lane, epoch) SELECT value, ? FROM ${listed('l', 'text')} WHERE true ON CONFLICT DO NOTHING`,
);
const removal = statement(({ among }) => `DELETE FROM lane_nodes WHERE epoch = ? AND lane ${among('text')}`);
const counts = statement(
  ({ among }) =>
    `SELECT lane, COUNT(*) AS others FROM lane_nodes WHERE epoch <> ? AND lane ${among('text')} GROUP BY lane`,
);

export class NodeParts {
  private readonly engine: Pick<Engine, 'db' | 'clock' | 'log' | 'nodes' | 'control' | 'pool' | 'lanes'>;
  /** The lanes that this node has rows for, or will have with the next look; null for those that are not written yet. */
  private readonly own = new Map<string, { others: number; since: number; hadSeveral: boolean } | null>();
  private sharesSince: number | null = null;
  private timer: Timer | null = null;
  private timerAt = 0;
  /** One look at a time. */
  private looking = Promise.resolve();
  private isFailing = false;
  private isStopped = true;

  constructor(engine: NodeParts['engine']) {
    this.engine = engine;
  }

  start(): void {
    this.isStopped = false;
    const begin = (): void => {
      if (!this.isStopped && this.sharesSince === null && this.engine.nodes.hasOthers) this.begin();
    };
    this.engine.nodes.onChange(begin);
    begin();
  }

  stop(): void {
    this.isStopped = true;
    this.timer?.cancel();
  }

  of(lane: string): LanePart {
    if (this.sharesSince === null) {
      if (!this.engine.nodes.hasOthers || this.isStopped) return wholeLane;
      this.begin();
    }
    const known = this.own.get(lane);
    if (known === undefined && this.engine.control.mails(lane) > 1) {
      this.own.set(lane, null);
      this.plan(GATHERED_MS);
    }
    if (known == null) return { nodes: 2, isNew: true };
    const now = this.engine.clock.monotonic();
    // A node that has sent here for long may write its row only after this one has joined: until then no row says nothing.
    const haveSpoken = now - (this.sharesSince ?? now) >= JOINED_MS;
    const isKnown = haveSpoken && now - known.since >= KNOWN_MS;
    return { nodes: 1 + known.others, isNew: known.others > 0 ? !isKnown : !haveSpoken && !known.hadSeveral };
  }

  /** Another node is there: the lanes with several connections are announced before it takes any. */
  private begin(): void {
    this.sharesSince = this.engine.clock.monotonic();
    for (const lane of this.engine.pool.lanesWithSeveral())
      this.own.set(lane, { others: 0, since: -Infinity, hadSeveral: true });
    this.plan(0);
  }

  /** Looks after this time, or sooner if that was planned. */
  private plan(ms: number): void {
    const { clock } = this.engine;
    const at = clock.monotonic() + ms;
    if (this.isStopped || (this.timer !== null && this.timerAt <= at)) return;
    this.timer?.cancel();
    this.timerAt = at;
    const look = (): void => {
      this.timer = null;
      void this.look().finally(() => {
        if (this.sharesSince !== null) this.plan(LOOK_MS);
      });
    };
    this.timer = clock.after(ms, look, { background: true });
  }

  private look(): Promise<void> {
    this.looking = this.looking
      .then(() => this.lookOnce())
      .then(
        () => {
          this.isFailing = false;
        },
        (err: unknown) => {
          // While the database is away every look fails: one line says so.
          if (!this.isFailing && !this.isStopped)
            this.engine.log.error(
              { event: 'lane_parts_failed', err },
              'which nodes send where could not be read: limits stay divided as they are',
            );
          this.isFailing = true;
        },
      );
    return this.looking;
  }

  private async lookOnce(): Promise<void> {
    const { db, nodes, control, pool, clock } = this.engine;
    const isAlone = !nodes.hasOthers;
    const all = [...this.own.keys()];
    const over = isAlone ? all : all.filter((lane) => control.mails(lane) === 0 && pool.openOf(lane) <= 1);
    const kept = isAlone ? [] : all.filter((lane) => !over.includes(lane));
    for (let from = 0; from < Math.max(over.length, kept.length); from += MOST_AT_ONCE) {
      const some = kept.slice(from, from + MOST_AT_ONCE);
      const fresh = some.filter((lane) => (this.own.get(lane)?.since ?? -Infinity) === -Infinity);
      // The rows of others are read in the transaction that writes ours: of two nodes that begin at the same time one sees the other.
      const rows = await db.commit.transact(async (tx) => {
        const gone = over.slice(from, from + MOST_AT_ONCE);
        if (gone.length > 0) await tx.run(removal, [nodes.epoch, JSON.stringify(gone)]);
        if (fresh.length > 0) await tx.run(insertion, [nodes.epoch, JSON.stringify(fresh)]);
        return some.length === 0
          ? []
          : tx.all<{ lane: string; others: number }>(counts, [nodes.epoch, JSON.stringify(some)]);
      });
      const found = new Map(rows.map(({ lane, others }) => [lane, others]));
      for (const lane of some) this.note(lane, found.get(lane) ?? 0, clock.monotonic());
    }
    for (const lane of over) this.own.delete(lane);
    if (!isAlone) return;
    this.sharesSince = null;
    for (const lane of all) this.changed(lane);
  }

  private note(lane: string, others: number, now: number): void {
    const before = this.own.get(lane);
    const isWritten = before != null && before.since !== -Infinity;
    this.own.set(lane, { others, since: isWritten ? before.since : now, hadSeveral: before?.hadSeveral ?? false });
    if (before?.others !== others || (isWritten && now - before.since < JOINED_MS + LOOK_MS)) this.changed(lane);
  }

  /** Idle connections beyond the part are closed, and mail that waits may go. */
  private changed(lane: string): void {
    this.engine.pool.shrink(lane);
    this.engine.lanes.pump(lane);
  }
}
