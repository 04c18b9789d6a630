/**
 * From the event log to the endpoints. Endpoints that keep up share one reader, which takes each new event from the log once
 * and hands it to those who want it; one that lags behind reads for itself, as far as it has room, until it is in step again.
 * Nothing is written for an event that is only waiting: what an endpoint was not told of is the log beyond its cursor.
 *
 * It is woken by the notifier of new events, by the end of calls and by one timer an endpoint; an idle system is not looked at.
 */
import type { Notifier } from '../scheduling/notifier.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { Keyring } from '../base/keyring.ts';
import type { Log } from '../base/log.ts';
import { eventsNumbered, followEvents, lastSequence, type LoggedEvent } from '../events/event-log.ts';
import type { Database } from '../storage/database.ts';
import type { WebhookCallRow, WebhookRow } from '../storage/tables.ts';
import { callsBeyond, dropCalls, moveCursors, nextCalls } from './call-store.ts';
import { wants } from './endpoint.ts';
import { openEndpoint } from './endpoint-store.ts';
import { Feed, HELD, type CallJob } from './feed.ts';
import { stepReplay } from './replay.ts';
import { LONGEST_WAIT_MS, PROBE_EVERY_MS } from './retry.ts';

export interface FanOutDeps {
  db: Pick<Database, 'commit' | 'reader' | 'prepared'>;
  clock: Clock;
  keyring: Keyring;
  log: Pick<Log, 'error'>;
  notifiers: { events: Notifier; webhooks: Notifier<string> };
  /** A call to be made. */
  offer: (job: CallJob) => void;
  /** The endpoint's number of calls at once may have changed. */
  pump: (feed: Feed) => void;
}

export interface FanOut {
  start(): Promise<void>;
  /** An event is settled; there may be room for the next. */
  settled(job: CallJob): void;
  /** How many calls at once the endpoint may have. */
  slots(webhookId: string): number;
  /** Gives back what the endpoint has in hand and, unless it is to rest, reads on. */
  rewind(feed: Feed): void;
  /** Forgets what is in memory of the endpoint and begins again from what is on disk, a little later. */
  restart(feed: Feed): void;
  /** Reads no more; resolves when what was being read is done and the cursors are written. */
  stop(): Promise<void>;
}

/** Events of one read. */
const PAGE = 200;
/** Cursors are written with the calls they belong to. Over events that are nobody's concern they move in strides. */
const STRIDE = 10_000;
/** After a fault. */
const LATER_MS = 1000;

