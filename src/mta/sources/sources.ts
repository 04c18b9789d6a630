/**
 * Where mail leaves from. A source is an address of this machine with a name and an EHLO name; sources stand in pools, and a
 * stream names its pool. A lane is a site and a source, so each source has limits of its own at each site. Of a pool's
 * sources the least busy one is taken that may send to the site: not paused, not on a block list there, not at its day's cap
 * of the warm-up. While there is none, the mail waits without an attempt and says why.
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

/** A source and how it stands with the sites, for the operator. */
export interface SourceReport extends Source {
  paused: boolean;
  blocks: SourceBlockRow[];
  /** Today's counts; empty where it is warm. */
  warmUp: { site: string; sent: number; cap: number | null }[];
}

export interface Sources {
  /** Whether there is more than the system's address. */
  readonly named: boolean;
  /** Reads what earlier runs have learnt. */
  load(): Promise<void>;
  find(name: string | null): Source;
  /** The source to send by, the first of the pool where none may; `last` is taken again if it can be (greylisting wants that). */
  choose(wish: Wish, site: string, busy: (source: Source) => number): Source;
  /** Whether it may send to the site now. */
  isFree(name: string | null, site: string): boolean;
  /** What keeps all sources of the pool from the site, or null where one may. */
  heldBy(pool: string, site: string): Hold | null;
  /** What a mark that `heldBy` gave stands for now, or null where it stands no more. */
  holdOf(by: string): Hold | null;
  /** A mail is about to be sent; false where it may not after all. */
  take(name: string | null, site: string): boolean;
  /** It was not sent. */
  putBack(name: string | null, site: string): void;
  /** Gives the block that it means, where it means one. */
  note(name: string | null, site: string, outcome: Outcome): SourceBlockRow | null;
  complained(name: string, site: string): void;
  /** Sites may get mail from it again, whatever their block lists said; gives how many those are. */
  unblock(name: string | null): Promise<number>;
  /** All sources may try this site again. */
  unblockSite(site: string): Promise<number>;
  /** The clock was set to another time, so many ms on. */
  shift(ms: number): void;
  list(): SourceReport[];
  /** Of a stream's pool: itself, or the default pool where it has no sources. */
  poolOf(name: string): string;
  close(): Promise<void>;
}

/** What a mail asks for. */
export interface Wish {
  pool: string;
  /** By which it was tried before, or null. */
  last: string | null;
}

export const DEFAULT_POOL = 'default';
const BLOCKED_MS = 60 * 60_000;
const DAY_MS = 86_400_000;
const MARK = /^(?:pool|paused):([^@]*)@(.*)$/;
/** How a lane is named. */
export const laneName = (site: string, source: string | null): string => (source === null ? site : `${site}/${source}`);

/** Whether a refusal says that our address is on a block list: it names an address, or a public list. */
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
  const toldPools = new Set<string>();
  let turn = 0;

  function poolOf(name: string): string {
    if (pools.has(name)) return name;
    if (!toldPools.has(name) && toldPools.size < 1000) {
      toldPools.add(name);
      log.warn(
        { event: 'pool_missing', pool: name },
        'a stream names a pool without sources: its mail uses the default pool',
      );
    }
    return DEFAULT_POOL;
  }

  const sourcesOf = (pool: string): readonly Source[] => pools.get(poolOf(pool)) ?? [system];

  function blockOf(name: string | null, site: string): SourceBlockRow | null {
    // Asked for each mail, several times.
    if (blocks.size === 0) return null;
    const block = blocks.get(`${name ?? ''} ${site}`);
    return block !== undefined && block.until > clock.now() ? block : null;
  }

  /** What keeps a source from a site. */
  function obstacle(name: string | null, site: string): Hold | null {
    const paused = name === null ? null : (book.ofSource(name) ?? book.ofLane(laneName(site, name)));
    const known = name ?? "the system's address";
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
        why: `${site} refuses mail from ${known} as listed: "${block.reply}"`,
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
    // Only where the operator alone is the reason the time to give up stands still.
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
      // Among equals they take turns.
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

/** The earlier of two ends, of which null is never. */
const earlier = (a: number | null, b: number | null): number | null =>
  a === null ? b : b === null ? a : Math.min(a, b);
