/**
 * The sources that mail leaves from. A source is an address of this machine with a name and an EHLO name; sources form pools, and a
 * stream names its pool. A lane is a site and a source, so each source has limits of its own at each site. A mail takes the
 * least busy source of its pool that may send to the site: one that is not paused, not on a block list there, and not at the day's
 * cap of its warm-up. While there is none, the mail waits without an attempt, with the reason.
 *
 * Without any setting there is one source: the address that the system chooses. It has no name, and its lanes are named after
 * the site alone.
 *
 * A block is about the whole site. At an operator's site, whose hosts answer for many organisations, it is about the mail of one recipient
 * domain until three of them have given such an answer with nothing accepted between: one of them may use a list of its own.
 *
 * Where several nodes use the database, each uses the sources that are bound to it and those that are bound to none. Blocks of the latter
 * are learnt by any of them, so blocks are read again every two seconds.
 */
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { groupBy } from '../../base/sets.ts';
import type { HoldBook } from '../../messages/delivery/hold-book.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import { readMark, writeMark } from '../../messages/delivery/hold-mark.ts';
import type { Hold } from '../../messages/delivery/holds.ts';
import type { Database } from '../../storage/database.ts';
import { DEFAULT_POOL, systemSource, type SourceBlockRow } from '../../storage/tables.ts';
import { DOMAINS } from '../lanes/rests.ts';
import { laneName } from '../names.ts';
import type { WarmUp } from './warm-up.ts';
import { DAY_MS, HOUR_MS } from '../../base/time.ts';

export interface Source {
  /** Null for the address that the system chooses. */
  readonly name: string | null;
  readonly pool: string;
  readonly ehlo: string;
  /** Connections over IPv4 come from it; null where none may, or the system chooses (a source without a name). */
  readonly ipv4: string | null;
  readonly ipv6: string | null;
}

/** A source as the settings have it. */
export interface ConfiguredSource extends Source {
  readonly name: string;
  /** The name of the node that has the address; null for any. */
  readonly node: string | null;
}

/** Returns whether the node may send from the source. */
export const isUsable = ({ node }: Pick<ConfiguredSource, 'node'>, nodeName: string): boolean =>
  node === null || node === nodeName;

/** A source with its blocks and its warm-up, for the operator. */
export interface SourceReport extends Source {
  paused: boolean;
  /** Its addresses that this machine does not have. */
  absent: string[];
  blocks: SourceBlockRow[];
  /** Today's counts; empty where the source is warm. */
  warmUp: { site: string; sent: number; cap: number | null }[];
}

/** The sources that a mail prefers. */
export interface SourcePreference {
  pool: string;
  /** The source by which it was tried before, or null. */
  last: string | null;
}

const BLOCKED_MS = HOUR_MS;
/** Lanes of operators whose listing domains are kept. */
const MOST_LISTING = 1_000;

/** Where a block holds: a site, or of an operator's site the mail for one recipient domain. A host name has no space. */
const placeOf = (site: string, domain: string | null): string => (domain === null ? site : `${site} (${domain})`);
const isAt = (place: string, site: string): boolean => place === site || place.startsWith(`${site} (`);

/** Returns whether a refusal says that our address is on a block list: it names an address, or a public list. */
export const isBlockListed = (outcome: Outcome): boolean =>
  (outcome.kind === 'refused' || outcome.kind === 'deferred') && outcome.grounds?.about === 'block_list';

export interface SourcesDeps {
  db: Pick<Database, 'prepared' | 'commit'>;
  clock: Clock;
  log: Log;
  book: Pick<HoldBook, 'ofSource' | 'ofLane'>;
  warmUp: WarmUp;
  /** Addresses of sources that this machine does not have, with the time since when. */
  absent: ReadonlyMap<string, number>;
}

export interface SourcesOptions {
  hostname: string;
  /** The sources of all nodes. */
  settings: readonly ConfiguredSource[];
  /** This node: its name, whether it delivers, and whether other nodes can use the database. */
  node: { name: string; isDelivering: boolean; isShared: boolean };
}

