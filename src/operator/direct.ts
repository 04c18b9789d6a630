/** Performs operations on the database itself while no server runs. */
import path from 'node:path';
import { ensureDefaultAccount } from '../accounts/account-store.ts';
import { createStreams } from '../accounts/stream-store.ts';
import { createCursors } from '../api/cursor.ts';
import { createInside } from '../api/inside.ts';
import { ListStreams } from '../api/list-stream.ts';
import { storeRoutes } from '../api/routes.ts';
import { systemClock } from '../base/clock.ts';
import { openKeyring } from '../base/keyring.ts';
import { createResolver } from '../net/resolver.ts';
import type { Config } from '../config/schema.ts';
import { databaseFile, openDatabase, type Database } from '../storage/database.ts';
import { changeSchemaAlone, copyBeforeMigration } from './before-migration.ts';
import { checkFiles, makeDataFolder } from './data-folder.ts';
import { trackingTargetOf } from '../tracking/host.ts';
import { isAct, operationNamed, perform, type StoreDeps } from './operations.ts';
import { writeNote } from './command-acts.ts';
import { atCommandLine, isCurrent } from './note-command.ts';
import type { OpenReportParser } from './report-parser.ts';
import { requireSharedKey } from './sealed-secrets.ts';
import { notRunning, Unavailable } from './unavailable.ts';

export interface Direct {
  /** Does what `perform` does. Throws `Unavailable` if the operation needs the server. */
  call(name: string, args: unknown): Promise<unknown>;
  close(): Promise<void>;
}

/**
 * Opens the database and the keys for an operation. One that only reads does not make a missing database.
 * Throws `Unavailable`.
 */
export async function openDirect(
  config: Config,
  firstOperation: string,
  openReportParser: OpenReportParser,
): Promise<Direct> {
  const operation = operationNamed(firstOperation);
  if (operation !== null && operation.needs !== 'store') throw notRunning();
  const database = databaseFile(config.storage.url);
  const changes = isAct(firstOperation);
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
  const routes = storeRoutes({
    db,
    clock,
    keyring,
    resolver,
    log: { info: noop, warn: noop },
    cursors: createCursors(keyring.derive('cursors')),
    streams: new ListStreams(),
    findStream: (accountId, slug) => streams.find(accountId, slug),
    hostname: config.smtp.hostname,
    trackingTarget: trackingTargetOf(config),
    domainGraceMs: config.domains.grace,
    // No server runs that could have a copy.
    changes: { domainChanged: noop, keyChanged: () => Promise.resolve() },
  });
  const inside = createInside({ clock, commit: db.commit }, routes);
  const acting = atCommandLine();
  if (db.migrated.length > 0)
    await writeNote(
      { commit: db.commit, clock },
      { operation: 'server.migrate', after: { migrations: [...db.migrated] } },
      acting,
    );
  const deps: StoreDeps = { nodes: db.nodes, db, clock, keyring, resolver, config, inside, openReportParser };
  return {
    call: (name, args) => perform(deps, name, args, { acting }),
    async close() {
      await resolver.close();
      await db.close();
    },
  };
}

const noop = (): void => undefined;
