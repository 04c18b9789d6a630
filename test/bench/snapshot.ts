/**
 * `npm run bench -- snapshot`: what a transaction that holds an old snapshot of the database (any pg_dump) costs the mail. Two Posthorns run on
 * databases of one PostgreSQL of this benchmark, which it starts with its usual settings for durability. In the second one a snapshot is
 * taken after `--before` minutes and held for `--minutes`. Both deliver in turns of `--mails` to smtp-sink, a second or two each, so that
 * whatever else the machine does slows both. A row shows a minute: the rates, and the CPU time of a mail in Posthorn and in PostgreSQL.
 * `--alone` leaves out the first database: then the second is under load for the whole time, and is held against its own first minutes.
 * Exit 1 where the last third of the minutes with the snapshot has less than 0.7 of the rate without.
 */
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { postgresPrograms } from '../support/harness/postgres.ts';
import { PostgresServer, urlOn } from '../support/harness/postgres-server.ts';
import { benchKey, startAppliance, type Appliance } from './appliance.ts';
import { databaseCpu } from './database-cpu.ts';
import { load, readyLoad, watchDelivered } from './drive.ts';
import { missing, startSink, type Sink } from './peers.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    before: { type: 'string', default: '1' },
    mails: { type: 'string', default: '1000' },
    size: { type: 'string', default: '4096' },
    connections: { type: 'string', default: '50' },
    sessions: { type: 'string', default: '50' },
    alone: { type: 'boolean', default: false },
  },
});
const MINUTE_MS = 60_000;
const minutes = Number(options.minutes);
const before = Number(options.before);
const mails = Number(options.mails);
const WARM = 3000;
const LEAST = 0.7;

/** The mails that were delivered in a time, and their cost in ms. */
interface Sum {
  mails: number;
  ms: number;
  ownCpu: number;
  databaseCpu: number;
}

const nothing = (): Sum => ({ mails: 0, ms: 0, ownCpu: 0, databaseCpu: 0 });
const rateOf = (sum: Sum): number => (sum.mails / sum.ms) * 1000;

/** One Posthorn with its database. */
interface Side {
  appliance: Appliance;
  /** Sends a turn of mails, waits until they are delivered, and adds what that took. */
  turn(sum: Sum): Promise<void>;
}

