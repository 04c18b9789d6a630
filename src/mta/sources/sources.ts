/**
 * The sources that mail leaves from. A source is an address of this machine with a name and an EHLO name; sources form pools, and a
 * stream names its pool. A lane is a site and a source, so each source has limits of its own at each site. A mail takes the
 * least busy source of its pool that may send to the site: one that is not paused, not on a block list there, and not at the day's
 * cap of its warm-up. While there is none, the mail waits without an attempt, with the reason.
 *
 * Without any setting there is one source: the address that the system chooses. It has no name, and its lanes are named after
 * the site alone.
 */
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { HoldBook } from '../../messages/delivery/hold-book.ts';
import type { Outcome } from '../../messages/delivery/delivery.ts';
import type { Hold } from '../../messages/delivery/holds.ts';
import type { Database } from '../../storage/database.ts';
import type { SourceBlockRow } from '../../storage/tables.ts';
import { laneName } from '../names.ts';
import type { WarmUp } from './warm-up.ts';

export interface Source {
  /** Null for the address that the system chooses. */
  readonly name: string | null;
  readonly pool: string;
  readonly ehlo: string;
  /** Connections over IPv4 come from it; null where none may, or the system chooses (a source without a name). */
  readonly ipv4: string | null;
  readonly ipv6: string | null;
}

/** A source with its blocks and its warm-up, for the operator. */
export interface SourceReport extends Source {
  paused: boolean;
  blocks: SourceBlockRow[];
  /** Today's counts; empty where the source is warm. */
  warmUp: { site: string; sent: number; cap: number | null }[];
}

export interface Sources {
  /** True where sources are configured, false where there is only the system's address. */
  readonly named: boolean;
  /** Reads what earlier runs have learnt. */
  load(): Promise<void>;
  find(name: string | null): Source;
  /** Returns the source to send by, the first of the pool where none may; `last` is preferred, since greylisting expects it again. */
  choose(preference: SourcePreference, site: string, busy: (source: Source) => number): Source;
  /** Tells whether the source may send to the site now. */
  isFree(name: string | null, site: string): boolean;
  /** Returns what keeps all sources of the pool from the site, or null where one may send. */
  heldBy(pool: string, site: string): Hold | null;
  /** Returns the hold of a mark that `heldBy` returned, or null where it has ended. */
  holdOf(by: string): Hold | null;
  /** Counts a mail that is about to be sent; returns false where it may not be sent after all. */
  take(name: string | null, site: string): boolean;
  /** Takes back `take` for a mail that was not sent. */
  putBack(name: string | null, site: string): void;
  /** Counts an outcome; returns the block that it begins, or null. */
  note(name: string | null, site: string, outcome: Outcome): SourceBlockRow | null;
  complained(name: string, site: string): void;
  /** Ends the blocks of a source at all sites; returns how many it had. */
  unblock(name: string | null): Promise<number>;
  /** Ends the blocks of all sources at this site. */
  unblockSite(site: string): Promise<number>;
  /** Moves all times by `ms`, by which the clock was set. */
  shift(ms: number): void;
  list(): SourceReport[];
  /** Returns the pool of that name, or the default pool where it has no sources. */
  poolOf(name: string): string;
  close(): Promise<void>;
}

/** The sources that a mail prefers. */
export interface SourcePreference {
  pool: string;
  /** The source by which it was tried before, or null. */
  last: string | null;
}

export const DEFAULT_POOL = 'default';
const BLOCKED_MS = 60 * 60_000;
const DAY_MS = 86_400_000;
const MARK = /^(?:pool|paused):([^@]*)@(.*)$/;

/** Tells whether a refusal says that our address is on a block list: it names an address, or a public list. */
export const isBlockListed = (outcome: Outcome): boolean =>
  (outcome.kind === 'refused' || outcome.kind === 'deferred') && outcome.grounds?.about === 'block_list';

export interface SourcesDeps {
  db: Pick<Database, 'prepared' | 'commit'>;
  clock: Clock;
  log: Log;
  book: Pick<HoldBook, 'ofSource' | 'ofLane'>;
  warmUp: WarmUp;
}

