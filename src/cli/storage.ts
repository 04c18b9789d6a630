/** Commands on the whole database: `posthorn storage move` from SQLite to PostgreSQL, `migrate`, and `backup create|verify|restore`. */
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
import type { Made } from '../backup/create.ts';
import type { Manifest } from '../backup/manifest.ts';
import type { Restored } from '../backup/restore.ts';
import type { Verified } from '../backup/verify.ts';
import { readText } from '../config/load.ts';
import { version } from '../version.ts';

interface Options {
  to: string;
  password_file?: string;
  json?: true;
}

/** Exit code if a backup or books have a fault. */
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

interface BackupOptions {
  json?: true;
  passphrase_file?: string;
}

const MOST_PASSPHRASE_BYTES = 4096;
const SHORTEST_PASSPHRASE = 12;

const ON_POSTGRES =
  'storage.url is a PostgreSQL database: pg_dump and pg_restore are its backup, with secret.key kept beside it (docs/backup.md#postgresql)';

/** Runs the work if the database is a SQLite file, and refuses otherwise. */
const onSqlite =
  <Given extends BackupOptions & { folder?: string; backup?: string }>(
    work: (context: Context, config: Config, options: Given) => Promise<void>,
  ) =>
  async (context: Context, options: Given): Promise<void> => {
    const { config } = context.load();
    if (isPostgresUrl(config.storage.url))
      printRefusal(
        context,
        options.folder ?? options.backup ?? null,
        { kind: 'refused', why: 'postgres', text: ON_POSTGRES },
        options,
      );
    else await work(context, config, options);
  };

export const create = onSqlite(makeBackup);
export const verify = onSqlite(checkBackup);
export const restore = onSqlite(restoreFrom);

async function makeBackup(
  context: Context,
  config: Config,
  options: BackupOptions & { folder?: string },
): Promise<void> {
  const { folder } = options;
  const { createBackup } = await import('../backup/create.ts');
  await refuseRootOf(config);
  const passphrase = passphraseFor(config, options);
  const [copying, checking] = [showProgress(context, 'copying'), showProgress(context, 'checking')];
  const dir = folder === undefined ? config.backup.dir : path.resolve(folder);
  const made = await createBackup(
    { clock: systemClock, version },
    {
      storage: config.storage,
      dataDir: config.dataDir,
      dir,
      minFreeBytes: config.storage.minFreeBytes,
      kind: 'posthorn',
      keep: config.backup.keep,
      passphrase,
      progress: (step, done, total) => {
        if (step === 'copying') copying.at(done, total);
        else checking.at(done, total);
      },
    },
  );
  checking.end();
  if (made.kind === 'refused') {
    printRefusal(context, null, made, options);
    return;
  }
  if (passphrase === null)
    context.note(
      'posthorn: the backup is without the keys (secret.key): set backup.passphrase, or keep a copy of them apart',
    );
  const { manifest, bytes, removed, unbalanced } = made;
  const keys = made.hasKeys ? 'encrypted' : 'none';
  await noteAct(context, config, {
    operation: 'backup.create',
    object: dir,
    after: { backup: made.folder, bytes, keys, removed },
  });
  context.print(options.json, { backup: made.folder, bytes, ...shown(manifest), unbalanced, removed }, () => [
    made.folder,
    `${String(bytes)} bytes, ${contents(manifest)}`,
    ...unbalanced.map((fault) => `the books do not balance: ${fault}`),
    ...removed.map((name) => `removed: ${name}`),
  ]);
  if (unbalanced.length > 0) context.end(FAULTY);
}

type Named = BackupOptions & { backup: string };

async function checkBackup(context: Context, config: Config, options: Named): Promise<void> {
  const { backup: folder } = options;
  const { verifyBackup } = await import('../backup/verify.ts');
  const progress = showProgress(context, 'checking');
  const verified = await verifyBackup(path.resolve(folder), {
    passphrase: passphraseFor(config, options),
    progress: (part) => {
      progress.at(Math.round(part * 1000), 1000);
    },
  });
  progress.end();
  if (verified.kind !== 'good') {
    printRefusal(context, folder, verified, options);
    return;
  }
  const { manifest, unbalanced } = verified;
  const keys = verified.keys.kind;
  const record = { backup: folder, ok: unbalanced.length === 0, ...shown(manifest), keys, faults: unbalanced };
  context.print(options.json, record, () => [
    `${folder}: whole, ${contents(manifest)}`,
    keyWords[keys],
    ...(unbalanced.length === 0
      ? [`the books balance: ${pluralize(manifest.books.accepted, 'recipient')} accepted`]
      : unbalanced.map((fault) => `the books do not balance: ${fault}`)),
  ]);
  if (unbalanced.length > 0) context.end(FAULTY);
}

