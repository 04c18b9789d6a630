/** Makes commands of presentations: arguments and options, help, tables, `--json`, exit codes. */
import { Argument, Option, type CommandUnknownOpts, InvalidArgumentError } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import type { Operator } from '../operator/door/operator.ts';
import type { OperationName } from '../operator/routes.ts';
import { apiSummaries } from '../operations/summaries.ts';
import { type Given, type Input, type Presentation, json, tableOf } from '../presentations/presentation.ts';
import type { Context } from './cli.ts';
import { readDuration } from '../base/time.ts';

/** Reads `a,b` or `a, b` and joins repeated options; the operation checks items. Refuses an empty list: an unset variable would lift a limit. */
export function listOption<Item extends string>(text: string, before: readonly Item[] | undefined): Item[] {
  const items = text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '') as Item[];
  if (items.length === 0) throw new InvalidArgumentError('Expected at least one value: leave the option out for all.');
  return [...(before ?? []), ...items];
}

/** Returns a parser that reads a duration such as `30d` within these limits and returns milliseconds. */
const durationWithin =
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
const LARGEST_LIMIT = 1000;

/** Reads how many rows are asked for. */
export const limitOption = wholeOption(1, LARGEST_LIMIT);

const groups: Readonly<Record<string, string>> = {
  config: 'check the settings, or show those in effect',
  backup: 'copies of a SQLite database and the keys',
  storage: 'where the database is',
  events: 'what happened to mail',
  tls: 'the certificate of the SMTP listeners, and of HTTPS',
  admin: 'administrators, who see all accounts in the dashboard',
  team: 'who signs in to the dashboard, and with which role',
  accounts: 'accounts: whose keys, domains and mail these are',
  keys: 'API keys',
  domains: 'sending domains and their DNS records',
  'domains dkim': 'DKIM keys',
  messages: 'messages and their deliveries',
  queue: 'mail that waits for delivery, and why',
  recipients: 'people that mail was sent to',
  suppressions: 'addresses that are not mailed',
  webhooks: 'endpoints that get events',
  nodes: 'the servers that use the same database',
  inbound: 'mail that comes back: bounces, complaints, automatic answers',
  received: 'mail to domains that receive',
};

/** Returns the group of commands with this path, which is added if it is missing. */
function groupAt(program: CommandUnknownOpts, path: readonly string[]): CommandUnknownOpts {
  let group = program;
  for (const [at, word] of path.entries())
    group =
      group.commands.find((one) => one.name() === word) ??
      group.command(word).description(groups[path.slice(0, at + 1).join(' ')] ?? '');
  return group;
}

type Parse = (text: string, before: unknown) => unknown;

/** The limits are those of the operations. */
const parsers = {
  text: undefined,
  list: listOption,
  names: (text: string) =>
    text
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== ''),
  duration: durationOption,
  seconds: (text: string) => Math.ceil(durationOption(text) / 1000),
  /** The time at which the duration is over. */
  until: (text: string) => new Date(systemClock.now() + durationOption(text)).toISOString(),
  hold_time: durationWithin('1s', '366d'),
  limit: limitOption,
  count: wholeOption(1, 1_000_000),
  days: wholeOption(1, 400),
  hours: wholeOption(1, 744),
};

/** A command that is written by hand. */
export interface OwnCommand extends Pick<Presentation, 'command' | 'input' | 'examples'> {
  says: string;
  /** The words of the help about `--json`, if they are not `as one JSON object`; null if there is none. */
  json?: string | null;
  /** The end of its help. */
  more?: string;
  /** Returns the work. Options are given by their names with `_` for `-`. */
  load(): Promise<(context: Context, options: never) => Promise<void> | void>;
}

/** Adds these commands below a program. */
export function addCommands(
  program: CommandUnknownOpts,
  context: Context,
  all: readonly (Presentation | OwnCommand)[],
): void {
  for (const one of all) add(program, context, one);
}