async function startSide(url: string, sink: Sink): Promise<Side> {
  const appliance = await startAppliance({
    env: {
      POSTHORN_STORAGE__URL: url,
      POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(sink.port)}` }),
      POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: options.sessions,
      POSTHORN_DELIVERY__LANE__INITIAL_CONCURRENCY: options.sessions,
    },
  });
  const key = benchKey(appliance);
  appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
  const common = { url: appliance.url, key, connections: Number(options.connections), size: Number(options.size) };
  const delivered = watchDelivered(appliance.url, key);
  const ofDatabase = await databaseCpu(url);
  await load({ ...common, count: WARM, offset: 0 });
  await delivered(WARM);
  let offset = WARM;
  return {
    appliance,
    async turn(sum) {
      const run = await readyLoad({ ...common, count: mails, offset });
      offset += mails;
      const [own, database] = [appliance.cpu(), ofDatabase()];
      const begun = performance.now();
      const { refused } = await run();
      if (refused > 0) throw new Error(`${String(refused)} mails were refused`);
      await delivered(mails);
      sum.ms += performance.now() - begun;
      sum.mails += mails;
      sum.ownCpu += appliance.cpu() - own;
      sum.databaseCpu += ofDatabase() - database;
    },
  };
}

/** Takes a snapshot of the database, as pg_dump does, and returns the function that ends it. */
async function holdSnapshot(connectionString: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  await client.query('BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY');
  await client.query('SELECT count(*) FROM messages');
  return async () => {
    await client.query('COMMIT');
    await client.end();
  };
}

const costOf = ({ mails: n, ownCpu, databaseCpu: database }: Sum): string =>
  `${(ownCpu / n).toFixed(2)} + ${(database / n).toFixed(2)} ms`;

/** Runs turns of all sides for a minute, prints it, and returns what each side did. */
async function minute(name: string, sides: readonly Side[]): Promise<Sum[]> {
  const sums = sides.map(nothing);
  const end = performance.now() + MINUTE_MS;
  while (performance.now() < end)
    for (const [place, side] of sides.entries()) await side.turn(sums[place] ?? nothing());
  const said = sums.map((sum) => `${rateOf(sum).toFixed(0).padStart(5)}/s, CPU ${costOf(sum)}`);
  console.log(`${name.padEnd(22)} ${said.join('   beside ')}`);
  return sums;
}

const added = (sums: readonly Sum[]): Sum =>
  sums.reduce<Sum>(
    (all, one) => ({
      mails: all.mails + one.mails,
      ms: all.ms + one.ms,
      ownCpu: all.ownCpu + one.ownCpu,
      databaseCpu: all.databaseCpu + one.databaseCpu,
    }),
    nothing(),
  );

async function main(): Promise<void> {
  const absent = missing('smtp-sink');
  if (absent.length > 0 || postgresPrograms() === null) {
    console.error('smtp-sink or PostgreSQL is missing; install with: apt-get install postfix postgresql');
    process.exitCode = 69;
    return;
  }
  const root = mkdtempSync(path.join(os.tmpdir(), 'posthorn-snapshot-'));
  chmodSync(root, 0o755);
  const server = new PostgresServer(path.join(root, 'server'));
  server.initialize();
  await server.start();
  const sink = await startSink();
  const sides: Side[] = [];
  try {
    const names = options.alone ? ['held'] : ['held', 'free'];
    for (const name of names) {
      await server.query(`CREATE DATABASE ${name}`);
      sides.push(await startSide(urlOn([server.folder], name), sink));
    }
    console.log(`${''.padEnd(22)} with the snapshot${options.alone ? '' : ', beside the database without one'}`);
    const first: Sum[][] = [];
    for (let at = 1; at <= before; at++) first.push(await minute(`before, minute ${String(at)}`, sides));
    const release = await holdSnapshot(urlOn([server.folder], 'held'));
    const held: Sum[][] = [];
    for (let at = 1; at <= minutes; at++) held.push(await minute(`held, minute ${String(at)}`, sides));
    for (const row of [...(await deadRows(server)), ...(await sizes(server, names))]) console.log(`  ${row}`);
    await release();
    const last = held.slice(-Math.ceil(minutes / 3));
    const ofSide = (rows: readonly Sum[][], side: number): Sum => added(rows.flatMap((sums) => sums[side] ?? []));
    const [withSnapshot, without] = [ofSide(last, 0), options.alone ? ofSide(first, 0) : ofSide(last, 1)];
    const ratio = rateOf(withSnapshot) / rateOf(without);
    tell(
      `the last ${String(last.length)} minutes: ${rateOf(withSnapshot).toFixed(0)}/s (${costOf(withSnapshot)}), without ${rateOf(without).toFixed(0)}/s (${costOf(without)}): ${ratio.toFixed(2)} x (bar ${String(LEAST)} x)`,
      { name: 'rate under a held snapshot', value: ratio, unit: 'x', atLeast: LEAST },
    );
  } finally {
    for (const { appliance } of sides) await appliance.stop();
    sink.stop();
    await server.stopAtOnce();
    rmSync(root, { recursive: true, force: true });
  }
}

/** Tells the tables of the held database with the most dead rows. */
async function deadRows(server: PostgresServer): Promise<string[]> {
  const rows = await server.query<{ name: string; dead: string; live: string }>(
    `SELECT relname AS name, n_dead_tup AS dead, n_live_tup AS live FROM pg_stat_user_tables
     WHERE n_dead_tup > 100 ORDER BY n_dead_tup DESC LIMIT 8`,
    'held',
  );
  return rows.map(({ name, dead, live }) => `${name}: ${dead} dead rows beside ${live}`);
}

/** Tells how large each of the databases is. */
async function sizes(server: PostgresServer, names: readonly string[]): Promise<string[]> {
  return Promise.all(
    names.map(async (name) => {
      const [row] = await server.query<{ size: string; mails: string }>(
        'SELECT pg_database_size(current_database()) AS size, (SELECT count(*) FROM messages) AS mails',
        name,
      );
      return `${name}: ${(Number(row?.size) / 1e6).toFixed(0)} MB for ${String(row?.mails)} mails`;
    }),
  );
}

await main();
