/**
 * The limits that stand, in memory by lane, and their rows in the table `limits`. A limit that changes is written with the next outcome that a
 * worker records, which is that of the answer that taught it. Other nodes are told, and read what changed; a start reads all.
 */
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { MINUTE_MS } from '../../base/time.ts';
import type { Recorder } from '../../messages/delivery/record.ts';
import type { Database } from '../../storage/database.ts';
import { insertRows } from '../../storage/rows.ts';
import { systemSource, type LimitRow } from '../../storage/tables.ts';
import { isClosing, keyOf, stands, type About, type Limit, type LimitKind } from './limit.ts';

export interface LimitBookDeps {
  db: Pick<Database, 'prepared' | 'commit'>;
  clock: Clock;
  log: Pick<Log, 'error'>;
  /** Tells other nodes that limits were written. */
  announce: () => void;
}

/** Limits and evidence in memory; the ones that changed longest ago are forgotten first. */
const MOST_LIMITS = 50_000;
const MOST_ROWS = 20_000;
/** The clocks of nodes differ by less. */
const SLACK_MS = MINUTE_MS;
/** Every site. */
const EVERYWHERE = '';

/** Limits of a site from one source, by the recipient domain that they are about (none: the empty name) and their keys. */
type Place = ReadonlyMap<string, ReadonlyMap<string, Limit>>;
const nothing: Place = new Map();
const ALL_DOMAINS = '';
const domainOf = ({ domain }: Pick<About, 'domain'>): string => domain ?? ALL_DOMAINS;
const placeOf = ({ site, source }: Pick<About, 'site' | 'source'>): string => `${source} ${site}`;

/** The limits that cover the mail of a site from one source. */
export class PlaceLimits {
  private readonly byKey: Pick<LRUCache<string, Limit>, 'peek'>;
  private readonly places: ReadonlyMap<string, Place>;
  private readonly names: readonly string[];

  constructor(
    byKey: Pick<LRUCache<string, Limit>, 'peek'>,
    places: ReadonlyMap<string, Place>,
    names: readonly string[],
  ) {
    this.byKey = byKey;
    this.places = places;
    this.names = names;
  }

  /** How many there are; of those about single domains, how many domains at least. */
  get size(): number {
    const sizeOf = (place: Place): number => Math.max(place.size, place.get(ALL_DOMAINS)?.size ?? 0);
    return this.names.reduce((sum, name) => sum + sizeOf(this.places.get(name) ?? nothing), 0);
  }

  /** Returns one of these limits by its key. */
  get(key: string): Limit | undefined {
    return this.byKey.peek(key);
  }

  all(): Limit[] {
    return this.names.flatMap((name) =>
      [...(this.places.get(name) ?? nothing).values()].flatMap((of) => [...of.values()]),
    );
  }

  /** Returns those that may cover mail to this domain; null for those that are about no single domain. An operator's lane has thousands of others. */
  of(domain: string | null): Limit[] {
    const found: Limit[] = [];
    for (const name of this.names) {
      const place = this.places.get(name);
      if (place === undefined) continue;
      for (const limit of place.get(ALL_DOMAINS)?.values() ?? []) found.push(limit);
      if (domain !== null) for (const limit of place.get(domain)?.values() ?? []) found.push(limit);
    }
    return found;
  }
}

export class LimitBook {
  private readonly deps: LimitBookDeps;
  /** The name of this node if each has a system's address of its own; else null. */
  private readonly node: string | null;
  private readonly places = new Map<string, Map<string, Map<string, Limit>>>();
  private readonly order: LRUCache<string, Limit>;
  private readonly unwritten = new Map<string, Limit>();
  private readAt = 0;

  constructor(deps: LimitBookDeps, { node }: { node: string | null }) {
    this.deps = deps;
    this.node = node;
    this.order = new LRUCache({
      max: MOST_LIMITS,
      dispose: (limit, key, why) => why === 'evict' && this.drop(key, limit),
    });
  }

  /** Returns the name under which limits of a source are stored; null is the system's address. */
  storedName(source: string | null): string {
    return source ?? systemSource(this.node);
  }

  /** Returns the limits and the evidence of a site from one source, and those of the source at every site, as they are whenever it is asked. */
  at(site: string, source: string): PlaceLimits {
    return new PlaceLimits(this.order, this.places, [placeOf({ site, source }), placeOf({ site: EVERYWHERE, source })]);
  }

  /** Returns the limits of this kind that stand. */
  ofKind(kind: LimitKind): Limit[] {
    return [...this.order.values()].filter((limit) => limit.kind === kind && stands(limit));
  }

  put(limits: readonly Limit[]): void {
    for (const limit of limits) {
      const key = keyOf(limit);
      const before = this.order.peek(key);
      this.take(key, limit);
      if (isKept(limit)) this.unwritten.set(key, limit);
      else if (before !== undefined && isKept(before)) this.unwritten.set(key, ended(before, this.deps.clock.now()));
    }
  }

  end(limits: readonly Limit[]): void {
    for (const limit of limits) {
      const key = keyOf(limit);
      this.order.delete(key);
      this.drop(key, limit);
      if (isKept(limit)) this.unwritten.set(key, ended(limit, this.deps.clock.now()));
    }
  }

  /** Forgets what was not worth writing of a lane that has no mail. */
  forget(site: string, source: string): void {
    const place = this.places.get(placeOf({ site, source })) ?? nothing;
    for (const [key, limit] of [...place.values()].flatMap((of) => [...of]))
      if (!isKept(limit)) {
        this.order.delete(key);
        this.drop(key, limit);
      }
  }

