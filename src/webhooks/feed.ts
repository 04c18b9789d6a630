/**
 * One endpoint's way through the event log, in memory. Behind the cursor all is settled; between the cursor and `position` some events are in
 * hand (waiting in the lane or on the wire); beyond it is what was not read yet.
 */
import type { Timer } from '../base/clock.ts';
import type { EventSource } from '../events/event.ts';
import type { Listener } from '../events/tail.ts';
import type { LaneJob } from '../scheduling/lanes.ts';
import type { WebhookCallRow, WebhookCause, WebhookRow } from '../storage/tables.ts';
import type { Endpoint } from './endpoint.ts';
import { LONGEST_WAIT_MS, PROBE_EVERY_MS, STRUGGLING_FAILURES, type Health } from './retry.ts';

/** Events in memory for one endpoint at most, new ones and retries each. */
export const MOST_IN_HAND = 50;

/** Returns whether a call is due. One that is due later than any wait lasts was noted by a clock that has been set back. */
export const isDue = ({ due_at: at }: Pick<WebhookCallRow, 'due_at'>, now: number): boolean =>
  at !== null && (at <= now || at > now + LONGEST_WAIT_MS);

export interface CallJob extends LaneJob {
  readonly feed: Feed;
  readonly event: EventSource;
  readonly cause: WebhookCause;
  readonly attempts: number;
  /** It has a row in webhook_calls. */
  readonly hasRow: boolean;
  /** On the wire. */
  begun: boolean;
  /** No longer to be made: it will be read again when its time has come. */
  dropped: boolean;
}

export class Feed implements Listener {
  readonly id: string;
  readonly accountId: string;
  readonly wake: Listener['wake'];
  /** Null for an endpoint whose secrets cannot be opened: it is not called. */
  endpoint: Endpoint | null;
  active: boolean;
  health: Health;
  position: number;
  /** The cursor on disk, as far as we know. */
  durable: number;
  /** The log may have events beyond `position`. */
  isBehind = true;
  /** Another look after it was asked for. */
  isWanted = false;
  isLookedAfter = false;
  /** When the next retry is due, as far as we know. */
  nextRetryAt: number | null = null;
  /** When a struggling endpoint may be tried with a new event again. */
  nextProbeAt = 0;
  /** Until when the endpoint asked not to be called. */
  private restsUntil: number | null = null;
  /** There may be a replay to go on with. */
  mayReplay = true;
  timer: Timer | null = null;
  /** Events beyond the cursor that were called for before, by an earlier process or another node; null until they are known. */
  tried: ReadonlySet<number> | null = null;
  /** Raised by each rewind: what was read before it is void. */
  generation = 0;
  /** Ends of calls that are being written. */
  endings = 0;
  /** Calls whose end was written since the waiting ones were last asked for: what was read meanwhile is out of date for them. */
  private readonly ended = new Set<number>();
  private readonly fresh = new Map<number, CallJob>();
  private readonly again = new Map<number, CallJob>();

  constructor(row: WebhookRow, endpoint: Endpoint | null, wake: Listener['wake']) {
    this.id = row.id;
    this.accountId = row.account_id;
    this.wake = wake;
    this.endpoint = endpoint;
    this.active = row.status === 'active';
    this.health = row;
    this.position = row.cursor;
    this.durable = row.cursor;
    if (row.rests_until !== null) this.rest(row.rests_until);
  }

  get struggling(): boolean {
    return this.health.failures >= STRUGGLING_FAILURES;
  }

  /** Calls at once. */
  get slots(): number {
    return this.struggling ? 1 : (this.endpoint?.concurrency ?? 1);
  }

  /** The endpoint asked not to be called until then. Calls on the wire may each ask: the latest time counts. */
  rest(until: number): void {
    this.restsUntil = Math.max(this.restsUntil ?? 0, until);
  }

  /** True while the endpoint is not to be called. A rest that is longer than any was noted by a clock that has been set back. */
  rests(now: number): boolean {
    if (this.restsUntil !== null && (now >= this.restsUntil || now < this.restsUntil - LONGEST_WAIT_MS))
      this.restsUntil = null;
    return this.restsUntil !== null;
  }

  /** True while it rests and its row says so, too: no end of a call is being written. */
  get hasWrittenRest(): boolean {
    return this.restsUntil !== null && this.endings === 0;
  }

  /** It has another URL, or a person has stopped it: what it asked for is over. */
  forgetRest(): void {
    this.restsUntil = null;
  }

  get freshInHand(): number {
    return this.fresh.size;
  }

  get retriesInHand(): number {
    return this.again.size;
  }

