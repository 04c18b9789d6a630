/**
 * Warm-up: a source that receivers do not know yet sends each of them a little more from day to day, as long as they take it
 * well. Per source and site (the operator's name where the table has one) a UTC day has a cap; the next day's cap is the
 * next of the list, but only after a day that used at least half of its cap, with blocks and deferrals under 5 % and
 * complaints under 0.1 %. The counts are in the table `warm_up`.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import type { Database } from '../../storage/database.ts';
import type { WarmUpRow } from '../../storage/tables.ts';
import { DAY_MS, dayOf } from '../../base/time.ts';

/** Mails a day, from the first on; a source that has come through them all is warm. */
export const DAILY_CAPS = [50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000] as const;
const MOST_BAD = 0.05;
const MOST_COMPLAINTS = 0.001;
const LEAST_USE = 0.5;
/** Reputations fade: a site that got no mail for so many days begins again. */
const KEPT_DAYS = 30;

export const capOf = (stage: number): number | null => DAILY_CAPS[stage] ?? null;

/** Returns the stage of the day after this one. Pure. */
export function stageAfter({ stage, sent, blocked, deferred, complained }: Omit<WarmUpRow, 'day'>): number {
  const cap = capOf(stage);
  if (cap === null || sent < cap * LEAST_USE) return stage;
  const isBad = (blocked + deferred) / sent >= MOST_BAD || complained / sent >= MOST_COMPLAINTS;
  return isBad ? stage : stage + 1;
}

export class WarmUp {
  private readonly deps: { db: Pick<Database, 'prepared' | 'commit'>; clock: Clock; log: Log };
  /** Sources that are warmed up, with the day it began where the operator says so. */
  private readonly sources: ReadonlyMap<string, { since: number | null }>;
  private readonly rows = new Map<string, WarmUpRow>();
  private readonly changed = new Set<WarmUpRow>();
  private writing: Promise<void> | null = null;

  constructor(
    deps: { db: Pick<Database, 'prepared' | 'commit'>; clock: Clock; log: Log },
    sources: ReadonlyMap<string, { since: number | null }>,
  ) {
    this.deps = deps;
    this.sources = sources;
  }

  /** Reads what earlier runs have counted. */
  async load(): Promise<void> {
    const from = dayOf(this.deps.clock.now() - KEPT_DAYS * DAY_MS);
    for (const row of await this.deps.db.prepared.all<WarmUpRow>('SELECT * FROM warm_up WHERE day >= ? ORDER BY day', [
      from,
    ]))
      if (this.sources.has(row.source)) this.rows.set(`${row.source} ${row.site}`, row);
  }

  /** Returns how much the source has sent the site today, and how much it may; a cap of null means no limit. */
  today(source: string, site: string): { sent: number; cap: number | null; stage: number } {
    if (!this.sources.has(source)) return { sent: 0, cap: null, stage: 0 };
    const { sent, stage } = this.rowOf(source, site);
    return { sent, stage, cap: capOf(stage) };
  }

  /** Counts a mail that is about to be sent; returns false where the day's cap is reached. */
  take(source: string, site: string): boolean {
    if (!this.sources.has(source)) return true;
    const row = this.rowOf(source, site);
    const cap = capOf(row.stage);
    if (cap !== null && row.sent >= cap) return false;
    this.count(row, 'sent');
    return true;
  }

  /** Takes back `take` for a mail that was not sent after all. */
  putBack(source: string, site: string): void {
    if (this.sources.has(source)) this.count(this.rowOf(source, site), 'sent', -1);
  }

  note(source: string, site: string, outcome: Outcome): void {
    if (!this.sources.has(source)) return;
    if (outcome.kind === 'refused' && outcome.verdict.class === 'block')
      this.count(this.rowOf(source, site), 'blocked');
    // Greylisting and dead connections say nothing about the sender.
    if (outcome.kind === 'deferred' && outcome.facts.smtpCode !== null && outcome.grounds?.greylisting !== true)
      this.count(this.rowOf(source, site), 'deferred');
  }

  complained(source: string, site: string): void {
    if (this.sources.has(source)) this.count(this.rowOf(source, site), 'complained');
  }

  /** Returns today's counts of a source, busiest site first. */
  list(source: string): WarmUpRow[] {
    return [...this.rows.values()]
      .filter((row) => row.source === source)
      .map((row) => this.rowOf(source, row.site))
      .sort((a, b) => b.sent - a.sent);
  }

  /** Resolves when everything counted is written. */
  async close(): Promise<void> {
    await this.writing;
  }

  private rowOf(source: string, site: string): WarmUpRow {
    const key = `${source} ${site}`;
    const day = dayOf(this.deps.clock.now());
    const known = this.rows.get(key);
    // A clock that went back keeps the day it has: counting twice would send twice as much.
    if (known !== undefined && known.day >= day) return known;
    const stage = known === undefined ? this.firstStage(source) : stageAfter(known);
    const row: WarmUpRow = { source, site, day, stage, sent: 0, blocked: 0, deferred: 0, complained: 0 };
    this.rows.set(key, row);
    return row;
  }

  private firstStage(source: string): number {
    const since = this.sources.get(source)?.since ?? null;
    return since === null ? 0 : Math.max(0, Math.floor((this.deps.clock.now() - since) / DAY_MS));
  }

  private count(row: WarmUpRow, what: 'sent' | 'blocked' | 'deferred' | 'complained', by = 1): void {
    row[what] += by;
    this.changed.add(row);
    this.writing ??= this.write().finally(() => {
      this.writing = null;
    });
  }

  /** Writes the changed counts; those that change while a commit runs are in the next one. */
  private async write(): Promise<void> {
    while (this.changed.size > 0) {
      const some = [...this.changed];
      this.changed.clear();
      try {
        await this.deps.db.commit.transact(async (tx) => {
          await tx.run('DELETE FROM warm_up WHERE day < ?', [dayOf(this.deps.clock.now() - KEPT_DAYS * DAY_MS)]);
          for (const row of some)
            await tx.run(
              `INSERT INTO warm_up (source, site, day, stage, sent, blocked, deferred, complained) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
               ON CONFLICT (source, site, day) DO UPDATE SET stage = excluded.stage, sent = excluded.sent,
                 blocked = excluded.blocked, deferred = excluded.deferred, complained = excluded.complained`,
              [row.source, row.site, row.day, row.stage, row.sent, row.blocked, row.deferred, row.complained],
            );
        });
      } catch (error) {
        // Still counted in memory; the next mail writes it again.
        this.deps.log.error({ event: 'storage_failed', err: error }, 'the counts of a warm-up could not be written');
        return;
      }
    }
  }
}
