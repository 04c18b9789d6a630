/**
 * The sources that mail leaves from. A source is an address of this machine with a name and an EHLO name; sources form pools, and a
 * stream names its pool. A lane is a site and a source, so each source has limits of its own at each site. A mail takes a source of its pool that
 * may send it now (`judge` tells what receivers allow): the one with the best record at the site, then the least busy. While the operator pauses
 * them all, or all are at the day's cap of their warm-up, the mail waits without an attempt, with the reason.
 *
 * Without any setting there is one source: the address that the system chooses. It has no name, and its lanes are named after
 * the site alone. If several nodes use the database, each uses the sources that are bound to it and those that are bound to none.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { groupBy } from '../../base/sets.ts';
import { DAY_MS, dayOf } from '../../base/time.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import { readMark, writeMark } from '../../messages/delivery/hold-mark.ts';
import { operatorsHold, type Hold } from '../../messages/delivery/holds.ts';
import type { SourceReport } from '../../messages/delivery/why.ts';
import type { LimitBook } from '../../messages/limits/book.ts';
import type { SourceState } from '../lanes/lane-control.ts';
import { laneName } from '../names.ts';
import type { Database } from '../../storage/database.ts';
import { DEFAULT_POOL, type WarmUpRow } from '../../storage/tables.ts';

export interface Source {
  /** Null for the address that the system chooses. */
  readonly name: string | null;
  readonly pool: string;
  readonly ehlo: string;
  /** Connections over IPv4 come from it; null if none may, or the system chooses (a source without a name). */
  readonly ipv4: string | null;
  readonly ipv6: string | null;
}

/** A source as the settings have it. */
export interface ConfiguredSource extends Source {
  readonly name: string;
  /** The name of the node that has the address; null for any. */
  readonly node: string | null;
}

export const isUsable = ({ node }: Pick<ConfiguredSource, 'node'>, nodeName: string): boolean =>
  node === null || node === nodeName;

export interface SourcePreference {
  pool: string;
  last: string | null;
}

export interface SourcesDeps {
  clock: Clock;
  log: Log;
  limits: Pick<LimitBook, 'storedName' | 'ofKind' | 'ofSource' | 'ofLane'>;
  warmUp: WarmUp;
  /** Addresses of sources that this machine does not have, with the time since when. */
  absent: ReadonlyMap<string, number>;
}

export interface SourcesOptions {
  hostname: string;
  settings: readonly ConfiguredSource[];
  /** This node: its name, and whether it delivers. */
  node: { name: string; isDelivering: boolean };
}

export class Sources {
  /** True if sources are configured, false if there is only the system's address. */
  readonly named: boolean;
  readonly warmUp: WarmUp;
  private readonly deps: SourcesDeps;
  private readonly system: Source;
  private readonly pools: Map<string, Source[]>;
  private readonly all: Map<string | null, Source>;
  private readonly isDelivering: boolean;
  private readonly loggedPools = new Set<string>();
  private turn = 0;

  constructor(deps: SourcesDeps, { hostname, settings, node }: SourcesOptions) {
    this.deps = deps;
    this.warmUp = deps.warmUp;
    this.named = settings.length > 0;
    this.isDelivering = node.isDelivering;
    this.system = { name: null, pool: DEFAULT_POOL, ehlo: hostname, ipv4: null, ipv6: null };
    const usable: Source[] = settings.filter((source) => isUsable(source, node.name));
    this.pools = groupBy(usable, ({ pool }) => pool);
    if (!this.pools.has(DEFAULT_POOL)) this.pools.set(DEFAULT_POOL, [this.system]);
    this.all = new Map([...this.pools.values()].flat().map((source) => [source.name, source]));
  }

  /** Returns the pool of that name, or the default pool if it has no sources. */
  poolOf(name: string): string {
    if (this.pools.has(name)) return name;
    if (!this.loggedPools.has(name) && this.loggedPools.size < 1000) {
      this.loggedPools.add(name);
      this.deps.log.warn(
        { event: 'pool_missing', pool: name },
        'a stream names a pool without sources: its mail uses the default pool',
      );
    }
    return DEFAULT_POOL;
  }

