/** The core of the program, opened first and closed last: settings, time, log, secrets, database, other nodes, and the notifiers that join them. */
import path from 'node:path';
import type { BudgetName } from '../base/budgets.ts';
import { systemClock, type Clock } from '../base/clock.ts';
import { openKeyring, type Keyring } from '../base/keyring.ts';
import { createLog, type Log, type RootLog } from '../base/log.ts';
import { MINUTE_MS } from '../base/time.ts';
import type { BounceRule } from '../config/bounce-rule.ts';
import { readBounceRules, readScanners } from '../config/data-file.ts';
import { readLimitRules, withOwn } from '../config/limit-rules.ts';
import type { Config } from '../config/schema.ts';
import { digestsOf } from '../config/shared-settings.ts';
import type { RetryRule } from '../messages/delivery/retry.ts';
import { createJudge, type Judge } from '../messages/delivery/classify.ts';
import type { DueHint } from '../messages/delivery/due-hint.ts';
import { recordWork, createRecorder, type Recorder } from '../messages/delivery/record.ts';
import { createOwnAddresses } from '../net/own-addresses.ts';
import { createResolver, type Resolver } from '../net/resolver.ts';
import { ensureDefaultAccount, createOwnAccount } from '../accounts/account-store.ts';
import { copyBeforeMigration } from '../operator/door/before-migration.ts';
import { createMeters, type Meters } from '../operator/metrics/meters.ts';
import { requireKeys, requireSharedKey } from '../operator/sealed-secrets.ts';
import { Unavailable } from '../base/unavailable.ts';
import { Allowance } from '../scheduling/allowance.ts';
import { createNotifier } from '../scheduling/notifier.ts';
import { isStorageTrouble } from '../storage/commit.ts';
import { beginEpoch, databaseFile, openDatabase, type Database, mailFolder } from '../storage/database.ts';
import { loneNode, WRONG_CLOCK_MS, wrongClock, type Nodes, type NodeSelf } from '../storage/nodes.ts';
import { Owners } from '../storage/owners.ts';
import { createBotOf } from '../tracking/bots.ts';
import { version } from '../version.ts';
import { createAuditLog } from '../accounts/audit-log.ts';
import { createQuotas } from '../accounts/quota.ts';
import { createAccountTracking } from '../accounts/settings-store.ts';
import { createStreams } from '../accounts/stream-store.ts';
import { StrangerLines } from '../api/audit.ts';
import { createDomainDirectory } from '../domains/domain-directory.ts';
import { createSigningKeys } from '../domains/signing-keys.ts';
import { EventTail } from '../events/tail.ts';
import { createCallers, KEY_FRESH_MS } from '../keys/callers.ts';
import { FreshMails } from '../messages/store/fresh-mails.ts';
import { createMailViewer } from '../messages/store/mail-viewer.ts';
import { createSafeFetch } from '../net/safe-fetch.ts';
import { createDiskGuard } from '../storage/disk-guard.ts';
import { createIdempotencyStore } from '../storage/idempotency-store.ts';
import { createRenderer } from '../templates/renderer.ts';
import { createHits } from '../tracking/hit.ts';
import { trackingKeys } from '../tracking/token.ts';
import type { ChangeNotices } from '../api/context.ts';
import type { ReturnPathKey } from '../messages/delivery/return-path.ts';

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
interface Live {
  config: Config;
  /** The operator's own bounce rules. */
  rules: readonly BounceRule[];
  /** Judges by them and by the shipped ones. */
  judge: Judge;
}

type Core = Awaited<ReturnType<typeof openCore>>;

