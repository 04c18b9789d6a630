/**
 * The engine of webhooks. If several servers use the database, each endpoint is called by one of them. Each endpoint has a lane
 * (scheduling/lanes.ts), so that a slow one holds up no other. A worker takes the next call of its lane, makes it, and has its end
 * written before it takes another. A call whose end was not written is made again after a crash: the cursor is still before it.
 */
import type { Notifier } from '../scheduling/notifier.ts';
import { newId } from '../base/id.ts';
import type { Keyring } from '../base/keyring.ts';
import { type Lane, Lanes } from '../scheduling/lanes.ts';
import type { Log } from '../base/log.ts';
import { Problem } from '../base/problem.ts';
import { rfc3339 } from '../base/rfc3339.ts';
import type { SafeFetch } from '../net/safe-fetch.ts';
import { eventRecord, withBodies, type EventSource } from '../events/event.ts';
import type { EventTail } from '../events/tail.ts';
import type { Connection } from '../storage/connection.ts';
import type { StoreDeps } from '../storage/database.ts';
import type { Owners } from '../storage/owners.ts';
import type { Notice, RowsFor } from '../storage/rows.ts';
import type { ReceivedRow, WebhookDeliveryRow, WebhookRow } from '../storage/tables.ts';
import { callEndpoint, type CallResult } from './call.ts';
import type { Endpoint } from './endpoint.ts';
import { noteWarned, recordCallEnd, type Owed } from './call-store.ts';
import { disableEndpoint, openEndpoint } from './endpoint-store.ts';
import { FanOut } from './fan-out.ts';
import type { CallJob, Feed } from './feed.ts';
import { nextTryAt, PROBE_EVERY_MS, restAfter, verdictOn } from './retry.ts';

/** An event that never happened, to try an endpoint with. */
export type SampleEvent = Readonly<Record<string, unknown>> & { type: string };

export interface WebhookDeps extends StoreDeps {
  keyring: Keyring;
  log: Pick<Log, 'debug' | 'info' | 'warn' | 'error'>;
  fetch: SafeFetch;
  /**
   * `webhooks` notifies with the id of an endpoint that was changed, has calls that were asked for again, or was handed over; with null
   * if that may be any, since messages of other nodes were lost.
   */
  notifiers: { webhooks: Notifier<string | null> };
  tail: EventTail;
  /** Says which endpoints this node calls. */
  owners: Pick<Owners, 'isOurs' | 'onChange'>;
  /** True if other servers use the database. */
  hasOthers: () => boolean;
  /** In [0, 1). */
  random: () => number;
  /** Tells people that an endpoint is not called any more. */
  notice: Notice<WebhookRow>;
}

/** Calls on the wire at once, over all endpoints. */
const MOST_CALLS = 400;
/** Well below the time that supervisors give a service to stop. */
const STOP_MS = 5000;

export class Webhooks {
  private readonly deps: WebhookDeps;
  private readonly lanes: Lanes<CallJob>;
  private readonly fanOut: FanOut;
  private readonly tested = new Set<string>();
  private stopping = false;

  constructor(deps: WebhookDeps) {
    this.deps = deps;
    this.lanes = new Lanes<CallJob>({
      work: (lane) => this.work(lane),
      slots: (id) => this.fanOut.slots(id),
      maxSlots: () => MOST_CALLS,
      hasReserve: false,
      failed(id, err) {
        deps.log.error({ event: 'webhook_failed', webhook_id: id, err }, 'a webhook call could not be carried through');
      },
    });
    this.fanOut = new FanOut(deps, this.lanes);
  }

  start(): Promise<void> {
    return this.fanOut.start();
  }

