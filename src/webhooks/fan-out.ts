/**
 * Hands events of the log to the endpoints that this node calls (storage/owners.ts). Endpoints that keep up share one reader, which
 * takes each new event from the log once (log-follower.ts); one that lags behind reads for itself, as far as it has room, until it is
 * in step again (feed-reader.ts).
 *
 * Nothing is written for an event that is only waiting: what an endpoint was not called for is the log beyond its cursor.
 *
 * The notifier of new events, the end of calls and one timer for each endpoint wake it; an idle system is not polled.
 *
 * If the set of nodes changes, endpoints move. The node that had one stops calling it, and writes how far it has come and which calls are
 * on the wire; some seconds later the one that has it now goes on from there. A node that has died writes nothing, so
 * the other goes on from the last cursor: what was on the wire is sent again.
 */
import type { Timer, Clock } from '../base/clock.ts';
import { statement } from '../storage/sql.ts';
import type { WebhookRow } from '../storage/tables.ts';
import { moveCursors, leaveCalls, type OpenCall } from './call-store.ts';
import type { WebhookDeps } from './dispatcher.ts';
import { openEndpoint } from './endpoint-store.ts';
import { FAULT_DELAY_MS, Feed, MOST_IN_HAND, type CallJob } from './feed.ts';
import { FeedReader } from './feed-reader.ts';
import { LogFollower } from './log-follower.ts';
import type { Database } from '../storage/database.ts';

export interface FanOutDeps extends Pick<
  WebhookDeps,
  'db' | 'clock' | 'keyring' | 'log' | 'notifiers' | 'owners' | 'hasOthers'
> {
  /** A call to be made. */
  offer: (job: CallJob) => void;
  /** The endpoint's number of calls at once may have changed. */
  pump: (feed: Feed) => void;
}

/** Cursors are written with the calls they belong to. One that only skips events without subscribers is written once in this many. */
const CURSOR_STEP = 10_000;
/** Wait before a node calls endpoints that it has now: the others learn of a change within two seconds, and hand over. */
const TAKE_OVER_MS = 3000;
/** Rows of endpoints that one statement reads. */
const ROWS_AT_ONCE = 200;
const rowsOf = statement(({ among }) => `SELECT * FROM webhooks WHERE id ${among('text')}`);
const pageOfIds = 'SELECT id FROM webhooks WHERE id > ? ORDER BY id LIMIT 1000';

export class FanOut {
  private readonly deps: FanOutDeps;
  private readonly feeds = new Map<string, Feed>();
  private readonly follower: LogFollower;
  private readonly reader: FeedReader;
  /** Endpoints whose row is read again a little later. */
  private readonly reloads = new Map<string, Timer>();
  /** Endpoints whose row is read again as soon as this turn of the loop is over. */
  private readonly asked = new Set<string>();
  /** The reads of rows so far. */
  private reads: Promise<unknown> = Promise.resolve();
  /** Endpoints that are being handed over. */
  private readonly leaving = new Set<string>();
  private handingOver: Promise<void> = Promise.resolve();
  private takeOver: Timer | null = null;
  /** Changes of endpoints may have been missed: the rows are read again. */
  private hasMissed = false;
  private unlisten: (() => void)[] = [];
  private stopped = false;

  constructor(deps: FanOutDeps) {
    this.deps = deps;
    this.reader = new FeedReader({
      ...deps,
      feedOf: (id) => this.feeds.get(id),
      isInStep: (position) => this.follower.reaches(position),
      cameIntoStep: () => this.follower.follow(),
      moved: async ({ position, durable }) => {
        if (position - durable >= CURSOR_STEP) await this.writeCursors(CURSOR_STEP);
      },
      failed: (feed) => this.restart(feed),
    });
    this.follower = new LogFollower({
      ...deps,
      inStep: () => [...this.feeds.values()].filter((feed) => feed.inStep),
      offer: (feed, event) => this.reader.offerFresh(feed, event),
      leaveStep: (feed) => {
        feed.inStep = false;
        this.reader.look(feed);
      },
      moved: () => this.writeCursors(CURSOR_STEP),
    });
  }