  holdsFresh(sequence: number): boolean {
    return this.fresh.has(sequence);
  }

  /** True for an endpoint that gets one event after the other. */
  get isStrict(): boolean {
    return this.endpoint?.concurrency === 1;
  }

  /** In strict order nothing new is taken before what failed. */
  private get waitsForRetry(): boolean {
    return this.isStrict && (this.again.size > 0 || this.nextRetryAt !== null);
  }

  /** True when a new event may be taken now. */
  takesFresh(now: number): boolean {
    if (!this.active || this.endpoint === null || this.fresh.size >= MOST_IN_HAND || this.waitsForRetry) return false;
    if (this.rests(now)) return false;
    // A probe that is further away than probes ever are was noted by a clock that has been set back.
    const isProbeDue = now >= this.nextProbeAt || now < this.nextProbeAt - PROBE_EVERY_MS;
    return !this.struggling || (this.fresh.size === 0 && isProbeDue);
  }

  /** True if calls that failed, or that a replay asks for, may be due, and there is room for some. */
  takesRetries(now: number): boolean {
    if (!this.active || this.again.size > MOST_IN_HAND / 2 || this.rests(now)) return false;
    return this.mayReplay || (this.nextRetryAt !== null && isDue({ due_at: this.nextRetryAt }, now));
  }

  /** Time of the next look if nothing happens before: the next retry, the next probe of one that struggles, or the end of a rest. */
  get nextLookAt(): number | null {
    // With its hands full it is looked at when a call ends.
    const retryAt = this.again.size <= MOST_IN_HAND / 2 ? this.nextRetryAt : null;
    const isProbed = this.struggling && this.isBehind && this.fresh.size === 0 && !this.waitsForRetry;
    const restEnd = this.isBehind ? this.restsUntil : null;
    const at = Math.min(retryAt ?? Infinity, isProbed ? this.nextProbeAt : Infinity, restEnd ?? Infinity);
    return at === Infinity ? null : Math.max(at, this.restsUntil ?? 0);
  }

  take(event: EventSource, call: Pick<CallJob, 'cause' | 'attempts' | 'hasRow'>): CallJob {
    const job: CallJob = {
      id: `${this.id} ${String(event.sequence)}`,
      class: 0,
      // New events and retries take turns.
      share: call.hasRow ? 'again' : 'fresh',
      feed: this,
      event,
      ...call,
      begun: false,
      dropped: false,
    };
    (call.hasRow ? this.again : this.fresh).set(event.sequence, job);
    return job;
  }

  /** The end of a call is durable, though it is still in hand; `retryAt` is when it is due again. */
  noteEnd({ event }: CallJob, retryAt: number | null): void {
    this.ended.add(event.sequence);
    if (retryAt !== null) this.nextRetryAt = Math.min(this.nextRetryAt ?? Infinity, retryAt);
  }

  /** The calls that wait are about to be read. */
  beginReading(): void {
    this.ended.clear();
  }

  /** True for a call that can be made: it is not in hand, and did not end while it was read. */
  isFree(sequence: number): boolean {
    return !this.fresh.has(sequence) && !this.again.has(sequence) && !this.ended.has(sequence);
  }

  /** Notes when the next of the calls that were read is due. A time that is too early only costs a look. */
  noteNextRetry(at: number | null): void {
    const known = this.ended.size > 0 ? (this.nextRetryAt ?? Infinity) : Infinity;
    const next = Math.min(known, at ?? Infinity);
    this.nextRetryAt = next === Infinity ? null : next;
  }

  /** The event is settled, and that is durable. */
  letGo(job: CallJob): void {
    const held = job.hasRow ? this.again : this.fresh;
    if (held.get(job.event.sequence) === job) held.delete(job.event.sequence);
  }

  /** Returns how far all is settled, once these events are too. */
  settledUpTo(also: ReadonlySet<number>): number {
    // Events are taken in their order, and a Map keeps it.
    for (const sequence of this.fresh.keys()) if (!also.has(sequence)) return sequence - 1;
    return this.position;
  }

  /** Gives back what is not on the wire: it is read again, from the log or from the calls that wait, when its time comes. */
  rewind(): void {
    this.generation++;
    this.isBehind = true;
    for (const held of [this.fresh, this.again]) {
      let first: number | null = null;
      for (const [sequence, job] of held) {
        if (job.begun) continue;
        job.dropped = true;
        held.delete(sequence);
        first ??= sequence;
      }
      if (held === this.fresh && first !== null) this.position = first - 1;
      if (held === this.again && first !== null) this.nextRetryAt = 0;
    }
    this.timer?.cancel();
    this.timer = null;
  }
}
