/** Parsing of option values that several commands share. */
import { InvalidArgumentError } from 'commander';
import { duration } from '../config/kind.ts';

/** `a,b` or `a, b`; given several times, the lists are joined. */
export function listOption(text: string, before: readonly string[] | undefined): string[] {
  const items = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
  return [...(before ?? []), ...items];
}

const span = duration('1ms', '3650d');

/** A duration such as `30d`, in milliseconds. */
export function durationOption(text: string): number {
  const read = span.schema.safeParse(text);
  if (read.success) return read.data;
  throw new InvalidArgumentError(`Expected ${span.expected}.`);
}

/** A whole number from 1 to 1000. */
export function limitOption(text: string): number {
  if (/^[1-9]\d{0,3}$/.test(text) && Number(text) <= 1000) return Number(text);
  throw new InvalidArgumentError('Expected a whole number from 1 to 1000.');
}

/** The lines of a `--help` that show how a command is used. */
export function examples(...lines: readonly string[]): string {
  return ['', 'Examples:', ...lines.map((line) => `  $ ${line}`)].join('\n');
}
