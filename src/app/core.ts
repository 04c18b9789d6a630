/**
 * The core of the program: settings, time, log, secrets, database, the other nodes, and the notifiers that join them. It is opened first and
 * closed last.
 */
import path from 'node:path';
import type { BudgetName } from '../base/budgets.ts';
import { systemClock, type Clock } from '../base/clock.ts';
import { openKeyring, type Keyring } from '../base/keyring.ts';
import { createLog, type Log, type RootLog } from '../base/log.ts';
import { MINUTE_MS } from '../base/time.ts';
import type { BounceRule } from '../config/bounce-rule.ts';
import { readBounceRules, readScanners } from '../config/data-file.ts';
import type { Config } from '../config/schema.ts';
import { digestsOf } from '../config/shared-settings.ts';
import { createJudge, type Judge } from '../messages/delivery/classify.ts';
import type { DueHint } from '../messages/delivery/due-hint.ts';
import { RECORD_CHANGE } from '../messages/delivery/record.ts';
import { createOwnAddresses } from '../net/own-addresses.ts';
import { createResolver, type Resolver } from '../net/resolver.ts';
import { ensureDefaultAccount } from '../accounts/account-store.ts';
import { copyBeforeMigration } from '../operator/door/before-migration.ts';
import { createMeters, type Meters } from '../operator/metrics/meters.ts';
import { requireKeys, requireSharedKey } from '../operator/sealed-secrets.ts';
import { Unavailable } from '../base/unavailable.ts';
import { Allowance } from '../scheduling/allowance.ts';
import { createNotifier } from '../scheduling/notifier.ts';
import { isStorageTrouble } from '../storage/commit.ts';
import { beginEpoch, databaseFile, openDatabase, type Database } from '../storage/database.ts';
import { loneNode, WRONG_CLOCK_MS, wrongClock, type Nodes, type NodeSelf } from '../storage/nodes.ts';
import { Owners } from '../storage/owners.ts';
import { createBotOf } from '../tracking/bots.ts';
import { version } from '../version.ts';
import type { Change } from './changes.ts';
import { createFatal, type Fatal } from './fatal.ts';
import { joinNotifiers } from './node-notifiers.ts';

/** The parts of the program that tests replace. A part that is left out is the real one. */
export interface Overrides {
  clock?: Clock;
  log?: Log | RootLog;
  /** Reads the settings again, as a reload does; those of the start if absent. Throws ConfigError. */
  readSettings?: () => Config;
  resolver?: Resolver;
  random?: () => number;
  /** PEM certificates that mail hosts may chain to. */
  ca?: string;
  /** Port of the web servers that MTA-STS policies are fetched from. */
  stsPort?: number;
  /** The flags that Node.js has. */
  nodeFlags?: ReadonlySet<string>;
}

/** The settings that a reload replaces while the program runs. */
export interface Live {
  config: Config;
  /** The operator's own bounce rules. */
  rules: readonly BounceRule[];
  /** Judges by them and by the shipped ones. */
  judge: Judge;
}

export type Core = Awaited<ReturnType<typeof openCore>>;

/** Opens and migrates the database, and joins the other nodes. */
export async function openCore(config: Config, overrides: Overrides) {
  const clock = overrides.clock ?? systemClock;
  const log = overrides.log ?? createLog(config.log);
  const rules = readBounceRules(config.delivery.bounceRules);
  const live: Live = { config, rules, judge: createJudge(rules) };
  const botOf = createBotOf(readScanners(config.tracking.scannersFile));
  const fatal = createFatal();
  const keyring = openKeyring(config.dataDir, { database: databaseFile(config.storage.url) });
  const db = await openStorage(config, log, keyring, fatal);
  await ensureDefaultAccount({ db, clock });
  const nodes = db.nodes ?? loneNode(await beginEpoch(db.commit), { ...nodeSelf(config, keyring), since: clock.now() });
  const wantsMetrics = config.metrics.port !== null || config.metrics.token !== null;
  const meters = wantsMetrics ? createMeters({ clock: systemClock }) : null;
  return {
    config,
    overrides,
    clock,
    random: overrides.random ?? Math.random,
    log,
    report: createReport(clock, log),
    live,
    botOf,
    /** The settings of a plan by its name, or null if there is none (any more). */
    planOf: (plan: string): Config['plans'][string] | null => live.config.plans[plan] ?? null,
    notices: { hostname: config.smtp.hostname, retry: { maxAge: config.delivery.maxAge } },
    fatal,
    keyring,
    db,
    nodes,
    owners: new Owners(nodes),
    epoch: nodes.epoch,
    notifiers: createNotifiers(nodes),
    meters,
    usedUp: createBudgetWarnings(clock, log, meters),
    resolver:
      overrides.resolver ??
      createResolver(
        { clock, log },
        { servers: config.delivery.dnsServers, validating: config.delivery.dnssecResolver },
      ),
    ownAddresses: createOwnAddresses({ clock }),
    /** Addresses that have sent X-Forwarded-For without being trusted. */
    unknownProxies: new Set<string>(),
  };
}

