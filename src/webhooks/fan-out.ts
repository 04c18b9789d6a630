/**
 * Hands events of the log to the endpoints that this node calls (storage/owners.ts). Each endpoint has a feed, which reads on as far as it has
 * room: from the memory that all followers of the log share (events/tail.ts), or from the log if it is behind that.
 *
 * Nothing is written for an event that is only waiting: what an endpoint was not called for is the log beyond its cursor.
 *
 * New events, the end of calls and one timer for each endpoint wake it; an idle system is not polled.
 *
 * If the set of nodes changes, endpoints move. The node that had one writes how far it has come and begins no more calls; some seconds later the
 * one that has it now goes on from the cursor, as after a crash: what is still on the wire then is sent again.
 */
import type { Timer } from '../base/clock.ts';
import { eventsNumbered } from '../events/event-log.ts';
import type { EventSource } from '../events/event.ts';
import type { Lanes } from '../scheduling/lanes.ts';
import { statement } from '../storage/sql.ts';
import type { WebhookCallRow, WebhookRow } from '../storage/tables.ts';
import { callsBeyond, dropCalls, moveCursors, nextCalls } from './call-store.ts';
import type { WebhookDeps } from './dispatcher.ts';
import { openEndpoint } from './endpoint-store.ts';
import { wants, type Endpoint } from './endpoint.ts';
import { Feed, isDue, MOST_IN_HAND, type CallJob } from './feed.ts';
import { stepReplay } from './replay.ts';
import { PROBE_EVERY_MS } from './retry.ts';

/** Events that one read of the log returns at most. */
const EVENTS_AT_ONCE = 200;
const FAULT_DELAY_MS = 1000;
/** Cursors are written with the calls they belong to. One that only skips events without subscribers is written once in this many. */
const CURSOR_STEP = 10_000;
/** Wait before a node calls endpoints that it has now: the others learn of a change within two seconds, and write their cursors. */
const TAKE_OVER_MS = 3000;
/** Rows of endpoints that one statement reads. */
const ROWS_AT_ONCE = 200;
const rowsOf = statement(({ among }) => `SELECT * FROM webhooks WHERE id ${among('text')}`);
const pageOfIds = 'SELECT id FROM webhooks WHERE id > ? ORDER BY id LIMIT 1000';

export class FanOut {
  private readonly deps: WebhookDeps;
  private readonly lanes: Pick<Lanes<CallJob>, 'offer' | 'pump'>;
  private readonly feeds = new Map<string, Feed>();
  private readonly looks = new Set<Promise<void>>();
  /** Endpoints whose rows are to be read (again); null for all that this node has. */
  private readonly asked = new Set<string | null>();
  private reading: Promise<void> | null = null;
  /** Endpoints whose rows are read again when this timer is up: a read or a call failed. */
  private readonly delayed = new Set<string | null>();
  private retry: Timer | null = null;
  /** Endpoints that another node has now, whose cursors are to be written. */
  private left: Feed[] = [];
  /** Set while another node may still call the endpoints that this one has now. */
  private takeOver: Timer | null = null;
  private unlisten: (() => void)[] = [];
  private stopped = false;
  /** The last read failed, which is logged. */
  private isFailing = false;

  constructor(deps: WebhookDeps, lanes: Pick<Lanes<CallJob>, 'offer' | 'pump'>) {
    this.deps = deps;
    this.lanes = lanes;
  }

  async start(): Promise<void> {
    const { notifiers, owners } = this.deps;
    this.unlisten = [
      notifiers.webhooks.listen((id) => {
        if (id === null || this.feeds.has(id) || this.mayOpen(id)) this.ask(id);
      }),
      owners.onChange(() => this.changeOwners()),
    ];
    this.openOurs();
    await this.reading;
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
    const hasRoom = feed.isBehind && feed.freshInHand <= MOST_IN_HAND / 2;
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
    if (this.feeds.get(feed.id) === feed) this.askLater(feed.id);
    this.close(feed);
  }

  /** Reads no more; resolves when the reads under way are done and the cursors are written. */
  async stop(): Promise<void> {
    this.stopped = true;
    for (const off of this.unlisten) off();
    this.retry?.cancel();
    this.takeOver?.cancel();
    const feeds = [...this.feeds.values()];
    for (const feed of feeds) this.close(feed);
    await Promise.all([this.reading, ...this.looks]);
    await this.leave([...this.left, ...feeds]);
  }

