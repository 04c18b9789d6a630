/**
 * `npm run bench`: mails from POST to a `delivered` event, beside Postfix with the same receiver in the same run. Ours signs
 * (RSA-2048 and Ed25519), audits, counts rates and remembers idempotency keys; Postfix only relays. Interleaved, median of runs,
 * and of several numbers of sessions the best, each side its own. Ours is warm when the clock starts, as it is all its life but
 * the first seconds. `--floor` adds the least that a program on the same libraries does: what a machine can give at all. `--postgres URL` adds
 * Posthorn on PostgreSQL, each time on a new database that is made through the one of the URL; `--alone` leaves Postfix out.
 */
import { spawn } from 'node:child_process';
import { parseArgs } from 'node:util';
import { benchKey, startAppliance } from './appliance.ts';
import { addressOf } from '../../src/storage/postgres/address.ts';
import { connectTo } from '../../src/storage/postgres/connection.ts';
import { load, readyLoad, watchDelivered } from './drive.ts';
import { startFloor } from './floor.ts';
import { missing, startOpenDkim, startPostfix, startSink, until, type Sink } from './peers.ts';

const { values: options } = parseArgs({
  options: {
    runs: { type: 'string', default: '3' },
    messages: { type: 'string', default: '5000' },
    html: { type: 'string', default: '4096' },
    sessions: { type: 'string', default: '20,50,100' },
    warm: { type: 'string', default: '3000' },
    connections: { type: 'string', default: '50' },
    dkim: { type: 'boolean', default: false },
    floor: { type: 'boolean', default: false },
    profile: { type: 'boolean', default: false },
    postgres: { type: 'string' },
    alone: { type: 'boolean', default: false },
  },
});
const runs = Number(options.runs);
const messages = Number(options.messages);
const html = Number(options.html);
const warm = Number(options.warm);
const sessionCounts = options.sessions.split(',').map(Number);

interface Result {
  rate: number;
  note: string;
}

