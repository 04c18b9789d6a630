/** `posthorn storage move`: moves all rows from a SQLite file into PostgreSQL. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import { isPostgresUrl, postgresUrlFault } from '../base/postgres-url.ts';
import { Problem } from '../base/problem.ts';
import type { Moved } from '../backup/move.ts';
import type { Config } from '../config/schema.ts';
import { pluralize } from '../base/pluralize.ts';
import type { StoreAddress } from '../storage/database.ts';
import type { Context } from './cli.ts';
import { exitCodes, Refusal } from './exit-codes.ts';
import { noteAct, orNoteFailure, refused } from './note-act.ts';
import { showProgress } from './progress.ts';
import { refuseRoot } from './refuse-root.ts';

interface Options {
  to: string;
  passwordFile?: string;
  json?: true;
}

/** Exit code if the books that were moved do not balance. */
const FAULTY = 1;

export function addStorage(storage: CommandUnknownOpts, context: Context): void {
  storage
    .command('move')
    .description('move everything from SQLite to PostgreSQL, while no server runs; afterwards set storage.url to it')
    .requiredOption('--to <url>', 'postgres://<user>@<host>/<empty database>')
    .option('--password-file <file>', 'file with the password of the PostgreSQL user (default: as in the settings)')
    .option('--json', 'as one JSON object')
    .action((options) => move(context, options));
}

async function move(context: Context, options: Options): Promise<void> {
  const { config } = context.load();
  const to = addressFrom(config, options);
  const { url: from } = config.storage;
  if (isPostgresUrl(from))
    throw new Refusal(
      exitCodes.usage,
      'storage.url is a PostgreSQL database already; use pg_dump and pg_restore to move that',
    );
  await refuseRoot(config);
  const { moveStorage } = await import('../backup/move.ts');
  const shown = showProgress(context, 'copying');
  const begun = context.now();
  const act = { operation: 'storage.move', object: to.url } as const;
  const moving = moveStorage(
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
  const moved = await orNoteFailure(context, config, act, moving);
  shown.end();
  // The row of the audit moves along; that of a refusal stays in the old database, if there is one that takes it.
  if (moved.kind === 'refused') {
    if (moved.why !== 'marked' && moved.why !== 'no_database')
      await noteAct(context, config, { ...act, fault: refused(moved.text) });
    if (options.json === true) context.out(JSON.stringify({ ok: false, why: moved.why, text: moved.text }));
    else context.note(`posthorn: ${moved.text}`);
    context.end(codes[moved.why]);
    return;
  }
  await noteAct(context, { ...config, storage: { ...config.storage, ...to } }, { ...act, after: { from, to: to.url } });
  print(context, moved, { from, to: to.url, seconds: (context.now() - begun) / 1000, json: options.json });
}

/** Throws `Problem` for a URL that is none of a PostgreSQL database, and for a file with a password that is not there. */
function addressFrom({ storage }: Config, { to, passwordFile }: Options): StoreAddress {
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
