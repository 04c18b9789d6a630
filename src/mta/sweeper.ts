/**
 * Works whatever became of notifiers and timers: finds what waits, gives up what is too old, notices a clock that was set, and tells of
 * lanes that stand still. At the start it takes back what an earlier run left in the middle.
 */
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { LaneView } from '../scheduling/lanes.ts';
import { HELD_WITHOUT_END } from '../messages/delivery/delivery.ts';
import type { Holds } from '../messages/delivery/holds.ts';
import type { MailFacts } from '../messages/delivery/hold-book.ts';
import { latestEventTime } from '../messages/delivery/latest-event-time.ts';
import type { Occurrence, Recorder } from '../messages/delivery/record.ts';
import { nextTryAt, type RetryRule } from '../messages/delivery/retry.ts';
import type { LaneFactsOf } from '../messages/delivery/why.ts';
import type { Database } from '../storage/database.ts';
import type { LaneControl } from './lanes/lane-state.ts';

export interface SweeperDeps {
  db: Pick<Database, 'prepared'>;
  clock: Clock;
  log: Log;
  recorder: Recorder;
  holds: Holds;
  control: Pick<LaneControl, 'report'>;
  random: () => number;
  /** Looks for due mail. */
  scan(): Promise<void>;
  /** Lets held mail go whose hold has ended. */
  letGo(): Promise<void>;
  /** Whether mail may wait that no worker claims: held by a route, at rest, or without a host that can be reached. */
  someWaits(): boolean;
  lanes(): readonly LaneView[];
  /** What holds mail on the way to this domain, and what it waits for. */
  factsOf: LaneFactsOf;
  /** The clock was set to another time, so many ms on: limits and rests go along. */
  shift(ms: number): void;
  failed(error: unknown): void;
}

export interface SweeperOptions {
  epoch: number;
  retry: Pick<RetryRule, 'schedule'>;
  /** Longer than the longest attempt: a lane that makes no progress for so long stands still. */
  stalledMs: number;
}

export interface Sweeper {
  /** Mail that an earlier run held when it ended: nobody knows how far it came, so it is tried again by the schedule. */
  takeBack(): Promise<void>;
  /** Sweeps now, and again every 30 s. */
  start(): Promise<void>;
  stop(): void;
}

/** How often it looks; also how long mail waits that a route holds. */
export const SWEEP_MS = 30_000;
const BATCH = 500;
/** Steps of a clock that is kept in time are far smaller. */
const JUMP_MS = 60_000;
/** The longest wait that a reply can ask for (messages/delivery/retry-hint.ts), and how far chance stretches a wait. */
const LONGEST_ASKED_MS = 6 * 3_600_000;
const LONGEST_JITTER = 1.2;

/** A delivery whose time has run out. */
type Aged = MailFacts & { id: string };

