/**
 * The context of the program: the database, the secrets, the log, and the look-ups that intake and delivery share. It is opened
 * first and closed last.
 */
import path from 'node:path';
import { Allowance } from '../scheduling/allowance.ts';
import { createNotifier } from '../scheduling/notifier.ts';
import type { BudgetName } from '../base/budgets.ts';
import { systemClock, type Clock } from '../base/clock.ts';
import { openKeyring, type Keyring } from '../base/keyring.ts';
import { createLog, type Log, type RootLog } from '../base/log.ts';
import { createResolver, type Resolver } from '../net/resolver.ts';
import { createOwnAddresses } from '../net/own-addresses.ts';
import { createSafeFetch } from '../net/safe-fetch.ts';
import type { BounceRule } from '../config/bounce-rule.ts';
import { readBounceRules } from '../config/bounce-rules.ts';
import { readScanners } from '../config/scanners.ts';
import type { Config } from '../config/schema.ts';
import { digestsOf } from '../config/shared-settings.ts';
import { databaseFile, mailFolder, openDatabase, type Database } from '../storage/database.ts';
import { createDiskGuard } from '../storage/disk-guard.ts';
import { beginEpoch } from '../storage/database.ts';
import { loneNode, type NodeSelf } from '../storage/nodes.ts';
import { Owners } from '../storage/owners.ts';
import { version } from '../version.ts';
import { createFatal, type Fatal } from './fatal.ts';
import { joinNotifiers } from './node-notifiers.ts';
import { createIdempotencyStore } from '../storage/idempotency-store.ts';
import { ensureDefaultAccount } from '../accounts/account-store.ts';
import { StrangerLines } from '../api/stranger-lines.ts';
import { createAuditLog } from '../accounts/audit-log.ts';
import { createOwnAccount } from '../accounts/own-account.ts';
import { createQuotas } from '../accounts/quota.ts';
import { createAccountTracking } from '../accounts/settings-store.ts';
import { createStreams } from '../accounts/stream-store.ts';
import { createCallers, KEY_FRESH_MS } from '../keys/callers.ts';
import { createDomainDirectory } from '../domains/domain-directory.ts';
import { createSigningKeys } from '../domains/signing-keys.ts';
import { createMailViewer } from '../messages/store/mail-viewer.ts';
import { createRenderer } from '../templates/renderer.ts';
import type { DueHint } from '../messages/delivery/due-hint.ts';
import { createJudge, type Judge } from '../messages/delivery/classify.ts';
import { createRecorder, RECORD_CHANGE } from '../messages/delivery/record.ts';
import type { ReturnPathKey } from '../messages/delivery/return-path.ts';
import { createBotOf } from '../tracking/bots.ts';
import { createHits } from '../tracking/hit.ts';
import { trackingKeys } from '../tracking/token.ts';
import { copyBeforeMigration } from '../operator/before-migration.ts';
import { createMeters, type Meters } from '../operator/meters.ts';
import { Unavailable } from '../operator/unavailable.ts';
import { requireKeys, requireSharedKey } from '../operator/sealed-secrets.ts';

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
}

/** A row that was changed, of which every node may have a copy in memory. */
type Change = { of: 'key' | 'domain' | 'settings'; name: string } | { of: 'stream'; name: string; accountId: string };

/** The settings that a reload replaces while the program runs. */
export interface Live {
  config: Config;
  /** The operator's own bounce rules. */
  rules: readonly BounceRule[];
  /** Judges by them and by the shipped ones. */
  judge: Judge;
}

export type AppContext = Awaited<ReturnType<typeof openAppContext>>;

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

