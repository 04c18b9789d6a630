/**
 * Serves the end of the event log to all that follow it (event streams, long polls, webhook endpoints): one reader takes each new event from the log
 * once and keeps the last ones in memory, where each finds its own. If two hundred followers each asked the database at every commit, no other
 * request would get a turn. A position is served from memory only if memory has everything of the account after it; who is behind reads the log.
 * Nothing is read without listeners.
 */
import type { Notifier } from '../scheduling/notifier.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { createGate } from '../scheduling/gate.ts';
import { addressKey } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';
import { allEventTypes } from './event.ts';
import {
  eventsAfter,
  followEvents,
  newestSequence,
  typesOf,
  type EventFilter,
  type EventPage,
  type LoggedEvent,
} from './event-log.ts';

export interface TailDeps {
  db: Pick<Database, 'reader' | 'prepared'>;
  clock: Clock;
  log: Pick<Log, 'warn'>;
  notifiers: { events: Notifier };
}

/** Events of one read, and events kept in memory. */
const PAGE = 500;
const BUFFERED = 1000;
/** Followers that may read the log at the same time: the other readers are for other requests. Accounts take turns. */
const LOOKS = 1;

export interface Listener {
  readonly accountId: string;
  /** These accounts may have new events; with null any may, since the log could not be read. */
  wake(accounts: ReadonlySet<string> | null): void;
}

export class EventTail {
  /** The newest number that was read. */
  head = 0;
  private readonly db: TailDeps['db'];
  private readonly clock: Clock;
  private readonly log: TailDeps['log'];
  private readonly events: Notifier;
  private readonly listeners = new Set<Listener>();
  private readonly gate = createGate({ most: LOOKS, waiting: Infinity });
  /** For each account, `buffered` has everything in (its floor, head]. */
  private readonly floors = new Map<string, number>();
  private buffered: LoggedEvent[] = [];
  /** True if the log may have events after `head`. */
  private notified = false;
  private reading = false;
  /** True from a failed read, which is logged, until one succeeds. */
  private isFailing = false;
  private unlisten: (() => void) | null = null;

  constructor({ db, clock, log, notifiers }: TailDeps) {
    this.db = db;
    this.clock = clock;
    this.log = log;
    this.events = notifiers.events;
  }

  /** Returns a follower of what becomes visible for this account from now on, whose end is awaited: for event streams. */
  follow(accountId: string): Follower {
    const follower = new Follower(this, this.clock, accountId);
    this.add(follower);
    return follower;
  }

  /** Wakes the listener from now on, and soon for the first time, with memory as new as its arrival. */
  add(listener: Listener): void {
    this.listeners.add(listener);
    this.unlisten ??= this.events.listen(() => this.notify());
    this.notify();
  }

  remove(listener: Listener): void {
    this.listeners.delete(listener);
    if (this.listeners.size > 0) return;
    this.unlisten?.();
    this.unlisten = null;
    this.forget();
  }

  /** Reads the events of an account after a position, of every type: from memory if that reaches back so far. */
  async read(
    accountId: string,
    after: number,
    limit: number,
  ): Promise<Pick<EventPage, 'events' | 'position' | 'hasMore'>> {
    const known = this.inMemory({ accountId, types: allEventTypes }, after, limit);
    return known ?? (await followEvents(this.db.prepared, [accountId], after, limit));
  }

  async look(follower: Follower, filter: EventFilter, after: number, limit: number): Promise<EventPage> {
    const leave = await this.gate.enter(follower.accountId);
    try {
      // A follower that has left meanwhile needs no answer.
      if (follower.over()) return { events: [], start: null, position: after, hasMore: false };
      return await eventsAfter(this.db.reader, filter, after, limit);
    } finally {
      leave?.();
    }
  }

  /** Returns the events after a position from memory; null if memory does not reach so far back. */
  inMemory(filter: EventFilter, after: number, limit: number): EventPage | null {
    const floor = this.floors.get(filter.accountId);
    if (floor === undefined || after < floor) return null;
    const events = this.buffered.slice(firstAfter(this.buffered, after)).filter((event) => suits(event, filter));
    const hasMore = events.length > limit;
    if (hasMore) events.length = limit;
    const position = hasMore ? (events.at(-1)?.sequence ?? after) : Math.max(this.head, after);
    return { events, start: events[0]?.sequence ?? null, position, hasMore };
  }

  private notify(): void {
    this.notified = true;
    if (!this.reading) void this.readOn();
  }