/** Opens and migrates the database, and joins the other nodes. */
async function openCore(config: Config, overrides: Overrides) {
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
  const { maxAge, limits } = config.delivery;
  const mailRules = withOwn(readLimitRules().limits, limits);
  const retry: RetryRule = { maxAge, schedule: config.delivery.retry.schedule, rules: mailRules };
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
    retry,
    notices: { hostname: config.smtp.hostname, retry },
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

/** Reports background writes that fail, at most once a minute while the database takes none: they repeat, and the log may be on the full disk. */
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
    usualWork: [recordWork],
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

type Fatal = ReturnType<typeof createFatal>;

/** Keeps the error after which the program cannot go on: it stops as at a signal, and ends with this error. Only the first one counts. */
function createFatal() {
  let first: Error | null = null;
  let resolve: (error: Error) => void = () => undefined;
  const occurred = new Promise<Error>((resolved) => {
    resolve = resolved;
  });
  return {
    get error(): Error | null {
      return first;
    },
    /** Resolves with the error once there is one. */
    occurred,
    report: (error: Error): void => {
      first ??= error;
      resolve(first);
    },
  };
}

/** A notifier of any hint: hints of other nodes come from the notifier with the same name. */
interface JoinableNotifier {
  arrive(hint: unknown): void;
  joinOthers(tell: (hint: unknown) => void): void;
}

/** Notifiers without hints: one notification too many only costs a query. */
const WITHOUT_HINT: readonly string[] = ['events', 'keys', 'holds'];

/** Joins the nodes' notifiers. If messages may have been lost, listeners without hints are called; the sweeper finds what hints would have said. */
function joinNotifiers(
  nodes: Pick<Nodes, 'tell' | 'listen'>,
  notifiers: Readonly<Record<string, JoinableNotifier>>,
): void {
  for (const [about, notifier] of Object.entries(notifiers))
    notifier.joinOthers((hint) => nodes.tell({ about, hint: hint ?? null }));
  nodes.listen((message) => {
    if (message === null) {
      for (const about of WITHOUT_HINT) notifiers[about]?.arrive(undefined);
      // Null stands for any endpoint: nothing else finds one that was changed.
      notifiers['webhooks']?.arrive(null);
    } else if (message.hint !== null) notifiers[message.about]?.arrive(message.hint);
    else if (WITHOUT_HINT.includes(message.about)) notifiers[message.about]?.arrive(undefined);
  });
}

type Stores = Awaited<ReturnType<typeof openStores>>;

async function openStores(core: Core) {
  const { config, overrides, clock, log, report, botOf, keyring, db, nodes, usedUp, resolver, ownAddresses } = core;
  const recorder = buildRecorder(core);
  const disk = createDiskGuard(
    { clock, log, commit: db.commit },
    { dir: mailFolder(config), minFreeBytes: config.storage.minFreeBytes },
  );
  await disk.look();
  return {
    recorder,
    disk,
    fresh: new FreshMails(clock),
    tail: new EventTail(core),
    callers: createCallers({ db, clock, report }),
    directory: createDomainDirectory({ db, clock }),
    signingKeys: createSigningKeys({ db, keyring, clock }),
    streams: createStreams({ db, clock }),
    accountTracking: createAccountTracking({ db, clock }),
    quotas: createQuotas({ db, clock, hasOthers: () => nodes.hasOthers }),
    auditLog: createAuditLog({ db, clock, report }),
    strangerLines: new StrangerLines(usedUp),
    idempotency: createIdempotencyStore({ db, clock }),
    ownAccount: createOwnAccount({ db, clock }),
    trackKeys: trackingKeys(keyring),
    hits: createHits({
      clock,
      recorder,
      botOf,
      privacy: config.tracking,
      failed: (err) => log.error({ event: 'hit_lost', err }, 'an open or a click could not be written'),
    }),
    renderer: createRenderer({ clock }),
    mailViewer: createMailViewer({ clock }),
    fetch: createSafeFetch(
      { resolver, clock },
      { ...config.webhooks, ownAddresses, ...(overrides.ca === undefined ? {} : { ca: overrides.ca }) },
    ),
  };
}

/** Builds the recorder, which notifies of what it has written. */
function buildRecorder({ db, clock, notifiers, notices }: Core): Recorder {
  return createRecorder({
    commit: db.commit,
    clock,
    complained: (deliveryId) => notifiers.complaints.notify(deliveryId),
    written: (recorded) => {
      const due = recorded.flatMap(({ notice }) => notice ?? []);
      if (due.length > 0) notifiers.deliveries.notify(due);
      notifiers.events.notify();
    },
    notices,
  });
}

/** A row that was changed: every node drops its copy in memory, which is read again when it is needed. */
type Change = { of: 'key' | 'domain' | 'settings'; name: string } | { of: 'stream'; name: string; accountId: string };

function createChanges({ clock, nodes, notifiers, ...stores }: Core & Stores): ChangeNotices {
  const { callers, directory, signingKeys, streams, accountTracking } = stores;
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
  return {
    async keyChanged(publicId) {
      notifiers.changes.notify({ of: 'key', name: publicId });
      if (nodes.hasOthers) await clock.sleep(KEY_FRESH_MS);
    },
    domainChanged: (name) => notifiers.changes.notify({ of: 'domain', name }),
    streamChanged: (accountId, slug) => notifiers.changes.notify({ of: 'stream', name: slug, accountId }),
    settingsChanged: (accountId) => notifiers.changes.notify({ of: 'settings', name: accountId }),
    // The dispatcher of each node reads the endpoint again.
    webhookChanged: (id) => notifiers.webhooks.notify(id),
  };
}

export type AppContext = Core & Stores & { changes: ChangeNotices };

/** Opens the database and all that reads from it. */
export async function openAppContext(config: Config, overrides: Overrides): Promise<AppContext> {
  const core = await openCore(config, overrides);
  const opened = { ...core, ...(await openStores(core)) };
  return { ...opened, changes: createChanges(opened) };
}

/** Returns the key with which return paths are signed now. */
export const signingKey = (keyring: Keyring): ReturnPathKey => ({
  id: keyring.keyIds.length % 32,
  secret: keyring.derive('return path'),
});