export function createFanOut(deps: FanOutDeps): FanOut {
  const { db, clock, keyring, log, notifiers } = deps;
  const feeds = new Map<string, Feed>();
  const working = new Map<string, Promise<void>>();
  /** Feeds to look at once more after the look that is under way. */
  const rung = new Set<string>();
  /** Endpoints in step have read the log up to here. */
  let tail = 0;
  let following: Promise<void> | null = null;
  let heard = false;
  let later: Timer | null = null;
  const reloads = new Map<string, Timer>();
  let stopped = false;
  let unlisten: (() => void)[] = [];

  /** Reads what is new in the log for all endpoints that are in step. */
  function follow(): void {
    heard = true;
    if (stopped || following !== null) return;
    following = followOn()
      .catch((err: unknown) => {
        log.error({ event: 'webhook_reading_failed', err }, 'the event log could not be read for webhooks');
        heard = false;
        later ??= clock.after(LATER_MS, followLater, { background: true });
      })
      .finally(() => {
        following = null;
        if (heard && inStep().length > 0) follow();
      });
  }

  function followLater(): void {
    later = null;
    follow();
  }

  async function followOn(): Promise<void> {
    while (heard && !stopped) {
      const followers = new Set(inStep());
      if (followers.size === 0) return;
      heard = false;
      const accounts = [...followers].flatMap(({ endpoint }) => endpoint?.accountId ?? []);
      const page = await followEvents(db.prepared, [...new Set(accounts)], tail, PAGE);
      tail = Math.max(tail, page.position);
      for (const feed of inStep()) {
        if (followers.has(feed)) hear(feed, page.events, page.position);
        // It came into step while this was read, without its account being asked for.
        else if (feed.position < page.position) leaveStep(feed);
      }
      heard ||= page.hasMore;
      await stride();
    }
  }

  const inStep = (): Feed[] => [...feeds.values()].filter((feed) => feed.inStep);

  function hear(feed: Feed, events: readonly LoggedEvent[], position: number): void {
    for (const event of events) {
      if (event.sequence <= feed.position || event.account_id !== feed.endpoint?.accountId) continue;
      if (!wants(feed.endpoint, event)) continue;
      if (!feed.takesFresh(clock.now())) {
        leaveStep(feed);
        return;
      }
      feed.position = event.sequence;
      offerFresh(feed, event);
    }
    feed.position = Math.max(feed.position, position);
  }

  function leaveStep(feed: Feed): void {
    feed.inStep = false;
    look(feed);
  }

  function offerFresh(feed: Feed, event: LoggedEvent): void {
    if (feed.struggling) feed.nextProbeAt = clock.now() + PROBE_EVERY_MS;
    deps.offer(feed.take(event, { cause: 'event', attempts: 0, hasRow: false }));
  }

  /** Looks after one endpoint: what is due again, then what it has not read. One look at a time. */
  function look(feed: Feed): void {
    if (stopped || feeds.get(feed.id) !== feed) return;
    rung.add(feed.id);
    if (working.has(feed.id)) return;
    const done = lookAll(feed)
      .catch((err: unknown) => {
        log.error(
          { event: 'webhook_reading_failed', webhook_id: feed.id, err },
          'the event log could not be read for webhooks',
        );
        restart(feed);
      })
      .finally(() => {
        working.delete(feed.id);
        const now = feeds.get(feed.id);
        if (rung.has(feed.id) && now !== undefined) look(now);
      });
    working.set(feed.id, done);
  }

  async function lookAll(feed: Feed): Promise<void> {
    while (rung.delete(feed.id) && !stopped && feed.active && feed.endpoint !== null) {
      feed.tried ??= await callsBeyond(db.prepared, feed.id, feed.position);
      await readRetries(feed);
      await readLog(feed);
      arm(feed);
    }
  }

  /** Offers the calls that are due again, and learns when the next one is. */
  async function readRetries(feed: Feed): Promise<void> {
    while (!stopped && feed.active && feed.retriesInHand <= HELD / 2) {
      const { generation } = feed;
      const limit = HELD + feed.retriesInHand + feed.freshInHand;
      feed.beginReading();
      const rows = await nextCalls(db.prepared, feed.id, limit);
      const now = clock.now();
      // What is due later than any wait lasts was noted by a clock that has been set back.
      const isDue = ({ due_at: at }: WebhookCallRow): boolean =>
        at !== null && (at <= now || at > now + LONGEST_WAIT_MS);
      const due = rows.filter((row) => isDue(row) && feed.isFree(row.sequence));
      const events =
        due.length === 0
          ? []
          : await eventsNumbered(
              db.prepared,
              due.map(({ sequence }) => sequence),
            );
      if (feed.generation !== generation) continue;
      // One that was asked for again while its first call is on the wire: that has to end first.
      const isHeldUp = rows.some((row) => isDue(row) && feed.holdsFresh(row.sequence));
      const nextAt = rows.find((row) => !isDue(row))?.due_at ?? null;
      feed.noteNextRetry(isHeldUp ? now + LATER_MS : nextAt);
      const bySequence = new Map(events.map((event) => [event.sequence, event]));
      for (const { sequence, cause, attempts } of due) {
        const event = bySequence.get(sequence);
        if (event !== undefined && feed.isFree(sequence))
          deps.offer(feed.take(event, { cause, attempts, hasRow: true }));
      }
      const gone = due.flatMap(({ sequence }) => (bySequence.has(sequence) ? [] : [sequence]));
      if (gone.length > 0) await dropCalls(db.commit, feed.id, gone);
      if (due.length > 0) continue;
      if (!feed.mayReplay || feed.endpoint === null) return;
      feed.mayReplay = await stepReplay({ db, clock }, feed.endpoint);
    }
  }

  /** Reads on in the log for an endpoint that is not in step. */
  async function readLog(feed: Feed): Promise<void> {
    while (!stopped && !feed.inStep && feed.endpoint !== null && feed.takesFresh(clock.now())) {
      const { generation } = feed;
      const page = await followEvents(db.prepared, [feed.endpoint.accountId], feed.position, PAGE);
      if (feed.generation !== generation) continue;
      if (!readPage(feed, page.events)) return;
      feed.position = page.position;
      if (!page.hasMore && page.position >= tail) {
        if (inStep().length === 0) tail = page.position;
        feed.inStep = true;
        // What came while this was read was heard by nobody.
        follow();
      }
    }
    if (feed.position - feed.durable >= STRIDE) await stride();
  }

  /** False where the endpoint has no room for all of it. */
  function readPage(feed: Feed, events: readonly LoggedEvent[]): boolean {
    for (const event of events) {
      if (feed.endpoint !== null && feed.tried?.has(event.sequence) !== true && wants(feed.endpoint, event)) {
        if (!feed.takesFresh(clock.now())) return false;
        feed.position = event.sequence;
        offerFresh(feed, event);
      } else feed.position = event.sequence;
    }
    return true;
  }

  /** One timer an endpoint. */
  function arm(feed: Feed): void {
    feed.timer?.cancel();
    feed.timer = null;
    const at = feed.nextLookAt;
    if (stopped || !feed.active || at === null) return;
    const wait = at - clock.now();
    if (wait <= 0) {
      look(feed);
      return;
    }
    feed.timer = clock.after(
      wait,
      () => {
        feed.timer = null;
        look(feed);
      },
      { background: true },
    );
  }

  /** Writes the cursors of endpoints that have passed many events without a call. */
  async function stride(least = STRIDE): Promise<void> {
    const moved = [...feeds.values()].flatMap((feed) => {
      const to = feed.settledUpTo(new Set());
      return to - feed.durable >= least ? [{ feed, to }] : [];
    });
    await moveCursors(
      db.commit,
      moved.map(({ feed, to }) => [feed.id, to]),
    );
    for (const { feed, to } of moved) feed.durable = Math.max(feed.durable, to);
  }

  /** The endpoint's row as it is now: new, changed or gone. */
  async function reload(id: string): Promise<void> {
    const row = await db.reader<WebhookRow>('webhooks').where({ id }).first();
    if (stopped) return;
    const known = feeds.get(id);
    if (row === undefined) {
      feeds.delete(id);
      known?.rewind();
      if (known !== undefined) known.active = false;
    } else if (known === undefined) open(row);
    else apply(known, row);
  }

  function open(row: WebhookRow): void {
    const feed = new Feed(row, opened(row));
    feeds.set(row.id, feed);
    look(feed);
  }

  function apply(feed: Feed, row: WebhookRow): void {
    feed.endpoint = opened(row);
    feed.active = row.status === 'active';
    feed.health = row;
    feed.mayReplay = true;
    // In strict order nothing that was read ahead may be taken before what failed.
    if (!feed.active || feed.endpoint === null || feed.endpoint.concurrency === 1) feed.rewind();
    deps.pump(feed);
    look(feed);
  }

  function opened(row: WebhookRow): Feed['endpoint'] {
    try {
      return openEndpoint(keyring, row);
    } catch (err) {
      log.error(
        { event: 'webhook_unreadable', webhook_id: row.id, err },
        'the secrets of a webhook endpoint cannot be opened; it is not called',
      );
      return null;
    }
  }

  function heardOf(id: string): void {
    reload(id).catch((err: unknown) => {
      log.error({ event: 'webhook_reading_failed', webhook_id: id, err }, 'a webhook endpoint could not be read');
      reloadLater(id);
    });
  }

  function reloadLater(id: string): void {
    if (stopped || reloads.has(id)) return;
    const reloadNow = (): void => {
      reloads.delete(id);
      heardOf(id);
    };
    reloads.set(id, clock.after(LATER_MS, reloadNow, { background: true }));
  }

  function restart(feed: Feed): void {
    feed.rewind();
    feed.active = false;
    if (feeds.get(feed.id) !== feed) return;
    feeds.delete(feed.id);
    reloadLater(feed.id);
  }

  return {
    async start() {
      tail = await lastSequence(db.reader);
      unlisten = [notifiers.events.listen(follow), notifiers.webhooks.listen(heardOf)];
      for (const row of await db.reader<WebhookRow>('webhooks')) if (!feeds.has(row.id)) open(row);
    },
    settled(job) {
      const { feed } = job;
      feed.letGo(job);
      feed.durable = Math.max(feed.durable, feed.settledUpTo(new Set()));
      const hasRoom = !feed.inStep && feed.freshInHand <= HELD / 2;
      if (hasRoom || (job.hasRow && feed.retriesInHand <= HELD / 2)) look(feed);
      else arm(feed);
    },
    slots: (id) => feeds.get(id)?.slots ?? 1,
    rewind(feed) {
      feed.rewind();
      look(feed);
    },
    restart,
    async stop() {
      stopped = true;
      for (const off of unlisten) off();
      for (const timer of [later, ...reloads.values()]) timer?.cancel();
      for (const feed of feeds.values()) feed.timer?.cancel();
      await Promise.all([following, ...working.values()]);
      await stride(1);
    },
  };
}