/**
 * Reports background writes that fail. While the database takes none, a line a minute is enough: they are tried again each second, and the log
 * may be on the disk that is full.
 */
function createReport(clock: Clock, log: Pick<Log, 'error'>): (error: unknown) => void {
  let quietUntil = -Infinity;
  return (error) => {
    const now = clock.monotonic();
    if (isStorageTrouble(error) && now < quietUntil) return;
    quietUntil = now + MINUTE_MS;
    log.error({ event: 'background_write_failed', err: error }, 'a background write failed');
  };
}

/** Opens and migrates the database, and checks that its secrets can be opened. */
async function openStorage(config: Config, log: Log | RootLog, keyring: Keyring, fatal: Fatal): Promise<Database> {
  const db = await openDatabase({
    ...config.storage,
    workOrder: [RECORD_CHANGE],
    node: nodeSelf(config, keyring),
    beforeMigration: () =>
      copyBeforeMigration(config, (folder) =>
        log.info({ event: 'backup_before_migration', folder }, 'the database was copied; now it is migrated'),
      ),
    takenOver: () => {
      const what = 'another node has removed this one from the database: it can write nothing any more, and stops';
      log.error({ event: 'database_taken_over' }, what);
      fatal.report(new Unavailable('taken_over', what));
    },
    clockDiffers: (ms) => {
      const beside = Math.abs(ms) > WRONG_CLOCK_MS ? ': it does not run beside nodes whose clock is right' : '';
      if (ms === 0) log.info({ event: 'clock_agrees' }, 'the clock agrees with that of the database again');
      else log.warn({ event: 'clock_differs', ms }, `the clock differs from that of the database${beside}`);
    },
    clockWrong: (ms) => {
      const what = `${wrongClock(ms)}: this node stops`;
      log.error({ event: 'clock_wrong', ms }, what);
      fatal.report(new Unavailable('wrong_clock', what));
    },
  });
  try {
    const file = path.join(config.dataDir, 'secret.key');
    await requireKeys({ read: db.reader, keyring, log }, file);
    if (db.engine === 'postgres') await requireSharedKey({ commit: db.commit, keyring }, file);
    return db;
  } catch (error) {
    await db.close();
    throw error;
  }
}

/** Returns what this server says of itself to the others. */
export const nodeSelf = (config: Config, keyring: Keyring): NodeSelf => ({
  name: config.node.name,
  version,
  facts: JSON.stringify({
    roles: config.node.roles,
    settings: digestsOf(config, keyring.derive('settings digests')),
  }),
});

/** Creates the notifiers of the program. All but one are joined with those of the other nodes. */
function createNotifiers(nodes: Nodes) {
  const joined = {
    deliveries: createNotifier<readonly DueHint[]>(),
    events: createNotifier(),
    keys: createNotifier(),
    webhooks: createNotifier<string | null>(),
    holds: createNotifier(),
    limits: createNotifier(),
    tries: createNotifier<readonly string[]>(),
    changes: createNotifier<Change>(),
  };
  joinNotifiers(nodes, joined);
  return {
    ...joined,
    /** Notifies with the id of a delivery that a recipient has complained about, at the node that has read the complaint: it counts once. */
    complaints: createNotifier<string>(),
  };
}

/** Returns a function that counts each use of a budget that is used up, and logs it once an hour. */
function createBudgetWarnings(clock: Clock, log: Log | RootLog, meters: Meters | null): (budget: BudgetName) => void {
  const logged = new Allowance({ most: 1, within: 'hour' });
  return (budget) => {
    const now = clock.now();
    meters?.usedUp(budget);
    if (!logged.has(budget, 1, now)) return;
    logged.spend(budget, 1, now);
    log.warn(
      { event: 'budget_used_up', budget },
      'a budget of strangers is used up: docs/security.md says what that means',
    );
  };
}
