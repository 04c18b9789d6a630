/**
 * Works even if notifiers and timers failed: finds mail that waits, queues scheduled mail whose time has come, gives up mail that is too old, notices
 * a clock that was set, warns of lanes that make no progress, and takes back attempts that an earlier run or an ended node left unfinished.
 */
import type { Timer } from '../base/clock.ts';
import { createJumpMeter, JUMP_MS } from '../base/clock-jumps.ts';
import { HOUR_MS } from '../base/time.ts';
import { HELD_WITHOUT_END } from '../messages/delivery/delivery.ts';
import { hintsOfChanged } from '../messages/delivery/due-hint.ts';
import type { MailFacts } from '../messages/limits/limit.ts';
import { latestEventTime } from '../messages/delivery/latest-event-time.ts';
import type { Occurrence } from '../messages/delivery/record.ts';
import { extendedGiveUpAt, longestWait, nextTryAt, scheduleFor } from '../messages/delivery/retry.ts';
import type { DeliveryRow } from '../storage/tables.ts';
import type { Engine } from './engine.ts';

/** How often it sweeps, in ms; also how long mail waits that a route holds. */
export const SWEEP_MS = 30_000;
const BATCH = 500;
/** Batches of such mail in one sweep: a large campaign that falls due does not keep it busy. */
const MOST_ROUNDS = 20;
/** Scheduled mail that is claimed within this time, in ms, costs no write to say that it was queued. */
const TURN_MS = 5_000;
/** The longest wait that a reply can ask for (messages/delivery/retry-hint.ts), and how far chance stretches a wait. */
const LONGEST_ASKED_MS = 6 * HOUR_MS;
const LONGEST_JITTER = 1.2;

type Aged = MailFacts & { id: string };
type Timed = Aged & { giveUpAt: number; expiresAt: number | null };

type Claimed = Pick<DeliveryRow, 'id' | 'domain' | 'class' | 'account_id' | 'attempt_count'> & { stream: string };

export class Sweeper {
  private readonly engine: Engine;
  private timer: Timer | null = null;
  private stopping = false;
  /** Says how far the clock has jumped since the last sweep, in ms; null before the first. */
  private jumped: (() => number) | null = null;
  /** The last sweep found the clock set back: an outcome that was being written meanwhile may have a time of the old clock. */
  private wasSetBack = false;

  constructor(engine: Engine) {
    this.engine = engine;
  }

  /** Takes back claims of earlier runs and ended nodes: how far they came is not known, so the schedule tries them again. The leader does that. */
  async takeBack(): Promise<void> {
    const { db, nodes } = this.engine;
    if (!nodes.isLeader) return;
    const claims = await db.prepared.all<{ epoch: number }>(
      'SELECT DISTINCT claim_epoch AS epoch FROM deliveries WHERE claim_epoch IS NOT NULL',
    );
    // A node joins before it claims: an epoch that was read here and has no node after that has ended.
    for (const epoch of await nodes.ended(claims.map((claim) => claim.epoch))) await this.takeBackOf(epoch);
  }

  private async takeBackOf(epoch: number): Promise<void> {
    const { db, recorder, notifiers, log, clock, random, options } = this.engine;
    for (;;) {
      const rows = await db.prepared.all<Claimed>(
        `SELECT d.id, d.domain, d.class, d.account_id, d.attempt_count, m.stream
         FROM deliveries d JOIN messages m ON m.id = d.message_id WHERE d.claim_epoch = ? LIMIT ?`,
        [epoch, BATCH],
      );
      if (rows.length === 0) return;
      const now = clock.now();
      const recorded = await recorder.record(
        rows.map(({ id, domain, account_id: account, stream, attempt_count: attempt }) => {
          const rule = scheduleFor(options.retry, { account, domain, stream });
          return {
            deliveryId: id,
            change: { kind: 'orphaned', epoch, retryAt: nextTryAt(rule, attempt, now, random()) },
          };
        }),
      );
      notifiers.deliveries.notify(hintsOfChanged(rows, recorded));
      log.warn(
        { event: 'attempts_taken_back', count: rows.length },
        'attempts that an earlier run left unfinished are tried again',
      );
    }
  }

  /** Sweeps now, and again every 30 s. */
  async start(): Promise<void> {
    try {
      await this.checkClock();
      await this.takeBack();
      await this.engine.freeHeldMail();
      await this.engine.dueQueue.scan();
      await this.keepTimes();
      this.warnOfStalledLanes();
    } catch (error) {
      this.engine.failed(error);
    } finally {
      if (!this.stopping) this.timer = this.engine.clock.after(SWEEP_MS, () => void this.start(), { background: true });
    }
  }

  stop(): void {
    this.stopping = true;
    this.timer?.cancel();
  }