export function createSources(deps: SourcesDeps, hostname: string, settings: readonly Source[]): Sources {
  const { db, clock, log, book, warmUp } = deps;
  const system: Source = { name: null, pool: DEFAULT_POOL, ehlo: hostname, ipv4: null, ipv6: null };
  const pools = new Map<string, Source[]>();
  for (const source of settings) pools.set(source.pool, [...(pools.get(source.pool) ?? []), source]);
  if (!pools.has(DEFAULT_POOL)) pools.set(DEFAULT_POOL, [system]);
  const all = new Map([...pools.values()].flat().map((source) => [source.name, source]));
  const blocks = new Map<string, SourceBlockRow>();
  const loggedPools = new Set<string>();
  let turn = 0;

  function poolOf(name: string): string {
    if (pools.has(name)) return name;
    if (!loggedPools.has(name) && loggedPools.size < 1000) {
      loggedPools.add(name);
      log.warn(
        { event: 'pool_missing', pool: name },
        'a stream names a pool without sources: its mail uses the default pool',
      );
    }
    return DEFAULT_POOL;
  }

  const sourcesOf = (pool: string): readonly Source[] => pools.get(poolOf(pool)) ?? [system];

  function blockOf(name: string | null, site: string): SourceBlockRow | null {
    // This is called several times for each mail.
    if (blocks.size === 0) return null;
    const block = blocks.get(`${name ?? ''} ${site}`);
    return block !== undefined && block.until > clock.now() ? block : null;
  }

  /** Returns what keeps a source from a site, or null. */
  function obstacle(name: string | null, site: string): Hold | null {
    const paused = name === null ? null : (book.ofSource(name) ?? book.ofLane(laneName(site, name)));
    if (paused !== null) {
      const { id: by, note, until, created_at: since } = paused;
      return {
        by,
        since,
        until,
        why: `the operator holds the ${paused.scope} ${paused.target}${note === null ? '' : ` (${note})`}`,
      };
    }
    const block = blockOf(name, site);
    if (block !== null)
      return {
        by: '',
        since: block.since,
        until: block.until,
        setBy: 'receiver',
        why: `${site} refuses mail from ${name ?? "the system's address"} as listed: "${block.reply}"`,
      };
    if (name === null) return null;
    const { sent, cap } = warmUp.today(name, site);
    if (cap === null || sent < cap) return null;
    const now = clock.now();
    const until = (Math.floor(now / DAY_MS) + 1) * DAY_MS;
    return {
      by: '',
      since: now,
      until,
      setBy: 'us',
      why: `the warm-up of ${name} sends ${site} ${String(cap)} mails today`,
    };
  }

  const isFree = (name: string | null, site: string): boolean => obstacle(name, site) === null;

  function heldBy(pool: string, site: string): Hold | null {
    const obstacles = sourcesOf(pool).map(({ name }) => obstacle(name, site));
    const standing = obstacles.filter((one) => one !== null);
    if (standing.length < obstacles.length) return null;
    const until = standing.reduce<number | null>((least, one) => earlier(least, one.until), standing[0]?.until ?? null);
    const why = standing.map((one) => one.why).join('; ');
    // The time to give up is only extended where the operator alone is the reason.
    const isPaused = standing.every(({ by }) => by !== '');
    const since = Math.max(...standing.map((one) => one.since));
    const setBy = isPaused ? 'operator' : (standing.find(({ by }) => by === '')?.setBy ?? 'us');
    return { by: `${isPaused ? 'paused' : 'pool'}:${poolOf(pool)}@${site}`, since, until, why, setBy };
  }

  function block(name: string | null, site: string, reply: string): SourceBlockRow {
    const since = clock.now();
    const row: SourceBlockRow = {
      source: name ?? '',
      site,
      since,
      until: since + BLOCKED_MS,
      reply: reply.slice(0, 200),
    };
    blocks.set(`${row.source} ${site}`, row);
    log.error(
      { event: 'source_blocklisted', source: name, site, until: new Date(row.until).toISOString(), reply: row.reply },
      'a block list keeps a source out: it sends this site nothing for an hour',
    );
    db.commit
      .transact(async (tx) => {
        await tx.run('DELETE FROM source_blocks WHERE until <= ?', [since]);
        await tx.run(
          `INSERT INTO source_blocks (source, site, since, until, reply) VALUES (?, ?, ?, ?, ?)
           ON CONFLICT (source, site) DO UPDATE SET since = excluded.since, until = excluded.until, reply = excluded.reply`,
          [row.source, site, since, row.until, row.reply],
        );
      })
      .catch((error: unknown) => {
        log.error({ event: 'storage_failed', err: error }, 'that a source is on a block list could not be written');
      });
    if (blocks.size > MOST_BLOCKS) for (const [key, { until }] of blocks) if (until <= since) blocks.delete(key);
    return row;
  }

  return {
    named: settings.length > 0,
    poolOf,
    async load() {
      await warmUp.load();
      for (const row of await db.prepared.all<SourceBlockRow>('SELECT * FROM source_blocks WHERE until > ?', [
        clock.now(),
      ]))
        blocks.set(`${row.source} ${row.site}`, row);
    },
    find: (name) => all.get(name) ?? system,
    choose({ pool, last }, site, busy) {
      const candidates = sourcesOf(pool);
      const [first = system] = candidates;
      if (candidates.length === 1) return first;
      const free = candidates.filter(({ name }) => isFree(name, site));
      const before = last === null ? undefined : free.find(({ name }) => name === last);
      if (before !== undefined) return before;
      turn = (turn + 1) % 1_000_000;
      let best: Source | null = null;
      let least = Infinity;
      // Sources with the same load take turns.
      for (let i = 0; i < free.length; i++) {
        const one = free[(i + turn) % free.length] ?? first;
        const load = busy(one);
        if (load < least) [best, least] = [one, load];
      }
      return best ?? first;
    },
    isFree,
    heldBy,
    holdOf(by) {
      const [, pool, site] = MARK.exec(by) ?? [];
      return pool === undefined || site === undefined ? null : heldBy(pool, site);
    },
    take: (name, site) => isFree(name, site) && (name === null || warmUp.take(name, site)),
    putBack(name, site) {
      if (name !== null) warmUp.putBack(name, site);
    },
    note(name, site, outcome) {
      if (name !== null) warmUp.note(name, site, outcome);
      const isNew = isBlockListed(outcome) && blockOf(name, site) === null;
      return isNew ? block(name, site, outcome.facts.smtpReply ?? '') : null;
    },
    complained(name, site) {
      warmUp.complained(name, site);
    },
    async unblock(name) {
      const keys = [...blocks].filter(([, row]) => row.source === (name ?? '') && row.until > clock.now());
      await db.commit.transact((tx) => tx.run('DELETE FROM source_blocks WHERE source = ?', [name ?? '']));
      for (const [key] of keys) blocks.delete(key);
      return keys.length;
    },
    async unblockSite(site) {
      const keys = [...blocks].filter(([, row]) => row.site === site && row.until > clock.now());
      if (keys.length === 0) return 0;
      await db.commit.transact((tx) => tx.run('DELETE FROM source_blocks WHERE site = ?', [site]));
      for (const [key] of keys) blocks.delete(key);
      return keys.length;
    },
    shift(ms) {
      for (const row of blocks.values()) row.until += ms;
    },
    list: () =>
      [...all.values()].map((source) => ({
        ...source,
        paused: source.name !== null && book.ofSource(source.name) !== null,
        blocks: [...blocks.values()].filter((row) => row.source === (source.name ?? '') && row.until > clock.now()),
        warmUp:
          source.name === null
            ? []
            : warmUp.list(source.name).map(({ site }) => ({ site, ...warmUp.today(source.name ?? '', site) })),
      })),
    close: () => warmUp.close(),
  };
}

const MOST_BLOCKS = 10_000;

/** Returns the earlier of two ends; null is never. */
const earlier = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.min(a, b);
