/**
 * `npm run bench -- end-to-end`: mails from POST to a `delivered` event, beside Postfix with the same receiver in the same run. Ours signs
 * (RSA-2048 and Ed25519), audits, counts rates and remembers idempotency keys; Postfix only relays. Interleaved, median of runs,
 * and of several numbers of sessions the best, each side its own. Ours is warm when the clock starts, as it is all its life but
 * the first seconds: V8 goes on compiling until some 8,000 mails, and a mail takes up to a quarter more CPU before. `--floor` adds the least that a program on the same libraries does: what a machine can give at all. `--postgres URL` adds
 * Posthorn on PostgreSQL, each time on a new database that is made through the one of the URL; `--alone` leaves Postfix out.
 */
import { spawn } from 'node:child_process';
import { parseArgs } from 'node:util';
import { addressOf } from '../../src/storage/postgres/address.ts';
import { connectTo } from '../../src/storage/postgres/connection.ts';
import { load, readyLoad } from './drive.ts';
import { startFloor } from './floor.ts';
import { measuredRun, median } from './measured-run.ts';
import { missing, startOpenDkim, startPostfix, startSink, until, type Sink } from './peers.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: {
    runs: { type: 'string', default: '3' },
    messages: { type: 'string', default: '5000' },
    html: { type: 'string', default: '4096' },
    sessions: { type: 'string', default: '20,50,100' },
    warm: { type: 'string', default: '10000' },
    connections: { type: 'string', default: '50' },
    dkim: { type: 'boolean', default: false },
    /** Holds the ratios against the bar for large messages. */
    large: { type: 'boolean', default: false },
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
  const { rate, acceptedRate, answers, cpuMs, rssMiB } = await measuredRun({
    sinkPort: sink.port,
    sessions,
    messages,
    warm,
    html,
    connections: Number(options.connections),
    env: storage,
    nodeArgs: options.profile ? ['--cpu-prof', '--cpu-prof-dir=/tmp/posthorn-profile'] : [],
  });
  const note = `accepted at ${acceptedRate.toFixed(0)}/s, POST p50 ${ms(answers.p50)} p99 ${ms(answers.p99)}, ${cpuMs.toFixed(2)} ms CPU a message, ${rssMiB.toFixed(0)} MiB`;
  return { rate, note };
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

const ms = (value: number): string => `${value.toFixed(1)} ms`;
/** The bar for each peer: how many times its rate Posthorn has to reach. */
const BARS: Readonly<Record<string, number>> = { Postfix: 2, 'Postfix + OpenDKIM': 5 };
/** The bar for messages of 100 KB, where copying bytes is most of the work of each program. */
const LARGE_BARS: Readonly<Record<string, number>> = { 'Postfix + OpenDKIM': 2 };

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
  console.log(`\nbest median of ${String(runs)}:`);
  tell(`  Posthorn ${told(ours)}`, { name: 'Posthorn', value: ours.rate, unit: 'messages/s' });
  for (const name of rates.keys()) {
    if (name === 'Posthorn') continue;
    const peer = best(name);
    const ratio = ours.rate / peer.rate;
    const bar = (options.large ? LARGE_BARS : BARS)[name];
    tell(
      `  ${name} ${told(peer)}: Posthorn is ${ratio.toFixed(2)} x${bar === undefined ? '' : ` (bar ${String(bar)} x)`}`,
      { name, value: peer.rate, unit: 'messages/s' },
      { name: `Posthorn / ${name}`, value: ratio, unit: 'x', ...(bar === undefined ? {} : { atLeast: bar }) },
    );
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