  private async readOn(): Promise<void> {
    this.reading = true;
    try {
      while (this.notified && this.listeners.size > 0) {
        this.notified = false;
        const accounts = await this.readPage();
        this.isFailing = false;
        this.wakeAll(accounts);
      }
    } catch (error) {
      if (!this.isFailing)
        this.log.warn({ event: 'events_unread', err: error }, 'new events could not be read for all');
      this.isFailing = true;
      // Each then reads the log itself and gets the error.
      this.floors.clear();
      this.wakeAll(null);
    } finally {
      this.reading = false;
      if (this.listeners.size === 0) this.forget();
    }
  }

  /** Reads on, and returns the accounts that have new events or whose memory begins now. */
  private async readPage(): Promise<ReadonlySet<string>> {
    const { floors, db } = this;
    const followed = new Set([...this.listeners].map(({ accountId }) => accountId));
    for (const account of floors.keys()) if (!followed.has(account)) floors.delete(account);
    // Memory begins where the log ends now.
    if (floors.size === 0) {
      this.buffered = [];
      this.head = await newestSequence(db.prepared);
    }
    const woken = new Set([...followed].filter((account) => !floors.has(account)));
    for (const account of woken) floors.set(account, this.head);
    const page = await followEvents(db.prepared, [...followed], this.head, PAGE);
    this.head = Math.max(this.head, page.position);
    this.buffered.push(...page.events);
    for (const { account_id: account } of page.events) woken.add(account);
    const dropped = this.buffered.splice(0, Math.max(0, this.buffered.length - BUFFERED));
    for (const { account_id: account, sequence } of dropped)
      if (sequence > (floors.get(account) ?? Infinity)) floors.set(account, sequence);
    this.notified ||= page.hasMore;
    return woken;
  }

  private wakeAll(accounts: ReadonlySet<string> | null): void {
    for (const listener of this.listeners) listener.wake(accounts);
  }

  private forget(): void {
    this.floors.clear();
    this.buffered = [];
  }
}

export class Follower implements Listener {
  readonly accountId: string;
  private readonly tail: EventTail;
  private readonly clock: Clock;
  private isWoken = false;
  private isOver = false;
  private endWait: () => void = () => undefined;

  constructor(tail: EventTail, clock: Clock, accountId: string) {
    this.tail = tail;
    this.clock = clock;
    this.accountId = accountId;
  }

  wake(): void {
    this.isWoken = true;
    this.endWait();
  }

  /** Returns up to `limit` events after position `after`, from the log. */
  look(filter: EventFilter, after: number, limit: number): Promise<EventPage> {
    return this.tail.look(this, filter, after, limit);
  }

  /** Returns the same, from memory if possible. Memory is only as new as the last notification. */
  async hear(filter: EventFilter, after: number, limit: number): Promise<EventPage> {
    return this.tail.inMemory(filter, after, limit) ?? (await this.look(filter, after, limit));
  }

  /** Resolves when there may be something new, after `ms`, or when the follower ends; true if there may be something new. */
  async next(ms: number): Promise<boolean> {
    if (!this.isWoken && !this.isOver) await this.wait(ms);
    const wasWoken = this.isWoken;
    this.isWoken = false;
    return wasWoken;
  }

  private wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.clock.after(ms, resolve);
      this.endWait = () => {
        timer.cancel();
        resolve();
      };
    });
  }

  /** Wakes the waiting caller; nothing is read from now on. */
  end(): void {
    this.isOver = true;
    this.endWait();
  }

  over(): boolean {
    return this.isOver;
  }

  leave(): void {
    this.tail.remove(this);
  }
}

/** Returns the index of the first event after this position; events are in the order of their numbers. */
function firstAfter(events: readonly LoggedEvent[], position: number): number {
  let from = 0;
  let to = events.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if ((events[middle]?.sequence ?? 0) > position) to = middle;
    else from = middle + 1;
  }
  return from;
}

/** Tests an event in memory as the query of event-log.ts does. */
export function suits(event: LoggedEvent, filter: EventFilter): boolean {
  const { accountId, messageId, recipient, batchId, tag, occurredAfter, occurredBefore, test, ofTestMail } = filter;
  return (
    event.account_id === accountId &&
    (typesOf(filter) as readonly string[]).includes(event.type) &&
    (messageId === undefined || event.message_id === messageId) &&
    (batchId === undefined || event.batch_id === batchId) &&
    (recipient === undefined || addressKey(event.recipient) === recipient) &&
    (tag === undefined || (JSON.parse(event.tags_json) as string[]).includes(tag)) &&
    (occurredAfter === undefined || event.at >= occurredAfter) &&
    (occurredBefore === undefined || event.at < occurredBefore) &&
    (test === undefined || (event.test === 1) === test) &&
    (ofTestMail !== true || event.message_test === 1)
  );
}
