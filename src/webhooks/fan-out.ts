/**
 * Hands events of the log to the endpoints that this node calls (storage/owners.ts). Endpoints that keep up are in step: one reader takes each
 * new event from the log once for all of them. One that lags behind reads for itself, as far as it has room, until it is in step again.
 *
 * Nothing is written for an event that is only waiting: what an endpoint was not called for is the log beyond its cursor.
 *
 * The notifier of new events, the end of calls and one timer for each endpoint wake it; an idle system is not polled.
 *
 * If the set of nodes changes, endpoints move. The node that had one writes how far it has come and begins no more calls; some seconds later the
 * one that has it now goes on from the cursor, as after a crash: what is still on the wire then is sent again.
 */
import type { Timer } from '../base/clock.ts';
import { eventsNumbered, followEvents, newestSequence, type LoggedEvent } from '../events/event-log.ts';
import type { Lanes } from '../scheduling/lanes.ts';
import { statement } from '../storage/sql.ts';
import type { WebhookCallRow, WebhookRow } from '../storage/tables.ts';
import { callsBeyond, dropCalls, moveCursors, nextCalls } from './call-store.ts';
import type { WebhookDeps } from './dispatcher.ts';
import { openEndpoint } from './endpoint-store.ts';
import { wants } from './endpoint.ts';
import { Feed, MOST_IN_HAND, type CallJob } from './feed.ts';
import { stepReplay } from './replay.ts';
import { LONGEST_WAIT_MS, PROBE_EVERY_MS } from './retry.ts';

/** Events that one read of the log returns at most. */
const EVENTS_AT_ONCE = 200;
/** Wait after a read that failed. */
const FAULT_DELAY_MS = 1000;
/** Cursors are written with the calls they belong to. One that only skips events without subscribers is written once in this many. */
const CURSOR_STEP = 10_000;
/** Wait before a node calls endpoints that it has now: the others learn of a change within two seconds, and write their cursors. */
const TAKE_OVER_MS = 3000;
/** Rows of endpoints that one statement reads. */
const ROWS_AT_ONCE = 200;
const rowsOf = statement(({ among }) => `SELECT * FROM webhooks WHERE id ${among('text')}`);
const pageOfIds = 'SELECT id FROM webhooks WHERE id > ? ORDER BY id LIMIT 1000';

/** Names of timers beside the ids of endpoints, whose rows are read again. */
const FOLLOW = 'follow';
const OPEN = 'open';

export class FanOut {
  private readonly deps: WebhookDeps;
  private readonly lanes: Pick<Lanes<CallJob>, 'offer' | 'pump'>;
  private readonly feeds = new Map<string, Feed>();
  /** Feeds in step have read the log up to here. */
  private position = 0;
  private following: Promise<void> | null = null;
  /** New events were announced since the last read began. */
  private isRung = false;
  /** Looks after one endpoint that are under way, by its id. */
  private readonly looks = new Map<string, Promise<void>>();
  /** Endpoints to look after (once more), those with a look under way included. */
  private readonly wanted = new Set<string>();
  /** Endpoints whose row is read again as soon as this turn of the loop is over. */
  private readonly asked = new Set<string>();
  /** The reads of rows so far. */
  private reads: Promise<unknown> = Promise.resolve();
  private readonly timers = new Map<string, Timer>();
  /** Changes of endpoints may have been missed: the rows are read again. */
  private hasMissed = false;
  private unlisten: (() => void)[] = [];
  private stopped = false;

  constructor(deps: WebhookDeps, lanes: Pick<Lanes<CallJob>, 'offer' | 'pump'>) {
    this.deps = deps;
    this.lanes = lanes;
  }