export class Sources {
  /** True where sources are configured, false where there is only the system's address. */
  readonly named: boolean;
  private readonly deps: SourcesDeps;
  private readonly system: Source;
  private readonly pools: Map<string, Source[]>;
  private readonly all: Map<string | null, Source>;
  private readonly isDelivering: boolean;
  /** The name under which blocks of the system's address are stored. */
  private readonly systemName: string;
  private blocks = new Map<string, SourceBlockRow>();
  /** Blocks that are being written, and those that could not be. */
  private readonly unwritten = new Set<SourceBlockRow>();
  private readonly loggedPools = new Set<string>();
  /** The domains, by source and operator's site, that said so since the last accepted mail. */
  private readonly listing = new LRUCache<string, Set<string>>({ max: MOST_LISTING });
  private turn = 0;

  constructor(deps: SourcesDeps, { hostname, settings, node }: SourcesOptions) {
    this.deps = deps;
    this.named = settings.length > 0;
    this.isDelivering = node.isDelivering;
    this.systemName = systemSource(node.isShared ? node.name : null);
    this.system = { name: null, pool: DEFAULT_POOL, ehlo: hostname, ipv4: null, ipv6: null };
    const usable: Source[] = settings.filter((source) => isUsable(source, node.name));
    this.pools = groupBy(usable, ({ pool }) => pool);
    if (!this.pools.has(DEFAULT_POOL)) this.pools.set(DEFAULT_POOL, [this.system]);
    this.all = new Map([...this.pools.values()].flat().map((source) => [source.name, source]));
  }

  /** Returns the pool of that name, or the default pool where it has no sources. */
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

  /** Returns whether the source may send to the site now; with a domain, whether it may send it mail for that one. */
  isFree(name: string | null, site: string, domain: string | null = null): boolean {
    return this.obstacle(name, site, domain) === null;
  }

  /** Returns what keeps all sources of the pool from the site, or from mail for the domain there; null where one may send. */
  heldBy(pool: string, site: string, domain: string | null = null): Hold | null {
    const ofSite = this.heldAt(pool, site, null);
    return ofSite !== null || domain === null ? ofSite : this.heldAt(pool, site, domain);
  }

  private heldAt(pool: string, site: string, domain: string | null): Hold | null {
    const obstacles = this.sourcesOf(pool).map(({ name }) => this.obstacle(name, site, domain));
    const found = obstacles.filter((one) => one !== null);
    if (found.length < obstacles.length) return null;
    const until = found.reduce<number | null>((least, one) => earlier(least, one.until), found[0]?.until ?? null);
    const why = found.map((one) => one.why).join('; ');
    // The time to give up is only extended where the operator alone is the reason.
    const isPaused = found.every(({ by }) => by !== '');
    const since = Math.max(...found.map((one) => one.since));
    const setBy = isPaused ? 'operator' : (found.find(({ by }) => by === '')?.setBy ?? 'us');
    const by = writeMark({ kind: isPaused ? 'paused' : 'pool', pool: this.poolOf(pool), site, domain });
    return { by, since, until, why, setBy };
  }

  /** Reads what earlier runs and other nodes have learnt. */
  async load(): Promise<void> {
    await this.deps.warmUp.load();
    await this.readBlocks();
  }

  /** Reads again what other nodes may have learnt or ended since. */
  async reread(): Promise<void> {
    await this.deps.warmUp.reread();
    await this.readBlocks();
  }

  /** Returns why nothing is sent at all: no source is on this machine. */
  allAway(): Hold | null {
    const found = [...this.all.keys()].map((name) => this.away(name));
    return found.includes(null) ? null : (found[0] ?? null);
  }

  find(name: string | null): Source {
    return this.all.get(name) ?? this.system;
  }

  /** Returns the source to send by, the first of the pool where none may; `last` is preferred, since greylisting expects it again. */
  choose(
    { pool, last }: SourcePreference,
    { site, domain }: { site: string; domain: string | null },
    busy: (source: Source) => number,
  ): Source {
    const candidates = this.sourcesOf(pool);
    const [first = this.system] = candidates;
    if (candidates.length === 1) return first;
    const free = candidates.filter(({ name }) => this.isFree(name, site, domain));
    const before = last === null ? undefined : free.find(({ name }) => name === last);
    if (before !== undefined) return before;
    this.turn = (this.turn + 1) % 1_000_000;
    let best: Source | null = null;
    let least = Infinity;
    // Sources with the same load take turns.
    for (let i = 0; i < free.length; i++) {
      const one = free[(i + this.turn) % free.length] ?? first;
      const load = busy(one);
      if (load < least) [best, least] = [one, load];
    }
    return best ?? first;
  }

