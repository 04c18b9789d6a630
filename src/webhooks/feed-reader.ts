/**
 * Reads for one endpoint at a time: the calls that are due again, then the log if the endpoint is not in step with the others.
 * A look is asked for by the end of calls, by a change of the endpoint and by one timer for each endpoint.
 */
import { eventsNumbered, followEvents, type LoggedEvent } from '../events/event-log.ts';
import type { WebhookCallRow } from '../storage/tables.ts';
import { callsBeyond, dropCalls, nextCalls } from './call-store.ts';
import { wants } from './endpoint.ts';
import type { FanOutDeps } from './fan-out.ts';
import { EVENTS_AT_ONCE, FAULT_DELAY_MS, MOST_IN_HAND, type Feed } from './feed.ts';
import { stepReplay } from './replay.ts';
import { LONGEST_WAIT_MS, PROBE_EVERY_MS } from './retry.ts';

interface FeedReaderDeps extends Pick<FanOutDeps, 'db' | 'clock' | 'log' | 'offer'> {
  /** The feed of an endpoint as it is now; undefined if the endpoint is gone. */
  feedOf: (id: string) => Feed | undefined;
  /** True for a feed that has read the log as far as the others. */
  isInStep: (position: number) => boolean;
  /** A feed came into step: events that came while it read were not handed out yet. */
  cameIntoStep: () => void;
  /** A page of the log was read. */
  moved: (feed: Feed) => Promise<void>;
  /** The database could not be read. */
  failed: (feed: Feed) => void;
}

export class FeedReader {
  private readonly deps: FeedReaderDeps;
  /** Looks that are under way, by endpoint. */
  private readonly looks = new Map<string, Promise<void>>();
  /** Endpoints to look at (once more), those with a look under way included. */
  private readonly wanted = new Set<string>();
  private stopped = false;

  constructor(deps: FeedReaderDeps) {
    this.deps = deps;
  }

  /** Looks after one endpoint. A look that is under way is followed by another. */
  look(feed: Feed): void {
    const { feedOf, log, failed } = this.deps;
    if (this.stopped || feedOf(feed.id) !== feed) return;
    this.wanted.add(feed.id);
    if (this.looks.has(feed.id)) return;
    const done = this.lookWhileWanted(feed)
      .catch((err: unknown) => {
        log.error(
          { event: 'webhook_reading_failed', webhook_id: feed.id, err },
          'the event log could not be read for webhooks',
        );
        failed(feed);
      })
      .finally(() => {
        this.looks.delete(feed.id);
        const now = feedOf(feed.id);
        if (this.wanted.has(feed.id) && now !== undefined) this.look(now);
      });
    this.looks.set(feed.id, done);
  }

  private async lookWhileWanted(feed: Feed): Promise<void> {
    // The wish may be that of a feed that has taken the place of this one: then it is left for that one.
    while (!this.stopped && this.deps.feedOf(feed.id) === feed && this.wanted.delete(feed.id)) {
      if (!feed.active || feed.endpoint === null) return;
      feed.tried ??= await callsBeyond(this.deps.db.prepared, feed.id, feed.position);
      await this.readRetries(feed);
      await this.readLog(feed);
      this.setTimer(feed);
    }
  }

  /** Offers the calls that are due again, and notes when the next one is. */
  private async readRetries(feed: Feed): Promise<void> {
    const { db, clock } = this.deps;
    while (!this.stopped && feed.active && !feed.rests(clock.now()) && feed.retriesInHand <= MOST_IN_HAND / 2) {
      const { generation } = feed;
      const limit = MOST_IN_HAND + feed.retriesInHand + feed.freshInHand;
      feed.beginReading();
      const by = feed.isStrict ? 'sequence' : 'due_at';
      const rows = await nextCalls(db.prepared, feed.id, { by, limit });
      const now = clock.now();
      // In strict order a call that is not due holds back those of later events.
      const held = by === 'sequence' ? rows.findIndex((row) => !isDue(row, now)) : -1;
      const open = held < 0 ? rows : rows.slice(0, held);
      const due = open.filter((row) => isDue(row, now) && feed.isFree(row.sequence));
      const numbers = due.map(({ sequence }) => sequence);
      const events = numbers.length === 0 ? [] : await eventsNumbered(db.prepared, numbers);
      if (feed.generation !== generation) continue;
      // A call that was asked for again while its first one is on the wire: the first has to end before.
      const isHeldUp = rows.some((row) => isDue(row, now) && feed.holdsFresh(row.sequence));
      const nextAt = rows.find((row) => !isDue(row, now))?.due_at ?? null;
      feed.noteNextRetry(isHeldUp ? now + FAULT_DELAY_MS : nextAt);
      await this.offerRetries(feed, due, events);
      if (due.length > 0) continue;
      // If a call holds back the others, a replay goes on only as far as it may be about that call.
      if (!feed.mayReplay || feed.endpoint === null || (held >= 0 && rows.length === limit)) return;
      feed.mayReplay = await stepReplay({ db, clock }, feed.endpoint);
    }
  }