  async start(): Promise<void> {
    const { db, notifiers, owners, hasOthers } = this.deps;
    this.position = await newestSequence(db.prepared);
    this.unlisten = [
      notifiers.events.listen(() => this.follow()),
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
    if (this.feeds.get(feed.id) !== feed) {
      // Another feed has taken its place, here or at another node: it reads whether the call is to be made again.
      this.deps.notifiers.webhooks.notify(feed.id);
      return;
    }
    feed.durable = Math.max(feed.durable, feed.settledUpTo(new Set()));
    const hasRoom = !feed.inStep && feed.freshInHand <= MOST_IN_HAND / 2;
    if (hasRoom || (job.hasRow && feed.retriesInHand <= MOST_IN_HAND / 2)) this.look(feed);
    else this.setTimer(feed);
  }

  /** Returns how many calls at once the endpoint may have. */
  slots(webhookId: string): number {
    return this.feeds.get(webhookId)?.slots ?? 1;
  }

  /** Gives back what the endpoint has in hand and, unless it is to rest, reads on. */
  rewind(feed: Feed): void {
    feed.rewind();
    this.look(feed);
  }

  /** Forgets what is in memory of the endpoint and begins again from what is on disk, a little later. */
  restart(feed: Feed): void {
    if (this.feeds.get(feed.id) === feed) {
      this.feeds.delete(feed.id);
      this.reloadLater(feed.id);
    }
    feed.end();
  }

  /** Reads no more; resolves when the reads under way are done and the cursors are written. */
  async stop(): Promise<void> {
    this.stopped = true;
    for (const off of this.unlisten) off();
    for (const timer of this.timers.values()) timer.cancel();
    for (const feed of this.feeds.values()) feed.timer?.cancel();
    await Promise.all([this.following, this.reads, ...this.looks.values()]);
    for (const feed of this.feeds.values()) feed.end();
    await this.leave([...this.feeds.values()]);
  }

  /** Leaves endpoints that another node has now, and opens those that this node has, as soon as another has left them. */
  private changeOwners(): void {
    const { owners, hasOthers } = this.deps;
    const gone = [...this.feeds.values()].filter(({ id }) => !owners.isOurs(id));
    for (const feed of gone) {
      this.feeds.delete(feed.id);
      feed.end();
    }
    // Before rows are read again: an endpoint may come back.
    if (gone.length > 0) this.reads = this.reads.then(() => this.leave(gone));
    this.timers.get(OPEN)?.cancel();
    this.timers.delete(OPEN);
    if (hasOthers()) this.openLater(TAKE_OVER_MS);
    else this.openOurs();
  }

  /** Writes how far these endpoints have come. Their calls on the wire end as they would have. */
  private async leave(feeds: readonly Feed[]): Promise<void> {
    try {
      await this.writeCursors(feeds, 1);
    } catch (err) {
      this.deps.log.error(
        { event: 'webhook_handover_failed', err },
        'how far webhook endpoints have come could not be written: some events are sent to them again',
      );
    }
  }

  /** Writes the cursors of those that have passed at least `least` events without a call. */
  private async writeCursors(feeds: readonly Feed[], least: number): Promise<void> {
    const moved = feeds.flatMap((feed) => {
      const settled = feed.settledUpTo(new Set());
      return settled - feed.durable >= least ? [{ feed, id: feed.id, settled }] : [];
    });
    await moveCursors(this.deps.db.commit, moved);
    for (const { feed, settled } of moved) feed.durable = Math.max(feed.durable, settled);
  }

  /** Runs the work later, once for all that ask under this name until then. */
  private later(name: string, ms: number, run: () => void): void {
    if (this.stopped || this.timers.has(name)) return;
    const timeUp = (): void => {
      this.timers.delete(name);
      run();
    };
    this.timers.set(name, this.deps.clock.after(ms, timeUp, { background: true }));
  }

  private logUnread(err: unknown, webhookId?: string): void {
    const fields = { event: 'webhook_reading_failed', webhook_id: webhookId, err };
    this.deps.log.error(fields, 'the database could not be read for webhooks; it is tried again');
  }

  // The rows of endpoints.

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
      this.logUnread(err, ids[0]);
      for (const id of ids) this.reloadLater(id);
    });
  }

  private reloadLater(id: string): void {
    this.later(id, FAULT_DELAY_MS, () => this.reload(id));
  }

  private openLater(ms: number): void {
    this.later(OPEN, ms, () => this.openOurs());
  }

  private openOurs(): void {
    const all = this.hasMissed;
    this.hasMissed = false;
    this.readOurs({ all }).catch((err: unknown) => {
      this.logUnread(err);
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
    if (row === undefined) {
      this.feeds.delete(id);
      feed?.end();
    } else if (feed !== undefined) this.apply(feed, row);
    else if (this.mayOpen(id)) {
      const fresh = new Feed(row, this.endpointOf(row));
      this.feeds.set(id, fresh);
      this.look(fresh);
    }
  }

  /** False while another node may still call the endpoint: it is opened after that. */
  private mayOpen(id: string): boolean {
    return !this.timers.has(OPEN) && this.deps.owners.isOurs(id);
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
    this.lanes.pump(feed.id);
    this.look(feed);
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

  // The log, once for all endpoints in step.

  private inStep(): Feed[] {
    return [...this.feeds.values()].filter((feed) => feed.inStep);
  }

  /** Reads what is new. */
  private follow(): void {
    this.isRung = true;
    if (this.stopped || this.following !== null) return;
    this.following = this.readOn()
      .catch((err: unknown) => {
        this.logUnread(err);
        this.isRung = false;
        this.later(FOLLOW, FAULT_DELAY_MS, () => this.follow());
      })
      .finally(() => {
        this.following = null;
        if (this.isRung && this.inStep().length > 0) this.follow();
      });
  }

  private async readOn(): Promise<void> {
    while (this.isRung && !this.stopped) {
      const followers = new Set(this.inStep());
      if (followers.size === 0) return;
      this.isRung = false;
      const accounts = new Set([...followers].flatMap(({ endpoint }) => endpoint?.accountId ?? []));
      const page = await followEvents(this.deps.db.prepared, [...accounts], this.position, EVENTS_AT_ONCE);
      this.position = Math.max(this.position, page.position);
      for (const feed of this.inStep()) {
        if (followers.has(feed)) this.handOut(feed, page.events, page.position);
        // This feed joined during the read, which did not include its account.
        else if (feed.position < page.position) this.leaveStep(feed);
      }
      this.isRung ||= page.hasMore;
      await this.writeCursors([...this.feeds.values()], CURSOR_STEP);
    }
  }

  private handOut(feed: Feed, events: readonly LoggedEvent[], position: number): void {
    if (this.offerAll(feed, events)) feed.position = Math.max(feed.position, position);
    else this.leaveStep(feed);
  }

  /** The feed has no room: it reads the log by itself from its position on. */
  private leaveStep(feed: Feed): void {
    feed.inStep = false;
    this.look(feed);
  }

  /** Offers the events that the endpoint wants, beyond its position. Returns false if it has no room for all of them. */
  private offerAll(feed: Feed, events: readonly LoggedEvent[]): boolean {
    for (const event of events) {
      const { endpoint, tried } = feed;
      if (event.sequence <= feed.position || event.account_id !== endpoint?.accountId) continue;
      if (tried?.has(event.sequence) !== true && wants(endpoint, event)) {
        const now = this.deps.clock.now();
        if (!feed.takesFresh(now)) return false;
        if (feed.struggling) feed.nextProbeAt = now + PROBE_EVERY_MS;
        feed.position = event.sequence;
        this.lanes.offer(feed.id, feed.take(event, { cause: 'event', attempts: 0, hasRow: false }));
      }
      feed.position = event.sequence;
    }
    return true;
  }

  // One endpoint at a time: the calls that are due again, then the log if it is not in step.

  /** Looks after one endpoint. A look that is under way is followed by another. */
  private look(feed: Feed): void {
    if (this.stopped || this.feeds.get(feed.id) !== feed) return;
    this.wanted.add(feed.id);
    if (this.looks.has(feed.id)) return;
    const done = this.lookWhileWanted(feed)
      .catch((err: unknown) => {
        this.logUnread(err, feed.id);
        this.restart(feed);
      })
      .finally(() => {
        this.looks.delete(feed.id);
        const now = this.feeds.get(feed.id);
        if (this.wanted.has(feed.id) && now !== undefined) this.look(now);
      });
    this.looks.set(feed.id, done);
  }

  private async lookWhileWanted(feed: Feed): Promise<void> {
    // The wish may be that of a feed that has taken the place of this one: then it is left for that one.
    while (!this.stopped && this.feeds.get(feed.id) === feed && this.wanted.delete(feed.id)) {
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
        this.lanes.offer(feed.id, feed.take(event, { cause, attempts, hasRow: true }));
    }
    const gone = due.flatMap(({ sequence }) => (bySequence.has(sequence) ? [] : [sequence]));
    if (gone.length > 0) await dropCalls(this.deps.db.commit, feed.id, gone);
  }

  /** Reads on in the log for an endpoint that is not in step. */
  private async readLog(feed: Feed): Promise<void> {
    const { db, clock } = this.deps;
    while (!this.stopped && !feed.inStep && feed.endpoint !== null && feed.takesFresh(clock.now())) {
      const { generation } = feed;
      const page = await followEvents(db.prepared, [feed.endpoint.accountId], feed.position, EVENTS_AT_ONCE);
      if (feed.generation !== generation) continue;
      if (!this.offerAll(feed, page.events)) return;
      feed.position = page.position;
      if (page.hasMore || page.position < this.position) continue;
      // The first feed in step sets the place from which all are followed. Events that came meanwhile were not handed out yet.
      if (this.inStep().length === 0) this.position = page.position;
      feed.inStep = true;
      this.follow();
    }
    await this.writeCursors([feed], CURSOR_STEP);
  }

  /** Sets the endpoint's one timer to its next retry or probe. */
  private setTimer(feed: Feed): void {
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
}

/** Returns whether a call is due. One that is due later than any wait lasts was noted by a clock that has been set back. */
const isDue = ({ due_at: at }: WebhookCallRow, now: number): boolean =>
  at !== null && (at <= now || at > now + LONGEST_WAIT_MS);
