/**
 * `npm run bench -- nodes`: one, two and three servers on one PostgreSQL, all on this machine: mails a second from POST at each of them to their
 * `delivered` events, CPU time for one mail at each node and at the database, how many connections to the database wait for a lock, and how
 * many units of work are committed together. Where the machine has fewer cores than there are programs, rates tell nothing and CPU time
 * tells what more nodes cost.
 */
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { postgresPrograms } from '../support/harness/postgres.ts';
import { PostgresServer, urlOn } from '../support/harness/postgres-server.ts';
import { startAppliance, type Appliance } from './appliance.ts';
import { databaseCpu } from './database-cpu.ts';
import { load, readyLoad, watchDelivered } from './drive.ts';
import { missing, startSink } from './peers.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: {
    nodes: { type: 'string', default: '1,2,3' },
    messages: { type: 'string', default: '6000' },
    warm: { type: 'string', default: '3000' },
    size: { type: 'string', default: '4096' },
    sessions: { type: 'string', default: '48' },
    connections: { type: 'string', default: '48' },
    domains: { type: 'string', default: '200' },
  },
});
const messages = Number(options.messages);
const SAMPLE_MS = 100;

interface Figures {
  rate: number;
  /** CPU time for one mail of all, at each node, in ms. */
  nodes: readonly number[];
  databaseMs: number;
  /** Connections to the database that wait for a lock, on average. */
  waiting: number;
  /** Units of work in one transaction, at each node. */
  unitsInGroup: readonly number[];
}

/** Starts servers that share one database and one key file. */
async function startNodes(root: string, count: number, env: Record<string, string>): Promise<Appliance[]> {
  const nodes: Appliance[] = [];
  for (let at = 0; at < count; at++) {
    const dataDir = path.join(root, `node${String(at)}`);
    mkdirSync(dataDir);
    const [first] = nodes;
    if (first !== undefined) copyFileSync(path.join(first.dataDir, 'secret.key'), path.join(dataDir, 'secret.key'));
    nodes.push(await startAppliance({ dataDir, env: { ...env, POSTHORN_NODE__NAME: `node${String(at)}` } }));
  }
  return nodes;
}

/** Counts the connections that wait for a lock, again and again; the function that it returns ends that and gives the average. */
async function watchLocks(folder: string): Promise<() => Promise<number>> {
  const client = new pg.Client({ host: folder, user: 'posthorn', database: 'posthorn' });
  await client.connect();
  const found: number[] = [];
  const timer = setInterval(() => {
    void client
      .query<{ n: string }>("SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
      .then(({ rows }) => found.push(Number(rows[0]?.n)));
  }, SAMPLE_MS);
  return async () => {
    clearInterval(timer);
    await client.end();
    return found.reduce((sum, n) => sum + n, 0) / found.length;
  };
}

/** A server says at its end what it committed. */
function unitsInGroup({ dataDir }: Appliance): number {
  const line = readFileSync(`${dataDir}.log`, 'utf8')
    .split('\n')
    .find((one) => one.includes('"event":"stopped"'));
  const { commits } = JSON.parse(line ?? '{}') as { commits: { groups: number; units: number } };
  return commits.units / commits.groups;
}

async function measure(database: PostgresServer, nodes: readonly Appliance[]): Promise<Omit<Figures, 'unitsInGroup'>> {
  const [first] = nodes;
  if (first === undefined) throw new Error('there are no nodes');
  const scopes = 'send,event:read';
  const { key } = (await first.command('keys', 'create', '--name', 'bench', '--scopes', scopes, '--json')) as {
    key: string;
  };
  await first.command('domains', 'add', 'bench.test', '--trust', '--json');
  const delivered = watchDelivered(first.url, key);
  const share = (all: number): number => Math.floor(all / nodes.length);
  const loadOf = (all: number, from: number) =>
    nodes.map(({ url }, at) => ({
      ...{ url, key, count: share(all), offset: from + at * share(all) },
      ...{ size: Number(options.size), domains: Number(options.domains) },
      connections: share(Number(options.connections)),
    }));
  const sent = share(messages) * nodes.length;
  await Promise.all(loadOf(Number(options.warm), 0).map(load));
  await delivered(share(Number(options.warm)) * nodes.length);
  const runs = await Promise.all(loadOf(messages, Number(options.warm)).map(readyLoad));
  const databaseTime = await databaseCpu(urlOn([database.folder], 'posthorn'));
  const endLocks = await watchLocks(database.folder);
  const cpu = nodes.map((node) => node.cpu());
  const [databaseBefore, began] = [databaseTime(), performance.now()];
  await Promise.all(runs.map((run) => run()));
  await delivered(sent);
  return {
    rate: (sent / (performance.now() - began)) * 1000,
    nodes: nodes.map((node, at) => (node.cpu() - (cpu[at] ?? 0)) / sent),
    databaseMs: (databaseTime() - databaseBefore) / sent,
    waiting: await endLocks(),
  };
}

async function figuresOf(count: number, sinkPort: number): Promise<Figures> {
  const root = mkdtempSync(path.join(os.tmpdir(), 'posthorn-bench-nodes-'));
  chmodSync(root, 0o755);
  const database = new PostgresServer(path.join(root, 'database'));
  database.initialize();
  await database.start();
  const nodes: Appliance[] = [];
  try {
    await database.query('CREATE DATABASE posthorn');
    const env = {
      POSTHORN_STORAGE__URL: urlOn([database.folder], 'posthorn'),
      POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(sinkPort)}` }),
      POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: options.sessions,
      POSTHORN_DELIVERY__LANE__INITIAL_CONCURRENCY: options.sessions,
    };
    nodes.push(...(await startNodes(root, count, env)));
    const figures = await measure(database, nodes);
    await Promise.all(nodes.map((node) => node.stop()));
    return { ...figures, unitsInGroup: nodes.map(unitsInGroup) };
  } finally {
    await Promise.all(nodes.map((node) => node.kill()));
    await database.stopAtOnce();
    rmSync(root, { recursive: true, force: true });
  }
}

async function run(): Promise<void> {
  const sink = await startSink();
  try {
    for (const count of options.nodes.split(',').map(Number)) {
      const { rate, nodes, databaseMs, waiting, unitsInGroup: units } = await figuresOf(count, sink.port);
      const all = nodes.reduce((sum, one) => sum + one, 0);
      const list = (values: readonly number[], places: number): string =>
        values.map((value) => value.toFixed(places)).join(' + ');
      const cost = `${all.toFixed(2)} ms CPU a mail at the nodes (${list(nodes, 2)}), ${databaseMs.toFixed(2)} at the database`;
      const what = `${String(count)} node${count === 1 ? '' : 's'}`;
      tell(
        `${what}: ${rate.toFixed(0)} mails/s; ${cost}; ${waiting.toFixed(2)} connections wait for a lock; units in a commit: ${list(units, 1)}`,
        { name: `CPU a mail, ${what}`, value: all, unit: 'ms' },
        { name: `CPU a mail at the database, ${what}`, value: databaseMs, unit: 'ms' },
        { name: `mails, ${what}`, value: rate, unit: '/s' },
      );
    }
  } finally {
    sink.stop();
  }
}

if (missing('smtp-sink').length > 0 || postgresPrograms() === null) {
  console.error('missing: smtp-sink or PostgreSQL; install with: apt-get install postfix postgresql');
  process.exitCode = 69;
} else await run();