  /** Returns the hold of a mark that `heldBy` returned, or null where it has ended. */
  holdOf(by: string): Hold | null {
    const mark = readMark(by);
    return mark?.kind === 'pool' || mark?.kind === 'paused' ? this.heldBy(mark.pool, mark.site, mark.domain) : null;
  }

  /** Counts a mail that is about to be sent; returns false where it may not be sent after all. */
  take(name: string | null, site: string, domain: string | null = null): boolean {
    return this.isFree(name, site, domain) && (name === null || this.deps.warmUp.take(name, site));
  }

  /** Takes back `take` for a mail that was not sent. */
  putBack(name: string | null, site: string): void {
    if (name !== null) this.deps.warmUp.putBack(name, site);
  }

  /** Counts an outcome; returns the block that it begins, or null. `domain` is the recipient domain at an operator's site, else null. */
  note(name: string | null, site: string, outcome: Outcome, domain: string | null = null): SourceBlockRow | null {
    if (name !== null) this.deps.warmUp.note(name, site, outcome);
    if (outcome.kind === 'accepted') this.listing.delete(keyOf({ source: this.storedName(name), site }));
    if (!isBlockListed(outcome) || this.blockOf(name, site) !== null) return null;
    const scope = domain === null || this.isOperators(name, site, domain) ? null : domain;
    const place = placeOf(site, scope);
    return this.blockOf(name, place) === null ? this.block(name, place, outcome.facts.smtpReply ?? '') : null;
  }

  /** Counts a domain at an operator's site that has us on a list. Returns whether enough do for the block to be the operator's own. */
  private isOperators(name: string | null, site: string, domain: string): boolean {
    const key = keyOf({ source: this.storedName(name), site });
    const domains = this.listing.get(key) ?? new Set();
    this.listing.set(key, domains.add(domain));
    if (domains.size < DOMAINS) return false;
    this.listing.delete(key);
    return true;
  }

  complained(name: string, site: string): void {
    this.deps.warmUp.complained(name, site);
  }

  /** Ends the blocks of a source at all sites; returns how many it had. */
  unblock(name: string | null): Promise<number> {
    return this.endBlocks('source', this.storedName(name));
  }

  /** Ends the blocks of all sources at this site. */
  unblockSite(site: string): Promise<number> {
    return this.endBlocks('site', site);
  }

  /** Moves all times by `ms`, by which the clock was set. */
  shift(ms: number): void {
    for (const row of this.blocks.values()) row.until += ms;
  }

  /** Returns the sources that this node sends from. */
  list(): SourceReport[] {
    if (!this.isDelivering) return [];
    return [...this.all.values()].map((source) => ({
      ...source,
      paused: source.name !== null && this.deps.book.ofSource(source.name) !== null,
      absent: [source.ipv4, source.ipv6].filter((ip) => ip !== null && this.deps.absent.has(ip)).map(String),
      blocks: [...this.blocks.values()].filter(
        (row) => row.source === this.storedName(source.name) && row.until > this.deps.clock.now(),
      ),
      warmUp:
        source.name === null
          ? []
          : this.deps.warmUp
              .list(source.name)
              .map(({ site }) => ({ site, ...this.deps.warmUp.today(source.name ?? '', site) })),
    }));
  }

  close(): Promise<void> {
    return this.deps.warmUp.close();
  }

  private async endBlocks(by: 'source' | 'site', value: string): Promise<number> {
    const isOf = (row: SourceBlockRow): boolean => (by === 'site' ? isAt(row.site, value) : row.source === value);
    const keys = [...this.blocks].filter(([, row]) => isOf(row) && row.until > this.deps.clock.now());
    if (by === 'site' && keys.length === 0) return 0;
    const values = by === 'site' ? [...new Set(keys.map(([, row]) => row.site))] : [value];
    await this.deps.db.commit.transact(async (tx) => {
      for (const one of values) await tx.run(`DELETE FROM source_blocks WHERE ${by} = ?`, [one]);
    });
    this.blocks = new Map([...this.blocks].filter(([, row]) => !isOf(row)));
    for (const row of this.unwritten) if (isOf(row)) this.unwritten.delete(row);
    this.listing.clear();
    return keys.length;
  }

