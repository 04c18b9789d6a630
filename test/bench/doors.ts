/**
 * `npm run bench -- doors`: each way in (SMTP, HTTP) with mails of each size, over kept connections and over one for each mail, until they
 * are delivered. Postfix and Postfix with OpenDKIM relay the same mails of `smtp-source` to the same receiver in the same run. Ours signs
 * twice, audits, writes events and statistics; Postfix alone signs nothing. Programs take turns, and figures are medians of the runs.
 * The first mails after a start are measured too (cold).
 *
 *   --doors smtp,http  --sizes 4096,32768,102400,1048576  --connections kept,fresh     the cells; all of them if left out
 *   --sessions N: connections in and out, 20 if left out
 *   --runs N            --scale X: so many times as many mails in each cell             --quick: few mails, and one run
 *   --beside FOLDER     a second built working tree of Posthorn, in turns with this one
 *   --postgres URL      also Posthorn on PostgreSQL, each time on a new database that is made through the one of the URL
 *   --alone             without the peers         --out FILE: the figures of each run, as JSON
 *   --profile FOLDER    CPU profiles of Posthorn, which cost some of its speed
 */
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { addressOf, connectTo } from '../../src/storage/postgres/connection.ts';
import { loadBySmtp } from './drive.ts';
import { measuredRun, median, type ThreadTimes } from './measured-run.ts';
import { missing, startOpenDkim, startPostfix, startSink, until, type Sink } from './peers.ts';
import { cpuOfTree } from './process-cpu.ts';
import { rsaSignatureMs } from './report/machine.ts';
import { tell } from './report/result.ts';

const { values: options } = parseArgs({
  options: {
    doors: { type: 'string', default: 'smtp,http' },
    sizes: { type: 'string', default: '4096,32768,102400,1048576' },
    connections: { type: 'string', default: 'kept,fresh' },
    sessions: { type: 'string', default: '20' },
    runs: { type: 'string' },
    scale: { type: 'string', default: '1' },
    quick: { type: 'boolean', default: false },
    beside: { type: 'string' },
    postgres: { type: 'string' },
    alone: { type: 'boolean', default: false },
    out: { type: 'string' },
    profile: { type: 'string' },
  },
});
type Door = 'smtp' | 'http';
type Kind = 'kept' | 'fresh';

interface Cell {
  door: Door;
  size: number;
  kind: Kind;
}

/** A measurement of one program in one cell. */
interface Measured {
  rate: number;
  coldRate: number;
  cpuMs: number;
  parts?: ThreadTimes;
  answerMs?: number;
  peakMiB: number;
}

const OURS = 'Posthorn';
const PEER = 'Postfix';
const SIGNING_PEER = 'Postfix + OpenDKIM';
const runs = Number(options.runs ?? (options.quick ? '1' : '5'));
const scale = Number(options.scale) * (options.quick ? 0.04 : 1);
const sessions = Number(options.sessions);

/** The mails of a cell: the first ones after the start, all before the clock starts (V8 compiles until then), and those that are measured. */
function countsOf(size: number): { cold: number; warm: number; messages: number } {
  const [cold, warm, messages] =
    size < 16_000
      ? [2000, 10_000, 8000]
      : size < 64_000
        ? [1000, 6000, 4000]
        : size < 500_000
          ? [500, 4000, 2000]
          : [50, 1500, 300];
  const scaled = (count: number): number => Math.max(2 * sessions, Math.round(count * scale));
  return { cold: scaled(cold), warm: scaled(warm) + scaled(cold), messages: scaled(messages) };
}

/** How many times the rate of Postfix without DKIM has to be reached. */
const BARS: Readonly<Record<string, number>> = {
  'SMTP 4 KB kept': 1.5,
  'SMTP 32 KB kept': 1.3,
  'SMTP 100 KB kept': 1.2,
  'SMTP 1 MB kept': 1,
  'SMTP 4 KB fresh': 1.2,
  'HTTP 4 KB kept': 2,
  'HTTP 100 KB kept': 1.2,
};
/** Resident memory under load, in MiB: 300 MB. */
const MOST_MIB = 286;
const MEMORY_SIZE = 102_400;