  async start(): Promise<void> {
    const { notifiers, owners, hasOthers } = this.deps;
    await this.follower.start();
    this.unlisten = [
      notifiers.events.listen(() => this.follower.follow()),
      notifiers.webhooks.listen((id) => {
        if (id !== null) this.reload(id);
        else {
          this.hasMissed = true;
          this.openOurs();
        }
      }),
      owners.onChange(() => this.changeOwners()),
    ];
    if (hasOthers()) this.openLater(TAKE_OVER_MS);
    else await this.readOurs({ all: false });
  }

  /** An event is settled; there may be room for the next. */
  settled(job: CallJob): void {
    const { feed } = job;
    feed.letGo(job);
    if (feed.isHandedOver) {
      // The node that has the endpoint now reads whether the call is to be made again.
      this.deps.notifiers.webhooks.notify(feed.id);
      return;
    }
    feed.durable = Math.max(feed.durable, feed.settledUpTo(new Set()));
    const hasRoom = !feed.inStep && feed.freshInHand <= MOST_IN_HAND / 2;
    if (hasRoom || (job.hasRow && feed.retriesInHand <= MOST_IN_HAND / 2)) this.reader.look(feed);
    else this.reader.setTimer(feed);
  }

  /** Returns how many calls at once the endpoint may have. */
  slots(webhookId: string): number {
    return this.feeds.get(webhookId)?.slots ?? 1;
  }

  /** Gives back what the endpoint has in hand and, unless it is to rest, reads on. */
  rewind(feed: Feed): void {
    feed.rewind();
    this.reader.look(feed);
  }

  /** Forgets what is in memory of the endpoint and begins again from what is on disk, a little later. */
  restart(feed: Feed): void {
    feed.rewind();
    feed.active = false;
    if (this.feeds.get(feed.id) !== feed) return;
    this.feeds.delete(feed.id);
    this.reloadLater(feed.id);
  }

  /** Reads no more; resolves when the reads under way are done, and the cursors and what was cut off on the wire are written. */
  async stop(): Promise<void> {
    this.stopped = true;
    for (const off of this.unlisten) off();
    for (const timer of [...this.reloads.values(), this.takeOver]) timer?.cancel();
    for (const feed of this.feeds.values()) feed.timer?.cancel();
    await Promise.all([this.follower.stop(), this.reader.stop(), this.handingOver]);
    await this.leave([...this.feeds.values()], 0);
  }

  /** Hands over endpoints that another node has now, and opens those that this node has, as soon as another can have handed them over. */
  private changeOwners(): void {
    const { owners, hasOthers } = this.deps;
    const gone = [...this.feeds.values()].filter(({ id }) => !owners.isOurs(id));
    for (const { id } of gone) {
      this.feeds.delete(id);
      this.leaving.add(id);
    }
    if (gone.length > 0) this.handingOver = Promise.all([this.handingOver, this.handOver(gone)]).then(() => undefined);
    this.takeOver?.cancel();
    this.takeOver = null;
    if (hasOthers()) this.openLater(TAKE_OVER_MS);
    else this.openOurs();
  }

  private async handOver(feeds: readonly Feed[]): Promise<void> {
    await this.leave(feeds, ON_THE_WIRE_MS);
    for (const { id } of feeds) this.leaving.delete(id);
    // Some may have come back meanwhile.
    if (this.takeOver === null && !this.stopped) this.openOurs();
  }

  private async leave(feeds: readonly Feed[], dueMs: number): Promise<void> {
    try {
      await leaveFeeds(this.deps, feeds, dueMs);
    } catch (err) {
      this.deps.log.error(
        { event: 'webhook_handover_failed', err },
        'how far webhook endpoints have come could not be written: some events are sent to them again',
      );
    }
  }