const keyWords = {
  none: 'keys: not in this backup',
  closed: 'keys: encrypted, not opened, as no passphrase was given',
  opened: 'keys: the passphrase opens them',
};

/** Prints why there is no backup, or no good one, and sets the exit code. */
function printRefusal(
  context: Context,
  backup: string | null,
  found: Exclude<Verified, { kind: 'good' }> | { kind: 'refused'; why: Why; text: string },
  { json }: BackupOptions,
): void {
  const why = found.kind === 'refused' ? found.why : found.kind;
  const faults =
    found.kind === 'damaged'
      ? found.faults
      : [found.kind === 'refused' ? found.text : 'the passphrase does not open the keys'];
  if (json === true) context.out(JSON.stringify({ backup, ok: false, why, faults }));
  for (const fault of faults) context.fail(`posthorn: ${fault}`);
  context.end(found.kind === 'damaged' ? FAULTY : backupCodes[why]);
}

type Why = Extract<Made | Restored, { kind: 'refused' }>['why'] | 'wrong_passphrase' | 'postgres';
const backupCodes: Readonly<Record<Why, number>> = {
  postgres: exitCodes.usage,
  no_database: exitCodes.noInput,
  busy: exitCodes.cannotCreate,
  no_room: exitCodes.cannotCreate,
  no_access: exitCodes.noPermission,
  damaged: exitCodes.data,
  wrong_passphrase: exitCodes.noPermission,
  in_use: exitCodes.cannotCreate,
  not_empty: exitCodes.cannotCreate,
  newer: exitCodes.config,
  no_passphrase: exitCodes.noPermission,
  no_keys: exitCodes.noInput,
  other_keys: exitCodes.data,
};

async function restoreFrom(context: Context, config: Config, options: Named): Promise<void> {
  const { backup: folder } = options;
  const { restoreBackup } = await import('../backup/restore.ts');
  await refuseRootOf(config);
  const progress = showProgress(context, 'checking');
  const from = path.resolve(folder);
  const restored = await restoreBackup({
    folder: from,
    storage: config.storage,
    dataDir: config.dataDir,
    passphrase: passphraseFor(config, options),
    progress: (part) => {
      progress.at(Math.round(part * 1000), 1000);
    },
  });
  progress.end();
  if (restored.kind !== 'restored') {
    printRefusal(context, folder, restored, options);
    return;
  }
  const { manifest, keys, unbalanced } = restored;
  const after = { backup: from, created_at: manifest.created_at, data_dir: config.dataDir, keys };
  await noteAct(context, config, { operation: 'backup.restore', object: from, after });
  const record = { backup: folder, data_dir: config.dataDir, ...shown(manifest), keys, unbalanced };
  context.print(options.json, record, () => [
    `restored into ${config.dataDir}: ${contents(manifest)}`,
    keys === 'restored' ? 'keys: restored' : 'keys: those that were there fit',
    ...unbalanced.map((fault) => `the books do not balance: ${fault}`),
    'This copy does not have what the old server did after the backup: the old server must not run any more.',
  ]);
}

const shown = ({ version: by, created_at, migrations, counts, key_ids }: Manifest): Record<string, unknown> => ({
  version: by,
  created_at,
  migrations,
  counts,
  key_ids,
});

function contents({ counts, created_at }: Manifest): string {
  const { messages, waiting } = counts;
  return `${pluralize(messages, 'message')}, ${pluralize(waiting, 'recipient')} waiting, of ${created_at}`;
}

/** Reads the passphrase from the named file, else from the settings; null if neither has one. One line end is removed, which editors add. */
function passphraseFor(config: Config, { passphrase_file: file }: BackupOptions): string | null {
  if (file === undefined) return config.backup.passphrase;
  const reading = readText(file);
  if (reading.kind === 'absent') throw new Problem('not_found', `there is no file ${file}`);
  if (reading.kind === 'bad') throw new Problem('invalid_field', `${file} cannot be read: ${reading.why}`);
  const text = reading.text.replace(/\r?\n$/, '');
  if (text.length >= SHORTEST_PASSPHRASE && Buffer.byteLength(reading.text) <= MOST_PASSPHRASE_BYTES) return text;
  throw new Problem(
    'invalid_field',
    `${file} holds no passphrase of ${String(SHORTEST_PASSPHRASE)} to ${String(MOST_PASSPHRASE_BYTES)} characters`,
  );
}