export function createSweeper(deps: SweeperDeps, { epoch, retry, stalledMs }: SweeperOptions): Sweeper {
  const { db, clock, log, recorder } = deps;
  let timer: Timer | null = null;
  let stopping = false;
  /** How far the clock on the wall was ahead of the one that only runs forward, at the last look; null before the first. */
  let wallAhead: number | null = null;

  async function takeBack(): Promise<void> {
    for (;;) {
      const rows = await db.prepared.all<{ id: string; claim_epoch: number; attempt_count: number }>(
        'SELECT id, claim_epoch, attempt_count FROM deliveries WHERE claim_epoch IS NOT NULL AND claim_epoch < ? LIMIT ?',
        [epoch, BATCH],
      );
      if (rows.length === 0) return;
      const now = clock.now();
      await recorder.record(
        rows.map(({ id, claim_epoch, attempt_count }) => ({
          deliveryId: id,
          change: {
            kind: 'orphaned',
            epoch: claim_epoch,
            retryAt: nextTryAt(retry, attempt_count, now, deps.random()),
          },
        })),
      );
      log.warn(
        { event: 'attempts_taken_back', count: rows.length },
        'attempts that an earlier run left unfinished are tried again',
      );
    }
  }

  async function sweep(): Promise<void> {
    try {
      await lookAtClock();
      await deps.letGo();
      await deps.scan();
      await giveUpOld();
      tellStalled();
    } catch (error) {
      deps.failed(error);
    } finally {
      if (!stopping) timer = clock.after(SWEEP_MS, () => void sweep(), { background: true });
    }
  }

  /**
   * A clock that was set back leaves mail due at times that no schedule gives: such mail is due now. What a clock that was set
   * forward has made due or too old cannot be told from what time has.
   */
  async function lookAtClock(): Promise<void> {
    const ahead = clock.now() - clock.monotonic();
    const isFirst = wallAhead === null;
    const jumpedMs = wallAhead === null ? await setBackBefore() : ahead - wallAhead;
    wallAhead = ahead;
    if (Math.abs(jumpedMs) < JUMP_MS) return;
    log.warn({ event: 'clock_jumped', ms: Math.round(jumpedMs) }, 'the clock was set to another time');
    // What was measured in this run is of one time.
    if (!isFirst) deps.shift(jumpedMs);
    if (jumpedMs < 0) await bringForward();
  }

  /** How far the clock is behind the newest of what an earlier run noted, as less than 0: it may have been set back between the runs. */
  async function setBackBefore(): Promise<number> {
    return Math.min(0, clock.now() - ((await latestEventTime(db.prepared)) ?? 0));
  }

  async function bringForward(): Promise<void> {
    const longest = Math.max(...retry.schedule, LONGEST_ASKED_MS) * LONGEST_JITTER;
    let after = '';
    for (;;) {
      const rows = await db.prepared.all<{ id: string }>(
        `SELECT id FROM deliveries WHERE due_at > ? AND due_at < ? AND id > ? AND held_by IS NULL AND claim_epoch IS NULL
         AND status <> 'scheduled' ORDER BY id LIMIT ?`,
        [clock.now() + longest, HELD_WITHOUT_END, after, BATCH],
      );
      if (rows.length === 0) return;
      after = rows.at(-1)?.id ?? after;
      await recorder.record(rows.map(({ id }) => ({ deliveryId: id, change: { kind: 'flushed' } })));
    }
  }

  /** Claims look at the age themselves; this is for mail whose lane is parked or held. */
  async function giveUpOld(): Promise<void> {
    const now = clock.now();
    if (!deps.someWaits()) return;
    const rows = await db.prepared.all<Aged>(
      `SELECT d.id, d.domain, d.message_id AS messageId, d.account_id AS accountId, m.stream, m.from_domain AS fromDomain, m.created_at AS createdAt
       FROM deliveries d JOIN messages m ON m.id = d.message_id
       WHERE d.due_at IS NOT NULL AND d.due_at <= ? AND d.give_up_at <= ? AND d.claim_epoch IS NULL LIMIT ?`,
      [now, now, BATCH],
    );
    const occurrences = await Promise.all(rows.map((row) => agedOrHeld(row)));
    if (occurrences.length > 0) await recorder.record(occurrences);
  }

  /** Mail under an operator's hold that has not been marked yet: its time stands still. */
  async function agedOrHeld({ id, ...mail }: Aged): Promise<Occurrence> {
    const facts = deps.factsOf({ domain: mail.domain, account: mail.accountId });
    const hold = facts.held ?? (await deps.holds.of(mail));
    const [wait] = facts.waits;
    if (hold === null)
      return {
        deliveryId: id,
        change: { kind: 'aged', ...(wait === undefined ? {} : { waitedFor: wait.message }) },
      };
    const { by, since, until } = hold;
    return { deliveryId: id, change: { kind: 'held', by, since, until } };
  }

  function tellStalled(): void {
    for (const { name, waiting } of deps.lanes()) {
      const report = deps.control.report(name);
      if (report === null || waiting === 0 || report.parkedUntil !== null) continue;
      if (clock.now() - report.lastProgressAt > stalledMs) {
        log.warn({ event: 'lane_stalled', lane: name, waiting }, 'a lane has due mail and makes no progress');
      }
    }
  }

  return {
    takeBack,
    start: sweep,
    stop() {
      stopping = true;
      timer?.cancel();
    },
  };
}
