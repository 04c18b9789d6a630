/** The report of `npm run bench -- all`, as a table in Markdown. Pure. */
import type { Machine } from './machine.ts';
import type { Result } from './result.ts';
import { durationOf, numberOf, referenceOf, withUnit } from './words.ts';

/** A benchmark of the run: what it measured, or why it did not. */
export interface BenchRun {
  name: string;
  /** The subject, as in the list of benchmarks. */
  shows: string;
  tookMs: number;
  stealPercent: number;
  outcome: { kind: 'measured' } | { kind: 'skipped'; why: string } | { kind: 'failed'; why: string };
  results: readonly Result[];
}

export interface Report {
  version: string;
  /** ISO 8601. */
  startedAt: string;
  /** True if numbers were so small that the figures say nothing but that everything runs. */
  quick: boolean;
  machine: Machine;
  runs: readonly BenchRun[];
}

/** From this share on, other guests of the host were part of what was measured. */
const MUCH_STEAL_PERCENT = 2;
/** A load of this many processes for each core when the run began. */
const MUCH_LOAD = 0.3;

/** Says what makes the figures of this run worth little. */
export function doubtsOf({ quick, machine, runs }: Report): string[] {
  const stolen = runs.filter((run) => run.stealPercent > MUCH_STEAL_PERCENT).map(({ name }) => name);
  return [
    ...(quick ? ['**Quick run**: the numbers are so small that the figures show only that everything runs.'] : []),
    ...(machine.load > MUCH_LOAD * machine.cores
      ? [
          `The machine was busy before the run began: load ${machine.load.toFixed(1)} on ${String(machine.cores)} cores.`,
        ]
      : []),
    ...(stolen.length > 0
      ? [
          `The host gave more than ${String(MUCH_STEAL_PERCENT)} % of the processors to others during: ${stolen.join(', ')}.`,
        ]
      : []),
    ...(machine.onBattery === true ? ['The machine ran on its battery.'] : []),
  ];
}

export function reportMarkdown(report: Report): string {
  const { version, startedAt, machine, runs } = report;
  const measured = runs.flatMap(({ name, results }) => results.map((result) => ({ bench: name, result })));
  const held = measured.filter(({ result }) => result.held === true).length;
  const limited = measured.filter(({ result }) => result.held !== null).length;
  const doubts = doubtsOf(report);
  return [
    `# Benchmarks of Posthorn ${version}`,
    `Run of ${startedAt}. ${String(held)} of ${String(limited)} limits are held.`,
    ...(doubts.length === 0 ? [] : [doubts.map((doubt) => `- ${doubt}`).join('\n')]),
    '## Machine',
    table(['What', 'Value'], machineRows(machine)),
    '## Figures',
    table(
      ['Benchmark', 'Figure', 'Value', 'Held against', 'Held'],
      measured.map(({ bench, result }) => [
        bench,
        result.name,
        withUnit(result.value, result.unit),
        referenceOf(result),
        result.held === null ? '' : result.held ? 'yes' : '**no**',
      ]),
    ),
    '## Runs',
    table(
      ['Benchmark', 'Shows', 'Took', 'Steal', 'Outcome'],
      runs.map((run) => [
        run.name,
        run.shows,
        durationOf(run.tookMs),
        `${run.stealPercent.toFixed(1)} %`,
        run.outcome.kind === 'measured' ? 'measured' : `${run.outcome.kind}: ${run.outcome.why}`,
      ]),
    ),
    ...runs.filter(({ results }) => results.length > 0).map(({ name }) => `![${name}](${name}.svg)`),
    '',
  ].join('\n\n');
}

const machineRows = (machine: Machine): string[][] => [
  ['Processor', `${machine.model}, ${String(machine.cores)} cores`],
  ['Memory', `${numberOf(machine.memoryMiB)} MiB`],
  ['System', `${machine.kernel}, Node.js ${machine.node}`],
  ['One RSA-2048 signature', `${machine.rsaMs.toFixed(3)} ms of CPU`],
  ['One Ed25519 signature', `${machine.ed25519Ms.toFixed(3)} ms of CPU`],
  ['Write and fsync of 4 KiB', `${machine.fsyncMs.toFixed(3)} ms`],
  ['Load when the run began', machine.load.toFixed(2)],
  ['Battery', machine.onBattery === null ? 'none known' : machine.onBattery ? 'discharging' : 'not in use'],
];

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