/** Opens the database and all that reads from it. */
export async function openAppContext(config: Config, overrides: Overrides) {
  const clock = overrides.clock ?? systemClock;
  const random = overrides.random ?? Math.random;
  const rules = readBounceRules(config.delivery.bounceRules);
  const live: Live = { config, rules, judge: createJudge(rules) };
  const log = overrides.log ?? createLog(config.log);
  const botOf = createBotOf(readScanners(config.tracking.scannersFile));
  const fatal = createFatal();
  const keyring = openKeyring(config.dataDir, { database: databaseFile(config.storage.url) });
  const db = await openStorage(config, log, keyring, fatal);
  const resolver =
    overrides.resolver ??
    createResolver({ clock }, { servers: config.delivery.dnsServers, validating: config.delivery.dnssecResolver });
  const report = (error: unknown): void =>
    log.error({ event: 'background_write_failed', err: error }, 'a background write failed');
  await ensureDefaultAccount({ db, clock });
  const nodes = db.nodes ?? loneNode(await beginEpoch(db.commit), { ...nodeSelf(config, keyring), since: clock.now() });
  const notifiers = {
    deliveries: createNotifier<readonly DueHint[]>(),
    events: createNotifier(),
    keys: createNotifier(),
    webhooks: createNotifier<string | null>(),
    holds: createNotifier(),
    changes: createNotifier<Change>(),
  };
  joinNotifiers(nodes, notifiers);
  /** Notifies with the id of a delivery that a recipient has complained about, at the node that has read the complaint: it counts once. */
  const complaints = createNotifier<string>();
  const wantsMetrics = config.metrics.port !== null || config.metrics.token !== null;
  const meters = wantsMetrics ? createMeters({ clock: systemClock }) : null;
  const notices = { hostname: config.smtp.hostname, retry: { maxAge: config.delivery.maxAge } };
  const recorder = createRecorder({
    commit: db.commit,
    clock,
    complained: (deliveryId) => complaints.notify(deliveryId),
    written: (recorded) => {
      const due = recorded.flatMap(({ notice }) => notice ?? []);
      if (due.length > 0) notifiers.deliveries.notify(due);
      notifiers.events.notify();
    },
    notices,
  });
  const disk = createDiskGuard(
    { clock, log, commit: db.commit },
    { dir: mailFolder(config), minFreeBytes: config.storage.minFreeBytes },
  );
  await disk.look();

  const usedUp = createBudgetWarnings(clock, log, meters);
  const callers = createCallers({ db, clock, report });
  const directory = createDomainDirectory({ db, clock });
  const signingKeys = createSigningKeys({ db, keyring, clock });
  const streams = createStreams({ db, clock });
  const accountTracking = createAccountTracking({ db, clock });
  notifiers.changes.listen((change) => {
    if (change.of === 'key') {
      callers.forget(change.name);
      notifiers.keys.arrive();
    } else if (change.of === 'domain') {
      directory.forget(change.name);
      signingKeys.forget(change.name);
    } else if (change.of === 'stream') streams.forget(change.accountId, change.name);
    else accountTracking.forget(change.name);
  });
  const ownAddresses = createOwnAddresses({ clock });
  const hits = createHits({
    clock,
    recorder,
    botOf,
    privacy: config.tracking,
    failed: (err) => log.error({ event: 'hit_lost', err }, 'an open or a click could not be written'),
  });
  return {
    config,
    overrides,
    clock,
    random,
    live,
    log,
    keyring,
    db,
    resolver,
    ownAddresses,
    report,
    fatal,
    nodes,
    owners: new Owners(nodes),
    epoch: nodes.epoch,
    notifiers: { ...notifiers, complaints },
    meters,
    notices,
    recorder,
    disk,
    usedUp,
    callers,
    directory,
    signingKeys,
    hits,
    streams,
    quotas: createQuotas({ db, clock, hasOthers: () => nodes.hasOthers }),
    auditLog: createAuditLog({ db, clock, report }),
    strangerLines: new StrangerLines(usedUp),
    idempotency: createIdempotencyStore({ db, clock }),
    ownAccount: createOwnAccount({ db, clock }),
    accountTracking,
    trackKeys: trackingKeys(keyring),
    renderer: createRenderer({ clock }),
    mailViewer: createMailViewer({ clock }),
    fetch: createSafeFetch(
      { resolver, clock },
      { ...config.webhooks, ownAddresses, ...(overrides.ca === undefined ? {} : { ca: overrides.ca }) },
    ),
    /** The settings of a plan by its name, or null where there is none (any more). */
    planOf: (plan: string): Config['plans'][string] | null => live.config.plans[plan] ?? null,
    /** Resolves when every node knows of the change, also where a message to it was lost. */
    forgetKey: async (publicId: string): Promise<void> => {
      notifiers.changes.notify({ of: 'key', name: publicId });
      if (nodes.hasOthers) await clock.sleep(KEY_FRESH_MS);
    },
    forgetDomain: (name: string): void => notifiers.changes.notify({ of: 'domain', name }),
    forgetStream: (accountId: string, slug: string): void =>
      notifiers.changes.notify({ of: 'stream', name: slug, accountId }),
    forgetSettings: (accountId: string): void => notifiers.changes.notify({ of: 'settings', name: accountId }),
    webhookChanged: (id: string): void => notifiers.webhooks.notify(id),
  };
}

/** Returns the key with which return paths are signed now. */
export const signingKey = (keyring: Keyring): ReturnPathKey => ({
  id: keyring.keyIds.length % 32,
  secret: keyring.derive('return path'),
});
