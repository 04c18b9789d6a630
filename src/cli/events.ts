/** `posthorn events tail`: shows events as they happen. */
import { InvalidArgumentError, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { systemClock } from '../base/clock.ts';
import type { Operator } from '../operator/door/operator.ts';
import type { ArgsOf, ResultOf } from '../operator/routes.ts';
import type { Context } from './cli.ts';
import { durationOption, limitOption, listOption } from './options.ts';
import { json, printable } from '../presentations/table.ts';

interface TailOptions {
  types?: EventType[];
  since?: number;
  limit: number;
  account?: string;
  follow: boolean;
  json?: true;
}

/** The operation checks it, and its error names the types. */
type EventType = NonNullable<ArgsOf<'events.after'>['types']>[number];
type EventRecord = ResultOf<'events.after'>['data'][number];

const POLL_MS = 500;

export function addEvents(events: CommandUnknownOpts, context: Context): void {
  events
    .command('tail')
    .description('show the newest events, and then those that come, until Ctrl-C')
    .option(
      '--types <types>',
      'only these; deferred, suppressed, failed and unsubscribed are shown only when named',
      listOption<EventType>,
    )
    .option('--since <time>', 'from then on: an RFC 3339 time, or a duration before now, such as 1h', sinceOption)
    .option('--limit <n>', 'how many of the newest to begin with', limitOption, 10)
    .option('--no-follow', 'end after the last event')
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'one JSON object a line')
    .action((options) => context.operate((operator) => tail(context, operator, options)));
}

async function tail(context: Context, operator: Operator, options: TailOptions): Promise<void> {
  const { types, since, limit, account, follow } = options;
  const write = options.json === true ? (event: EventRecord) => json(event, 0) : line;
  let page = await operator.call('events.after', { types, since, account, limit: since === undefined ? limit : PAGE });
  for (;;) {
    for (const event of page.data) context.out(write(event));
    if (!page.has_more) {
      if (!follow) return;
      await systemClock.sleep(POLL_MS);
    }
    page = await operator.call('events.after', { types, since, account, after: page.position, limit: PAGE });
  }
}

const PAGE = 500;

function line({ timestamp, type, test, data }: EventRecord): string {
  const detail = (data as Readonly<Record<string, unknown>>)[type];
  const reply = typeof detail === 'object' && detail !== null && 'smtp_reply' in detail ? detail.smtp_reply : null;
  const said = typeof reply === 'string' ? [printable(reply)] : [];
  return [
    timestamp,
    type.padEnd(10),
    printable(data.recipient),
    data.message_id,
    ...(test ? ['(simulated)'] : []),
    ...said,
  ].join('  ');
}

function sinceOption(text: string): number {
  const at = /^\d{4}-\d\d-\d\dT/.test(text) ? Date.parse(text) : systemClock.now() - durationOption(text);
  if (Number.isNaN(at) || at < 0)
    throw new InvalidArgumentError('Expected a time such as 2026-01-31T09:30:00Z or a duration such as 1h.');
  return at;
}