  /** Calls of events that are deleted by now are dropped. */
  private async offerRetries(
    feed: Feed,
    due: readonly WebhookCallRow[],
    events: readonly LoggedEvent[],
  ): Promise<void> {
    const bySequence = new Map(events.map((event) => [event.sequence, event]));
    for (const { sequence, cause, attempts } of due) {
      const event = bySequence.get(sequence);
      if (event !== undefined && feed.isFree(sequence))
        this.deps.offer(feed.take(event, { cause, attempts, hasRow: true }));
    }
    const gone = due.flatMap(({ sequence }) => (bySequence.has(sequence) ? [] : [sequence]));
    if (gone.length > 0) await dropCalls(this.deps.db.commit, feed.id, gone);
  }

  /** Reads on in the log for an endpoint that is not in step. */
  private async readLog(feed: Feed): Promise<void> {
    const { db, clock, isInStep, cameIntoStep } = this.deps;
    while (!this.stopped && !feed.inStep && feed.endpoint !== null && feed.takesFresh(clock.now())) {
      const { generation } = feed;
      const page = await followEvents(db.prepared, [feed.endpoint.accountId], feed.position, EVENTS_AT_ONCE);
      if (feed.generation !== generation) continue;
      if (!this.readPage(feed, page.events)) return;
      feed.position = page.position;
      if (!page.hasMore && isInStep(page.position)) {
        feed.inStep = true;
        cameIntoStep();
      }
    }
    await this.deps.moved(feed);
  }

  /** False if the endpoint has no room for all of it. */
  private readPage(feed: Feed, events: readonly LoggedEvent[]): boolean {
    for (const event of events) {
      if (feed.endpoint !== null && feed.tried?.has(event.sequence) !== true && wants(feed.endpoint, event)) {
        if (!feed.takesFresh(this.deps.clock.now())) return false;
        feed.position = event.sequence;
        this.offerFresh(feed, event);
      } else feed.position = event.sequence;
    }
    return true;
  }

  offerFresh(feed: Feed, event: LoggedEvent): void {
    if (feed.struggling) feed.nextProbeAt = this.deps.clock.now() + PROBE_EVERY_MS;
    this.deps.offer(feed.take(event, { cause: 'event', attempts: 0, hasRow: false }));
  }

  /** Sets the endpoint's one timer to its next retry or probe. */
  setTimer(feed: Feed): void {
    feed.timer?.cancel();
    feed.timer = null;
    const at = feed.nextLookAt;
    if (this.stopped || !feed.active || at === null) return;
    const wait = at - this.deps.clock.now();
    if (wait <= 0) {
      this.look(feed);
      return;
    }
    const timeUp = (): void => {
      feed.timer = null;
      this.look(feed);
    };
    feed.timer = this.deps.clock.after(wait, timeUp, { background: true });
  }

  /** Begins no more looks; resolves when those under way are done. */
  async stop(): Promise<void> {
    this.stopped = true;
    await Promise.all(this.looks.values());
  }
}

/** Returns whether a call is due. One that is due later than any wait lasts was noted by a clock that has been set back. */
const isDue = ({ due_at: at }: WebhookCallRow, now: number): boolean =>
  at !== null && (at <= now || at > now + LONGEST_WAIT_MS);
