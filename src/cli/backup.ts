/** `posthorn backup`: copies of the database and the keys, made while the server runs; verified; restored elsewhere. */
import path from 'node:path';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import { Problem } from '../base/problem.ts';
import type { Made } from '../backup/create.ts';
import { backupTimeIn, byAge, KEYS, type Manifest } from '../backup/manifest.ts';
import { lastName } from '../backup/newest.ts';
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

export function addBackup(program: CommandUnknownOpts, context: Context): void {
  const backup = program.command('backup').description('copies of the database and the keys');
  const passphrase = [
    '--passphrase-file <file>',
    'file with the passphrase of the keys (default: the setting backup.passphrase)',
  ] as const;
  backup
    .command('create [folder]')
    .description('make a backup in this folder (default: backup.dir), while the server runs or without it')
    .option(...passphrase)
    .option('--json', 'as one JSON object')
    .action((folder, options) => create(context, folder, options));
  backup
    .command('verify <backup...>')
    .description('check every byte, the database and its books; exit code 1 if something is wrong')
    .option(...passphrase)
    .option('--json', 'as one JSON object for each backup, one a line')
    .action((folders, options) => verifyAll(context, folders, options));
  backup
    .command('restore <backup...>')
    .description('put a backup, of several the newest, into storage.url, where no database and no server may be')
    .option(...passphrase)
    .option('--json', 'as one JSON object')
    .action((folders, options) => restore(context, newestOf(context, folders), options));
}

async function create(context: Context, folder: string | undefined, options: Options): Promise<void> {
  const { config } = context.load();
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
    if (options.json === true)
      context.out(JSON.stringify({ backup: null, ok: false, why: made.why, faults: [made.text] }));
    context.fail(`posthorn: ${made.text}`);
    context.end(codesOfCreate[made.why]);
    return;
  }
  if (passphrase === null)
    context.note(
      'posthorn: the backup is without the keys (secret.key): set backup.passphrase, or keep a copy of them apart',
    );
  const { manifest, bytes, removed, unbalanced } = made;
  const keys = manifest.files.some((file) => file.name === KEYS) ? 'encrypted' : 'none';
  await noteAct(context, config, { ...act, after: { backup: made.folder, bytes, keys, removed } });
  context.print(options.json, { backup: made.folder, bytes, ...shown(manifest), unbalanced, removed }, () => [
    made.folder,
    `${String(bytes)} bytes, ${contents(manifest)}`,
    ...unbalanced.map((fault) => `the books do not balance: ${fault}`),
    ...removed.map((name) => `removed: ${name}`),
  ]);
  if (unbalanced.length > 0) context.end(FAULTY);
}

type NotMade = Extract<Made, { kind: 'refused' }>['why'];
const codesOfCreate: Readonly<Record<NotMade, number>> = {
  no_database: exitCodes.noInput,
  busy: exitCodes.cannotCreate,
  no_room: exitCodes.cannotCreate,
  no_access: exitCodes.noPermission,
  damaged: exitCodes.data,
};

/** The exit code is that of the last faulty one. */
async function verifyAll(context: Context, folders: readonly string[], options: Options): Promise<void> {
  for (const folder of folders) await verify(context, folder, { ...options, isOneOfMany: folders.length > 1 });
}

/** Returns the newest backup by the time in its name, as byAge() has it, and says which that is. Throws if that cannot be told from the names. */
function newestOf(context: Context, folders: readonly string[]): string {
  const [only, ...others] = folders;
  if (only !== undefined && others.length === 0) return only;
  const timed = folders.map((folder) => ({ folder, at: backupTimeIn(path.basename(path.resolve(folder))) }));
  const nameless = timed.find(({ at }) => at === null);
  if (nameless !== undefined)
    throw new Problem('invalid_parameter', `${nameless.folder} has no time in its name: name one backup to restore`);
  const times = byAge(
    timed.flatMap(({ at }) => at ?? []),
    backupTimeIn(lastName(context.now())) ?? '',
  );
  const newest = timed.find(({ at }) => at === times.at(-1))?.folder ?? '';
  context.note(`posthorn: of ${String(folders.length)} backups the newest is restored: ${newest}`);
  return newest;
}

async function verify(context: Context, folder: string, options: Options & { isOneOfMany: boolean }): Promise<void> {
  const { config } = context.load();
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
  if (options.json === true && options.isOneOfMany) context.out(JSON.stringify(record));
  else
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

/** Prints the faults and sets the exit code. */
function printRefusal(
  context: Context,
  folder: string,
  found: Exclude<Verified, { kind: 'good' }>,
  { json }: Options,
): void {
  const isPassphrase = found.kind === 'wrong_passphrase';
  const faults = isPassphrase ? ['the passphrase does not open the keys'] : found.faults;
  if (json === true) context.out(JSON.stringify({ backup: folder, ok: false, why: found.kind, faults }));
  else for (const fault of faults) context.note(`posthorn: ${path.basename(folder)}: ${fault}`);
  context.end(isPassphrase ? exitCodes.noPermission : FAULTY);
}

async function restore(context: Context, folder: string, options: Options): Promise<void> {
  const { config } = context.load();
  const { restoreBackup } = await import('../backup/restore.ts');
  await refuseRoot(config);
  const progress = showProgress(context, 'checking');
  const copying = showProgress(context, 'copying');
  const act = { operation: 'backup.restore', object: path.resolve(folder) } as const;
  const restoring = restoreBackup({
    folder: path.resolve(folder),
    storage: config.storage,
    dataDir: config.dataDir,
    passphrase: passphraseFor(config, options),
    progress: (part) => {
      progress.at(Math.round(part * 1000), 1000);
    },
    copying: (step, done, of) => {
      (step === 'copying' ? copying : progress).at(done, of);
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
  if (restored.kind !== 'refused') {
    printRefusal(context, folder, restored, options);
    return;
  }
  await noteAct(context, config, { ...act, fault: refused(restored.text) });
  if (options.json === true)
    context.out(JSON.stringify({ backup: folder, ok: false, why: restored.why, faults: [restored.text] }));
  else context.note(`posthorn: ${restored.text}`);
  context.end(codesOfRestore[restored.why]);
}

type NotRestored = Extract<Restored, { kind: 'refused' }>['why'];
const codesOfRestore: Readonly<Record<NotRestored, number>> = {
  in_use: exitCodes.cannotCreate,
  not_empty: exitCodes.cannotCreate,
  newer: exitCodes.config,
  no_passphrase: exitCodes.noPermission,
  no_keys: exitCodes.noInput,
  other_keys: exitCodes.data,
};

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

const shown = ({ version: by, created_at, migrations, counts, key_ids, files }: Manifest): Record<string, unknown> => ({
  version: by,
  created_at,
  migrations,
  counts,
  key_ids,
  files,
});

function contents({ counts, created_at }: Manifest): string {
  const { messages, waiting } = counts;
  return `${pluralize(messages, 'message')}, ${pluralize(waiting, 'recipient')} waiting, of ${created_at}`;
}

/** Reads the passphrase from the named file, else from the settings; null if neither has one. */
function passphraseFor(config: Config, { passphraseFile }: Options): string | null {
  if (passphraseFile === undefined) return config.backup.passphrase;
  return readPassphrase(passphraseFile);
}

/** Removes one line end, which editors add. */
function readPassphrase(file: string): string {
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
