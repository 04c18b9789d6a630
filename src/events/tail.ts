/**
 * Serves the end of the event log to all followers (event streams, long polls): one reader takes each new event from the log once and
 * keeps the last ones in memory, where each follower finds its own. If two hundred followers each asked the database at every commit,
 * no other request would get a turn.
 *
 * A position is served from memory only if memory has everything after it; other followers read the log themselves, a few at a time.
 * Nothing is read without followers.
 */
import type { Notifier } from '../scheduling/notifier.ts';
import type { Clock } from '../base/clock.ts';
import { createGate } from '../scheduling/gate.ts';
import { addressKey } from '../mail/address.ts';
import type { Database } from '../storage/database.ts';
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
  notifiers: { events: Notifier };
}

export interface Follower {
  /** Up to `limit` events after position `after`, from the log. */
  look(filter: EventFilter, after: number, limit: number): Promise<EventPage>;
  /** Returns the same, from memory if possible. Memory is only as new as the last notification. */
  hear(filter: EventFilter, after: number, limit: number): Promise<EventPage>;
  /** Resolves when there may be something new, after `ms`, or when the follower ends; true if there may be something new. */
  next(ms: number): Promise<boolean>;
  /** Wakes the waiting caller; nothing is read from now on. */
  end(): void;
  over(): boolean;
  /** Removes the follower. */
  leave(): void;
}

/** Events of one read, and events kept in memory. */
const PAGE = 500;
const BUFFERED = 1000;
/** Followers that may read the log at the same time: the other readers are for other requests. */
const LOOKS = 1;

interface Listener {
  accountId: string;
  wake(): void;
}

export function createEventTail({ db, clock, notifiers }: TailDeps) {
  const listeners = new Set<Listener>();
  const gate = createGate({ most: LOOKS, waiting: Infinity });
  /** For each account, `buffered` has everything in (its floor, head] that is after `dropped`. */
  const floors = new Map<string, number>();
  let buffered: LoggedEvent[] = [];
  let dropped = 0;
  let head = 0;
  let rung = false;
  let reading = false;
  let unlisten: (() => void) | null = null;

  function ring(): void {
    rung = true;
    if (!reading) void readOn();
  }

  async function readOn(): Promise<void> {
    reading = true;
    try {
      while (rung && listeners.size > 0) {
        rung = false;
        await readPage();
        wakeAll();
      }
    } catch {
      // Each follower then reads the log itself and gets the error.
      floors.clear();
      wakeAll();
    } finally {
      reading = false;
      if (listeners.size === 0) forget();
    }
  }

  function forget(): void {
    floors.clear();
    buffered = [];
  }

  async function readPage(): Promise<void> {
    const accounts = new Set([...listeners].map(({ accountId }) => accountId));
    for (const account of floors.keys()) if (!accounts.has(account)) floors.delete(account);
    // Memory begins where the log ends now.
    if (floors.size === 0) {
      buffered = [];
      head = await newestSequence(db.prepared);
    }
    for (const account of accounts) if (!floors.has(account)) floors.set(account, head);
    const page = await followEvents(db.prepared, [...accounts], head, PAGE);
    head = Math.max(head, page.position);
    buffered.push(...page.events);
    const out = buffered.splice(0, Math.max(0, buffered.length - BUFFERED));
    dropped = out.at(-1)?.sequence ?? dropped;
    rung ||= page.hasMore;
  }

  function wakeAll(): void {
    for (const listener of listeners) listener.wake();
  }

  function inMemory(filter: EventFilter, after: number, limit: number): EventPage | null {
    const floor = floors.get(filter.accountId);
    if (floor === undefined || after < Math.max(floor, dropped)) return null;
    const events = buffered.slice(firstAfter(buffered, after)).filter((event) => suits(event, filter));
    const hasMore = events.length > limit;
    if (hasMore) events.length = limit;
    const position = hasMore ? (events.at(-1)?.sequence ?? after) : Math.max(head, after);
    return { events, start: events[0]?.sequence ?? null, position, hasMore };
  }

  return {
    /** Adds a follower of what becomes visible for this account from now on. */
    follow(accountId: string): Follower {
      let isRung = false;
      let isOver = false;
      let stir = (): void => undefined;
      const listener: Listener = {
        accountId,
        wake() {
          isRung = true;
          stir();
        },
      };
      listeners.add(listener);
      unlisten ??= notifiers.events.listen(ring);
      // Wakes the new follower soon, with memory as new as its arrival.
      ring();

      async function look(filter: EventFilter, after: number, limit: number): Promise<EventPage> {
        const leave = await gate.enter();
        try {
          // A follower that has left meanwhile needs no answer.
          if (isOver) return { events: [], start: null, position: after, hasMore: false };
          return await eventsAfter(db.reader, filter, after, limit);
        } finally {
          leave?.();
        }
      }

      return {
        look,
        async hear(filter, after, limit) {
          return inMemory(filter, after, limit) ?? (await look(filter, after, limit));
        },
        async next(ms) {
          if (!isRung && !isOver)
            await new Promise<void>((resolve) => {
              const timer = clock.after(ms, resolve);
              stir = () => {
                timer.cancel();
                resolve();
              };
            });
          const wasRung = isRung;
          isRung = false;
          return wasRung;
        },
        end() {
          isOver = true;
          stir();
        },
        over: () => isOver,
        leave() {
          listeners.delete(listener);
          if (listeners.size > 0) return;
          unlisten?.();
          unlisten = null;
          forget();
        },
      };
    },
  };
}

export type EventTail = ReturnType<typeof createEventTail>;

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
  const { accountId, messageId, recipient, batchId, tag, occurredAfter, occurredBefore, test } = filter;
  return (
    event.account_id === accountId &&
    (typesOf(filter) as readonly string[]).includes(event.type) &&
    (messageId === undefined || event.message_id === messageId) &&
    (batchId === undefined || event.batch_id === batchId) &&
    (recipient === undefined || addressKey(event.recipient) === recipient) &&
    (tag === undefined || (JSON.parse(event.tags_json) as string[]).includes(tag)) &&
    (occurredAfter === undefined || event.at >= occurredAfter) &&
    (occurredBefore === undefined || event.at < occurredBefore) &&
    (test === undefined || (event.test === 1) === test)
  );
}