const sizeName = (size: number): string => (size >= 1 << 20 ? `${String(size >> 20)} MB` : `${String(size >> 10)} KB`);
const nameOf = ({ door, size, kind }: Cell): string => `${door.toUpperCase()} ${sizeName(size)} ${kind}`;

const listed = (text: string): string[] => text.split(',');
const cells: readonly Cell[] = listed(options.doors).flatMap((door) =>
  listed(options.sizes).flatMap((size) =>
    listed(options.connections).map((kind) => ({ door: door as Door, size: Number(size), kind: kind as Kind })),
  ),
);

async function posthorn(
  { door, size, kind }: Cell,
  sink: Sink,
  more: { dir?: string; env?: Record<string, string> } = {},
): Promise<Measured> {
  return measuredRun({
    ...more,
    ...countsOf(size),
    door,
    size,
    isFresh: kind === 'fresh',
    sinkPort: sink.port,
    sessions,
    connections: sessions,
    nodeArgs: options.profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${options.profile}`],
  });
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

/** Postfix has no other way in than SMTP: both of ours are compared with it. */
async function postfix(
  { size, kind }: Cell,
  sink: Sink,
  dkim: { milter: string; pid: number } | null,
): Promise<Measured> {
  const peer = await startPostfix(sink.port, sessions, dkim?.milter);
  try {
    const { cold, messages } = countsOf(size);
    const send = async (count: number): Promise<number> => {
      const [before, started] = [sink.count(), performance.now()];
      await loadBySmtp({ port: peer.port, count, sessions, size, isFresh: kind === 'fresh' });
      await until(() => Promise.resolve(sink.count() - before >= count), 'the sink', 300_000);
      return (count / (performance.now() - started)) * 1000;
    };
    const cpu = (): number => cpuOfTree(peer.pid()) + (dkim === null ? 0 : cpuOfTree(dkim.pid));
    const coldRate = await send(cold);
    const before = cpu();
    const rate = await send(messages);
    return { rate, coldRate, cpuMs: (cpu() - before) / messages, peakMiB: NaN };
  } finally {
    peer.stop();
  }
}

/** All runs, by program and cell. */
const all = new Map<string, Measured[]>();
const of = (program: string, cell: Cell): Measured[] => all.get(`${program} ${nameOf(cell)}`) ?? [];

function note(run: number, program: string, cell: Cell, measured: Measured): void {
  all.set(`${program} ${nameOf(cell)}`, [...of(program, cell), measured]);
  const { rate, coldRate, cpuMs, parts, answerMs = NaN, peakMiB } = measured;
  const kinds =
    parts === undefined
      ? ''
      : ` = ${Object.entries(parts)
          .map(([kind, ms]) => `${kind} ${(ms as number).toFixed(2)}`)
          .join(' + ')}`;
  const memory = Number.isNaN(peakMiB) ? '' : `, peak ${peakMiB.toFixed(0)} MiB`;
  const answers = Number.isNaN(answerMs) ? '' : `, POST p50 ${answerMs.toFixed(1)} ms`;
  console.log(
    `run ${String(run)}  ${nameOf(cell).padEnd(18)} ${program.padEnd(18)} ${rate.toFixed(0).padStart(6)}/s  cold ${coldRate.toFixed(0).padStart(5)}/s  CPU ${cpuMs.toFixed(2)} ms${kinds}${memory}${answers}`,
  );
}

const figure = (measured: readonly Measured[], name: 'rate' | 'coldRate' | 'cpuMs' | 'peakMiB'): number =>
  median(measured.map((one) => one[name]));

const COLUMNS = [
  'Door, size, connections',
  'Posthorn',
  'cold',
  'CPU',
  'peak',
  PEER,
  'CPU',
  'ratio',
  SIGNING_PEER,
  'ratio',
];

/** Prints the row of a cell and records its figures. */
function tellCell(cell: Cell): void {
  const name = nameOf(cell);
  const ours = of(OURS, cell);
  const rate = figure(ours, 'rate');
  const memory = figure(ours, 'peakMiB');
  const ratioTo = (program: string): number => rate / figure(of(program, cell), 'rate');
  const bar = BARS[name];
  const shown = (value: number, unit: string, digits = 0): string =>
    Number.isNaN(value) ? '' : `${value.toFixed(digits)}${unit}`;
  const peer = of(PEER, cell);
  const columns = [
    name,
    shown(rate, '/s'),
    shown(figure(ours, 'coldRate'), '/s'),
    shown(figure(ours, 'cpuMs'), ' ms', 2),
    shown(memory, ' MiB'),
    shown(figure(peer, 'rate'), '/s'),
    shown(figure(peer, 'cpuMs'), ' ms', 2),
    shown(ratioTo(PEER), ' x', 2),
    shown(figure(of(SIGNING_PEER, cell), 'rate'), '/s'),
    shown(ratioTo(SIGNING_PEER), ' x', 2),
  ];
  tell(
    `| ${columns.join(' | ')} |`,
    { name, value: rate, unit: 'messages/s' },
    { name: `${name}: CPU`, value: figure(ours, 'cpuMs'), unit: 'ms' },
    { name: `${name}: memory`, value: memory, unit: 'MiB', ...(cell.size === MEMORY_SIZE ? { atMost: MOST_MIB } : {}) },
    ...(peer.length === 0
      ? []
      : [
          {
            name: `${name}: Posthorn / Postfix`,
            value: ratioTo(PEER),
            unit: 'x',
            ...(bar === undefined ? {} : { atLeast: bar }),
          },
        ]),
  );
}

async function runAll(sink: Sink): Promise<void> {
  const dkim = options.alone ? null : await startOpenDkim('bench.test');
  try {
    for (let run = 1; run <= runs; run++)
      for (const cell of cells) {
        note(run, OURS, cell, await posthorn(cell, sink));
        if (options.beside !== undefined)
          note(run, 'beside', cell, await posthorn(cell, sink, { dir: options.beside }));
        if (options.postgres !== undefined)
          note(run, 'on PostgreSQL', cell, await posthorn(cell, sink, { env: await newDatabase(options.postgres) }));
        if (dkim === null) continue;
        note(run, PEER, cell, await postfix(cell, sink, null));
        note(run, SIGNING_PEER, cell, await postfix(cell, sink, dkim));
      }
  } finally {
    dkim?.stop();
  }
}

async function main(): Promise<void> {
  const absent = missing(
    'smtp-sink',
    'smtp-source',
    ...(options.alone ? [] : ['postfix', 'opendkim', 'opendkim-genkey']),
  );
  if (absent.length > 0) {
    console.error(`missing: ${absent.join(', ')}; install with: apt-get install postfix opendkim opendkim-tools`);
    process.exitCode = 69;
    return;
  }
  const before = rsaSignatureMs();
  const sink = await startSink();
  try {
    await runAll(sink);
  } finally {
    sink.stop();
  }
  const signatureMs = (before + rsaSignatureMs()) / 2;
  console.log(`\nmedians of ${String(runs)}, ${String(sessions)} connections, each way:\n`);
  console.log(`| ${COLUMNS.join(' | ')} |\n|${COLUMNS.map(() => ' --- |').join('')}`);
  for (const cell of cells) tellCell(cell);
  for (const program of ['beside', 'on PostgreSQL']) for (const cell of cells) tellBeside(program, cell);
  tell(`one RSA signature: ${signatureMs.toFixed(3)} ms`, { name: 'RSA signature', value: signatureMs, unit: 'ms' });
  if (options.out !== undefined)
    writeFileSync(
      options.out,
      `${JSON.stringify({ signatureMs, sessions, cells: Object.fromEntries(all) }, null, 2)}\n`,
    );
}

/** Tells how another Posthorn of the run compares: its rate, and the ratio of the CPU times. */
function tellBeside(program: string, cell: Cell): void {
  const other = of(program, cell);
  if (other.length === 0) return;
  const [rate, cpu] = [figure(other, 'rate'), figure(other, 'cpuMs')];
  const ours = figure(of(OURS, cell), 'cpuMs');
  tell(
    `${program}, ${nameOf(cell)}: ${rate.toFixed(0)}/s, CPU ${cpu.toFixed(2)} ms; this one takes ${(ours / cpu).toFixed(3)} of that`,
    { name: `${nameOf(cell)}, ${program}`, value: rate, unit: 'messages/s' },
  );
}

await main();
