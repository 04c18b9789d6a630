/**
 * Warm-up: a source that receivers do not know yet sends each of them a little more from day to day, as long as they take it
 * well. Per source and site (the operator's name if the table has one) a UTC day has a cap; the next day's cap is the
 * next of the list, but only after a day that used at least half of its cap, with blocks and deferrals under 5 % and
 * complaints under 0.1 %.
 *
 * The counts are in the table `warm_up`. What this node has counted is added to its rows, and the sums are read back, since other nodes may send
 * from the same source and get complaints about it. The stage of a day is decided by the first write of that day.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import type { Work } from '../../storage/commit.ts';
import type { Connection } from '../../storage/connection.ts';
import type { Database } from '../../storage/database.ts';
import { insertRows } from '../../storage/rows.ts';
import { rowsParameter } from '../../storage/rows-parameter.ts';
import { statement } from '../../storage/sql.ts';
import { text } from '../../storage/table.ts';
import type { WarmUpRow } from '../../storage/tables.ts';
import { DAY_MS, dayOf } from '../../base/time.ts';

/** Mails a day, from the first on; a source that has come through them all is warm. */
export const DAILY_CAPS = [50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000] as const;
const MOST_BAD = 0.05;
const MOST_COMPLAINTS = 0.001;
const LEAST_USE = 0.5;
/** Reputations fade: a site that got no mail for this many days begins again. */
const KEPT_DAYS = 30;

export const capOf = (stage: number): number | null => DAILY_CAPS[stage] ?? null;

/** Returns the stage of the day after this one. Pure. */
export function stageAfter({ stage, sent, blocked, deferred, complained }: Omit<WarmUpRow, 'day'>): number {
  const cap = capOf(stage);
  if (cap === null || sent < cap * LEAST_USE) return stage;
  const isBad = (blocked + deferred) / sent >= MOST_BAD || complained / sent >= MOST_COMPLAINTS;
  return isBad ? stage : stage + 1;
}

type Counts = Pick<WarmUpRow, 'sent' | 'blocked' | 'deferred' | 'complained'>;

/** A source at a site on one day. */
interface Entry {
  /** The sums of all nodes, as far as they are known here, with what is not written yet. */
  row: WarmUpRow;
  /** The counts of this node since its last write. */
  added: Counts;
  /** The row is in the database, and with it the stage of the day. */
  isStored: boolean;
  /** The clock was days ahead and was set right: later days may have rows that were counted then. */
  isSetRight: boolean;
  /** The last day with mail; an entry that is only looked at goes on from day to day without. */
  usedOn: string;
}

/** Counts to add to a row. */
interface Addition {
  row: WarmUpRow;
  isStored: boolean;
  isSetRight: boolean;
}

/** Rows that one look at the counts of other nodes reads at most, those with the most mail first. The rest are read by the first write. */
const MOST_READ = 1000;

export class WarmUp {
  private readonly deps: { db: Pick<Database, 'prepared' | 'commit'>; clock: Clock; log: Log };
  /** Sources that are warmed up, with the day it began if the operator says so. */
  private readonly sources: ReadonlyMap<string, { since: number | null }>;
  private readonly entries = new Map<string, Entry>();
  private readonly changed = new Set<Entry>();
  private writing: Promise<void> | null = null;
  /** The writes that have begun. */
  private writes = 0;

  constructor(
    deps: { db: Pick<Database, 'prepared' | 'commit'>; clock: Clock; log: Log },
    sources: ReadonlyMap<string, { since: number | null }>,
  ) {
    this.deps = deps;
    this.sources = sources;
  }

  /** Reads what earlier runs and other nodes have counted. */
  async load(): Promise<void> {
    const now = this.deps.clock.now();
    const rows = await this.deps.db.prepared.all<WarmUpRow>(
      'SELECT * FROM warm_up WHERE day >= ? AND day <= ? ORDER BY day',
      [dayOf(now - KEPT_DAYS * DAY_MS), dayOf(now + DAY_MS)],
    );
    for (const row of rows) this.takeOver(row);
  }

  /** Reads again what all nodes have counted today. */
  async reread(): Promise<void> {
    if (this.sources.size === 0) return;
    const { clock, db } = this.deps;
    const { writes } = this;
    const rows = await db.prepared.all<WarmUpRow>('SELECT * FROM warm_up WHERE day = ? ORDER BY sent DESC LIMIT ?', [
      dayOf(clock.now()),
      MOST_READ,
    ]);
    // While this node writes, the sums come back with its writes; what was read may lack them.
    if (this.writing === null && this.writes === writes) for (const row of rows) this.takeOver(row);
  }

