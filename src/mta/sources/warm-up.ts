/**
 * Warm-up: a source that receivers do not know yet sends each of them a little more from day to day, as long as they take it
 * well. Per source and site (the operator's name if the table has one) a UTC day has a cap; the next day's cap is the
 * next of the list, but only after a day that used at least half of its cap, with blocks and deferrals under 5 % and
 * complaints under 0.1 %.
 *
 * The counts are in the table `warm_up`. What this node has counted is added to its rows, and the sums are read back every two seconds if other
 * nodes may send from the same source and get complaints about it.
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
/** Reputations fade: a site that got no mail for this many days begins again. */
const KEPT_DAYS = 30;
/** Rows that one look at the counts of other nodes reads at most, those with the most mail first. */
const MOST_READ = 1000;

export const capOf = (stage: number): number | null => DAILY_CAPS[stage] ?? null;

/** Returns the stage of the day after this one. Pure. */
export function stageAfter({ stage, sent, blocked, deferred, complained }: Omit<WarmUpRow, 'day'>): number {
  const cap = capOf(stage);
  if (cap === null || sent < cap * LEAST_USE) return stage;
  const isBad = (blocked + deferred) / sent >= MOST_BAD || complained / sent >= MOST_COMPLAINTS;
  return isBad ? stage : stage + 1;
}

const COUNTS = ['sent', 'blocked', 'deferred', 'complained'] as const satisfies readonly (keyof WarmUpRow)[];
const noCounts = { sent: 0, blocked: 0, deferred: 0, complained: 0 };
const keyOf = ({ source, site }: Pick<WarmUpRow, 'source' | 'site'>): string => `${source} ${site}`;

export class WarmUp {
  private readonly deps: { db: Pick<Database, 'prepared' | 'commit'>; clock: Clock; log: Log };
  /** Sources that are warmed up, with the day it began if the operator says so. */
  private readonly sources: ReadonlyMap<string, { since: number | null }>;
  /** The last day of each source and site, as far as it is known here, with what is not written yet. */
  private readonly days = new Map<string, WarmUpRow>();
  /** The counts to add to the rows of the database. */
  private readonly added = new Map<string, WarmUpRow>();
  private writing: Promise<void> | null = null;
  /** The writes that have begun. */
  private writes = 0;

  constructor(deps: WarmUp['deps'], sources: WarmUp['sources']) {
    this.deps = deps;
    this.sources = sources;
  }

  /** Reads what earlier runs and other nodes have counted. */
  async load(): Promise<void> {
    await this.read(KEPT_DAYS, -1);
  }

  /** Reads again what all nodes have counted lately. */
  async reread(): Promise<void> {
    if (this.sources.size > 0) await this.read(1, MOST_READ);
  }

  /** Returns how much the source has sent the site today, and how much it may; a cap of null means no limit. */
  today(source: string, site: string): { sent: number; cap: number | null; stage: number } {
    if (!this.sources.has(source)) return { sent: 0, cap: null, stage: 0 };
    const { sent, stage } = this.dayAt(source, site);
    return { sent, stage, cap: capOf(stage) };
  }

  /** Counts a mail that is about to be sent; returns false if the day's cap is reached. */
  take(source: string, site: string): boolean {
    const { sent, cap } = this.today(source, site);
    if (cap !== null && sent >= cap) return false;
    this.count(source, site, 'sent');
    return true;
  }

  /** Takes back `take` for a mail that was not sent after all. */
  putBack(source: string, site: string): void {
    this.count(source, site, 'sent', -1);
  }

  note(source: string, site: string, outcome: Outcome): void {
    if (outcome.kind === 'refused' && outcome.verdict.class === 'block') this.count(source, site, 'blocked');
    // Greylisting and dead connections say nothing about the sender.
    if (outcome.kind === 'deferred' && outcome.facts.smtpCode !== null && outcome.grounds?.greylisting !== true)
      this.count(source, site, 'deferred');
  }

  complained(source: string, site: string): void {
    this.count(source, site, 'complained');
  }

  /** Returns today's counts of a source, busiest site first. */
  list(source: string): WarmUpRow[] {
    return [...this.days.values()]
      .filter((row) => row.source === source)
      .map(({ site }) => this.dayAt(source, site))
      .sort((a, b) => b.sent - a.sent);
  }

  /** Resolves when everything counted is written. */
  async close(): Promise<void> {
    await this.writing;
  }

  private async read(days: number, most: number): Promise<void> {
    const { clock, db } = this.deps;
    const { writes } = this;
    const rows = await db.prepared.all<WarmUpRow>(
      `SELECT * FROM warm_up WHERE day >= ? AND day <= ? ORDER BY day DESC, sent DESC ${most < 0 ? '' : `LIMIT ${String(most)}`}`,
      [dayOf(clock.now() - days * DAY_MS), dayOf(clock.now() + DAY_MS)],
    );
    // Rows that were read while this node wrote may lack what it wrote.
    if (this.writing !== null || this.added.size > 0 || this.writes !== writes) return;
    for (const row of rows.reverse()) {
      const known = this.days.get(keyOf(row));
      if (this.sources.has(row.source) && (known === undefined || known.day <= row.day)) this.days.set(keyOf(row), row);
    }
  }

  /** Returns the counts of today. A clock that went back keeps the day it has: counting twice would send twice as much. */
  private dayAt(source: string, site: string): WarmUpRow {
    const now = this.deps.clock.now();
    const day = dayOf(now);
    const known = this.days.get(keyOf({ source, site }));
    if (known !== undefined && known.day >= day) return known;
    const isForgotten = known === undefined || known.day < dayOf(now - KEPT_DAYS * DAY_MS);
    return { source, site, day, stage: isForgotten ? this.firstStage(source) : stageAfter(known), ...noCounts };
  }

  private firstStage(source: string): number {
    const since = this.sources.get(source)?.since ?? null;
    return since === null ? 0 : Math.max(0, Math.floor((this.deps.clock.now() - since) / DAY_MS));
  }

  private count(source: string, site: string, what: (typeof COUNTS)[number], by = 1): void {
    if (!this.sources.has(source)) return;
    const row = this.dayAt(source, site);
    this.days.set(keyOf(row), { ...row, [what]: row[what] + by });
    this.add({ ...row, ...noCounts, [what]: by });
    this.writing ??= this.write().finally(() => {
      this.writing = null;
    });
  }

  private add(row: WarmUpRow): void {
    const key = `${keyOf(row)} ${row.day}`;
    const sum = { ...(this.added.get(key) ?? { ...row, ...noCounts }) };
    for (const name of COUNTS) sum[name] += row[name];
    this.added.set(key, sum);
  }

  /** Writes what was counted; what is counted while a commit runs is in the next one. */
  private async write(): Promise<void> {
    while (this.added.size > 0) {
      const rows = [...this.added.values()];
      this.added.clear();
      this.writes++;
      try {
        await this.deps.db.commit.insert({ warm_up: rows });
      } catch (error) {
        // Still counted in memory; the next mail writes it again.
        for (const row of rows) this.add(row);
        this.deps.log.error({ event: 'storage_failed', err: error }, 'the counts of a warm-up could not be written');
        return;
      }
    }
  }
}
