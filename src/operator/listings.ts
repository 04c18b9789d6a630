/** Asks block lists about our addresses a few times a day: listings are reported before mail is refused. The database has begin and end only. */
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { HOUR_MS } from '../base/time.ts';
import type { Resolver } from '../net/resolver.ts';
import type { Config } from '../config/schema.ts';
import type { Database } from '../storage/database.ts';
import { statement } from '../storage/sql.ts';
import type { ListCheckRow, ListingRow } from '../storage/tables.ts';
import { figuresOf, serversOf, type Figures, type FiguresDeps } from './node-figures.ts';
import { askLists, type Listing, outsideAddresses } from './doctor/name.ts';
import { createMachine, type Probes } from './doctor/probes.ts';

interface AddressNeeds {
  config: Config;
  resolver: Resolver;
  /** This machine, unless a test passes another. */
  machine?: Pick<Probes['machine'], 'addresses'>;
}

/** The public addresses of a node; null if its DNS does not tell them now: behind a NAT they are those of its name. */
export const addressFigures: Figures<AddressNeeds, readonly string[] | null> = {
  name: 'addresses',
  everyMs: HOUR_MS,
  async read({ config, resolver, machine }) {
    const found = await outsideAddresses({ config, resolver, machine: { ...createMachine(config), ...machine } });
    const isTold = found.length > 0 || (await resolver.a(config.smtp.hostname, { fresh: true })).kind !== 'trouble';
    return [['', isTold ? found : null]];
  },
};

export interface ListingDeps extends AddressNeeds, FiguresDeps {
  db: Pick<Database, 'commit' | 'reader' | 'prepared'>;
  clock: Clock;
  log: Pick<Log, 'warn' | 'info'>;
}

const EVERY_MS = 6 * HOUR_MS;

/** Returns a rule of housekeeping that deletes nothing. */
export function listingRule(deps: ListingDeps) {
  return {
    name: 'block lists',
    everyMs: EVERY_MS,
    async step(): Promise<number> {
      const { addresses, isWhole } = await addressesOfNodes(deps);
      await keep(deps, await askLists(deps, addresses), isWhole);
      return 0;
    },
  };
}

/** Returns the addresses of all nodes that deliver; `isWhole` is false if one of them has not told its own. */
async function addressesOfNodes(deps: ListingDeps): Promise<{ addresses: readonly string[]; isWhole: boolean }> {
  const delivering = serversOf(deps.nodes).filter(({ isDelivering }) => isDelivering);
  const shown = new Map((await figuresOf(deps, addressFigures)).map(({ epoch, value }) => [epoch, value]));
  const told = delivering.map(({ epoch }) => shown.get(epoch) ?? null);
  return { addresses: [...new Set(told.flatMap((one) => one ?? []))], isWhole: !told.includes(null) };
}

const dropChecks = statement(({ among }) => `DELETE FROM list_checks WHERE ip ${among('text')}`);

/** Writes listings that begin or end, and each list's last answer. If all our addresses are known, listings of former ones end. */
async function keep({ db, clock, log }: ListingDeps, found: readonly Listing[], isWhole: boolean): Promise<void> {
  const now = clock.now();
  const open = await db.reader<ListingRow>('listings').whereNull('until');
  const isSame = (a: { ip: string; list: string }) => (b: { ip: string; list: string }) =>
    a.ip === b.ip && a.list === b.list;
  const begun = found.filter((one) => one.state === 'listed' && !open.some(isSame(one)));
  const ended = open.filter((one) => {
    const state = found.find(isSame(one))?.state;
    // No answer does not mean that the address was removed.
    return state === undefined ? isWhole : state === 'clear';
  });
  await db.commit.transact(async (tx) => {
    if (isWhole) await tx.run('DELETE FROM list_checks');
    else await tx.run(dropChecks, [JSON.stringify(found.map(({ ip }) => ip))]);
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