  /** Leaves endpoints that another node has now, and opens those that this node has, as soon as another has left them. */
  private changeOwners(): void {
    const gone = [...this.feeds.values()].filter(({ id }) => !this.deps.owners.isOurs(id));
    for (const feed of gone) this.close(feed);
    this.left.push(...gone);
    this.takeOver?.cancel();
    this.takeOver = null;
    this.openOurs();
    this.readOn();
  }

  private openOurs(): void {
    const open = (): void => {
      this.takeOver = null;
      this.ask(null);
    };
    if (!this.deps.hasOthers()) open();
    else this.takeOver = this.deps.clock.after(TAKE_OVER_MS, open, { background: true });
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

  private logUnread(err: unknown, webhookId?: string | null): void {
    const fields = { event: 'webhook_reading_failed', webhook_id: webhookId ?? undefined, err };
    if (!this.isFailing) this.deps.log.error(fields, 'the database could not be read for webhooks; it is tried again');
    this.isFailing = true;
  }

  // The rows of endpoints: new, changed or gone. One read follows the other: of two at once the row from before a change might stay.

  /** Has the row of an endpoint read, or with null those of all that this node has; what is asked for at once is read together. */
  private ask(id: string | null): void {
    this.asked.add(id);
    this.readOn();
  }

  private askLater(id: string | null): void {
    this.delayed.add(id);
    if (this.stopped) return;
    const ask = (): void => {
      this.retry = null;
      for (const one of this.delayed) this.asked.add(one);
      this.delayed.clear();
      this.readOn();
    };
    this.retry ??= this.deps.clock.after(FAULT_DELAY_MS, ask, { background: true });
  }

  private readOn(): void {
    this.reading ??= this.readAsked().finally(() => {
      this.reading = null;
      if (this.hasWork) this.readOn();
    });
  }

  private get hasWork(): boolean {
    return !this.stopped && (this.asked.size > 0 || this.left.length > 0);
  }

  private async readAsked(): Promise<void> {
    await Promise.resolve();
    while (this.hasWork) {
      // Before rows are read again: an endpoint may come back.
      await this.leave(this.left.splice(0));
      const isAll = this.asked.has(null);
      const some = isAll ? [null] : [...this.asked].slice(0, ROWS_AT_ONCE);
      for (const id of some) this.asked.delete(id);
      try {
        if (isAll) await this.askAll();
        else await this.readRows(some.filter((id) => id !== null));
        this.isFailing = false;
      } catch (err) {
        this.logUnread(err, some[0]);
        for (const id of some) this.askLater(id);
      }
    }
  }

  /** Asks for the rows of all endpoints that this node has or calls. */
  private async askAll(): Promise<void> {
    for (const id of this.feeds.keys()) this.asked.add(id);
    for (let last: string | undefined = ''; last !== undefined && !this.stopped;) {
      const rows: { id: string }[] = await this.deps.db.prepared.all<{ id: string }>(pageOfIds, [last]);
      for (const { id } of rows) if (this.mayOpen(id)) this.asked.add(id);
      last = rows.at(-1)?.id;
    }
  }

  private async readRows(ids: readonly string[]): Promise<void> {
    const rows = await this.deps.db.prepared.all<WebhookRow>(rowsOf, [JSON.stringify(ids)]);
    if (this.stopped) return;
    const byId = new Map(rows.map((row) => [row.id, row]));
    for (const id of ids) this.takeRow(id, byId.get(id));
  }

  private takeRow(id: string, row: WebhookRow | undefined): void {
    const feed = this.feeds.get(id);
    if (row === undefined) {
      if (feed !== undefined) this.close(feed);
    } else if (feed !== undefined) this.apply(feed, row);
    else if (this.mayOpen(id)) this.open(row);
  }

  /** False while another node may still call the endpoint: it is opened after that. */
  private mayOpen(id: string): boolean {
    return this.takeOver === null && this.deps.owners.isOurs(id);
  }

  private open(row: WebhookRow): void {
    const { tail } = this.deps;
    const feed = new Feed(row, this.endpointOf(row), (accounts) => {
      const isNews = accounts?.has(row.account_id) ?? true;
      // An endpoint without news moves on now and then: otherwise it would read all that was not for it after a restart.
      if (!isNews && tail.head - feed.position < CURSOR_STEP) return;
      feed.isBehind = true;
      this.look(feed);
    });
    this.feeds.set(row.id, feed);
    tail.add(feed);
    this.look(feed);
  }

  /** Nothing more is called by this feed; what is on the wire ends. */
  private close(feed: Feed): void {
    if (this.feeds.get(feed.id) === feed) this.feeds.delete(feed.id);
    this.deps.tail.remove(feed);
    feed.active = false;
    feed.rewind();
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
    if (!feed.active || feed.endpoint === null || feed.isStrict) feed.rewind();
    this.lanes.pump(feed.id);
    this.look(feed);
  }

  /** Returns null if the secrets cannot be opened. */
  private endpointOf(row: WebhookRow): Endpoint | null {
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

  // One endpoint at a time: the calls that are due again, then the log.

  /** Looks after one endpoint. A look that is under way is followed by another. */
  private look(feed: Feed): void {
    if (this.stopped || this.feeds.get(feed.id) !== feed) return;
    feed.isWanted = true;
    if (feed.isLookedAfter) return;
    feed.isLookedAfter = true;
    const done: Promise<void> = this.lookWhileWanted(feed).finally(() => this.looks.delete(done));
    this.looks.add(done);
  }

  private async lookWhileWanted(feed: Feed): Promise<void> {
    try {
      while (!this.stopped && feed.isWanted) {
        feed.isWanted = false;
        if (!feed.active || feed.endpoint === null) continue;
        feed.tried ??= await callsBeyond(this.deps.db.prepared, feed.id, feed.position);
        await this.readRetries(feed);
        await this.readLog(feed);
        this.setTimer(feed);
      }
      this.isFailing = false;
    } catch (err) {
      this.logUnread(err, feed.id);
      this.restart(feed);
    }
    feed.isLookedAfter = false;
  }

  /** Offers the calls that are due again, and notes when the next one is. */
  private async readRetries(feed: Feed): Promise<void> {
    const { db, clock } = this.deps;
    while (!this.stopped && feed.takesRetries(clock.now())) {
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
      const nextAt = rows.find((row) => !isDue(row, now))?.due_at ?? (rows.length === limit ? 0 : null);
      feed.noteNextRetry(isHeldUp ? now + FAULT_DELAY_MS : nextAt);
      await this.offerRetries(feed, due, events);
      if (due.length > 0) continue;
      // If a call holds back the others, a replay goes on only as far as it may be about that call.
      if (!feed.mayReplay || feed.endpoint === null || (held >= 0 && rows.length === limit)) return;
      feed.mayReplay = false;
      if (await stepReplay({ db, clock }, feed.endpoint)) feed.mayReplay = true;
    }
  }

  /** Calls of events that are deleted by now are dropped. */
  private async offerRetries(
    feed: Feed,
    due: readonly WebhookCallRow[],
    events: readonly EventSource[],
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

  /** Reads on in the log as far as the endpoint has room. */
  private async readLog(feed: Feed): Promise<void> {
    const { clock, tail } = this.deps;
    while (!this.stopped && feed.isBehind && feed.takesFresh(clock.now())) {
      const { generation } = feed;
      feed.isBehind = false;
      const page = await tail.read(feed.accountId, feed.position, EVENTS_AT_ONCE);
      if (feed.generation !== generation) continue;
      const hasRoom = this.offerAll(feed, page.events);
      if (hasRoom) feed.position = page.position;
      feed.isBehind ||= !hasRoom || page.hasMore;
      if (!hasRoom) return;
    }
    await this.writeCursors([feed], CURSOR_STEP);
  }

  /** Offers the events that the endpoint wants. Returns false if it has no room for all of them. */
  private offerAll(feed: Feed, events: readonly EventSource[]): boolean {
    for (const event of events) {
      const { endpoint, tried } = feed;
      if (endpoint !== null && tried?.has(event.sequence) !== true && wants(endpoint, event)) {
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