  /** Returns how much the source has sent the site today, and how much it may; a cap of null means no limit. */
  today(source: string, site: string): { sent: number; cap: number | null; stage: number } {
    if (!this.sources.has(source)) return { sent: 0, cap: null, stage: 0 };
    const { sent, stage } = this.entryOf(source, site).row;
    return { sent, stage, cap: capOf(stage) };
  }

  /** Counts a mail that is about to be sent; returns false if the day's cap is reached. */
  take(source: string, site: string): boolean {
    if (!this.sources.has(source)) return true;
    const entry = this.entryOf(source, site);
    const cap = capOf(entry.row.stage);
    if (cap !== null && entry.row.sent >= cap) return false;
    this.count(entry, 'sent');
    return true;
  }

  /** Takes back `take` for a mail that was not sent after all. */
  putBack(source: string, site: string): void {
    if (this.sources.has(source)) this.count(this.entryOf(source, site), 'sent', -1);
  }

  note(source: string, site: string, outcome: Outcome): void {
    if (!this.sources.has(source)) return;
    if (outcome.kind === 'refused' && outcome.verdict.class === 'block')
      this.count(this.entryOf(source, site), 'blocked');
    // Greylisting and dead connections say nothing about the sender.
    if (outcome.kind === 'deferred' && outcome.facts.smtpCode !== null && outcome.grounds?.greylisting !== true)
      this.count(this.entryOf(source, site), 'deferred');
  }

  complained(source: string, site: string): void {
    if (this.sources.has(source)) this.count(this.entryOf(source, site), 'complained');
  }

  /** Returns today's counts of a source, busiest site first. */
  list(source: string): WarmUpRow[] {
    return [...this.entries.values()]
      .filter(({ row }) => row.source === source)
      .map(({ row }) => this.entryOf(source, row.site).row)
      .sort((a, b) => b.sent - a.sent);
  }

  /** Resolves when everything counted is written. */
  async close(): Promise<void> {
    await this.writing;
  }

  /** Takes a row as it is in the database now. */
  private takeOver(row: WarmUpRow): void {
    const key = `${row.source} ${row.site}`;
    const known = this.entries.get(key);
    if (!this.sources.has(row.source) || (known !== undefined && known.row.day > row.day)) return;
    if (known?.row.day === row.day) store(known, row);
    else this.entries.set(key, { row, added: noCounts(), isStored: true, isSetRight: false, usedOn: row.day });
  }

  private entryOf(source: string, site: string): Entry {
    const key = `${source} ${site}`;
    const day = dayOf(this.deps.clock.now());
    const known = this.entries.get(key);
    // A clock that went back a little keeps the day it has: counting twice would send twice as much. One that was days ahead would use
    // up the cap of its day until that day comes; the first write of the right day finds its counts and its stage.
    const wasAhead = known !== undefined && known.row.day > dayOf(this.deps.clock.now() + DAY_MS);
    if (known !== undefined && known.row.day >= day && !wasAhead) return known;
    const isForgotten = known === undefined || known.usedOn < dayOf(this.deps.clock.now() - KEPT_DAYS * DAY_MS);
    const stage = isForgotten ? this.firstStage(source) : wasAhead ? known.row.stage : stageAfter(known.row);
    const entry: Entry = {
      row: { source, site, day, stage, ...noCounts() },
      added: noCounts(),
      isStored: false,
      isSetRight: wasAhead,
      usedOn: isForgotten || wasAhead ? day : known.usedOn,
    };
    this.entries.set(key, entry);
    return entry;
  }

  private firstStage(source: string): number {
    const since = this.sources.get(source)?.since ?? null;
    return since === null ? 0 : Math.max(0, Math.floor((this.deps.clock.now() - since) / DAY_MS));
  }

  private count(entry: Entry, what: keyof Counts, by = 1): void {
    entry.row[what] += by;
    entry.added[what] += by;
    entry.usedOn = entry.row.day;
    this.changed.add(entry);
    this.writing ??= this.write().finally(() => {
      this.writing = null;
    });
  }

