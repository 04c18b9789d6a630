/** Parsers of option values that several commands use. */
import { InvalidArgumentError, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { readDuration } from '../base/time.ts';

/**
 * Reads `a,b` or `a, b`; if the option is given several times, the lists are joined. The operation checks the items. A list without items is
 * refused: it comes from a variable of the shell that is not set, and would lift the restriction that it was to be.
 */
export function listOption<Item extends string>(text: string, before: readonly Item[] | undefined): Item[] {
  const items = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '') as Item[];
  if (items.length === 0) throw new InvalidArgumentError('Expected at least one value: leave the option out for all.');
  return [...(before ?? []), ...items];
}

/** Options whose value may be empty: parts of a mail, and a member of the team without an account. */
const MAY_BE_EMPTY: ReadonlySet<string> = new Set(['subject', 'text', 'html', 'accounts']);

/**
 * Refuses an option with one value that is given twice, or with nothing, in this command and those below. Otherwise the first value, such
 * as that of the first of two `--to`, would be silently lost; and a variable of the shell that is not set would widen what a command is about.
 */
export function refuseUnclear(command: CommandUnknownOpts): void {
  for (const option of command.options) {
    if (option.isBoolean() || option.parseArg === listOption) continue;
    let isGiven = false;
    command.on(`option:${option.name()}`, (value: string | null) => {
      if (isGiven) command.error(`error: option '${option.flags}' is given twice, and takes one value`);
      if (value === '' && !MAY_BE_EMPTY.has(option.name()))
        command.error(`error: option '${option.flags}' has an empty value: give one, or leave the option out`);
      isGiven = true;
    });
  }
  for (const below of command.commands) refuseUnclear(below);
}

/**
 * Refuses an empty argument, in this command and those below. Otherwise, with a variable of the shell that is not set, `backup create` would
 * take the working directory.
 */
export function refuseEmptyArguments(program: CommandUnknownOpts): void {
  program.hook('preAction', (_, command) => {
    const at = command.args.indexOf('');
    // The word that is being completed may be empty.
    if (at === -1 || command.name() === 'complete') return;
    const name = (command.registeredArguments[at] ?? command.registeredArguments.at(-1))?.name() ?? '';
    command.error(`error: argument '${name}' is empty`);
  });
}

/** Returns a parser that reads a duration such as `30d` within these limits and returns milliseconds. */
export const durationWithin =
  (least: string, most: string) =>
  (text: string): number => {
    const ms = readDuration(text);
    if (ms !== null && ms >= (readDuration(least) ?? 0) && ms <= (readDuration(most) ?? 0)) return ms;
    throw new InvalidArgumentError(`Expected a duration from ${least} to ${most} (units ms, s, m, h, d).`);
  };

export const durationOption = durationWithin('1ms', '3650d');

/** Returns a parser for a whole number between two others. */
export const wholeOption =
  (least: number, most: number) =>
  (text: string): number => {
    const number = Number(text);
    if (/^\d{1,9}$/.test(text) && number >= least && number <= most) return number;
    throw new InvalidArgumentError(`Expected a whole number from ${String(least)} to ${String(most)}.`);
  };

/** The most rows that `--limit` takes. */
export const LARGEST_LIMIT = 1000;

/** Reads how many rows are asked for. */
export const limitOption = wholeOption(1, LARGEST_LIMIT);

/** Reads how many things are asked for. */
export const countOption = wholeOption(1, 1_000_000);

/** Reads a number of days, at most 400: older figures are deleted. */
export const daysOption = wholeOption(1, 400);

/** Reads a number of hours, at most those of a month. */
export const hoursOption = wholeOption(1, 744);
