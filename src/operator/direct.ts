/** Operations on the database itself, for when no server runs. */
import { ensureDefaultAccount } from '../accounts/account-store.ts';
import { systemClock } from '../base/clock.ts';
import { openKeyring } from '../base/keyring.ts';
import { createResolver } from '../net/resolver.ts';
import type { Config } from '../config/schema.ts';
import { openDatabase, sqliteFile } from '../storage/database.ts';
import { copyBeforeMigration } from './before-migration.ts';
import { checkFiles, makeDataFolder } from './data-folder.ts';
import { notRunning, operationNamed, perform, type StoreDeps } from './operations.ts';

export interface Direct {
  /** As `perform`; `Unavailable` for what needs the server. */
  call(name: string, args: unknown): Promise<unknown>;
  close(): Promise<void>;
}

/**
 * Opens the database and the keys for an operation. One that only asks does not make a database where there is none.
 * Throws `Unavailable`.
 */
export async function openDirect(config: Config, firstOperation: string): Promise<Direct> {
  const operation = operationNamed(firstOperation);
  if (operation?.needs === 'server') throw notRunning();
  checkFiles(sqliteFile(config.storage.url), operation?.acts ?? false);
  if (operation?.acts === true) makeDataFolder(config.dataDir);
  const keyring = openKeyring(config.dataDir, { database: sqliteFile(config.storage.url) });
  const db = await openDatabase({
    url: config.storage.url,
    beforeMigration: () => copyBeforeMigration(config, () => undefined),
  });
  const resolver = createResolver(
    { clock: systemClock },
    { servers: config.delivery.dnsServers, validating: config.delivery.dnssecResolver },
  );
  await ensureDefaultAccount({ db, clock: systemClock });
  const nobody = (): void => undefined;
  const deps: StoreDeps = {
    db,
    clock: systemClock,
    keyring,
    resolver,
    config,
    forgetKey: nobody,
    forgetDomain: nobody,
  };
  return {
    call: (name, args) => perform(deps, name, args),
    async close() {
      await resolver.close();
      await db.close();
    },
  };
}
