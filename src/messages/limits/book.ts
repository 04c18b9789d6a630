/**
 * The limits that stand, in memory, and their rows in the table `limits`. A limit that an answer changes is written with the next outcome that a
 * worker records, which is that of the answer; what a person sets is written at once. Other nodes are told, and read what changed; a start reads
 * all. What has ended keeps its row for a while, from which other nodes read that.
 */
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import { MINUTE_MS } from '../../base/time.ts';
import { Problem } from '../../base/problem.ts';
import type { Recorder } from '../delivery/record.ts';
import type { Connection } from '../../storage/connection.ts';
import type { Database } from '../../storage/database.ts';
import { insertRows, type Rows } from '../../storage/rows.ts';
import { systemSource, type LimitRow } from '../../storage/tables.ts';
import { LimitCounts, MOST_READ, type CountRules } from './counts.ts';
import {
  ANY_SOURCE,
  EVERYWHERE,
  holds,
  isClosing,
  isInForce,
  isOfPart,
  isWhole,
  keyOf,
  placeOfLane,
  stands,
  type About,
  type Limit,
  type LimitKind,
  type MailFacts,
} from './limit.ts';

export interface LimitBookDeps {
  db: Pick<Database, 'prepared' | 'commit'>;
  clock: Clock;
  log: Pick<Log, 'error'>;
  /** Tells other nodes that limits were written. */
  announce: () => void;
  /** Is called when limits that are set by hand have changed here. */
  changed: () => void;
}

/** Limits and evidence in memory; the ones that changed longest ago are forgotten first. */
const MOST_LIMITS = 50_000;
const MOST_ROWS = 20_000;
/** Set by hand: a person must be able to look through them. */
const MOST_BY_HAND = 10_000;
/** The clocks of nodes differ by less. */
const SLACK_MS = MINUTE_MS;
const ALL_DOMAINS = '';
const placeOf = ({ site, source }: Pick<About, 'site' | 'source'>): string => `${source} ${site}`;
/** The place of what names neither a site nor a source, and is found by the mail. */
const OF_MAIL = placeOf({ site: EVERYWHERE, source: ANY_SOURCE });

/** By recipient domain (of holds on mail: the narrowest thing that each names), then by key. `version` is another one after each change. */
interface Place {
  version: number;
  readonly parts: Map<string, Map<string, Limit>>;
}

export type PlaceLimits = ReturnType<LimitBook['at']>;

export class LimitBook {
  private readonly deps: LimitBookDeps;
  /** The name of this node if each has a system's address of its own; else null. */
  private readonly node: string | null;
  readonly counts: LimitCounts;
  /** By source and site. */
  private readonly places = new Map<string, Place>();
  private versions = 0;
  private readonly order: LRUCache<string, Limit>;
  /** Limits that are set by hand, by id. */
  private readonly byHand = new Map<string, Limit>();
  private readonly unwritten = new Map<string, Limit>();
  private readAt = 0;