  /** Returns a recorder that writes the limits which have changed in the commit of the outcomes. */
  with({ record }: Pick<Recorder, 'record'>): Pick<Recorder, 'record'> {
    return {
      record: async (occurrences, rows) => {
        if (this.unwritten.size === 0 || rows !== undefined) return record(occurrences, rows);
        const some = this.takeUnwritten();
        try {
          const recorded = await record(occurrences, { limits: some.map(rowOf) });
          this.deps.announce();
          return recorded;
        } catch (error) {
          for (const limit of some) if (!this.unwritten.has(keyOf(limit))) this.unwritten.set(keyOf(limit), limit);
          throw error;
        }
      },
    };
  }

  /** Writes what has changed, if no outcome is recorded. */
  async write(): Promise<void> {
    const { db, log, announce } = this.deps;
    if (this.unwritten.size === 0) return;
    const some = this.takeUnwritten();
    try {
      await db.commit.transact((tx) => insertRows(tx, [{ limits: some.map(rowOf) }]));
      announce();
    } catch (err) {
      for (const limit of some) if (!this.unwritten.has(keyOf(limit))) this.unwritten.set(keyOf(limit), limit);
      log.error(
        { event: 'storage_failed', err },
        'limits could not be written: they are written with the next outcome',
      );
    }
  }

  /** Reads what earlier runs and other nodes have learnt. */
  async load(): Promise<void> {
    await this.read(0);
  }

  /** Reads what other nodes have changed since the last time. Returns the limits that are others now. */
  reread(): Promise<readonly Limit[]> {
    return this.read(this.readAt - SLACK_MS);
  }

  /** Moves all times by `ms`, by which the clock was set. */
  shift(ms: number): void {
    for (const [key, limit] of [...this.order.entries()]) {
      const { until, since, changedAt, refusedAt } = limit;
      this.take(key, {
        ...limit,
        until: until === 0 ? 0 : until + ms,
        since: since + ms,
        changedAt: changedAt + ms,
        refusedAt: refusedAt === 0 ? 0 : refusedAt + ms,
      });
    }
  }

  private async read(since: number): Promise<readonly Limit[]> {
    const rows = await this.deps.db.prepared.all<LimitRow>(
      'SELECT * FROM limits WHERE changed_at > ? ORDER BY changed_at DESC LIMIT ?',
      [since, MOST_ROWS],
    );
    const changed: Limit[] = [];
    for (const row of rows.reverse()) {
      const limit = limitOf(row);
      const key = keyOf(limit);
      this.readAt = Math.max(this.readAt, limit.changedAt);
      const known = this.order.peek(key);
      if (this.unwritten.has(key) || (known !== undefined && known.changedAt >= limit.changedAt)) continue;
      if (row.ended === 0) this.take(key, limit);
      else if (known === undefined) continue;
      else {
        this.order.delete(key);
        this.drop(key, known);
      }
      changed.push(limit);
    }
    return changed;
  }

  private take(key: string, limit: Limit): void {
    this.order.set(key, limit);
    const name = placeOf(limit);
    const place = this.places.get(name) ?? new Map<string, Map<string, Limit>>();
    this.places.set(name, place);
    const domain = domainOf(limit);
    const own = place.get(domain);
    if (own === undefined) place.set(domain, new Map([[key, limit]]));
    else own.set(key, limit);
  }

  private drop(key: string, limit: Limit): void {
    const name = placeOf(limit);
    const place = this.places.get(name);
    const own = place?.get(domainOf(limit));
    own?.delete(key);
    if (own?.size === 0) place?.delete(domainOf(limit));
    if (place?.size === 0) this.places.delete(name);
  }

  private takeUnwritten(): Limit[] {
    const some = [...this.unwritten.values()];
    this.unwritten.clear();
    return some;
  }
}

/** Returns whether a limit is worth a row: a receiver or a rule has set it, and the next start could not know it. */
const isKept = (limit: Limit): boolean =>
  stands(limit) && (isClosing(limit) || limit.kind === 'rate' || limit.ceiling !== null);

/** A limit that has ended; its row is removed later. */
const ended = (limit: Limit, now: number): Limit => ({ ...limit, until: 0, step: ENDED, changedAt: now });
const ENDED = -2;

const rowOf = (limit: Limit): LimitRow => ({
  id: keyOf(limit),
  kind: limit.kind,
  site: limit.site,
  source: limit.source,
  domain: limit.domain,
  account: limit.account,
  set_by: limit.by,
  connections: limit.connections,
  ceiling: limit.ceiling,
  per_minute: limit.perMinute,
  known_per_minute: limit.knownPerMinute,
  until: limit.until,
  step: limit.step,
  since: limit.since,
  changed_at: limit.changedAt,
  refused_at: limit.refusedAt,
  cause: limit.cause,
  ended: limit.step === ENDED ? 1 : 0,
});

const limitOf = (row: LimitRow): Limit => ({
  kind: row.kind,
  site: row.site,
  source: row.source,
  domain: row.domain,
  account: row.account,
  by: row.set_by,
  connections: row.connections,
  ceiling: row.ceiling,
  perMinute: row.per_minute,
  knownPerMinute: row.known_per_minute,
  until: row.until,
  step: row.step,
  since: row.since,
  changedAt: row.changed_at,
  refusedAt: row.refused_at,
  cause: row.cause,
  evidence: null,
});
