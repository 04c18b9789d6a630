/**
 * Figures of benchmarks, each beside what it is held against. Every benchmark says its figures with `tell`: it prints the line for
 * people, sets exit code 1 where a limit is broken, and appends the figures as JSON lines to the file that BENCH_RESULTS names, from
 * which `npm run bench -- all` makes its report.
 */
import { appendFileSync } from 'node:fs';

export interface Figure {
  /** Unique within its benchmark: `POST p99`. */
  name: string;
  value: number;
  /** `messages/s`, `ms`, `MiB`; `x` for a ratio. */
  unit: string;
  /** The limit. A figure without a limit is shown and not held. */
  atMost?: number;
  atLeast?: number;
  /** The same of another program, or of this program alone, measured in the same run. */
  peer?: { name: string; value: number };
}

export interface Result extends Figure {
  /** Null if there is no limit. */
  held: boolean | null;
}

/** The environment variable with the name of the file that gets the figures. */
export const RESULTS_VARIABLE = 'BENCH_RESULTS';

/** Compares the figure with its limit. What could not be measured (NaN) is not held. */
export function resultOf(figure: Figure): Result {
  const { value, atMost, atLeast } = figure;
  if (atMost === undefined && atLeast === undefined) return { ...figure, held: null };
  return { ...figure, held: value <= (atMost ?? Infinity) && value >= (atLeast ?? -Infinity) };
}

/** Prints the line and records its figures; returns whether every limit is held. */
export function tell(line: string, ...figures: readonly Figure[]): boolean {
  console.log(line);
  const results = figures.map(resultOf);
  const file = process.env[RESULTS_VARIABLE];
  if (file !== undefined) appendFileSync(file, results.map((result) => `${JSON.stringify(result)}\n`).join(''));
  const isHeld = results.every(({ held }) => held !== false);
  if (!isHeld) process.exitCode = 1;
  return isHeld;
}

/** Reads what `tell` wrote. A value that was not measured is written as null. */
export function readResults(text: string): Result[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const result = JSON.parse(line) as Omit<Result, 'value'> & { value: number | null };
      return { ...result, value: result.value ?? NaN };
    });
}