  constructor(
    deps: LimitBookDeps,
    { node, nodes = () => 1, rules }: { node: string | null; nodes?: () => number; rules?: CountRules },
  ) {
    this.deps = deps;
    const failed = (err: unknown): void =>
      deps.log.error({ event: 'storage_failed', err }, 'the counts of limits could not be read');
    this.counts = new LimitCounts({ db: deps.db, clock: deps.clock, nodes, failed }, rules);
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

  /**
   * Returns the limits and the evidence of a site from one source, of the source at every site and of the site, as they are whenever it is asked.
   * Each mail asks several times: those that are about no single domain are found again only after a change.
   */
  at(site: string, source: string, operator: string | null = null) {
    const { clock } = this.deps;
    const about = { site, source };
    const names = [about, { site: EVERYWHERE, source }, { site, source: ANY_SOURCE }].map(placeOf);
    const counting = (): readonly Limit[] => this.counts.limitsAt(about, operator);
    const none: readonly Limit[] = [];
    const whole = { limits: none, counting: none, version: -1, endsAt: 0 };
    return {
      get: this.get,
      all: (): Limit[] => [...this.listAt(names, null).filter((limit) => this.isInForce(limit)), ...counting()],
      /** Returns those that may cover mail to this domain; null for those that are about no single domain. An operator's lane has thousands of others. */
      of: (domain: string | null): readonly Limit[] => {
        const own: Limit[] = [];
        // Versions only grow, also of a place that is made again: their sum with their number is another one after each change.
        let version = 4 * this.counts.version;
        for (const name of names) {
          const place = this.places.get(name);
          if (place === undefined) continue;
          version += 4 * place.version + 1;
          const found = domain === null ? undefined : place.parts.get(domain);
          if (found !== undefined) own.push(...found.values());
        }
        if (version !== whole.version || whole.endsAt <= clock.now()) {
          const limits = this.listAt(names, ALL_DOMAINS).filter((limit) => this.isInForce(limit));
          const ends = limits.flatMap(({ by, until }) => (by === 'operator' && until > 0 ? until : []));
          whole.counting = counting();
          whole.limits = [...limits, ...whole.counting.filter((limit) => limit.domain === null)];
          whole.version = version;
          whole.endsAt = Math.min(Infinity, ...ends);
        }
        for (const limit of whole.counting) if (domain !== null && limit.domain === domain) own.push(limit);
        return own.length === 0 ? whole.limits : [...whole.limits, ...own];
      },
    };
  }

  readonly get = (key: string): Limit | undefined => this.order.peek(key);

  /** Returns the hold on this mail, or null: the narrowest first. */
  holdOn(mail: MailFacts): Limit | null {
    const holdsOnMail = this.places.get(OF_MAIL);
    if (holdsOnMail === undefined) return null;
    for (const part of partsOf(mail))
      for (const limit of holdsOnMail.parts.get(part)?.values() ?? [])
        if (limit.kind === 'hold' && holds(limit, mail) && this.isInForce(limit)) return limit;
    return null;
  }

  /** Returns the hold of a lane, or null. It holds the whole lane, later mail as well. */
  ofLane(lane: string): Limit | null {
    const { site, source } = placeOfLane(lane);
    return this.byHandAt(site, source ?? ANY_SOURCE, 'hold')[0] ?? null;
  }

  ofSource(source: string): Limit | null {
    return this.byHandAt(EVERYWHERE, source, 'hold')[0] ?? null;
  }

  limitOf(lane: string): Limit | null {
    const { site, source } = placeOfLane(lane);
    return this.byHandAt(site, source ?? ANY_SOURCE, 'limit').find(isWhole) ?? null;
  }

  has(id: string): boolean {
    const limit = this.byHand.get(id);
    return limit !== undefined && this.isInForce(limit);
  }

  listByHand(): Limit[] {
    return [...this.byHand.values()]
      .filter((limit) => this.isInForce(limit))
      .sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  }

  /** Writes what a person sets, in one transaction with `others`. A limit replaces the last one of its part. Throws `invalid_state` for too many. */
  async add(limit: Limit, others: Rows = {}): Promise<void> {
    for (const [id, one] of this.byHand) if (!this.isInForce(one)) this.remove(id, one);
    const all = this.listByHand();
    if (all.length >= MOST_BY_HAND)
      throw new Problem('invalid_state', `There are ${String(MOST_BY_HAND)} holds already. Release some first.`);
    const { kind, changedAt, id, site, source, domain, account, stream } = limit;
    const replaced = kind === 'limit' ? all.filter((one) => one.kind === kind && isOfPart(one, limit)) : [];
    const over = replaced.filter((one) => one.id !== id).map((one) => ended(one, changedAt));
    await this.writeByHand([...over, limit], others, async (tx) => {
      // Another node may have set one that is not in memory here yet.
      if (kind === 'limit')
        await tx.run(
          `UPDATE limits SET ended = 1, changed_at = ? WHERE kind = 'limit' AND ended = 0 AND site = ? AND source = ?
           AND COALESCE(domain, '') = ? AND COALESCE(account, '') = ? AND COALESCE(stream, '') = ?`,
          [changedAt, site, source, domain ?? '', account ?? '', stream ?? ''],
        );
    });
  }

  async endByHand(ids: readonly string[], others: Rows = {}): Promise<void> {
    const now = this.deps.clock.now();
    const found = ids.flatMap((id) => this.byHand.get(id) ?? []);
    await this.writeByHand(
      found.map((limit) => ended(limit, now)),
      others,
    );
  }

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
      this.remove(key, limit);
      if (isKept(limit)) this.unwritten.set(key, ended(limit, this.deps.clock.now()));
    }
  }

  /** Forgets what was not worth writing of a lane that has no mail. */
  forget(site: string, source: string): void {
    const place = this.places.get(placeOf({ site, source }));
    for (const [key, limit] of [...(place?.parts.values() ?? [])].flatMap((of) => [...of]))
      if (limit.by !== 'operator' && !isKept(limit)) this.remove(key, limit);
  }

  /** Returns a recorder that writes the limits which have changed in the commit of the outcomes. */
  with({ record }: Pick<Recorder, 'record'>): Pick<Recorder, 'record'> {
    return {
      record: (occurrences, rows) =>
        !this.hasUnwritten || rows !== undefined
          ? record(occurrences, rows)
          : this.writeBy((limits) => record(occurrences, limits)),
    };
  }

  async write(): Promise<void> {
    const { db, log } = this.deps;
    if (!this.hasUnwritten) return;
    await this.writeBy((limits) => db.commit.transact((tx) => insertRows(tx, [limits]))).catch((err: unknown) =>
      log.error(
        { event: 'storage_failed', err },
        'limits could not be written: they are written with the next outcome',
      ),
    );
  }

  private get hasUnwritten(): boolean {
    return this.unwritten.size > 0 || this.counts.hasUnwritten;
  }

  private async writeBy<Result>(commit: (limits: Rows) => Promise<Result>): Promise<Result> {
    const some = [...this.unwritten];
    const counts = this.counts.takeUnwritten();
    this.unwritten.clear();
    try {
      const result = await commit({ limits: some.map(([, limit]) => rowOf(limit)), limit_counts: counts });
      this.counts.written(counts, true);
      if (some.length > 0) this.deps.announce();
      return result;
    } catch (error) {
      this.counts.written(counts, false);
      for (const [key, limit] of some) if (!this.unwritten.has(key)) this.unwritten.set(key, limit);
      throw error;
    }
  }

  /** Reads what earlier runs and other nodes have learnt. */
  async load(): Promise<void> {
    for (const row of await this.deps.db.prepared.all<LimitRow>(
      "SELECT * FROM limits WHERE set_by = 'operator' AND ended = 0",
    ))
      this.take(row.id, limitOf(row));
    await this.read(0);
    this.recount();
    await this.counts.read();
  }

  /** Reads what other nodes have changed since the last time. Returns the limits that are others now. */
  async reread(): Promise<readonly Limit[]> {
    await this.counts.read(1, MOST_READ);
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
      const known = this.order.peek(key) ?? this.byHand.get(key);
      // An end within the same millisecond counts.
      const isOld = known !== undefined && known.changedAt - row.ended >= limit.changedAt;
      if (this.unwritten.has(key) || isOld) continue;
      if (row.ended === 0) this.take(key, limit);
      else if (known === undefined) continue;
      else this.remove(key, known);
      changed.push(limit);
    }
    if (changed.some(({ kind }) => kind === 'limit')) this.recount();
    return changed;
  }

  private recount(): void {
    this.counts.setByHand([...this.byHand.values()].filter(({ kind }) => kind === 'limit'));
  }

  private async writeByHand(
    limits: readonly Limit[],
    others: Rows,
    before: (tx: Connection) => Promise<void> = () => Promise.resolve(),
  ): Promise<void> {
    const { db, announce, changed } = this.deps;
    await db.commit.transact(async (tx) => {
      await before(tx);
      await insertRows(tx, [{ limits: limits.map(rowOf) }, others]);
    });
    for (const limit of limits) {
      const known = this.byHand.get(keyOf(limit));
      if (known !== undefined) this.remove(keyOf(limit), known);
      if (limit.step !== ENDED) this.take(keyOf(limit), limit);
    }
    this.recount();
    announce();
    changed();
  }

  /** Returns the limits of these places: of one part, or of all. */
  private listAt(names: readonly string[], part: string | null): Limit[] {
    const parts = names.flatMap((name) => this.places.get(name)?.parts ?? []);
    return parts
      .flatMap((of) => (part === null ? [...of.values()] : (of.get(part) ?? [])))
      .flatMap((of) => [...of.values()]);
  }

  private byHandAt(site: string, source: string, kind: LimitKind): Limit[] {
    const place = this.places.get(placeOf({ site, source }))?.parts.get(ALL_DOMAINS);
    return [...(place?.values() ?? [])].filter((limit) => limit.kind === kind && this.isInForce(limit));
  }

  private isInForce(limit: Limit): boolean {
    return isInForce(limit, this.deps.clock.now());
  }

  private remove(key: string, limit: Limit): void {
    this.order.delete(key);
    this.byHand.delete(key);
    this.drop(key, limit);
  }

  private take(key: string, limit: Limit): void {
    if (limit.by !== 'operator') this.order.set(key, limit);
    else this.byHand.set(key, limit);
    const name = placeOf(limit);
    const place = this.places.get(name) ?? { version: 0, parts: new Map<string, Map<string, Limit>>() };
    place.version = ++this.versions;
    this.places.set(name, place);
    const own = place.parts.get(partOf(limit));
    if (own === undefined) place.parts.set(partOf(limit), new Map([[key, limit]]));
    else own.set(key, limit);
  }

  private drop(key: string, limit: Limit): void {
    const name = placeOf(limit);
    const place = this.places.get(name);
    if (place === undefined) return;
    place.version = ++this.versions;
    const own = place.parts.get(partOf(limit));
    own?.delete(key);
    if (own?.size === 0) place.parts.delete(partOf(limit));
    if (place.parts.size === 0) this.places.delete(name);
  }
}

