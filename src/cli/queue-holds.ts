/** `posthorn queue hold|release|pause|resume|holds|limit|cancel`. */
import { Option, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { ResultOf } from '../operator/routes.ts';
import { deliveriesAre, pluralize } from '../base/pluralize.ts';
import { helpOf, helpOfPart } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { countOption, durationWithin, limitOption } from './options.ts';
import { table } from './table.ts';
import { unknownDomains } from './unknown-domains.ts';

/** The limits are those of the operations. */
const holdTime = durationWithin('1s', '366d');

interface Target {
  domain?: string;
  lane?: string;
  account?: string;
  stream?: string;
  message?: string;
  source?: string;
}

interface HoldOptions extends Target {
  for?: number;
  new?: true;
  note?: string;
  json?: true;
}

export function addHolds(queue: CommandUnknownOpts, context: Context): void {
  addHold(queue, context);
  addRelease(queue, context);
  queue
    .command('holds')
    .description(helpOf('queue.holds'))
    .option('--json', 'as one JSON object')
    .action(({ json }) => context.show(json, 'queue.holds', {}, allLines));
  addLimit(queue, context);
  addPart(queue, 'cancel')
    .description(helpOf('queue.cancel'))
    .option('--json', 'as one JSON object')
    .action(async ({ json, ...target }) => {
      const { source, ...others } = targetOf(target);
      if (source !== undefined)
        queue.error('error: mail of a source is canceled by its lanes or domains: --lane, --domain');
      const result = await context.operate((operator) => operator.call('queue.cancel', others));
      context.print(json, result, () => [`${deliveriesAre(result.canceled)} canceled`, ...unknownDomains(result)]);
    });
}

function addHold(queue: CommandUnknownOpts, context: Context): void {
  const hold = ({ for: forMs, note, json, ...target }: HoldOptions, catchesNew: boolean): Promise<void> =>
    context.show(json, 'queue.hold', { ...targetOf(target), for_ms: forMs, new: catchesNew, note }, (row) => {
      noteUnknownLane(context, row);
      if (row.others.length > 0)
        context.note(
          `the ${row.scope} ${row.target} is held already, by ${row.others.join(', ')}: its mail rests until all of these have ended. \`posthorn queue release ${row.id}\` ends this one`,
        );
      return holdLines([row]);
    });
  addHoldOptions(queue, 'hold')
    .description(helpOf('queue.hold'))
    .option('--new', 'also mail that is accepted later')
    .action((options) => hold(options, options.new === true));
  addHoldOptions(queue, 'pause')
    .description(helpOfPart('queue.hold', 'pause'))
    .action((options) => hold(options, true));
}

function addRelease(queue: CommandUnknownOpts, context: Context): void {
  for (const [name, description] of [
    ['release', helpOf('queue.release')],
    ['resume', helpOfPart('queue.release', 'resume')],
  ] as const) {
    addPart(queue, name)
      .description(description)
      .argument('[id]', 'of the hold; or say of what')
      .option('--json', 'as one JSON object')
      .action((id, { json, ...target }) =>
        context.show(json, 'queue.release', { id, ...targetOf(target) }, (ended) => holdLines(ended.data, 'released')),
      );
  }
}

function addLimit(queue: CommandUnknownOpts, context: Context): void {
  queue
    .command('limit')
    .description(helpOf('queue.limit'))
    .requiredOption('--lane <lane>', 'its name, as `queue lanes` shows it')
    .option('--connections <n>', 'connections at most', limitOption)
    .option('--per-minute <n>', 'mails a minute at most', countOption)
    .option('--for <time>', 'how long, such as 2h (default: until it is ended)', holdTime)
    .option('--note <text>', 'why, for others')
    .option('--json', 'as one JSON object')
    .action(({ lane, connections, perMinute, for: forMs, note, json }) =>
      context.show(
        json,
        'queue.limit',
        { lane, connections, per_minute: perMinute, for_ms: forMs, note },
        ({ data }) => {
          if (data.length === 0) return [`the limit of ${lane} has ended`];
          for (const row of data) noteUnknownLane(context, row);
          return holdLines(data);
        },
      ),
    );
}

/** A lane may be held before its first mail; its name may also be mistyped. */
function noteUnknownLane(
  context: Context,
  { lane_known: isKnown, target, id }: Pick<ResultOf<'queue.hold'>, 'lane_known' | 'target' | 'id'>,
): void {
  if (isKnown === false)
    context.note(
      `there is no lane ${JSON.stringify(target)} now: it takes effect with the first mail of such a lane. If the name is mistyped, \`posthorn queue lanes\` shows the right one, and \`posthorn queue release ${id}\` ends this`,
    );
}

const addPart = (queue: CommandUnknownOpts, name: string) =>
  queue
    .command(name)
    .option('--domain <domain>', "of this recipient's domain")
    .option('--lane <lane>', 'of this lane, as `queue lanes` shows it')
    .option('--account <account>', 'of this account, name or id')
    .option('--stream <stream>', 'of this stream of the account (default: default)')
    .option('--message <id>', 'of this message')
    .addOption(sourceOption(name !== 'cancel'));

/** `queue cancel` has the option only to say what to name instead. */
const sourceOption = (isShown: boolean) =>
  new Option('--source <source>', 'of this source of `delivery.sources`').hideHelp(!isShown);

const addHoldOptions = (queue: CommandUnknownOpts, name: string) =>
  addPart(queue, name)
    .option('--for <time>', 'how long, such as 2h (default: until it is released)', holdTime)
    .option('--note <text>', 'why, for others')
    .option('--json', 'as one JSON object');

const targetOf = ({ domain, lane, account, stream, message, source }: Target) => ({
  domain,
  lane,
  account,
  stream,
  message_id: message,
  source,
});

function allLines({ data, others }: ResultOf<'queue.holds'>): string[] {
  const kept = table(
    ['KEPT BACK BY', 'OF', 'WAITING', 'SINCE', 'UNTIL', 'WHY'],
    others.map((one) => [one.by.replaceAll('_', ' '), one.target, one.waiting, one.since, one.until, one.message]),
  );
  if (kept.length === 0) return holdLines(data);
  return data.length === 0 ? kept : [...holdLines(data), '', ...kept];
}

/** `instead`: what has become of them, where they are not in force any more. */
function holdLines(holds: ResultOf<'queue.holds'>['data'], instead?: 'released'): string[] {
  if (holds.length === 0) return ['nothing is held'];
  return table(
    ['ID', 'WHAT', 'OF', 'NEW MAIL', 'UNTIL', 'SINCE', 'BY', 'NOTE'],
    holds.map((one) => [
      one.id,
      instead ?? (one.kind === 'hold' ? 'held' : limitText(one)),
      `${one.scope} ${one.target}`,
      one.catches_new,
      one.until,
      one.created_at,
      one.created_by,
      one.note,
    ]),
  );
}

function limitText({ connections, per_minute: perMinute }: ResultOf<'queue.holds'>['data'][number]): string {
  const parts = [
    ...(connections === null ? [] : [pluralize(connections, 'connection')]),
    ...(perMinute === null ? [] : [`${String(perMinute)} a minute`]),
  ];
  return `at most ${parts.join(', ')}`;
}