  /** Writes the cursors of endpoints that have passed at least `least` events without a call. */
  private async writeCursors(least: number): Promise<void> {
    const moved = [...this.feeds.values()].flatMap((feed) => {
      const to = feed.settledUpTo(new Set());
      return to - feed.durable >= least ? [{ feed, to }] : [];
    });
    await moveCursors(
      this.deps.db.commit,
      moved.map(({ feed, to }) => ({ id: feed.id, settled: to })),
    );
    for (const { feed, to } of moved) feed.durable = Math.max(feed.durable, to);
  }

  /** Reads the row of an endpoint again; those that are asked for at once are read together. */
  private reload(id: string): void {
    if (!this.feeds.has(id) && !this.mayOpen(id)) return;
    if (this.asked.size === 0) queueMicrotask(() => this.readAsked());
    this.asked.add(id);
  }

  private readAsked(): void {
    const ids = [...this.asked];
    this.asked.clear();
    this.readRows(ids).catch((err: unknown) => {
      this.deps.log.error(
        { event: 'webhook_reading_failed', webhook_id: ids[0], err },
        'a webhook endpoint could not be read',
      );
      for (const id of ids) this.reloadLater(id);
    });
  }

  private reloadLater(id: string): void {
    if (this.stopped || this.reloads.has(id)) return;
    const reloadNow = (): void => {
      this.reloads.delete(id);
      this.reload(id);
    };
    this.reloads.set(id, this.deps.clock.after(FAULT_DELAY_MS, reloadNow, { background: true }));
  }

  private openLater(ms: number): void {
    if (this.stopped) return;
    const open = (): void => {
      this.takeOver = null;
      this.openOurs();
    };
    this.takeOver ??= this.deps.clock.after(ms, open, { background: true });
  }

  private openOurs(): void {
    const all = this.hasMissed;
    this.hasMissed = false;
    this.readOurs({ all }).catch((err: unknown) => {
      this.deps.log.error({ event: 'webhook_reading_failed', err }, 'the webhook endpoints could not be read');
      this.hasMissed ||= all;
      this.openLater(FAULT_DELAY_MS);
    });
  }

  /** Opens all endpoints that this node has and does not call; `all` reads the rows of the others again, too. */
  private async readOurs({ all }: { all: boolean }): Promise<void> {
    const there = new Set<string>();
    for (let last: string | undefined = ''; last !== undefined && !this.stopped;) {
      const rows: { id: string }[] = await this.deps.db.prepared.all<{ id: string }>(pageOfIds, [last]);
      last = rows.at(-1)?.id;
      if (all) for (const { id } of rows) there.add(id);
      await this.readRows(rows.flatMap(({ id }) => ((this.feeds.has(id) ? all : this.mayOpen(id)) ? [id] : [])));
    }
    if (all) await this.readRows([...this.feeds.keys()].filter((id) => !there.has(id)));
  }

  /**
   * Takes over the rows of endpoints as they are now: new, changed or gone. One read follows the other: two at once may end in either order,
   * and the row from before a change would stay.
   */
  private readRows(ids: readonly string[]): Promise<void> {
    const read = this.reads.then(() => (this.stopped ? undefined : this.readRowsNow(ids)));
    this.reads = read.catch(() => undefined);
    return read;
  }

  private async readRowsNow(ids: readonly string[]): Promise<void> {
    for (let at = 0; at < ids.length; at += ROWS_AT_ONCE) {
      const some = ids.slice(at, at + ROWS_AT_ONCE);
      const rows = await this.deps.db.prepared.all<WebhookRow>(rowsOf, [JSON.stringify(some)]);
      if (this.stopped) return;
      const byId = new Map(rows.map((row) => [row.id, row]));
      for (const id of some) this.takeRow(id, byId.get(id));
    }
  }

  private takeRow(id: string, row: WebhookRow | undefined): void {
    const feed = this.feeds.get(id);
    if (feed !== undefined) {
      if (row !== undefined) this.apply(feed, row);
      else {
        this.feeds.delete(id);
        feed.rewind();
        feed.active = false;
      }
    } else if (row !== undefined && this.mayOpen(id)) this.open(row);
  }

