/** `posthorn migrate`: brings the database up to date without starting anything. */
import { existsSync } from 'node:fs';
import type { Command } from '@commander-js/extra-typings';
import { openKeyring } from '../base/keyring.ts';
import type { Database } from '../storage/database.ts';
import { makeDataFolder } from '../operator/door/data-folder.ts';
import { lookAtSocket, socketPath } from '../operator/door/socket.ts';
import { Unavailable } from '../base/unavailable.ts';
import type { Context } from './cli.ts';
import { noteAct, refused } from './note-act.ts';
import { showProgress } from './progress.ts';

export function addMigrate(command: Command, context: Context): void {
  command.option('--json', 'as one JSON object').action(async ({ json }) => {
    const { config } = context.load();
    if ((await lookAtSocket(socketPath(config.dataDir))) === 'live') {
      const why = 'the server is running: it migrates when it starts; stop it first';
      await noteAct(context, config, { operation: 'server.migrate', fault: refused(why) });
      throw new Unavailable('already_running', why);
    }
    const { databaseFile, openDatabase } = await import('../storage/database.ts');
    const { changeSchemaAlone, copyBeforeMigration } = await import('../operator/door/before-migration.ts');
    const progress = showProgress(context, 'migrating');
    const file = databaseFile(config.storage.url);
    const migrate = (): Promise<Database> => {
      // A new database gets its key file at the same time, as `serve` expects.
      if (file === null || !existsSync(file)) openKeyring(config.dataDir);
      return openDatabase({
        ...config.storage,
        migrating: (done, of) => {
          progress.at(done, of);
        },
        beforeMigration: () =>
          copyBeforeMigration(config, (folder) => {
            context.note(`copied to ${folder} first`);
          }),
      });
    };
    if (file !== null) makeDataFolder(config.dataDir);
    // Servers of a PostgreSQL database may run while it is migrated.
    const database = file === null ? await migrate() : await changeSchemaAlone(config.dataDir, migrate);
    progress.end();
    await database.close();
    const { migrated } = database;
    if (migrated.length > 0)
      await noteAct(context, config, { operation: 'server.migrate', after: { migrations: [...migrated] } });
    if (json === true) context.out(JSON.stringify({ migrated }));
    else context.out(migrated.length === 0 ? 'the database is up to date' : `taken: ${migrated.join(', ')}`);
  });
}