  /** Makes mail due that a clock set back left at times of no schedule. After one set forward it cannot be told from mail whose time has passed. */
  private async checkClock(): Promise<void> {
    const isFirst = this.jumped === null;
    const jumpedMs = this.jumped === null ? await this.setBackBetweenRuns() : this.jumped();
    this.jumped ??= createJumpMeter(this.engine.clock);
    const hasJumped = jumpedMs !== 0;
    if (hasJumped) {
      this.engine.log.warn({ event: 'clock_jumped', ms: Math.round(jumpedMs) }, 'the clock was set to another time');
      // Times that were measured before the first sweep are of the new clock.
      if (!isFirst) for (const part of [this.engine.sites, this.engine.control]) part.shift(jumpedMs);
    }
    const isSetBack = hasJumped && jumpedMs < 0;
    const isNeeded = isSetBack || this.wasSetBack;
    this.wasSetBack = isSetBack;
    if (isNeeded) await this.bringForward();
  }

  /** Returns how far the clock is behind the newest event, as a negative number: it may have been set back between two runs. */
  private async setBackBetweenRuns(): Promise<number> {
    const ms = this.engine.clock.now() - ((await latestEventTime(this.engine.db.prepared)) ?? 0);
    return ms <= -JUMP_MS ? ms : 0;
  }

  private async bringForward(): Promise<void> {
    const longest = Math.max(longestWait(this.engine.options.retry), LONGEST_ASKED_MS) * LONGEST_JITTER;
    let after = '';
    for (;;) {
      const rows = await this.engine.db.prepared.all<{ id: string }>(
        `SELECT id FROM deliveries WHERE due_at > ? AND due_at < ? AND id > ? AND held_by IS NULL AND claim_epoch IS NULL
         AND status <> 'scheduled' ORDER BY id LIMIT ?`,
        [this.engine.clock.now() + longest, HELD_WITHOUT_END, after, BATCH],
      );
      if (rows.length === 0) return;
      after = rows.at(-1)?.id ?? after;
      await this.engine.recorder.record(rows.map(({ id }) => ({ deliveryId: id, change: { kind: 'flushed' } })));
    }
  }

  /**
   * Claims look at the time themselves; this gives up mail whose lane is parked or held, and queues scheduled mail whose time has come
   * while its lane has no turn for it. Mail that has extra time is left to its lane until that is over.
   */
  private async keepTimes(): Promise<void> {
    // Mail may wait that no worker claims: held by a route, at rest, or without a host that can be reached.
    if (this.engine.dueQueue.sizes().groups === 0) return;
    for (let round = 0; round < MOST_ROUNDS; round++) {
      const now = this.engine.clock.now();
      const extra = this.engine.extraTime();
      // Mail whose time ran out before this has extra time.
      const before = now < extra.until ? extra.startedAt : 0;
      // It reads all mail that is due: 0.4 s if a million waits.
      const rows = await this.engine.db.maintenance.all<Timed>(
        `SELECT d.id, d.domain, d.message_id AS "messageId", d.account_id AS "accountId", d.give_up_at AS "giveUpAt",
           m.stream, m.from_domain AS "fromDomain", m.batch_id AS "batchId", m.key_id AS "keyId", m.created_at AS "createdAt", m.expires_at AS "expiresAt"
         FROM deliveries d JOIN messages m ON m.id = d.message_id
         WHERE d.due_at IS NOT NULL AND d.due_at <= ? AND d.claim_epoch IS NULL
           AND ((d.give_up_at <= ? AND (d.give_up_at > ? OR m.expires_at <= ?))
             OR (d.status = 'scheduled' AND d.held_by IS NULL AND d.queued_at <= ?)) LIMIT ?`,
        [now, now, before, now, now - TURN_MS, BATCH],
      );
      // The node that delivers a mail knows why it waits.
      const own = rows.filter(({ domain }) => this.engine.owners.isOurs(domain));
      const occurrences = await Promise.all(
        own.map(async (row): Promise<Occurrence> =>
          extendedGiveUpAt(row, extra) <= now
            ? await this.agedOrHeld(row)
            : { deliveryId: row.id, change: { kind: 'came_due' } },
        ),
      );
      if (occurrences.length > 0) await this.engine.recorder.record(occurrences);
      if (rows.length < BATCH || own.length === 0) return;
    }
  }

  /** Mail under an operator's hold that is not marked yet does not age: it is marked as held. */
  private async agedOrHeld({ id, ...mail }: Aged): Promise<Occurrence> {
    const { domain, accountId: account, stream } = mail;
    const facts = await this.engine.reports.laneFacts({ domain, account, stream });
    const hold = facts.held ?? (await this.engine.holds.of(mail));
    const [wait] = facts.waits;
    if (hold === null)
      return {
        deliveryId: id,
        change: { kind: 'aged', ...(wait === undefined ? {} : { waitedFor: wait.message }) },
      };
    const { by, since, until } = hold;
    return { deliveryId: id, change: { kind: 'held', by, since, until } };
  }

  private warnOfStalledLanes(): void {
    for (const { name, waiting } of this.engine.lanes.views()) {
      const report = this.engine.control.report(name);
      if (report === null || waiting === 0 || report.parkedUntil !== null) continue;
      if (this.engine.clock.now() - report.lastProgressAt > this.engine.leaseMs) {
        this.engine.log.warn(
          { event: 'lane_stalled', lane: name, waiting },
          'a lane has due mail and makes no progress',
        );
      }
    }
  }
}
