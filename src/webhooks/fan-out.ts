/**
 * Hands events of the log to the endpoints. Endpoints that keep up share one reader, which takes each new event from the log once
 * (log-follower.ts); one that lags behind reads for itself, as far as it has room, until it is in step again (feed-reader.ts).
 * Nothing is written for an event that is only waiting: what an endpoint was not called for is the log beyond its cursor.
 *
 * The notifier of new events, the end of calls and one timer for each endpoint wake it; an idle system is not polled.
 */
import type { Timer } from '../base/clock.ts';
import type { WebhookRow } from '../storage/tables.ts';
import { moveCursors } from './call-store.ts';
import type { WebhookDeps } from './dispatcher.ts';
import { openEndpoint } from './endpoint-store.ts';
import { FAULT_DELAY_MS, Feed, MOST_IN_HAND, type CallJob } from './feed.ts';
import { FeedReader } from './feed-reader.ts';
import { LogFollower } from './log-follower.ts';

export interface FanOutDeps extends Pick<WebhookDeps, 'db' | 'clock' | 'keyring' | 'log' | 'notifiers'> {
  /** A call to be made. */
  offer: (job: CallJob) => void;
  /** The endpoint's number of calls at once may have changed. */
  pump: (feed: Feed) => void;
}

/** Cursors are written with the calls they belong to. One that only skips events without subscribers is written once in so many. */
const CURSOR_STEP = 10_000;

export class FanOut {
  private readonly deps: FanOutDeps;
  private readonly feeds = new Map<string, Feed>();
  private readonly follower: LogFollower;
  private readonly reader: FeedReader;
  /** Endpoints whose row is read again a little later. */
  private readonly reloads = new Map<string, Timer>();
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
    const { db, notifiers } = this.deps;
    await this.follower.start();
    this.unlisten = [
      notifiers.events.listen(() => this.follower.follow()),
      notifiers.webhooks.listen((id) => this.reload(id)),
    ];
    for (const row of await db.reader<WebhookRow>('webhooks')) if (!this.feeds.has(row.id)) this.open(row);
  }

  /** An event is settled; there may be room for the next. */
  settled(job: CallJob): void {
    const { feed } = job;
    feed.letGo(job);
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

  /** Reads no more; resolves when the reads under way are done and the cursors are written. */
  async stop(): Promise<void> {
    this.stopped = true;
    for (const off of this.unlisten) off();
    for (const timer of this.reloads.values()) timer.cancel();
    for (const feed of this.feeds.values()) feed.timer?.cancel();
    await Promise.all([this.follower.stop(), this.reader.stop()]);
    await this.writeCursors(1);
  }

  /** Writes the cursors of endpoints that have passed so many events without a call. */
  private async writeCursors(least: number): Promise<void> {
    const moved = [...this.feeds.values()].flatMap((feed) => {
      const to = feed.settledUpTo(new Set());
      return to - feed.durable >= least ? [{ feed, to }] : [];
    });
    await moveCursors(
      this.deps.db.commit,
      moved.map(({ feed, to }) => [feed.id, to]),
    );
    for (const { feed, to } of moved) feed.durable = Math.max(feed.durable, to);
  }

  private reload(id: string): void {
    this.readRow(id).catch((err: unknown) => {
      this.deps.log.error(
        { event: 'webhook_reading_failed', webhook_id: id, err },
        'a webhook endpoint could not be read',
      );
      this.reloadLater(id);
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

  /** Takes over the endpoint's row as it is now: new, changed or gone. */
  private async readRow(id: string): Promise<void> {
    const row = await this.deps.db.reader<WebhookRow>('webhooks').where({ id }).first();
    if (this.stopped) return;
    const feed = this.feeds.get(id);
    if (row === undefined) {
      this.feeds.delete(id);
      feed?.rewind();
      if (feed !== undefined) feed.active = false;
    } else if (feed === undefined) this.open(row);
    else this.apply(feed, row);
  }

  private open(row: WebhookRow): void {
    const feed = new Feed(row, this.endpointOf(row));
    this.feeds.set(row.id, feed);
    this.reader.look(feed);
  }

  private apply(feed: Feed, row: WebhookRow): void {
    feed.endpoint = this.endpointOf(row);
    feed.active = row.status === 'active';
    feed.health = row;
    feed.mayReplay = true;
    // In strict order nothing that was read ahead may be taken before what failed.
    if (!feed.active || feed.endpoint === null || feed.endpoint.concurrency === 1) feed.rewind();
    this.deps.pump(feed);
    this.reader.look(feed);
  }

  /** Returns null where the secrets cannot be opened. */
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
