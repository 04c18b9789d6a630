/**
 * Decides whether the clock is trusted for deletions. A clock that was set years ahead by mistake would expire everything within a
 * minute. So after a jump nothing is deleted for its age for a day, in which an operator can set the clock right. The end of that day is
 * kept in the database: after a restart the events that were written meanwhile would make the clock look right.
 */
import type { Log } from '../base/log.ts';
import { latestEventTime } from '../messages/delivery/latest-event-time.ts';
import type { StoreDeps } from '../storage/database.ts';
import type { Rule } from './housekeeping.ts';
import { DAY_MS, HOUR_MS } from '../base/time.ts';

/** Time after a jump in which nothing is deleted for its age. */
export const DOUBT_MS = DAY_MS;
/** A jump forward while the program runs: longer than any mistake about a time zone or summer time, shorter than one about the date. */
const JUMP_MS = 18 * HOUR_MS;
/** A jump between the last event of an earlier run and the start: servers are switched off over holidays. */
const REST_MS = 7 * DAY_MS;
/** The setting with the end of a day of doubt, by the clock that was doubted. */
const UNTIL = 'clock.doubted_until';

export interface ClockTrust {
  isTrusted(): boolean;
}

/**
 * Looks back at the last event of an earlier run first. So it must be awaited before this run writes events, which would have this run's
 * times. If the events cannot be read, the clock is not trusted for a day.
 */
export async function createClockTrust({
  db,
  clock,
  log,
}: StoreDeps & { log: Pick<Log, 'warn'> }): Promise<ClockTrust> {
  /** How far the wall clock is ahead of the monotonic clock. */
  const ahead = (): number => clock.now() - clock.monotonic();
  /** The same when the clock was last trusted. */
  let believed = ahead();
  let doubtUntil = 0;

  async function doubt(ms: number): Promise<void> {
    doubtUntil = clock.monotonic() + DOUBT_MS;
    const until = clock.now() + DOUBT_MS;
    const fields = { event: 'retention_waits', ms: Math.round(ms), until: new Date(until).toISOString() };
    log.warn(fields, 'the clock has jumped forward: nothing is deleted for its age for a day');
    await db.commit.transact(async (tx) => {
      await tx.run('DELETE FROM settings WHERE name = ?', [UNTIL]);
      await tx.run('INSERT INTO settings (name, value) VALUES (?, ?)', [UNTIL, String(until)]);
    });
  }

  async function lookBack(): Promise<void> {
    const [kept] = await db.prepared.all<{ value: string }>('SELECT value FROM settings WHERE name = ?', [UNTIL]);
    const left = Number(kept?.value ?? 0) - clock.now();
    // More is left if the clock was set right meanwhile.
    if (left > 0 && left <= DOUBT_MS + JUMP_MS) {
      const ms = Math.min(left, DOUBT_MS);
      doubtUntil = clock.monotonic() + ms;
      const fields = { event: 'retention_waits', until: new Date(clock.now() + ms).toISOString() };
      log.warn(
        fields,
        'the clock was doubted before the restart: nothing is deleted for its age for the rest of the day',
      );
    }
    const rest = clock.now() - ((await latestEventTime(db.prepared)) ?? Infinity);
    if (rest > REST_MS) await doubt(rest);
  }

  await lookBack().catch((err: unknown) => {
    doubtUntil = clock.monotonic() + DOUBT_MS;
    log.warn(
      { event: 'retention_waits', err },
      'the last events cannot be read: nothing is deleted for its age for a day',
    );
  });

  return {
    isTrusted() {
      const jumped = ahead() - believed;
      if (jumped > JUMP_MS)
        doubt(jumped).catch((err: unknown) => {
          log.warn({ event: 'retention_waits', err }, 'the doubt of the clock could not be kept: a restart ends it');
        });
      // The clock was set right.
      else if (jumped < -JUMP_MS) doubtUntil = 0;
      believed = ahead();
      if (clock.monotonic() < doubtUntil) return false;
      doubtUntil = 0;
      return true;
    },
  };
}

/** Returns the rule with its steps skipped while the clock is not trusted. */
export const whenTrusted = (trust: ClockTrust, rule: Rule): Rule => ({
  ...rule,
  step: async (rows, commit) => (trust.isTrusted() ? rule.step(rows, commit) : 0),
});
