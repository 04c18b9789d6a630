/**
 * `npm run bench`: mails from POST to a `delivered` event, beside Postfix with the same receiver in the same run. Ours signs
 * (RSA-2048 and Ed25519), audits, counts rates and remembers idempotency keys; Postfix only relays. Interleaved, median of runs.
 */
import { spawn } from 'node:child_process';
import { parseArgs } from 'node:util';
import { benchKey, startAppliance } from './appliance.ts';
import { missing, startOpenDkim, startPostfix, startSink, until, type Sink } from './peers.ts';

const { values: options } = parseArgs({
  options: {
    runs: { type: 'string', default: '3' },
    messages: { type: 'string', default: '5000' },
    html: { type: 'string', default: '4096' },
    sessions: { type: 'string', default: '20' },
    connections: { type: 'string', default: '50' },
    dkim: { type: 'boolean', default: false },
    profile: { type: 'boolean', default: false },
  },
});
const runs = Number(options.runs);
const messages = Number(options.messages);
const html = Number(options.html);

interface Result {
  rate: number;
  note: string;
}

async function posthorn(sink: Sink): Promise<Result> {
  const appliance = await startAppliance({
    env: {
      POSTHORN_DELIVERY__ROUTES: JSON.stringify({ '*': `127.0.0.1:${String(sink.port)}` }),
      POSTHORN_DELIVERY__LANE__MAX_CONCURRENCY: options.sessions,
      POSTHORN_DELIVERY__LANE__INITIAL_CONCURRENCY: options.sessions,
    },
    nodeArgs: options.profile ? ['--cpu-prof', '--cpu-prof-dir=/tmp/posthorn-profile'] : [],
  });
  try {
    const key = benchKey(appliance);
    appliance.cli('domains', 'add', 'bench.test', '--trust', '--json');
    await load(appliance.url, key, 500, 0);
    await delivered(appliance.url, key, 500);
    const cpu = appliance.cpu();
    const started = performance.now();
    const answers = await load(appliance.url, key, messages, 500);
    const accepted = performance.now() - started;
    await delivered(appliance.url, key, 500 + messages);
    const took = performance.now() - started;
    const note = `accepted at ${perSecond(messages, accepted)}/s, POST p50 ${ms(answers.p50)} p99 ${ms(answers.p99)}, ${((appliance.cpu() - cpu) / messages).toFixed(2)} ms CPU a message, ${appliance.rss().toFixed(0)} MiB`;
    return { rate: (messages / took) * 1000, note };
  } finally {
    await appliance.stop();
  }
}

interface Answers {
  refused: number;
  p50: number;
  p99: number;
}

function load(url: string, key: string, count: number, offset: number): Promise<Answers> {
  const args = [url, key, String(count), options.connections, String(html), String(offset)];
  const child = spawn(process.execPath, ['--import', 'tsx', new URL('load.ts', import.meta.url).pathname, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.on('exit', (code) => {
      if (code !== 0) reject(new Error(`the load ended with ${String(code)}`));
      else resolve(JSON.parse(text) as Answers);
    });
  });
}

/** Reads the event log by cursor until it shows so many `delivered`. */
async function delivered(url: string, key: string, count: number): Promise<void> {
  let after = '';
  let seen = 0;
  await until(
    async () => {
      const page = await fetch(
        `${url}/v1/events?type=delivered&limit=1000${after === '' ? '' : `&after=${encodeURIComponent(after)}`}`,
        {
          headers: { authorization: `Bearer ${key}` },
        },
      );
      const { data, next_cursor } = (await page.json()) as { data: unknown[]; next_cursor: string };
      seen += data.length;
      after = next_cursor;
      return seen >= count;
    },
    `${String(count)} delivered events`,
    120_000,
  );
}

async function postfix(sink: Sink, milter: string | null): Promise<Result> {
  const peer = await startPostfix(sink.port, Number(options.sessions), milter);
  try {
    const before = sink.count();
    const started = performance.now();
    const args = [
      '-s',
      options.sessions,
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
  const rates: Record<string, number[]> = {
    Posthorn: [],
    Postfix: [],
    ...(dkim === null ? {} : { 'Postfix + OpenDKIM': [] }),
  };
  try {
    for (let run = 1; run <= runs; run++) {
      const ours = await posthorn(sink);
      note(run, 'Posthorn', ours);
      note(run, 'Postfix', await postfix(sink, null));
      if (dkim !== null) note(run, 'Postfix + OpenDKIM', await postfix(sink, dkim.milter));
    }
  } finally {
    sink.stop();
    dkim?.stop();
  }
  const ours = median(rates['Posthorn'] ?? []);
  console.log(`\nmedian of ${String(runs)}: Posthorn ${ours.toFixed(0)}/s`);
  for (const [name, all] of Object.entries(rates)) {
    if (name !== 'Posthorn')
      console.log(`  ${name} ${median(all).toFixed(0)}/s: Posthorn is ${(ours / median(all)).toFixed(2)} x`);
  }

  function note(run: number, name: string, { rate, note: more }: Result): void {
    (rates[name] ??= []).push(rate);
    console.log(`run ${String(run)}  ${name.padEnd(20)} ${rate.toFixed(0).padStart(6)} messages/s  ${more}`);
  }
}

await main();