  /** Returns whether the operator and the warm-up let the source send to the site now. */
  isFree(name: string | null, site: string): boolean {
    return this.obstacle(name, site) === null;
  }

  /** Returns what of ours keeps all sources of the pool from the site; null if one may send. */
  heldBy(pool: string, site: string): Hold | null {
    const obstacles = this.sourcesOf(pool).map(({ name }) => this.obstacle(name, site));
    const found = obstacles.filter((one) => one !== null);
    if (found.length < obstacles.length) return null;
    const until = found.reduce<number | null>((least, one) => earlier(least, one.until), found[0]?.until ?? null);
    const why = found.map((one) => one.why).join('; ');
    // The time to give up is only extended if the operator alone is the reason.
    const isPaused = found.every(({ by }) => by !== '');
    const since = Math.max(...found.map((one) => one.since));
    const setBy = isPaused ? 'operator' : 'us';
    const by = writeMark({ kind: isPaused ? 'paused' : 'pool', pool: this.poolOf(pool), site });
    return { by, since, until, why, setBy };
  }

  /** Returns why nothing is sent at all: no source is on this machine. */
  allAway(): Hold | null {
    const found = [...this.all.keys()].map((name) => this.away(name));
    return found.includes(null) ? null : (found[0] ?? null);
  }

  find(name: string | null): Source {
    return this.all.get(name) ?? this.system;
  }

  namesOf(pool: string): (string | null)[] {
    return this.sourcesOf(pool).map(({ name }) => name);
  }

  /** Returns the source: `last` if open, as greylisting expects it. A closed one gets one mail as a test. If none is open, the first that opens. */
  choose(
    { pool, last }: SourcePreference,
    site: string,
    judge: (source: string | null) => SourceState & { load: number },
  ): Source {
    const candidates = this.sourcesOf(pool);
    const [first = this.system] = candidates;
    if (candidates.length === 1) return first;
    const free = candidates
      .filter(({ name }) => this.isFree(name, site))
      .map((source) => ({ source, ...judge(source.name) }));
    const open = free.filter(({ closedUntil }) => closedUntil === null);
    const good = open.filter(({ isSuspect }) => !isSuspect);
    const before = good.find(({ source }) => source.name === last && last !== null);
    if (before !== undefined) return before.source;
    // A mail that it has refused already goes by another one.
    const probe = open.find(({ source, isSuspect, load }) => isSuspect && load === 0 && source.name !== last);
    if (probe !== undefined) return probe.source;
    this.turn = (this.turn + 1) % 1_000_000;
    const among = good.length > 0 ? good : open;
    // Sources with the same load take turns.
    const inTurn = among.map((_, at) => among[(at + this.turn) % among.length]).filter((one) => one !== undefined);
    const [least] = inTurn.sort((a, b) => a.load - b.load);
    if (least !== undefined) return least.source;
    const [soonest] = free.sort((a, b) => (a.closedUntil ?? 0) - (b.closedUntil ?? 0));
    return soonest?.source ?? first;
  }

  /** Returns the hold of a mark that `heldBy` returned, or null if it has ended. */
  holdOf(by: string): Hold | null {
    const mark = readMark(by);
    return mark?.kind === 'pool' || mark?.kind === 'paused' ? this.heldBy(mark.pool, mark.site) : null;
  }

  /** Counts a mail that is about to be sent; returns false if it may not be sent after all. */
  take(name: string | null, site: string): boolean {
    return this.isFree(name, site) && (name === null || this.deps.warmUp.take(name, site));
  }

  putBack(name: string | null, site: string): void {
    if (name !== null) this.deps.warmUp.putBack(name, site);
  }

  note(name: string | null, site: string, outcome: Outcome): void {
    if (name !== null) this.deps.warmUp.note(name, site, outcome);
  }

