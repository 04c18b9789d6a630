/** `posthorn storage move`: moves all rows from a SQLite file into PostgreSQL, or back. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import { isPostgresUrl, postgresUrlFault } from '../base/postgres-url.ts';
import { Problem } from '../base/problem.ts';
import type { Moved } from '../backup/move.ts';
import type { Config } from '../config/schema.ts';
import { lookAtSocket, socketPath } from '../operator/control-socket.ts';
import { pluralize } from '../base/pluralize.ts';
import { Unavailable } from '../operator/unavailable.ts';
import type { StoreAddress } from '../storage/database.ts';
import type { Context } from './cli.ts';
import { exitCodes } from './exit-codes.ts';
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

export function addStorage(program: CommandUnknownOpts, context: Context): void {
  program
    .command('storage')
    .description('where the database is')
    .command('move')
    .description('move everything to another kind of database, while no server runs; afterwards set storage.url to it')
    .requiredOption('--to <url>', 'sqlite:<path of a new file>, or postgres://<user>@<host>/<empty database>')
    .option('--password-file <file>', 'file with the password of the PostgreSQL user (default: as in the settings)')
    .option('--json', 'as one JSON object')
    .action((options) => move(context, options));
}

async function move(context: Context, options: Options): Promise<void> {
  const { config } = context.load();
  const to = addressFrom(config, options);
  await refuseRoot(config);
  if ((await lookAtSocket(socketPath(config.dataDir))) === 'live')
    throw new Unavailable('already_running', 'the server is running: stop it first');
  const { moveStorage } = await import('../backup/move.ts');
  const shown = { copying: showProgress(context, 'copying'), comparing: showProgress(context, 'comparing') };
  const from = { ...config.storage, ...passwordOf(options) };
  const begun = context.now();
  const act = { operation: 'storage.move', object: to.url } as const;
  const moving = moveStorage(
    { clock: systemClock },
    {
      from,
      to,
      dataDir: config.dataDir,
      progress: (step, done, of) => {
        shown[step].at(done, of);
      },
    },
  );
  const moved = await orNoteFailure(context, config, act, moving);
  shown.comparing.end();
  await note(context, config, { moved, from: from.url, to });
  print(context, { moved, from: from.url, to: to.url, seconds: (context.now() - begun) / 1000 }, options);
}

/** The row of the audit moves along; that of a refusal stays in the old database, where there is one that takes it. */
async function note(
  context: Context,
  config: Config,
  { moved, from, to }: { moved: Moved; from: string; to: StoreAddress },
): Promise<void> {
  const act = { operation: 'storage.move', object: to.url } as const;
  if (moved.kind === 'refused') {
    if (moved.why !== 'marked' && moved.why !== 'no_database')
      await noteAct(context, config, { ...act, fault: refused(moved.text) });
    return;
  }
  const rows = moved.kind === 'completed' ? {} : { rows: countOf(moved) };
  const storage = { ...config.storage, ...to };
  await noteAct(context, { ...config, storage }, { ...act, after: { from, to: to.url, ...rows } });
}

const countOf = ({ copied }: Extract<Moved, { kind: 'moved' }>): number =>
  copied.tables.reduce((sum, { rows }) => sum + rows, 0);

const passwordOf = ({ passwordFile }: Options): Partial<StoreAddress> =>
  passwordFile === undefined ? {} : { password: null, passwordFile: path.resolve(passwordFile) };

/** Throws `Problem` for a URL that is none of a database, and for a file with a password that is not there. */
function addressFrom({ storage }: Config, options: Options): StoreAddress {
  const { to, passwordFile } = options;
  if (passwordFile !== undefined && !existsSync(passwordFile))
    throw new Problem('not_found', `there is no file ${passwordFile}`);
  const file = /^sqlite:(?<file>[^:].*)$/.exec(to)?.groups?.['file'];
  if (file !== undefined) return { url: `sqlite:${path.resolve(file)}` };
  const fault = isPostgresUrl(to)
    ? postgresUrlFault(to)
    : 'it must be sqlite:<path> or postgres://<user>@<host>/<database>';
  if (fault !== null) throw new Problem('invalid_parameter', `--to: ${fault.replace('storage.url: ', '')}`);
  return { ...storage, url: to, ...passwordOf(options) };
}

interface Result {
  moved: Moved;
  from: string;
  to: string;
  seconds: number;
}

function print(context: Context, { moved, from, to, seconds }: Result, { json }: Options): void {
  if (moved.kind === 'refused') {
    if (json === true) context.out(JSON.stringify({ ok: false, why: moved.why, text: moved.text }));
    else context.note(`posthorn: ${moved.text}`);
    context.end(codes[moved.why]);
    return;
  }
  const next = `Set storage.url to ${to} now. The old database stays as it is, and no server starts on it.`;
  if (moved.kind === 'completed') {
    context.print(json, { ok: true, from, to, completed: true }, () => [
      `the move to ${to} was complete but for its last step, which is done now`,
      next,
    ]);
    return;
  }
  const { tables, replaced } = moved.copied;
  const { balanced, accepted, faults } = moved.books;
  const rows = countOf(moved);
  context.print(
    json,
    { ok: true, from, to, rows, seconds, replaced, books: { balanced, accepted, faults }, tables },
    () => [
      ...tables
        .filter((table) => table.rows > 0)
        .map((table) => `${table.table}: ${pluralize(table.rows, 'row')}, ${table.digest}`),
      `moved ${String(rows)} rows in ${String(Math.round(seconds))} s; counts, digests and books are equal on both sides`,
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
  same_engine: exitCodes.usage,
  no_database: exitCodes.noInput,
  in_use: exitCodes.cannotCreate,
  not_empty: exitCodes.cannotCreate,
  no_room: exitCodes.cannotCreate,
  schema: exitCodes.config,
  data: exitCodes.data,
  marked: exitCodes.config,
};
