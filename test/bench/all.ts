/**
 * `npm run bench -- all`: runs every benchmark of report/benches.ts one after the other, each beside its peers in the same run, and writes
 * a folder: `results.json`, `results.md`, a drawing (SVG) and the output of each benchmark. Exit 1 where a limit is broken or a benchmark
 * fails. What lacks a program of others is skipped, and the package to install is named.
 *
 *   --out FOLDER     where the report goes; ./bench-results if absent
 *   --only NAME,...  runs only these
 *   --quick          small numbers: shows that everything runs, and no figure that means anything
 *   --postgres URL   also measures Posthorn on PostgreSQL, in databases that are made through this one
 *   --list           prints the benchmarks and runs none
 */
import { spawn } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { version } from '../../src/version.ts';
import { missing } from '../support/harness/peer.ts';
import { benches, commandOf, packages, type Bench, type Program } from './report/benches.ts';
import { cpuTicks, describeMachine, stealPercent } from './report/machine.ts';
import { plot } from './report/plot.ts';
import { reportMarkdown, type BenchRun, type Report } from './report/report.ts';
import { readResults, RESULTS_VARIABLE } from './report/result.ts';
import { durationOf } from './report/words.ts';

const { values: options } = parseArgs({
  options: {
    out: { type: 'string', default: 'bench-results' },
    only: { type: 'string' },
    quick: { type: 'boolean', default: false },
    postgres: { type: 'string' },
    list: { type: 'boolean', default: false },
  },
});
/** A benchmark that takes so many times its time hangs. */
const PATIENCE = 10;
const MINUTE_MS = 60_000;
const USAGE = 64;

const wanted = options.only?.split(',');
const chosen = benches.filter(({ name }) => wanted?.includes(name) ?? true);
const unknown = (wanted ?? []).filter((name) => !benches.some((bench) => bench.name === name));

/** Says what keeps a benchmark from running here, or null. */
function obstacleOf({ needs, takesPostgres }: Bench): string | null {
  const absent = needs.filter((program: Program) => missing(program).length > 0);
  if (absent.length > 0) {
    const install = new Set(absent.map((program) => packages[program]));
    return `${absent.join(', ')} is missing: apt-get install ${[...install].join(' ')}`;
  }
  return takesPostgres === true && options.postgres === undefined
    ? 'name a database with --postgres URL (apt-get install postgresql)'
    : null;
}

/** Runs one benchmark as a process of its own; its output is shown, indented, and kept. */
async function runBench(bench: Bench, folder: string): Promise<BenchRun> {
  const file = path.join(folder, `${bench.name}.jsonl`);
  rmSync(file, { force: true });
  const about = { name: bench.name, shows: bench.shows };
  const obstacle = obstacleOf(bench);
  if (obstacle !== null) {
    console.log(`   skipped: ${obstacle}`);
    return { ...about, tookMs: 0, stealPercent: 0, outcome: { kind: 'skipped', why: obstacle }, results: [] };
  }
  const [before, started] = [cpuTicks(), performance.now()];
  const log = createWriteStream(path.join(folder, `${bench.name}.log`));
  const child = spawn(process.execPath, commandOf(bench, options), {
    env: { ...process.env, [RESULTS_VARIABLE]: file },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      log.write(text);
      process.stdout.write(text.replaceAll(/^(?=.)/gm, '   '));
    });
  const timer = setTimeout(() => child.kill('SIGKILL'), bench.minutes * PATIENCE * MINUTE_MS);
  const code = await new Promise<number | string>((resolve) => {
    child.on('close', (status, signal) => {
      resolve(status ?? signal ?? 1);
    });
  });
  clearTimeout(timer);
  log.end();
  const results = existsSync(file) ? readResults(readFileSync(file, 'utf8')) : [];
  rmSync(file, { force: true });
  // Exit code 1 with a broken limit is a measurement; anything else means that the figures are not complete.
  const isMeasured = code === 0 || (code === 1 && results.some(({ held }) => held === false));
  return {
    ...about,
    tookMs: performance.now() - started,
    stealPercent: stealPercent(before, cpuTicks()),
    outcome: isMeasured
      ? { kind: 'measured' }
      : {
          kind: 'failed',
          why: code === 'SIGKILL' ? 'did not end in time' : `ended with ${String(code)}, see ${bench.name}.log`,
        },
    results,
  };
}

function write(folder: string, report: Report): void {
  writeFileSync(path.join(folder, 'results.json'), `${JSON.stringify(report, null, 2)}\n`);
  writeFileSync(path.join(folder, 'results.md'), reportMarkdown(report));
  for (const { name, results } of report.runs)
    if (results.length > 0)
      writeFileSync(path.join(folder, `${name}.svg`), plot(`${name}${report.quick ? ' (quick run)' : ''}`, results));
}

const minutesOf = (list: readonly Bench[]): number => list.reduce((sum, { minutes }) => sum + minutes, 0);

async function main(): Promise<void> {
  if (unknown.length > 0) {
    console.error(`There is no benchmark ${unknown.join(', ')}: see --list.`);
    process.exitCode = USAGE;
    return;
  }
  if (options.list) {
    for (const bench of chosen) {
      const obstacle = obstacleOf(bench);
      console.log(
        `${bench.name.padEnd(16)} ${durationOf(bench.minutes * MINUTE_MS).padStart(7)}  ${bench.shows}${obstacle === null ? '' : ` (skipped: ${obstacle})`}`,
      );
    }
    return;
  }
  const folder = path.resolve(options.out);
  mkdirSync(folder, { recursive: true });
  const report: Report & { runs: BenchRun[] } = {
    version,
    startedAt: new Date().toISOString(),
    quick: options.quick,
    machine: describeMachine(),
    runs: [],
  };
  for (const [place, bench] of chosen.entries()) {
    const left = options.quick ? '' : `, about ${durationOf(minutesOf(chosen.slice(place)) * MINUTE_MS)} left`;
    console.log(`${String(place + 1)}/${String(chosen.length)} ${bench.name}: ${bench.shows}${left}`);
    report.runs.push(await runBench(bench, folder));
    // After each, so that a run that is ended early leaves what it has.
    write(folder, report);
  }
  const broken = report.runs.flatMap(({ results }) => results.filter(({ held }) => held === false)).length;
  const failed = report.runs.filter(({ outcome }) => outcome.kind === 'failed').length;
  const skipped = report.runs.filter(({ outcome }) => outcome.kind === 'skipped').length;
  console.log(
    `${path.join(folder, 'results.md')}: ${String(chosen.length)} benchmarks, ${String(skipped)} skipped, ${String(failed)} failed, ${String(broken)} limits broken${options.quick ? ' (quick run: says nothing)' : ''}`,
  );
  if (failed > 0 || (broken > 0 && !options.quick)) process.exitCode = 1;
}

await main();
