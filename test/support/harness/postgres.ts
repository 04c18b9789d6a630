/**
 * A PostgreSQL of this test process, in a folder of its own: `POSTHORN_TEST_STORAGE=postgres` has databases of tests made there. It is
 * started with the first of them and ends with the process. Each test has a database of its own, copied from a template.
 */
import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';

export const isOnPostgres = process.env['POSTHORN_TEST_STORAGE'] === 'postgres';

const ROOT = '/usr/lib/postgresql';
const USER = 'posthorn';

/** The folder with the programs of the newest PostgreSQL of Debian's packages; null if none is installed. */
export function postgresPrograms(): string | null {
  if (!existsSync(ROOT)) return null;
  const versions = readdirSync(ROOT).sort((a, b) => Number(b) - Number(a));
  return (
    versions.map((version) => path.join(ROOT, version, 'bin')).find((bin) => existsSync(path.join(bin, 'initdb'))) ??
    null
  );
}

/** PostgreSQL refuses to run as root. It ends with this process, however that ends. */
const isRoot = process.getuid?.() === 0;
export const asPostgres = (program: string, args: readonly string[]): [string, string[]] => {
  const user = isRoot ? ['--reuid=postgres', '--regid=postgres', '--clear-groups'] : [];
  return ['setpriv', [...user, '--pdeathsig=QUIT', program, ...args]];
};

/** Runs with as few writes to the disk as possible: these databases need not survive a power cut. */
const SETTINGS = [
  'listen_addresses=',
  'fsync=off',
  'full_page_writes=off',
  'shared_buffers=64MB',
  'max_connections=200',
  // Its workers cost a process for each database and interval, and no test lives long enough to need them.
  'autovacuum=off',
  'logging_collector=off',
];

export interface Cluster {
  folder: string;
  /** Ends it at once, as a crash would, and starts it again. */
  crash(): Promise<void>;
}

let cluster: Promise<Cluster> | null = null;

export function startedCluster(): Promise<Cluster> {
  return (cluster ??= startCluster());
}

async function startCluster(): Promise<Cluster> {
  const bin = postgresPrograms();
  if (bin === null) throw new Error('PostgreSQL is not installed (apt-get install postgresql)');
  const folder = mkdtempSync(path.join(tmpdir(), 'posthorn-pg-'));
  const data = path.join(folder, 'data');
  mkdirSync(data);
  chmodSync(folder, 0o755);
  if (isRoot) execFileSync('chown', ['-R', 'postgres:postgres', folder]);
  const [program, args] = asPostgres(path.join(bin, 'initdb'), [
    ...['-D', data, '-U', USER, '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync'],
  ]);
  execFileSync(program, args, { stdio: 'pipe', cwd: folder });
  let server: ChildProcess;
  const start = async (): Promise<void> => {
    const [command, given] = asPostgres(path.join(bin, 'postgres'), [
      ...['-D', data, '-k', folder, ...SETTINGS.flatMap((setting) => ['-c', setting])],
    ]);
    server = spawn(command, given, { stdio: 'ignore', cwd: folder });
    server.unref();
    await answering(folder);
  };
  await start();
  process.once('exit', () => {
    server.kill('SIGQUIT');
    rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  });
  return {
    folder,
    async crash() {
      const ended = new Promise((resolve) => server.once('exit', resolve));
      server.kill('SIGQUIT');
      await ended;
      await start();
    },
  };
}

async function answering(folder: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    const client = new pg.Client({ host: folder, user: USER, database: 'postgres' });
    client.on('error', () => undefined);
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      if (tries > 2400) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

/** The URL of a database of the cluster. */
export const urlOf = (folder: string, database: string): string => `postgres://${USER}@/${database}?host=${folder}`;

let administrator: pg.Pool | null = null;

/** Runs a statement on a connection that is kept, since each connection costs the server a process. */
async function administer(sql: string): Promise<void> {
  const { folder } = await startedCluster();
  if (administrator === null) {
    administrator = new pg.Pool({
      ...{ host: folder, user: USER, database: 'postgres', max: 1, idleTimeoutMillis: 0, allowExitOnIdle: true },
    });
    // A crash of the cluster ends the connection; the pool opens another one.
    administrator.on('error', () => undefined);
  }
  await administrator.query(sql);
}

let count = 0;
/** The databases that were made for data folders of tests. */
const ofFolders = new Map<string, { name: string; url: string }>();

/** Makes a database, from a template where one is given, and returns its name. */
export async function makeDatabase(template?: string): Promise<string> {
  const name = `test_${String(++count)}`;
  await administer(
    `CREATE DATABASE ${name}${template === undefined ? '' : ` TEMPLATE ${template} STRATEGY file_copy`}`,
  );
  return name;
}

/** Makes the database of a data folder, unless it has one; that of another folder is its template. */
export async function databaseForFolder(folder: string, template?: string): Promise<void> {
  const { folder: sockets } = await startedCluster();
  if (ofFolders.has(folder)) return;
  const name = await makeDatabase(template === undefined ? undefined : ofFolders.get(template)?.name);
  ofFolders.set(folder, { name, url: urlOf(sockets, name) });
}

/** Lets a data folder use the database of another one, as a second node does. */
export function shareDatabase(of: string, folder: string): void {
  const known = ofFolders.get(of);
  if (known === undefined) throw new Error(`no database was made for ${of}`);
  ofFolders.set(folder, known);
}

/** Forgets the database of a data folder that others use too. */
export function leaveDatabase(folder: string): void {
  ofFolders.delete(folder);
}

/** Copies the database of a data folder, whose server may run, for another folder. */
export async function copyDatabase(from: string, to: string): Promise<void> {
  const { folder } = await startedCluster();
  await databaseForFolder(to);
  const bin = postgresPrograms() ?? '';
  const reach = ['-h', folder, '-U', USER];
  const file = path.join(to, 'dump.sql');
  await run(path.join(bin, 'pg_dump'), [...reach, '-f', file, ofFolders.get(from)?.name ?? '']);
  await run(path.join(bin, 'psql'), [
    ...reach,
    '-q',
    '-v',
    'ON_ERROR_STOP=1',
    '-f',
    file,
    ofFolders.get(to)?.name ?? '',
  ]);
  rmSync(file);
  // The server of the first database does not live in the copy.
  await run(path.join(bin, 'psql'), [...reach, '-qc', 'DELETE FROM nodes', ofFolders.get(to)?.name ?? '']);
}

const run = promisify(execFile);

/** Returns the URL of the database of a data folder. */
export function urlOfFolder(folder: string): string {
  const known = ofFolders.get(folder);
  if (known === undefined) throw new Error(`no database was made for ${folder}`);
  return known.url;
}

export async function dropDatabaseOf(folder: string): Promise<void> {
  const known = ofFolders.get(folder);
  ofFolders.delete(folder);
  if (known !== undefined) await dropDatabase(known.name);
}

/** Drops a database that `makeDatabase` made. */
export async function dropDatabase(name: string): Promise<void> {
  await administer(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
}

let empty: Promise<string> | null = null;

/** Returns the name of a database with the tables and without rows; `prepare` opens and closes it once. */
export function emptyTemplate(prepare: (url: string) => Promise<void>): Promise<string> {
  return (empty ??= (async () => {
    const { folder } = await startedCluster();
    const name = await makeDatabase();
    await prepare(urlOf(folder, name));
    return name;
  })());
}