function add(program: CommandUnknownOpts, context: Context, one: Presentation | OwnCommand): void {
  const isOwn = 'load' in one;
  const path = one.command.split(' ');
  const name = path.pop() ?? '';
  const command = groupAt(program, path)
    .command(name)
    .description(one.says ?? (isOwn ? '' : summaryOf(one.operation)));
  const { input = [] } = one;
  const args = input.filter(({ flag }) => !flag.startsWith('--'));
  for (const { flag, says, choices, kind } of args) {
    const argument = new Argument(flag, says);
    if (choices !== undefined) argument.choices([...choices]);
    if (typeof kind === 'function') argument.argParser(kind as Parse);
    command.addArgument(argument);
  }
  for (const one of input) if (!args.includes(one)) command.addOption(optionOf(one));
  if (!isOwn) addUsual(command, one);
  const json = isOwn ? one.json : one.isByLine === true ? 'one JSON object a line' : undefined;
  if (json !== null) command.option('--json', json ?? 'as one JSON object');
  if (isOwn && one.more !== undefined) command.addHelpText('after', one.more);
  command.action(async () => {
    const given: Record<string, unknown> = Object.fromEntries(
      Object.entries(command.opts()).map(([key, value]) => [
        key.replaceAll(/[A-Z]/g, (c) => `_${c.toLowerCase()}`),
        value,
      ]),
    );
    for (const [at, { flag }] of args.entries()) given[nameOf(flag)] = command.processedArgs[at];
    if (isOwn) await (await one.load())(context, given as never);
    else await perform(context, one, given);
  });
}

function addUsual(command: CommandUnknownOpts, { list, isTried }: Presentation): void {
  if (list !== undefined && 'limit' in list) command.option('--limit <n>', 'the most to show', limitOption, list.limit);
  if (isTried === true) command.option('--dry-run', 'say what it would do, and change nothing');
}

type Samples = ReadonlyMap<string, readonly string[]>;

/** Adds its examples to the help of each command below this one. A group of commands shows the first example of each. */
export function addExamples(group: CommandUnknownOpts, all: Samples, path: readonly string[] = []): readonly string[] {
  const found = group.commands.map((command) => {
    const name = [...path, command.name()];
    const lines = command.commands.length > 0 ? addExamples(command, all, name) : (all.get(name.join(' ')) ?? []);
    command.addHelpText('after', ['', 'Examples:', ...lines.map((line) => `  $ ${line}`)].join('\n'));
    return lines;
  });
  return found.flatMap(([first]) => first ?? []);
}

/** Returns the summary as commands are described, in lower case. */
function summaryOf(operation: string): string {
  const summaries: Readonly<Record<string, string>> = apiSummaries;
  const text = summaries[operation] ?? '';
  return `${text.slice(0, 1).toLowerCase()}${text.slice(1)}`;
}