  private async readBlocks(): Promise<void> {
    const { blocks } = this;
    const now = this.deps.clock.now();
    const writing = [...this.unwritten].filter(({ until }) => until > now);
    const rows = await this.deps.db.prepared.all<SourceBlockRow>(
      'SELECT * FROM source_blocks WHERE until > ? ORDER BY until DESC LIMIT ?',
      [now, MOST_BLOCKS],
    );
    // One that was begun or ended meanwhile is newer than what was read.
    if (blocks !== this.blocks) return;
    const ours = new Set([...this.all.keys()].map((name) => this.storedName(name)));
    const read = rows.filter(({ source }) => ours.has(source));
    this.blocks = new Map([...read, ...writing].map((row) => [keyOf(row), row]));
  }

  /** Returns the name under which the blocks of a source are stored. */
  private storedName(name: string | null): string {
    return name ?? this.systemName;
  }

  private sourcesOf(pool: string): readonly Source[] {
    return this.pools.get(this.poolOf(pool)) ?? [this.system];
  }

  private blockOf(name: string | null, place: string): SourceBlockRow | null {
    // This is called several times for each mail.
    if (this.blocks.size === 0) return null;
    const block = this.blocks.get(keyOf({ source: this.storedName(name), site: place }));
    return block !== undefined && block.until > this.deps.clock.now() ? block : null;
  }

  /** Returns what keeps a source from a site, or from mail for the domain there; or null. */
  private obstacle(name: string | null, site: string, domain: string | null): Hold | null {
    const paused =
      name === null ? null : (this.deps.book.ofSource(name) ?? this.deps.book.ofLane(laneName(site, name)));
    if (paused !== null) {
      const { id: by, note, until, created_at: since } = paused;
      return {
        by,
        since,
        until,
        why: `there is a hold on the ${paused.scope} ${paused.target}${note === null ? '' : ` (${note})`}`,
      };
    }
    const away = this.away(name);
    if (away !== null) return away;
    const block = this.blockOf(name, site) ?? (domain === null ? null : this.blockOf(name, placeOf(site, domain)));
    if (block !== null)
      return {
        by: '',
        since: block.since,
        until: block.until,
        setBy: 'receiver',
        why: `${block.site} refuses mail from ${name ?? "the system's address"} as listed: "${block.reply}"`,
      };
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

  private block(name: string | null, place: string, reply: string): SourceBlockRow {
    const since = this.deps.clock.now();
    const row: SourceBlockRow = {
      source: this.storedName(name),
      site: place,
      since,
      until: since + BLOCKED_MS,
      reply: reply.slice(0, 200),
    };
    this.blocks = new Map([...this.blocks].filter(([, { until }]) => until > since)).set(keyOf(row), row);
    for (const old of this.unwritten) if (old.until <= since || keyOf(old) === keyOf(row)) this.unwritten.delete(old);
    this.unwritten.add(row);
    this.deps.log.error(
      {
        event: 'source_blocklisted',
        source: name,
        site: place,
        until: new Date(row.until).toISOString(),
        reply: row.reply,
      },
      'a block list keeps a source out: it sends there nothing for an hour',
    );
    this.deps.db.commit
      .transact(async (tx) => {
        await tx.run('DELETE FROM source_blocks WHERE until <= ?', [since]);
        await tx.run(
          `INSERT INTO source_blocks (source, site, since, until, reply) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT (source, site) DO UPDATE SET since = excluded.since, until = excluded.until, reply = excluded.reply`,
          [row.source, row.site, since, row.until, row.reply],
        );
      })
      .then(
        () => this.unwritten.delete(row),
        (error: unknown) => {
          // It stays among the unwritten, as reading the blocks again must not end it.
          this.deps.log.error(
            { event: 'storage_failed', err: error },
            'that a source is on a block list could not be written',
          );
        },
      );
    return row;
  }
}

const MOST_BLOCKS = 10_000;

const keyOf = ({ source, site }: Pick<SourceBlockRow, 'source' | 'site'>): string => `${source} ${site}`;

/** Returns the earlier of two ends; null is never. */
const earlier = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.min(a, b);