  list(): SourceReport[] {
    if (!this.isDelivering) return [];
    return [...this.all.values()].map((source) => ({
      ...source,
      paused: source.name !== null && this.deps.limits.ofSource(source.name) !== null,
      absent: [source.ipv4, source.ipv6].filter((ip) => ip !== null && this.deps.absent.has(ip)).map(String),
      blocks: this.blocksOf(source.name),
      warmUp:
        source.name === null
          ? []
          : this.deps.warmUp
              .list(source.name)
              .map(({ site }) => ({ site, ...this.deps.warmUp.today(source.name ?? '', site) })),
    }));
  }

  private blocksOf(name: string | null): SourceReport['blocks'] {
    const { limits, clock } = this.deps;
    const now = clock.now();
    return limits
      .ofKind('block_list')
      .filter(({ source, until }) => source === limits.storedName(name) && until > now)
      .map(({ site, domain, since, until, cause }) => ({
        site: site === '' ? 'every site' : domain === null ? site : `${site} (${domain})`,
        since,
        until,
        reply: cause,
      }));
  }

  private sourcesOf(pool: string): readonly Source[] {
    return this.pools.get(this.poolOf(pool)) ?? [this.system];
  }

  /** Returns what of ours keeps a source from a site, or null. */
  private obstacle(name: string | null, site: string): Hold | null {
    const paused =
      name === null ? null : (this.deps.limits.ofSource(name) ?? this.deps.limits.ofLane(laneName(site, name)));
    if (paused !== null) return operatorsHold(paused);
    const away = this.away(name);
    if (away !== null) return away;
    if (name === null) return null;
    const { sent, cap } = this.deps.warmUp.today(name, site);
    if (cap === null || sent < cap) return null;
    const now = this.deps.clock.now();
    const until = (Math.floor(now / DAY_MS) + 1) * DAY_MS;
    return {
      by: '',
      since: now,
      until,
      setBy: 'us',
      why: `the warm-up of ${name} sends ${site} ${String(cap)} mails today`,
    };
  }

  /** Returns that the source's address is not on this machine, or null. Beside IPv4 an IPv6 address that is away is passed over by each dial. */
  private away(name: string | null): Hold | null {
    const { ipv4, ipv6 } = this.find(name);
    const since = this.deps.absent.get(ipv4 ?? ipv6 ?? '');
    const why = `the address ${ipv4 ?? ipv6 ?? ''} of the source ${name ?? ''} is not on this machine`;
    return since === undefined ? null : { by: '', since, until: null, setBy: 'us', why };
  }
}

/** Returns the earlier of two ends; null is never. */
const earlier = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.min(a, b);

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

const noCounts = { sent: 0, blocked: 0, deferred: 0, complained: 0 };
const keyOf = ({ source, site }: Pick<WarmUpRow, 'source' | 'site'>): string => `${source} ${site}`;

export class WarmUp {
  private readonly deps: { db: Pick<Database, 'prepared' | 'commit'>; clock: Clock; log: Log };
  /** Sources that are warmed up, with the day it began if the operator says so. */
  private readonly sources: ReadonlyMap<string, { since: number | null }>;
  /** The last day of each source and site, as far as it is known here, with what is not written yet. */
  private readonly days = new Map<string, WarmUpRow>();
  private writing: Promise<unknown> = Promise.resolve();
  /** The writes that have begun, and those of them that have not ended. */
  private writes = 0;
  private unwritten = 0;

  constructor(deps: WarmUp['deps'], sources: WarmUp['sources']) {
    this.deps = deps;
    this.sources = sources;
  }

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
    if (this.unwritten > 0 || this.writes !== writes) return;
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

  private count(source: string, site: string, what: keyof typeof noCounts, by = 1): void {
    if (!this.sources.has(source)) return;
    const row = this.dayAt(source, site);
    this.days.set(keyOf(row), { ...row, [what]: row[what] + by });
    this.writes++;
    this.unwritten++;
    const written = this.deps.db.commit
      .insert({ warm_up: [{ ...row, ...noCounts, [what]: by }] })
      .catch((err: unknown) => {
        // It is counted in memory until the next start.
        this.deps.log.error({ event: 'storage_failed', err }, 'the counts of a warm-up could not be written');
      })
      .finally(() => this.unwritten--);
    this.writing = Promise.all([this.writing, written]);
  }
}
