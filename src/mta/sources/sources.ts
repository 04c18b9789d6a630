/**
 * The sources that mail leaves from. A source is an address of this machine with a name and an EHLO name; sources form pools, and a
 * stream names its pool. A lane is a site and a source, so each source has limits of its own at each site. A mail takes a source of its pool that
 * may send it now (`judge` tells what receivers allow): the one with the best record at the site, then the least busy. While the operator pauses
 * them all, the mail waits without an attempt, with the reason.
 *
 * Without any setting there is one source: the address that the system chooses. It has no name, and its lanes are named after
 * the site alone. If several nodes use the database, each uses the sources that are bound to it and those that are bound to none.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { groupBy } from '../../base/sets.ts';
import { readMark, writeMark } from '../../messages/delivery/hold-mark.ts';
import { operatorsHold, type Hold } from '../../messages/delivery/holds.ts';
import type { SourceReport } from '../../messages/delivery/why.ts';
import type { LimitBook } from '../../messages/limits/book.ts';
import type { SourceState } from '../lanes/lane-control.ts';
import { laneName } from '../names.ts';
import { DEFAULT_POOL } from '../../storage/tables.ts';

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
  /** The stream of the mail, if a row was read. */
  stream?: string;
}

export interface SourcesDeps {
  clock: Clock;
  log: Log;
  limits: Pick<LimitBook, 'storedName' | 'ofKind' | 'ofSource' | 'ofLane' | 'counts'>;
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
  private readonly deps: SourcesDeps;
  private readonly system: Source;
  private readonly pools: Map<string, Source[]>;
  private readonly all: Map<string | null, Source>;
  private readonly isDelivering: boolean;
  private readonly loggedPools = new Set<string>();
  private turn = 0;

  constructor(deps: SourcesDeps, { hostname, settings, node }: SourcesOptions) {
    this.deps = deps;
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

  /** Returns whether the operator lets the source send to the site now, and its address is here. */
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

  list(): SourceReport[] {
    if (!this.isDelivering) return [];
    return [...this.all.values()].map((source) => ({
      ...source,
      paused: source.name !== null && this.deps.limits.ofSource(source.name) !== null,
      absent: [source.ipv4, source.ipv6].filter((ip) => ip !== null && this.deps.absent.has(ip)).map(String),
      blocks: this.blocksOf(source.name),
      warmUp: source.name === null ? [] : this.deps.limits.counts.warmUpOf(source.name),
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
    return this.away(name);
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