  /**
   * Calls the endpoint once with a sample, whatever its status, and returns its line of the log, which is committed with the
   * rows that `alsoCommit` makes of it. Throws `invalid_state` while another test of it runs.
   */
  readonly test = async (
    row: WebhookRow,
    sample: SampleEvent,
    alsoCommit?: RowsFor<WebhookDeliveryRow>,
  ): Promise<WebhookDeliveryRow> => {
    if (this.tested.has(row.id)) throw new Problem('invalid_state', 'A test of this endpoint is under way.');
    this.tested.add(row.id);
    try {
      const line = await this.callWithSample(row, sample);
      await this.deps.db.commit.insert({ ...alsoCommit?.(line), webhook_deliveries: [line] });
      return line;
    } finally {
      this.tested.delete(row.id);
    }
  };

  /** Makes no new calls, gives those on the wire a few seconds, ends what is left and writes the cursors. */
  async stop(): Promise<void> {
    const { clock, fetch } = this.deps;
    this.stopping = true;
    const late = clock.after(STOP_MS, () => {
      fetch.close();
    });
    await this.lanes.stop();
    late.cancel();
    fetch.close();
    await this.fanOut.stop();
  }

  private async work(lane: Lane<CallJob>): Promise<void> {
    for (let job = lane.take(); job !== null; job = lane.take()) {
      if (job.dropped || this.stopping) continue;
      try {
        await this.perform(job);
      } catch (error) {
        // For instance, the database could not be written. Nothing is lost: the cursor has not moved.
        this.fanOut.restart(job.feed);
        throw error;
      }
    }
  }

  private async perform(job: CallJob): Promise<void> {
    const { feed, event } = job;
    const { endpoint } = feed;
    if (endpoint === null) return;
    job.begun = true;
    const body = await bodyOf(this.deps.db.prepared, event, endpoint);
    const result = await callEndpoint(this.deps, endpoint, { eventId: event.id, body, attempt: job.attempts + 1 });
    if (result.kind === 'closed') return;
    const restsUntil = this.rest(feed, result);
    feed.endings++;
    await this.end(job, result, restsUntil).finally(() => feed.endings--);
  }

  /** An endpoint that asks for fewer calls gets none for a time: what is not on the wire waits, and uses up no attempt. */
  private rest(feed: Feed, result: CallResult): number | null {
    const rest = restAfter(result);
    if (rest === null) return null;
    const until = this.deps.clock.now() + rest;
    feed.rest(until);
    this.fanOut.rewind(feed);
    return until;
  }

  /** Writes the end of a call, and what it says of the endpoint's health. */
  private async end(job: CallJob, result: CallResult, restsUntil: number | null): Promise<void> {
    const { feed, event, cause } = job;
    const owed = this.owedAfter(job, result);
    const retryAt = owed.kind === 'retry' ? owed.dueAt : null;
    const line = lineOf(feed.id, result, {
      event_id: event.id,
      event_type: event.type,
      sequence: event.sequence,
      cause,
      attempt: job.attempts + 1,
      sample: null,
      next_attempt_at: retryAt,
    });
    const health = await recordCallEnd(this.deps.db.commit, {
      line,
      owed,
      restsUntil,
      sequence: event.sequence,
      settledUpTo: (also) => feed.settledUpTo(also),
    });
    feed.noteEnd(job, retryAt);
    await this.applyHealth(feed, health ?? feed.health, result);
    this.fanOut.settled(job);
  }

  private owedAfter(job: CallJob, result: CallResult): Owed {
    if (result.kind === 'delivered') return { kind: 'nothing', hasRow: job.hasRow };
    const { clock, random } = this.deps;
    const dueAt = nextTryAt(job.attempts + 1, clock.now(), { random: random(), retryAfterMs: result.retryAfterMs });
    return dueAt === null ? { kind: 'given_up' } : { kind: 'retry', dueAt };
  }

