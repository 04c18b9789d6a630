/** `posthorn storage move`: moves all rows from a SQLite file into PostgreSQL. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { systemClock } from '../base/clock.ts';
import { isPostgresUrl, postgresUrlFault } from '../base/postgres-url.ts';
import { Problem } from '../base/problem.ts';
import type { Moved } from '../backup/move.ts';
import type { Config } from '../config/schema.ts';
import { pluralize } from '../base/pluralize.ts';
import type { StoreAddress, Database } from '../storage/database.ts';
import type { Context } from './cli.ts';
import { exitCodes, Refusal } from './exit-codes.ts';
import { noteAct, refuseRootOf, showProgress } from './progress.ts';
import { openKeyring } from '../base/keyring.ts';
import { makeDataFolder } from '../operator/door/data-folder.ts';
import { lookAtSocket, socketPath } from '../operator/door/socket.ts';
import { Unavailable } from '../base/unavailable.ts';

interface Options {
  to: string;
  password_file?: string;
  json?: true;
}

/** Exit code if the books that were moved do not balance. */
const FAULTY = 1;

export async function move(context: Context, options: Options): Promise<void> {
  const { config } = context.load();
  const to = addressFrom(config, options);
  const { url: from } = config.storage;
  if (isPostgresUrl(from))
    throw new Refusal(
      exitCodes.usage,
      'storage.url is a PostgreSQL database already; use pg_dump and pg_restore to move that',
    );
  await refuseRootOf(config);
  const { moveStorage } = await import('../backup/move.ts');
  const shown = showProgress(context, 'copying');
  const begun = context.now();
  const moved = await moveStorage(
    { clock: systemClock },
    {
      from: config.storage,
      to,
      dataDir: config.dataDir,
      progress: (done, of) => {
        shown.at(done, of);
      },
    },
  );
  shown.end();
  if (moved.kind === 'refused') {
    if (options.json === true) context.out(JSON.stringify({ ok: false, why: moved.why, text: moved.text }));
    else context.note(`posthorn: ${moved.text}`);
    context.end(codes[moved.why]);
    return;
  }
  const note = { operation: 'storage.move', object: to.url, after: { from, to: to.url } } as const;
  await noteAct(context, { ...config, storage: { ...config.storage, ...to } }, note);
  print(context, moved, { from, to: to.url, seconds: (context.now() - begun) / 1000, json: options.json });
}

/** Throws `Problem` for a URL that is none of a PostgreSQL database, and for a file with a password that is not there. */
function addressFrom({ storage }: Config, { to, password_file: passwordFile }: Options): StoreAddress {
  if (passwordFile !== undefined && !existsSync(passwordFile))
    throw new Problem('not_found', `there is no file ${passwordFile}`);
  const fault = isPostgresUrl(to) ? postgresUrlFault(to) : 'it must be postgres://<user>@<host>/<database>';
  if (fault !== null) throw new Problem('invalid_parameter', `--to: ${fault.replace('storage.url: ', '')}`);
  const password = passwordFile === undefined ? {} : { password: null, passwordFile: path.resolve(passwordFile) };
  return { ...storage, url: to, ...password };
}

function print(
  context: Context,
  moved: Exclude<Moved, { kind: 'refused' }>,
  { from, to, seconds, json }: { from: string; to: string; seconds: number; json: true | undefined },
): void {
  const next = `Set storage.url to ${to} now. The old database stays as it is, and no server starts on it.`;
  if (moved.kind === 'completed') {
    context.print(json, { ok: true, from, to, completed: true }, () => [
      `the move to ${to} was complete but for its last step, which is done now`,
      next,
    ]);
    return;
  }
  const { tables, replaced } = moved.filled;
  const { balanced, accepted, faults } = moved.books;
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  context.print(
    json,
    { ok: true, from, to, rows, seconds, replaced, books: { balanced, accepted, faults }, tables },
    () => [
      ...tables.filter((table) => table.rows > 0).map((table) => `${table.table}: ${pluralize(table.rows, 'row')}`),
      `moved ${String(rows)} rows in ${String(Math.round(seconds))} s; rows and books are equal on both sides`,
      ...(replaced === 0
        ? []
        : [`${String(replaced)} texts had a NUL character, which PostgreSQL cannot store: it became U+FFFD`]),
      ...faults.map((fault) => `the books do not balance, on both sides alike: ${fault}`),
      next,
    ],
  );
  if (!balanced) context.end(FAULTY);
}

const codes: Readonly<Record<Extract<Moved, { kind: 'refused' }>['why'], number>> = {
  no_database: exitCodes.noInput,
  in_use: exitCodes.cannotCreate,
  not_empty: exitCodes.cannotCreate,
  schema: exitCodes.config,
  data: exitCodes.data,
  marked: exitCodes.config,
};

/** Brings the database up to date without starting anything. */
export async function migrate(context: Context, { json }: { json?: true }): Promise<void> {
  const { config } = context.load();
  if ((await lookAtSocket(socketPath(config.dataDir))) === 'live')
    throw new Unavailable('already_running', 'the server is running: it migrates when it starts; stop it first');
  const { databaseFile, openDatabase } = await import('../storage/database.ts');
  const { changeSchemaAlone, copyBeforeMigration } = await import('../operator/door/before-migration.ts');
  const progress = showProgress(context, 'migrating');
  const file = databaseFile(config.storage.url);
  const run = (): Promise<Database> => {
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
  const database = file === null ? await run() : await changeSchemaAlone(config.dataDir, run);
  progress.end();
  await database.close();
  const { migrated } = database;
  if (migrated.length > 0)
    await noteAct(context, config, { operation: 'server.migrate', after: { migrations: [...migrated] } });
  if (json === true) context.out(JSON.stringify({ migrated }));
  else context.out(migrated.length === 0 ? 'the database is up to date' : `taken: ${migrated.join(', ')}`);
}
