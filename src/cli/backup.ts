/** `posthorn backup`: copies of the database and the keys, made while the server runs; verified; restored elsewhere. */
import path from 'node:path';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import { isPostgresUrl } from '../base/postgres-url.ts';
import { Problem } from '../base/problem.ts';
import type { Made } from '../backup/create.ts';
import type { Manifest } from '../backup/manifest.ts';
import type { Restored } from '../backup/restore.ts';
import type { Verified } from '../backup/verify.ts';
import { readText } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { pluralize } from '../base/pluralize.ts';
import { version } from '../version.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';
import { noteAct, orNoteFailure, refused } from './note-act.ts';
import { showProgress } from './progress.ts';
import { refuseRoot } from './refuse-root.ts';

interface Options {
  json?: true;
  passphraseFile?: string;
}

/** Exit code if the backup or its books have a fault. */
const FAULTY = 1;
const MOST_PASSPHRASE_BYTES = 4096;
const SHORTEST_PASSPHRASE = 12;

const ON_POSTGRES =
  'storage.url is a PostgreSQL database: pg_dump and pg_restore are its backup, with secret.key kept beside it (docs/backup.md#postgresql)';

export function addBackup(backup: CommandUnknownOpts, context: Context): void {
  const passphrase = [
    '--passphrase-file <file>',
    'file with the passphrase of the keys (default: the setting backup.passphrase)',
  ] as const;
  const json = ['--json', 'as one JSON object'] as const;
  backup
    .command('create [folder]')
    .description('make a backup in this folder (default: backup.dir), while the server runs or without it')
    .option(...passphrase)
    .option(...json)
    .action(onSqlite(context, (config, folder, options) => create(context, config, folder, options)));
  backup
    .command('verify <backup>')
    .description('check every byte, the database and its books; exit code 1 if something is wrong')
    .option(...passphrase)
    .option(...json)
    .action(onSqlite(context, (config, folder = '', options) => verify(context, config, folder, options)));
  backup
    .command('restore <backup>')
    .description('put a backup into storage.url, where no database and no server may be')
    .option(...passphrase)
    .option(...json)
    .action(onSqlite(context, (config, folder = '', options) => restore(context, config, folder, options)));
}

function onSqlite(
  context: Context,
  work: (config: Config, folder: string | undefined, options: Options) => Promise<void>,
) {
  return async (folder: string | undefined, options: Options): Promise<void> => {
    const { config } = context.load();
    if (isPostgresUrl(config.storage.url))
      printRefusal(context, folder ?? null, { kind: 'refused', why: 'postgres', text: ON_POSTGRES }, options);
    else await work(config, folder, options);
  };
}

async function create(context: Context, config: Config, folder: string | undefined, options: Options): Promise<void> {
  const { createBackup } = await import('../backup/create.ts');
  await refuseRoot(config);
  const passphrase = passphraseFor(config, options);
  const [copying, checking] = [showProgress(context, 'copying'), showProgress(context, 'checking')];
  const dir = folder === undefined ? config.backup.dir : path.resolve(folder);
  const act = { operation: 'backup.create', object: dir } as const;
  const making = createBackup(
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
  const made = await orNoteFailure(context, config, act, making);
  checking.end();
  if (made.kind === 'refused') {
    await noteAct(context, config, { ...act, fault: refused(made.text) });
    printRefusal(context, null, made, options);
    return;
  }
  if (passphrase === null)
    context.note(
      'posthorn: the backup is without the keys (secret.key): set backup.passphrase, or keep a copy of them apart',
    );
  const { manifest, bytes, removed, unbalanced } = made;
  const keys = made.hasKeys ? 'encrypted' : 'none';
  await noteAct(context, config, { ...act, after: { backup: made.folder, bytes, keys, removed } });
  context.print(options.json, { backup: made.folder, bytes, ...shown(manifest), unbalanced, removed }, () => [
    made.folder,
    `${String(bytes)} bytes, ${contents(manifest)}`,
    ...unbalanced.map((fault) => `the books do not balance: ${fault}`),
    ...removed.map((name) => `removed: ${name}`),
  ]);
  if (unbalanced.length > 0) context.end(FAULTY);
}

async function verify(context: Context, config: Config, folder: string, options: Options): Promise<void> {
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
  { json }: Options,
): void {
  const why = found.kind === 'refused' ? found.why : found.kind;
  const faults =
    found.kind === 'damaged'
      ? found.faults
      : [found.kind === 'refused' ? found.text : 'the passphrase does not open the keys'];
  if (json === true) context.out(JSON.stringify({ backup, ok: false, why, faults }));
  for (const fault of faults) context.fail(`posthorn: ${fault}`);
  context.end(found.kind === 'damaged' ? FAULTY : codes[why]);
}

type Why = Extract<Made | Restored, { kind: 'refused' }>['why'] | 'wrong_passphrase' | 'postgres';
const codes: Readonly<Record<Why, number>> = {
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

async function restore(context: Context, config: Config, folder: string, options: Options): Promise<void> {
  const { restoreBackup } = await import('../backup/restore.ts');
  await refuseRoot(config);
  const progress = showProgress(context, 'checking');
  const act = { operation: 'backup.restore', object: path.resolve(folder) } as const;
  const restoring = restoreBackup({
    folder: path.resolve(folder),
    storage: config.storage,
    dataDir: config.dataDir,
    passphrase: passphraseFor(config, options),
    progress: (part) => {
      progress.at(Math.round(part * 1000), 1000);
    },
  });
  const restored = await orNoteFailure(context, config, act, restoring);
  progress.end();
  if (restored.kind === 'restored') {
    const { manifest, keys } = restored;
    const after = { backup: act.object, created_at: manifest.created_at, data_dir: config.dataDir, keys };
    await noteAct(context, config, { ...act, after });
    printRestored(context, config, folder, restored, options);
    return;
  }
  if (restored.kind === 'refused') await noteAct(context, config, { ...act, fault: refused(restored.text) });
  printRefusal(context, folder, restored, options);
}

function printRestored(
  context: Context,
  config: Config,
  folder: string,
  { manifest, keys, unbalanced }: Extract<Restored, { kind: 'restored' }>,
  { json }: Options,
): void {
  context.print(json, { backup: folder, data_dir: config.dataDir, ...shown(manifest), keys, unbalanced }, () => [
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
function passphraseFor(config: Config, { passphraseFile: file }: Options): string | null {
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