const nameOf = (flag: string): string => (/^(?:--)?[<[]?([\w-]+)/.exec(flag)?.[1] ?? '').replaceAll('-', '_');

function optionOf({
  flag,
  says,
  kind = 'text',
  choices,
  default: usual,
  isRequired = false,
  conflicts,
}: Input): Option {
  const option = new Option(flag, says).makeOptionMandatory(isRequired).conflicts(conflicts ?? []);
  const parse = typeof kind === 'function' ? kind : parsers[kind];
  if (choices !== undefined) option.choices([...choices]);
  else if (parse !== undefined) option.argParser(parse as Parse);
  if (usual === undefined) return option;
  return option.default(
    kind === 'names' ? [usual] : usual,
    String(usual) === usual ? JSON.stringify(usual) : undefined,
  );
}

async function perform(context: Context, usual: Presentation, given: Given): Promise<void> {
  const { instead } = usual;
  const one = instead === undefined || given[instead.given] === undefined ? usual : { ...usual, ...instead };
  const { list } = one;
  const asJson = given['json'] === true;
  const answer = await context.operate((operator) => ask(operator, one, given));
  if (isTried(one, given)) {
    context.print(asJson, answer, () => [`would ${(answer as { would: string }).would}`]);
    return;
  }
  const show = (): readonly string[] => one.lines?.(answer, given) ?? tableOf(one.columns ?? [], rowsOf(one, answer));
  const warning = one.warning?.(answer) ?? null;
  if (warning !== null) context.note(warning);
  if (asJson && one.isByLine === true) for (const row of rowsOf(one, answer)) context.out(json(row, 0));
  else context.print(asJson, one.record?.(answer) ?? listed(one, answer), show);
  const tip = asJson ? null : (one.tip?.(answer, given) ?? null);
  if (tip !== null) context.note(tip);
  if (list !== undefined && !asJson) noteMore(context, one, answer as { data: object[]; has_more: boolean }, given);
  const code = one.exit?.(answer) ?? 0;
  if (code !== 0) context.end(code);
}

/** Says that a list goes on behind the rows that are printed, on standard error. */
function noteMore(
  context: Context,
  { list, beyond }: Presentation,
  { data, has_more: hasMore }: { data: readonly unknown[]; has_more: boolean },
  given: Given,
): void {
  if (!hasMore) return;
  const isLimited = list !== undefined && 'limit' in list && Number(given['limit']) < LARGEST_LIMIT;
  const ways = [
    ...(isLimited ? [`--limit shows up to ${String(LARGEST_LIMIT)}`] : []),
    ...(beyond === undefined ? [] : [typeof beyond === 'string' ? beyond : beyond(given)]),
  ];
  const how = ways.length === 0 ? '' : `: ${ways.join('; ')}`;
  context.note(`these are the first ${String(data.length)}, and there are more${how}`);
}

/** Returns whether it is only to tell what it would do. */
const isTried = (one: Presentation, given: Given): boolean => one.isTried === true && given['dry_run'] === true;

/** A list that is asked for in pages is printed without their cursors. */
const listed = ({ list }: Presentation, answer: unknown): unknown =>
  list !== undefined && 'most' in list ? { data: (answer as { data: unknown }).data } : answer;

const rowsOf = (one: Presentation, answer: unknown): readonly object[] =>
  one.rows?.(answer) ?? (answer as { data?: readonly object[] }).data ?? [answer as object];

/** Sends each input to where the operation has it: in the path, the query or the body. */
async function ask(operator: Operator, one: Presentation, given: Given): Promise<unknown> {
  // Help is shown without these modules, which take time to load.
  const { endpointOf } = await import('../operator/door/client.ts');
  const endpoint = endpointOf(one.operation);
  const sent: Record<string, unknown> = { ...one.with, ...one.sends?.(given) };
  for (const { flag, member = nameOf(flag) } of one.input ?? [])
    if (member !== null && given[nameOf(flag)] !== undefined) sent[member] = given[nameOf(flag)];
  const { list } = one;
  if (list !== undefined && 'limit' in list) sent['limit'] = given['limit'];
  if (isTried(one, given)) sent['dry_run'] = true;
  // Operations on the server have all in their body.
  if (endpoint.includes('/v1/server/')) return await operator.call(one.operation as OperationName, sent);
  const { account, ...others } = sent as { account?: string };
  const inPath = (name: string): boolean => endpoint.includes(`{${name}}`);
  const texts = (isParam: boolean): Record<string, string> =>
    Object.fromEntries(
      Object.entries(others).flatMap(([name, value]) => (inPath(name) === isParam ? [[name, String(value)]] : [])),
    );
  const asked = { account, params: texts(true) };
  if (list !== undefined) {
    const { askList } = await import('../operator/door/operator.ts');
    const most = 'limit' in list ? Number(given['limit']) : list.most;
    return await askList(operator, one.operation, { ...asked, query: texts(false), limit: most });
  }
  if (/^(?:GET|DELETE) /.test(endpoint)) return await operator.ask(one.operation, { ...asked, query: texts(false) });
  const body = Object.fromEntries(Object.entries(others).filter(([name]) => !inPath(name)));
  return await operator.ask(one.operation, { ...asked, body });
}

/** Options whose value may be empty: parts of a mail, and a member of the team without an account. */
const MAY_BE_EMPTY: ReadonlySet<string> = new Set(['subject', 'text', 'html', 'accounts']);

/** Refuses an option with one value given twice, or empty, here and below: a value would be lost, or an unset variable would widen the command. */
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

/** Refuses an empty argument, here and below: with a variable that is not set, `backup create` would take the working directory. */
export function refuseEmptyArguments(program: CommandUnknownOpts): void {
  program.hook('preAction', (_, command) => {
    const at = command.args.indexOf('');
    // The word that is being completed may be empty.
    if (at === -1 || command.name() === 'complete') return;
    const name = (command.registeredArguments[at] ?? command.registeredArguments.at(-1))?.name() ?? '';
    command.error(`error: argument '${name}' is empty`);
  });
}
