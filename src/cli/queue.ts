/** `posthorn queue lanes|list|flush`; holds and limits are in queue-holds.ts. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { ArgsOf, ResultOf } from '../operator/operations.ts';
import { helpOf } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { limitOption, listOption } from './options.ts';
import { addHolds } from './queue-holds.ts';
import { addWatch } from './queue-watch.ts';
import { table } from './table.ts';

/** The operation checks it, and its error names the statuses. */
type Status = NonNullable<ArgsOf<'queue.list'>['status']>[number];

export function addQueue(program: CommandUnknownOpts, context: Context): void {
  const queue = program.command('queue').description('mail that waits for delivery, and why');
  addHolds(queue, context);
  addWatch(queue, context);
  queue
    .command('lanes')
    .description(helpOf('queue.lanes'))
    .option('--lane <lane>', 'only this one, with each limit, why its mail waits, and what was changed by whom')
    .option('--json', 'as one JSON object')
    .action(async ({ lane, json }) => {
      if (lane !== undefined) {
        const one = await context.operate((operator) => operator.call('queue.lane', { lane }));
        context.print(json, one, () => historyLines(one));
        return;
      }
      const lanes = await context.operate((operator) => operator.call('queue.lanes', {}));
      context.print(json, lanes, () => laneLines(lanes));
    });
  queue
    .command('list')
    .description(helpOf('queue.list'))
    .option('--domain <domain>', "only this recipient's domain; ~simulator for simulated mail")
    .option('--account <account>', 'only this account, name or id (default: all)')
    .option('--status <statuses>', 'only these: queued,deferred,...', listOption<Status>)
    .option('--limit <n>', 'at most so many', limitOption, 100)
    .option('--json', 'as one JSON object')
    .action(({ domain, account, status, limit, json }) =>
      context.show(json, 'queue.list', { domain, account, status, limit }, (list) =>
        table(
          ['NEXT TRY', 'STATUS', 'ATTEMPTS', 'RECIPIENT', 'MESSAGE', 'LAST REPLY'],
          list.data.map((one) => [
            one.held ? 'held' : one.next_attempt_at,
            one.status,
            one.attempt_count,
            one.recipient,
            one.message_id,
            one.smtp?.reply,
          ]),
        ),
      ),
    );
  queue
    .command('flush')
    .description(helpOf('queue.flush'))
    .option('--domain <domain>', "of this recipient's domain")
    .option('--message <id>', 'of this message')
    .option('--all', 'all waiting mail')
    .option('--json', 'as one JSON object')
    .action(({ domain, message, all, json }) =>
      context.show(json, 'queue.flush', { domain, message_id: message, all }, (result) => [
        `${String(result.flushed)} deliveries are tried now`,
      ]),
    );
}

function historyLines({ lane, changes }: ResultOf<'queue.lane'>): string[] {
  const limits = table(
    ['LIMIT', 'TO', 'BY', 'SINCE', 'WHY'],
    lane.limits.map(({ what, to, by, since, cause }) => [what.replaceAll('_', ' '), to, by, since, startWords(cause)]),
  );
  const waits = table(
    ['WAITS FOR', 'SINCE', 'UNTIL', 'SET BY', 'WHY'],
    lane.waits.map(({ reason, since, until, by, message }) => [reason, since, until, by, message]),
  );
  const history = table(
    ['AT', 'NOW', 'WHY'],
    changes.map((change) => [change.at, change.to, change.cause]),
  );
  return [
    ...lanesTable([lane]),
    ...[limits, waits].flatMap((lines) => (lines.length === 0 ? [] : ['', ...lines])),
    '',
    ...(history.length === 0 ? ['its limits have not changed since the start'] : history),
  ];
}

const startWords = (cause: string): string => (cause === 'start' ? 'as every lane begins' : cause);

function lanesTable(data: ResultOf<'queue.lanes'>['data']): string[] {
  return table(
    ['LANE', 'WAITING', 'HELD', 'CONNECTIONS', 'LIMIT', 'A MINUTE', 'PARKED UNTIL', 'WHY', 'LAST REPLY'],
    data.map((lane) => [
      lane.name,
      Math.max(lane.waiting, lane.waiting_in_all),
      lane.held,
      lane.connections,
      lane.limit,
      lane.per_minute,
      lane.parked_until,
      causeOf(lane),
      lane.last_reply,
    ]),
  );
}

/** Returns why its mail waits; if none waits, the limits that were set, with their causes. */
function causeOf({ waits, limits, cause }: ResultOf<'queue.lanes'>['data'][number]): string {
  const [first] = waits;
  if (first !== undefined) return first.message;
  const set = limits.filter(({ by }) => by !== 'start');
  if (set.length === 0) return startWords(cause);
  return set
    .map(
      ({ what, to, cause: why }) =>
        `${String(to)} ${what === 'mails_per_minute' ? 'a minute' : to === 1 ? 'connection' : 'connections'}: ${why}`,
    )
    .join('; ');
}

function laneLines({ data, domains }: ResultOf<'queue.lanes'>): string[] {
  const lanes = lanesTable(data);
  const waiting = table(
    ['DOMAIN', 'WAITING', 'DUE NOW', 'HELD', 'OLDEST DUE'],
    domains.map((domain) => [domain.domain, domain.waiting, domain.due, domain.held, domain.oldest_due_at]),
  );
  if (waiting.length === 0) return [...lanes, 'nothing waits'];
  return lanes.length === 0 ? waiting : [...lanes, '', ...waiting];
}