  /** False while another node may still call the endpoint, or this one writes how far it has come: it is opened after that. */
  private mayOpen(id: string): boolean {
    return this.takeOver === null && !this.leaving.has(id) && this.deps.owners.isOurs(id);
  }

  private open(row: WebhookRow): void {
    const feed = new Feed(row, this.endpointOf(row));
    this.feeds.set(row.id, feed);
    this.reader.look(feed);
  }

  private apply(feed: Feed, row: WebhookRow): void {
    const url = feed.endpoint?.url;
    feed.endpoint = this.endpointOf(row);
    // A pause may have begun and ended since the last read: then only the row says that its rest is over.
    const isRestOver = row.rests_until === null && feed.hasWrittenRest;
    if (feed.endpoint?.url !== url || row.status !== 'active' || isRestOver) feed.forgetRest();
    feed.active = row.status === 'active';
    feed.health = row;
    feed.mayReplay = true;
    // In strict order nothing that was read ahead may be taken before what failed.
    if (!feed.active || feed.endpoint === null || feed.endpoint.concurrency === 1) feed.rewind();
    this.deps.pump(feed);
    this.reader.look(feed);
  }

  /** Returns null if the secrets cannot be opened. */
  private endpointOf(row: WebhookRow): Feed['endpoint'] {
    try {
      return openEndpoint(this.deps.keyring, row);
    } catch (err) {
      this.deps.log.error(
        { event: 'webhook_unreadable', webhook_id: row.id, err },
        'the secrets of a webhook endpoint cannot be opened; it is not called',
      );
      return null;
    }
  }
}

/**
 * Ends the calling of endpoints at this node, because another one calls them from now on or the program stops. Written are how far each has
 * come, and a row for each call on the wire: the node that goes on makes those again that have not ended by then, and nothing else.
 */

interface LeaveDeps {
  db: Pick<Database, 'commit'>;
  clock: Pick<Clock, 'now'>;
}

/** No call is on the wire for longer (net/safe-fetch.ts). */
const ON_THE_WIRE_MS = 30_000;

/** Calls on the wire are due again after `dueMs`. One that ends meanwhile has its end written after this; then its row goes, or waits for its retry. */
async function leaveFeeds(deps: LeaveDeps, feeds: readonly Feed[], dueMs: number): Promise<void> {
  for (const feed of feeds) {
    feed.isHandedOver = true;
    feed.active = false;
    feed.rewind();
  }
  const written = write(deps, feeds, dueMs);
  const gate = written.catch(() => undefined);
  for (const feed of feeds) feed.gate = gate;
  await written;
}

async function write({ db, clock }: LeaveDeps, feeds: readonly Feed[], dueMs: number): Promise<void> {
  await Promise.allSettled(feeds.flatMap(({ endings }) => [...endings]));
  const jobs = feeds.flatMap((feed) => feed.onTheWire());
  const cursors = feeds.flatMap((feed) => {
    const settled = feed.settledUpTo(new Set(feed.onTheWire().map(({ event }) => event.sequence)));
    return settled > feed.durable ? [{ id: feed.id, settled }] : [];
  });
  if (jobs.length === 0 && cursors.length === 0) return;
  const now = clock.now();
  const rows = await leaveCalls(db.commit, { calls: jobs.map(openCallOf), cursors, dueAt: now + dueMs, now });
  const kept = new Set(rows.map(keyOf));
  for (const job of jobs) job.feed.noteRow(job, kept.has(keyOf(openCallOf(job))));
}

const openCallOf = ({ feed, event, cause, attempts }: CallJob): OpenCall => ({
  webhook_id: feed.id,
  sequence: event.sequence,
  cause,
  attempts,
});

const keyOf = ({ webhook_id, sequence, cause, attempts }: OpenCall): string =>
  [webhook_id, sequence, cause, attempts].join(' ');
