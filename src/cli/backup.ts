/** `posthorn backup`: copies of the database and the keys, made while the server runs; verified; restored elsewhere. */
import path from 'node:path';
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
import { noteAct, refuseRootOf, showProgress } from './progress.ts';

interface Options {
  json?: true;
  passphrase_file?: string;
}

/** Exit code if the backup or its books have a fault. */
const FAULTY = 1;
const MOST_PASSPHRASE_BYTES = 4096;
const SHORTEST_PASSPHRASE = 12;

const ON_POSTGRES =
  'storage.url is a PostgreSQL database: pg_dump and pg_restore are its backup, with secret.key kept beside it (docs/backup.md#postgresql)';

/** Runs the work if the database is a SQLite file, and refuses otherwise. */
const onSqlite =
  <Given extends Options & { folder?: string; backup?: string }>(
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

async function makeBackup(context: Context, config: Config, options: Options & { folder?: string }): Promise<void> {
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

type Named = Options & { backup: string };

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
function passphraseFor(config: Config, { passphrase_file: file }: Options): string | null {
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
