/** Makes commands of presentations: arguments and options, help, tables, `--json`, exit codes. */
import { Argument, Option, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import type { Operator } from '../operator/door/operator.ts';
import type { OperationName } from '../operator/routes.ts';
import { apiSummaries } from '../operations/summaries.ts';
import type { Given, Input, Presentation } from '../presentations/presentation.ts';
import { json, tableOf } from '../presentations/table.ts';
import type { Context } from './cli.ts';
import {
  countOption,
  daysOption,
  durationOption,
  durationWithin,
  hoursOption,
  LARGEST_LIMIT,
  limitOption,
  listOption,
} from './options.ts';

/** Descriptions of the groups of commands. */
const groups: Readonly<Record<string, string>> = {
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

/** The limits are those of the operations. */
const holdTime = durationWithin('1s', '366d');

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
  hold_time: holdTime,
  limit: limitOption,
  count: countOption,
  days: daysOption,
  hours: hoursOption,
};

export function addPresented(program: CommandUnknownOpts, context: Context, all: readonly Presentation[]): void {
  for (const one of all) add(program, context, one);
}

function add(program: CommandUnknownOpts, context: Context, one: Presentation): void {
  const path = one.command.split(' ');
  const name = path.pop() ?? '';
  const command = groupAt(program, path)
    .command(name)
    .description(one.says ?? summaryOf(one.operation));
  const { input = [], list } = one;
  const options = input.filter(({ flag }) => flag.startsWith('--')).map(optionOf);
  const args = input.filter(({ flag }) => !flag.startsWith('--'));
  for (const { flag, says, choices } of args)
    command.addArgument(
      choices === undefined ? new Argument(flag, says) : new Argument(flag, says).choices([...choices]),
    );
  for (const option of options) command.addOption(option);
  if (list !== undefined && 'limit' in list) command.option('--limit <n>', 'the most to show', limitOption, list.limit);
  if (one.isTried === true) command.option('--dry-run', 'say what it would do, and change nothing');
  command.option('--json', one.isByLine === true ? 'one JSON object a line' : 'as one JSON object');
  command.action(async () => {
    const given: Record<string, unknown> = Object.fromEntries(
      Object.entries(command.opts()).map(([key, value]) => [
        key.replaceAll(/[A-Z]/g, (c) => `_${c.toLowerCase()}`),
        value,
      ]),
    );
    for (const [at, { flag }] of args.entries()) given[nameOf(flag)] = command.processedArgs[at];
    await perform(context, one, given);
  });
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
  const parse = parsers[kind];
  if (choices !== undefined) option.choices([...choices]);
  else if (parse !== undefined) option.argParser(parse as (text: string, before: unknown) => unknown);
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