  /** Writes what was counted; what is counted while a commit runs is in the next one. */
  private async write(): Promise<void> {
    while (this.changed.size > 0) {
      const some = [...this.changed];
      this.changed.clear();
      this.writes++;
      const additions = some.map(({ row, added, isStored, isSetRight }): Addition => ({
        row: { ...row, ...added },
        isStored,
        isSetRight,
      }));
      for (const entry of some) entry.added = noCounts();
      try {
        const sums = await this.deps.db.commit.submit(addCounts, additions, 200 * additions.length);
        for (const [at, entry] of some.entries()) {
          const sum = sums[at];
          if (sum !== undefined) store(entry, sum);
        }
      } catch (error) {
        // Still counted in memory; the next mail writes it again.
        for (const [at, entry] of some.entries()) {
          for (const name of COUNTS) entry.added[name] += additions[at]?.row[name] ?? 0;
          this.changed.add(entry);
        }
        this.deps.log.error({ event: 'storage_failed', err: error }, 'the counts of a warm-up could not be written');
        return;
      }
    }
  }
}

const COUNTS = ['sent', 'blocked', 'deferred', 'complained'] as const satisfies readonly (keyof Counts)[];
const noCounts = (): Counts => ({ sent: 0, blocked: 0, deferred: 0, complained: 0 });

/** Takes over the sums of the database, to which what is not written yet is added. */
function store(entry: Entry, sum: WarmUpRow): void {
  const row = { ...sum };
  for (const name of COUNTS) row[name] += entry.added[name];
  entry.row = row;
  entry.isStored = true;
  entry.isSetRight = false;
  entry.usedOn = row.day;
}

/** Adds counts to rows, and returns the rows as they are then. Other nodes may add to the same rows. */
const addCounts: Work<readonly Addition[], readonly WarmUpRow[]> = {
  name: 'warm-up',
  async run(tx, inputs) {
    const all = inputs.flat();
    const [stored, fresh] = [all.filter(({ isStored }) => isStored), all.filter(({ isStored }) => !isStored)];
    await insertRows(tx, [{ warm_up: stored.map(({ row }) => row) }]);
    const setRight = fresh
      .filter(({ isSetRight }) => isSetRight)
      .map(({ row }) => ({ ...row, day: dayAfter(row.day) }));
    if (setRight.length > 0) await tx.run(removalOfLater, [daysOfSites.json(setRight)]);
    if (fresh.length > 0) await beginDays(tx, fresh);
    const rows = await tx.all<WarmUpRow>(sumsOf, [daysOfSites.json(all.map(({ row }) => row))]);
    const byKey = new Map(rows.map((row) => [keyOf(row), row]));
    return inputs.map((input) => input.map(({ row }) => byKey.get(keyOf(row)) ?? row));
  },
};

/** Adds rows of a day that has none here yet. Their stage follows from the last day in the database, which has what all nodes have counted. */
async function beginDays(tx: Connection, fresh: readonly Addition[]): Promise<void> {
  const rows = fresh.map(({ row }) => row);
  const latest = rows.reduce((last, { day }) => (day > last ? day : last), '');
  const oldest = dayOf(Date.parse(latest) - KEPT_DAYS * DAY_MS);
  const before = await tx.all<WarmUpRow>(daysBefore, [daysOfSites.json(rows), oldest]);
  const last = new Map(before.map((row) => [`${row.source} ${row.site}`, row]));
  const staged = rows.map((row) => {
    const known = last.get(`${row.source} ${row.site}`);
    return known === undefined ? row : { ...row, stage: stageAfter(known) };
  });
  await insertRows(tx, [{ warm_up: staged }]);
}

const dayAfter = (day: string): string => dayOf(Date.parse(day) + DAY_MS);

const keyOf = ({ source, site, day }: WarmUpRow): string => `${source} ${site} ${day}`;
const daysOfSites = rowsParameter({ source: text(), site: text(), day: text() });

const sumsOf = statement(
  (sql) => `SELECT w.* FROM ${daysOfSites.table(sql, 'k')}
    JOIN warm_up w ON w.source = k.source AND w.site = k.site AND w.day = k.day`,
);

/**
 * The counts of a clock that was ahead would be taken for those of their days when these come. The day after the present one stays: another
 * node's clock may have reached it already.
 */
const removalOfLater = statement(
  (sql) => `DELETE FROM warm_up WHERE EXISTS (SELECT 1 FROM ${daysOfSites.table(sql, 'k')}
    WHERE k.source = warm_up.source AND k.site = warm_up.site AND k.day < warm_up.day)`,
);

const daysBefore = statement(
  (sql) => `SELECT w.* FROM ${daysOfSites.table(sql, 'k')} JOIN warm_up w ON w.source = k.source AND w.site = k.site
    AND w.day = (SELECT MAX(o.day) FROM warm_up o WHERE o.source = k.source AND o.site = k.site AND o.day < k.day AND o.day >= ?)`,
);
