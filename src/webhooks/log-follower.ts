/** Reads new events from the log once for all endpoints that keep up, and hands each event to those that want it. */
import type { Timer } from '../base/clock.ts';
import { followEvents, lastSequence, type LoggedEvent } from '../events/event-log.ts';
import { wants } from './endpoint.ts';
import type { FanOutDeps } from './fan-out.ts';
import { EVENTS_AT_ONCE, FAULT_DELAY_MS, type Feed } from './feed.ts';

interface FollowerDeps extends Pick<FanOutDeps, 'db' | 'clock' | 'log'> {
  /** Feeds that have read the log to its end. */
  inStep: () => Feed[];
  /** The feed has room for this event. */
  offer: (feed: Feed, event: LoggedEvent) => void;
  /** The feed has no room: it reads the log by itself from its position on. */
  leaveStep: (feed: Feed) => void;
  /** A page is handed out. */
  moved: () => Promise<void>;
}

export class LogFollower {
  private readonly deps: FollowerDeps;
  /** Feeds in step have read the log up to here. */
  private position = 0;
  private reading: Promise<void> | null = null;
  /** New events were announced since the last read began. */
  private isRung = false;
  private retry: Timer | null = null;
  private stopped = false;

  constructor(deps: FollowerDeps) {
    this.deps = deps;
  }

  async start(): Promise<void> {
    this.position = await lastSequence(this.deps.db.reader);
  }

  /** True for a feed that may be in step: it has read up to here. The first one sets the place from which all are followed. */
  reaches(position: number): boolean {
    if (position < this.position) return false;
    if (this.deps.inStep().length === 0) this.position = position;
    return true;
  }

  /** Reads what is new. */
  follow(): void {
    this.isRung = true;
    if (this.stopped || this.reading !== null) return;
    const { log, clock, inStep } = this.deps;
    this.reading = this.readOn()
      .catch((err: unknown) => {
        log.error({ event: 'webhook_reading_failed', err }, 'the event log could not be read for webhooks');
        this.isRung = false;
        this.retry ??= clock.after(FAULT_DELAY_MS, () => this.followLater(), { background: true });
      })
      .finally(() => {
        this.reading = null;
        if (this.isRung && inStep().length > 0) this.follow();
      });
  }

  private followLater(): void {
    this.retry = null;
    this.follow();
  }

  private async readOn(): Promise<void> {
    const { db, inStep, leaveStep, moved } = this.deps;
    while (this.isRung && !this.stopped) {
      const followers = new Set(inStep());
      if (followers.size === 0) return;
      this.isRung = false;
      const accounts = [...followers].flatMap(({ endpoint }) => endpoint?.accountId ?? []);
      const page = await followEvents(db.prepared, [...new Set(accounts)], this.position, EVENTS_AT_ONCE);
      this.position = Math.max(this.position, page.position);
      for (const feed of inStep()) {
        if (followers.has(feed)) this.handOut(feed, page.events, page.position);
        // This feed joined during the read, which did not include its account.
        else if (feed.position < page.position) leaveStep(feed);
      }
      this.isRung ||= page.hasMore;
      await moved();
    }
  }

  private handOut(feed: Feed, events: readonly LoggedEvent[], position: number): void {
    for (const event of events) {
      if (event.sequence <= feed.position || event.account_id !== feed.endpoint?.accountId) continue;
      if (!wants(feed.endpoint, event)) continue;
      if (!feed.takesFresh(this.deps.clock.now())) {
        this.deps.leaveStep(feed);
        return;
      }
      feed.position = event.sequence;
      this.deps.offer(feed, event);
    }
    feed.position = Math.max(feed.position, position);
  }

  /** Resolves when the read that is under way is done. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.retry?.cancel();
    await this.reading;
  }
}