/** Returns the recipient domain that a limit is about, or of a hold on mail the narrowest thing that it names. */
function partOf(limit: Limit): string {
  if (placeOf(limit) !== OF_MAIL) return limit.domain ?? ALL_DOMAINS;
  const { message, batch, key, stream, account, domain } = limit;
  if (message !== null) return `message ${message}`;
  if (batch !== null) return `batch ${batch}`;
  if (key !== null) return `key ${key}`;
  if (stream !== null) return `stream ${stream}`;
  if (domain !== null) return `domain ${domain}`;
  return account === null ? 'all' : `account ${account}`;
}

/** Returns what a hold on this mail can name. */
const partsOf = ({ messageId, batchId, keyId, accountId, stream, domain }: MailFacts): string[] => [
  `message ${messageId}`,
  ...(batchId === null ? [] : [`batch ${batchId}`]),
  ...(keyId === null ? [] : [`key ${keyId}`]),
  `stream ${stream}`,
  `domain ${domain}`,
  `account ${accountId}`,
  'all',
];

/** Returns whether a limit is worth a row: a receiver or a rule has set it, and the next start could not know it. */
const isKept = (limit: Limit): boolean =>
  stands(limit) && (isClosing(limit) || limit.kind === 'rate' || limit.ceiling !== null);

