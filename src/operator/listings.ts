/**
 * Asks block lists about our addresses a few times a day, so that a listing is reported before mail is refused, and its beginning
 * and end can be seen later. The database has only the changes.
 */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Resolver } from '../net/resolver.ts';
import type { Config } from '../config/schema.ts';
import type { Database } from '../storage/database.ts';
import type { ListCheckRow, ListingRow } from '../storage/tables.ts';
import { askLists, type Listing } from './doctor/blocklists.ts';
import { createMachine } from './doctor/machine.ts';
import type { Probes } from './doctor/probes.ts';

export interface ListingDeps {
  db: Pick<Database, 'commit' | 'reader'>;
  clock: Clock;
  log: Pick<Log, 'warn' | 'info'>;
  resolver: Resolver;
  config: Config;
}

const EVERY_MS = 6 * 60 * 60_000;

/** Returns a rule of housekeeping that deletes nothing. `machine` is this machine unless a test passes another. */
export function listingRule(
  deps: ListingDeps,
  machine: Pick<Probes['machine'], 'addresses'> = createMachine(deps.config),
) {
  return {
    name: 'block lists',
    everyMs: EVERY_MS,
    stepRows: Infinity,
    async step(): Promise<number> {
      const { config, resolver } = deps;
      const found = await askLists({ config, resolver, machine: { ...createMachine(config), ...machine } });
      // Behind a NAT our address is that of our name: while DNS does not tell it, the lists were not asked.
      const isUnknown = found.length === 0 && config.doctor.blocklists.length > 0;
      if (isUnknown && (await resolver.a(config.smtp.hostname, { fresh: true })).kind === 'trouble') return 0;
      await keep(deps, found);
      return 0;
    },
  };
}

/** Writes listings that begin and end, and the last answer of each list. The listings of an address that is no longer ours end. */
async function keep({ db, clock, log }: ListingDeps, found: readonly Listing[]): Promise<void> {
  const now = clock.now();
  const open = await db.reader<ListingRow>('listings').whereNull('until');
  const isSame = (a: { ip: string; list: string }) => (b: { ip: string; list: string }) =>
    a.ip === b.ip && a.list === b.list;
  const begun = found.filter((one) => one.state === 'listed' && !open.some(isSame(one)));
  const ended = open.filter((one) => {
    const state = found.find(isSame(one))?.state;
    // No answer does not mean that the address was removed.
    return state === undefined || state === 'clear';
  });
  await db.commit.transact(async (tx) => {
    await tx.run('DELETE FROM list_checks');
    for (const { ip, list, state } of found)
      await tx.run('INSERT INTO list_checks (ip, list, state, at) VALUES (?, ?, ?, ?)', [ip, list, state, now]);
    for (const { ip, list, text } of begun)
      await tx.run('INSERT INTO listings (ip, list, since, until, codes) VALUES (?, ?, ?, NULL, ?)', [
        ip,
        list,
        now,
        text,
      ]);
    for (const { ip, list } of ended)
      await tx.run('UPDATE listings SET until = ? WHERE ip = ? AND list = ? AND until IS NULL', [now, ip, list]);
  });
  for (const { ip, list, text } of begun)
    log.warn(
      { event: 'listed', ip, list, codes: text },
      'a block list has an address of ours: see `posthorn doctor --only blocklists`',
    );
  for (const { ip, list } of ended)
    log.info({ event: 'unlisted', ip, list }, 'a block list has let go of an address of ours');
}

/** Returns listings that were open at or after `since`, in the order of time, and the last answer of each list. */
export async function readListings(
  { reader: read }: Pick<Database, 'reader'>,
  since: number,
): Promise<{ listings: ListingRow[]; checks: ListCheckRow[] }> {
  const [listings, checks] = await Promise.all([
    read<ListingRow>('listings')
      .where((either) => void either.whereNull('until').orWhere('until', '>=', since))
      .orderBy(['since', 'ip', 'list'])
      .limit(MOST_LISTINGS),
    read<ListCheckRow>('list_checks').orderBy(['ip', 'list']).limit(MOST_LISTINGS),
  ]);
  return { listings, checks };
}

const MOST_LISTINGS = 500;