  /** Updates the endpoint's health after a call; warns of an endpoint that fails, and disables it in the end. */
  private async applyHealth(feed: Feed, health: Feed['health'], result: CallResult): Promise<void> {
    const now = this.deps.clock.now();
    const before = feed.slots;
    const wasStruggling = feed.struggling;
    feed.health = health;
    if (feed.struggling && !wasStruggling) {
      feed.nextProbeAt = now + PROBE_EVERY_MS;
      this.fanOut.rewind(feed);
    } else if (result.kind !== 'delivered' && feed.endpoint?.concurrency === 1) this.fanOut.rewind(feed);
    if (feed.slots > before) this.lanes.pump(feed.id);
    if (result.kind === 'delivered' || !feed.active) return;
    const verdict = result.kind === 'gone' ? 'disable' : verdictOn(health, now);
    if (verdict === 'disable') await this.disable(feed, result);
    else if (verdict === 'warn') await this.warn(feed);
  }

  private async disable(feed: Feed, result: CallResult): Promise<void> {
    const { deps } = this;
    feed.active = false;
    this.fanOut.rewind(feed);
    const reason =
      result.kind === 'gone'
        ? 'The endpoint answered 410 Gone.'
        : `No call has succeeded for five days; the last one: ${result.error ?? 'failed'}.`;
    await deps.notice.prepare();
    const done = await disableEndpoint(deps, feed.id, reason, (tx, row) => deps.notice.of(tx, row));
    if (done === null) return;
    done.written();
    deps.log.warn(
      { event: 'webhook_disabled', ...namesOf(feed), reason, told: done.recipients },
      'a webhook endpoint was disabled',
    );
  }

  private async warn(feed: Feed): Promise<void> {
    const { clock, db, log } = this.deps;
    const now = clock.now();
    feed.health = { ...feed.health, warned_at: now };
    if (!(await noteWarned(db.commit, feed.id, now))) return;
    log.warn(
      { event: 'webhook_failing', ...namesOf(feed), failures: feed.health.failures },
      'a webhook endpoint has answered no call for a day',
    );
  }

  private async callWithSample(row: WebhookRow, event: SampleEvent): Promise<WebhookDeliveryRow> {
    const { clock, keyring } = this.deps;
    const now = clock.now();
    const eventId = newId('evt', now);
    const endpoint = openEndpoint(keyring, row);
    const sample = JSON.stringify({ ...event, id: eventId, timestamp: rfc3339(now), sequence: 0, test: true });
    const result = await callEndpoint(this.deps, endpoint, { eventId, body: sample, attempt: 1 });
    return lineOf(row.id, result, {
      event_id: eventId,
      event_type: event.type,
      sequence: null,
      cause: 'test',
      attempt: 1,
      sample,
      next_attempt_at: null,
    });
  }
}

/** The event as `GET /v1/events` shows it; a received mail comes with its text and html, if it still exists. */
async function bodyOf(db: Connection, event: EventSource, endpoint: Endpoint): Promise<string> {
  const record = eventRecord(event, { engagement: endpoint.include_engagement });
  if (event.type !== 'received') return JSON.stringify(record);
  const [bodies] = await db.all<Pick<ReceivedRow, 'text' | 'html' | 'reply_text'>>(
    'SELECT text, html, reply_text FROM received WHERE id = ?',
    [event.delivery_id],
  );
  return JSON.stringify(withBodies(record, bodies));
}

const namesOf = ({ id, endpoint }: Feed): object => ({ webhook_id: id, account_id: endpoint?.accountId });

type LineDetails = Pick<
  WebhookDeliveryRow,
  'event_id' | 'event_type' | 'sequence' | 'cause' | 'attempt' | 'sample' | 'next_attempt_at'
>;

function lineOf(webhookId: string, result: CallResult, details: LineDetails): WebhookDeliveryRow {
  return {
    id: newId('whd', result.at),
    webhook_id: webhookId,
    at: result.at,
    ms: result.ms,
    status: result.kind === 'delivered' ? 'delivered' : 'failed',
    status_code: result.statusCode,
    error: result.error,
    answer: result.answer,
    signature: result.signature['webhook-signature'],
    ...details,
  };
}