/** A limit that has ended; its row is removed later. */
const ENDED = -2;
const end = { until: 0, step: ENDED };
const ended = (limit: Limit, now: number): Limit => ({ ...limit, ...end, changedAt: Math.max(now, limit.changedAt) });

export function rowOf(limit: Limit): LimitRow {
  const { id: _, by, perMinute, knownPerMinute, perHour, perDay, changedAt, refusedAt, ...others } = limit;
  const { message, batch, key, catchesNew, evidence: __, quota: ___, ...same } = others;
  return {
    ...same,
    id: keyOf(limit),
    set_by: by,
    per_minute: perMinute,
    known_per_minute: knownPerMinute,
    per_hour: perHour,
    per_day: perDay,
    changed_at: changedAt,
    refused_at: refusedAt,
    message_id: message,
    batch_id: batch,
    key_id: key,
    catches_new: catchesNew ? 1 : 0,
    ended: limit.step === ENDED ? 1 : 0,
  };
}

function limitOf(row: LimitRow): Limit {
  const { id, set_by: by, per_minute: perMinute, known_per_minute: knownPerMinute, ...others } = row;
  const { changed_at: changedAt, refused_at: refusedAt, message_id: message, batch_id: batch, ...rest } = others;
  const { key_id: key, catches_new: catchesNew, per_hour: perHour, per_day: perDay, ended: _, ...same } = rest;
  return {
    ...same,
    ...{ by, perMinute, knownPerMinute, perHour, perDay, changedAt, refusedAt, message, batch, key },
    id: by === 'operator' ? id : null,
    catchesNew: catchesNew === 1,
    quota: null,
    evidence: null,
  };
}