async function posthorn(sink: Sink, sessions: number, storage: Record<string, string> = {}): Promise<Result> {
  const appliance = await startAppliance({
    env: {
      ...storage,
      POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(sink.port)}` }),
      POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: String(sessions),
      POSTHORN_DELIVERY__LANE__INITIAL_CONCURRENCY: String(sessions),
    },
    nodeArgs: options.profile ? ['--cpu-prof', '--cpu-prof-dir=/tmp/posthorn-profile'] : [],
  });
  try {
    const key = benchKey(appliance);
    appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
    const common = { url: appliance.url, key, connections: Number(options.connections), html };
    const delivered = watchDelivered(appliance.url, key);
    await load({ ...common, count: warm, offset: 0 });
    await delivered(warm);
    const run = await readyLoad({ ...common, count: messages, offset: warm });
    const cpu = appliance.cpu();
    const started = performance.now();
    const answers = await run();
    const accepted = performance.now() - started;
    await delivered(messages);
    const took = performance.now() - started;
    const note = `accepted at ${perSecond(messages, accepted)}/s, POST p50 ${ms(answers.p50)} p99 ${ms(answers.p99)}, ${((appliance.cpu() - cpu) / messages).toFixed(2)} ms CPU a message, ${appliance.rss().toFixed(0)} MiB`;
    return { rate: (messages / took) * 1000, note };
  } finally {
    await appliance.stop();
  }
}

let databases = 0;

/** Makes a new database through the one of `url`; returns the settings that name it. */
async function newDatabase(url: string): Promise<Record<string, string>> {
  const name = `posthorn_bench_${String(process.pid)}_${String(++databases)}`;
  const client = await connectTo(addressOf({ url }), { setUp: [] });
  await client.query(`CREATE DATABASE ${name}`);
  await client.end();
  return { POSTHORN_STORAGE__URL: url.replace(/\/[^/?]*(?=\?|$)/, `/${name}`) };
}

async function floor(sink: Sink, sessions: number): Promise<Result> {
  const least = await startFloor(sink.port, sessions);
  try {
    const common = { url: least.url, key: '-', connections: Number(options.connections), html };
    await load({ ...common, count: warm, offset: 0 });
    await least.delivered(warm);
    const run = await readyLoad({ ...common, count: messages, offset: warm });
    const cpu = least.cpu();
    const started = performance.now();
    await run();
    await least.delivered(warm + messages);
    const took = performance.now() - started;
    const each = ((least.cpu() - cpu) / messages).toFixed(2);
    return { rate: (messages / took) * 1000, note: `${each} ms CPU a message` };
  } finally {
    await least.stop();
  }
}

async function postfix(sink: Sink, sessions: number, milter: string | null): Promise<Result> {
  const peer = await startPostfix(sink.port, sessions, milter);
  try {
    const before = sink.count();
    const started = performance.now();
    const args = [
      '-s',
      String(sessions),
      '-m',
      String(messages),
      '-l',
      String(html),
      '-f',
      'hi@bench.test',
      '-t',
      'r@dest.test',
    ];
    const source = spawn('smtp-source', [...args, `127.0.0.1:${String(peer.port)}`], { stdio: 'inherit' });
    await new Promise((resolve) => source.on('exit', resolve));
    await until(() => Promise.resolve(sink.count() - before >= messages), 'the sink', 120_000);
    return { rate: (messages / (performance.now() - started)) * 1000, note: '' };
  } finally {
    peer.stop();
  }
}

const perSecond = (count: number, took: number): string => ((count / took) * 1000).toFixed(0);
const ms = (value: number): string => `${value.toFixed(1)} ms`;
const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

async function main(): Promise<void> {
  const absent = missing(
    'smtp-sink',
    'smtp-source',
    'postfix',
    ...(options.dkim ? ['opendkim', 'opendkim-genkey'] : []),
  );
  if (absent.length > 0) {
    console.error(
      `missing: ${absent.join(', ')}; install with: apt-get install postfix${options.dkim ? ' opendkim opendkim-tools' : ''}`,
    );
    process.exitCode = 69;
    return;
  }
  const sink = await startSink();
  const dkim = options.dkim ? await startOpenDkim('bench.test') : null;
  /** By name, then by sessions: a rate a run. */
  const rates = new Map<string, Map<number, number[]>>();
  try {
    for (let run = 1; run <= runs; run++) {
      for (const sessions of sessionCounts) {
        note(run, sessions, 'Posthorn', await posthorn(sink, sessions));
        if (options.floor) note(run, sessions, 'floor', await floor(sink, sessions));
        if (options.postgres !== undefined)
          note(
            run,
            sessions,
            'Posthorn on PostgreSQL',
            await posthorn(sink, sessions, await newDatabase(options.postgres)),
          );
        if (!options.alone) note(run, sessions, 'Postfix', await postfix(sink, sessions, null));
        if (dkim !== null) note(run, sessions, 'Postfix + OpenDKIM', await postfix(sink, sessions, dkim.milter));
      }
    }
  } finally {
    sink.stop();
    dkim?.stop();
  }
  const ours = best('Posthorn');
  console.log(`\nbest median of ${String(runs)}:\n  Posthorn ${told(ours)}`);
  for (const name of rates.keys()) {
    if (name === 'Posthorn') continue;
    const peer = best(name);
    console.log(`  ${name} ${told(peer)}: Posthorn is ${(ours.rate / peer.rate).toFixed(2)} x`);
  }

  function note(run: number, sessions: number, name: string, { rate, note: more }: Result): void {
    const own = rates.get(name) ?? new Map<number, number[]>();
    rates.set(name, own.set(sessions, [...(own.get(sessions) ?? []), rate]));
    console.log(
      `run ${String(run)}  ${name.padEnd(18)} ${String(sessions).padStart(3)} sessions ${rate.toFixed(0).padStart(6)} messages/s  ${more}`,
    );
  }

  function best(name: string): Best {
    const medians = [...(rates.get(name) ?? [])].map(([sessions, all]) => ({ sessions, rate: median(all) }));
    return medians.toSorted((a, b) => b.rate - a.rate)[0] ?? { sessions: 0, rate: 0 };
  }
}

interface Best {
  sessions: number;
  rate: number;
}

const told = ({ sessions, rate }: Best): string => `${rate.toFixed(0)}/s with ${String(sessions)} sessions`;

await main();
