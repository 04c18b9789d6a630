/** The app without its ports and its work: performs operations on the database itself while no server runs. */
import path from 'node:path';
import { ensureDefaultAccount } from '../../accounts/account-store.ts';
import { createStreams } from '../../accounts/stream-store.ts';
import { createInside } from '../../api/inside.ts';
import type { Reply } from '../../api/route.ts';
import { storeRoutes } from '../../api/routes.ts';
import { systemClock } from '../../base/clock.ts';
import { openKeyring } from '../../base/keyring.ts';
import { EventTail } from '../../events/tail.ts';
import { createResolver } from '../../net/resolver.ts';
import type { Config } from '../../config/schema.ts';
import { databaseFile, openDatabase, type Database } from '../../storage/database.ts';
import { changeSchemaAlone, copyBeforeMigration } from './before-migration.ts';
import { checkFiles, makeDataFolder } from './data-folder.ts';
import { createNotifier } from '../../scheduling/notifier.ts';
import { trackingTargetOf } from '../../tracking/host.ts';
import { endpointOf, searchOf, type AskedOf } from './client.ts';
import type { StoreDeps } from '../server-route.ts';
import { callerOf } from './operator-caller.ts';
import { serverRouteNamed, serverRoutes } from '../routes.ts';
import { atCommandLine, isCurrent, writeNote } from './command-acts.ts';
import { requireSharedKey } from '../sealed-secrets.ts';
import { notRunning, Unavailable } from '../../base/unavailable.ts';

export interface Offline {
  /** Throws the operation's `Problem`, `Unavailable` if it needs the server. */
  ask(operation: string, asked: AskedOf): Promise<Reply>;
  close(): Promise<void>;
}

/** Returns whether an operation changes something, and whether it can be performed without the server at all. */
function natureOf(operation: string): { changes: boolean; needsServer: boolean } {
  const ofServer = serverRouteNamed(operation);
  return ofServer === null
    ? { changes: !endpointOf(operation).startsWith('GET '), needsServer: false }
    : { changes: ofServer.act !== undefined, needsServer: ofServer.needs === 'server' };
}

/** Opens the database and the keys for an operation. One that only reads does not make a missing database. Throws `Unavailable`. */
export async function openOffline(config: Config, first: string): Promise<Offline> {
  const { changes, needsServer } = natureOf(first);
  if (needsServer) throw notRunning();
  const database = databaseFile(config.storage.url);
  if (database !== null) checkFiles(database, changes);
  if (changes) makeDataFolder(config.dataDir);
  const keyring = openKeyring(config.dataDir, { database });
  const open = (): Promise<Database> =>
    openDatabase({ ...config.storage, beforeMigration: () => copyBeforeMigration(config, () => undefined) });
  // Servers of a PostgreSQL database may run while it is migrated.
  const isOld = !(await isCurrent(config.storage));
  // A command that only looks does not change the schema.
  if (isOld && !changes)
    throw new Unavailable(
      'no_database',
      'the database is of an earlier version: run `posthorn migrate`, or start the server',
    );
  const isAlone = database !== null && isOld;
  const db = isAlone ? await changeSchemaAlone(config.dataDir, open) : await open();
  if (db.engine === 'postgres')
    await requireSharedKey({ commit: db.commit, keyring }, path.join(config.dataDir, 'secret.key')).catch(
      async (error: unknown) => {
        await db.close();
        throw error;
      },
    );
  const clock = systemClock;
  const resolver = createResolver(
    { clock },
    { servers: config.delivery.dnsServers, validating: config.delivery.dnssecResolver },
  );
  await ensureDefaultAccount({ db, clock });
  const streams = createStreams({ db, clock });
  const deps: StoreDeps = { nodes: db.nodes, db, clock, keyring, resolver, config };
  const ofAccounts = storeRoutes({
    db,
    clock,
    keyring,
    resolver,
    log: { info: noop, warn: noop },
    tail: new EventTail({ db, clock, log: { warn: noop }, notifiers: { events: createNotifier() } }),
    findStream: (accountId, slug) => streams.find(accountId, slug),
    hostname: config.smtp.hostname,
    trackingTarget: trackingTargetOf(config),
    domainGraceMs: config.domains.grace,
    // No server runs that could have a copy.
    changes: { domainChanged: noop, keyChanged: () => Promise.resolve() },
  });
  const routes = [...ofAccounts, ...serverRoutes(deps)];
  const inside = createInside({ clock, commit: db.commit }, routes);
  const acting = atCommandLine();
  if (db.migrated.length > 0)
    await writeNote(
      { commit: db.commit, clock },
      { operation: 'server.migrate', after: { migrations: [...db.migrated] } },
      acting,
    );
  return {
    async ask(operation, { account, params = {}, query = {}, body = {}, accept }) {
      const route = routes.find(({ operationId }) => operationId === operation);
      if (route === undefined || route.needs === 'server') throw notRunning();
      const caller = await callerOf(deps, route.scope === 'server', {
        account: account === undefined ? account : encodeURIComponent(account),
        params,
      });
      return await inside.ask({ caller, userAgent: acting.user_agent }, route.operationId, {
        params,
        query: new URLSearchParams(searchOf(query)),
        body,
        ...(accept === undefined ? {} : { accept }),
      });
    },
    async close() {
      await resolver.close();
      await db.close();
    },
  };
}

const noop = (): void => undefined;
