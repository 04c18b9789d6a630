/**
 * Whether the clock is believed with what cannot be brought back. One that was set years ahead by mistake would have everything
 * deleted that is kept for less, within a minute: who jumps is not believed for a day, in which somebody can set it right.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { latestEventTime } from '../messages/delivery/latest-event-time.ts';
import type { Database } from '../storage/database.ts';
import type { Rule, SizedRule } from './housekeeping.ts';
import { DAY_MS } from '../base/time.ts';

export interface ClockTrust {
  isTrusted(): Promise<boolean>;
}

/** So long after a jump nothing is deleted for its age. */
export const DOUBT_MS = DAY_MS;
/** A jump forward under way; none that a time zone or a summer time gone wrong makes. */
const JUMP_MS = DAY_MS;
/** Between the last event of an earlier run and the start: servers rest over holidays, too. */
const REST_MS = 7 * DAY_MS;

export function createClockTrust({
  db,
  clock,
  log,
}: {
  db: Pick<Database, 'prepared'>;
  clock: Clock;
  log: Pick<Log, 'warn'>;
}): ClockTrust {
  /** How far the clock on the wall is ahead of the one that only runs forward. */
  const ahead = (): number => clock.now() - clock.monotonic();
  /** The same when it was last believed. */
  let believed = ahead();
  let doubtUntil = 0;

  function doubt(ms: number): void {
    doubtUntil = clock.monotonic() + DOUBT_MS;
    const fields = {
      event: 'retention_waits',
      ms: Math.round(ms),
      until: new Date(clock.now() + DOUBT_MS).toISOString(),
    };
    log.warn(fields, 'the clock has jumped forward: nothing is deleted for its age for a day');
  }

  async function lookBack(): Promise<void> {
    const rest = clock.now() - ((await latestEventTime(db.prepared)) ?? Infinity);
    if (rest > REST_MS) doubt(rest);
  }

  // At once: what comes from now on is of this run's time. Where that cannot be read, nobody knows whether the clock is right.
  const lookedBack = lookBack().catch((err: unknown) => {
    doubtUntil = clock.monotonic() + DOUBT_MS;
    log.warn(
      { event: 'retention_waits', err },
      'the last events cannot be read: nothing is deleted for its age for a day',
    );
  });

  return {
    async isTrusted() {
      await lookedBack;
      const jumped = ahead() - believed;
      if (jumped > JUMP_MS) doubt(jumped);
      // It was set right.
      else if (jumped < -JUMP_MS) doubtUntil = 0;
      believed = ahead();
      if (clock.monotonic() < doubtUntil) return false;
      doubtUntil = 0;
      return true;
    },
  };
}

/** The same rule, but nothing goes while the clock is not believed. */
export function whenTrusted(trust: ClockTrust, rule: Rule): Rule;
export function whenTrusted(trust: ClockTrust, rule: SizedRule): SizedRule;
export function whenTrusted(trust: ClockTrust, rule: Rule | SizedRule): Rule | SizedRule {
  if ('step' in rule) return { ...rule, step: async () => ((await trust.isTrusted()) ? rule.step() : 0) };
  return {
    ...rule,
    sizedStep: async (rows) => ((await trust.isTrusted()) ? rule.sizedStep(rows) : { rows: 0, ms: 0 }),
  };
}
