/** `posthorn queue lanes`. */
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import type { ResultOf } from '../operator/routes.ts';
import { table } from '../presentations/table.ts';
import type { Context } from './cli.ts';

export function addLanes(queue: CommandUnknownOpts, context: Context): void {
  queue
    .command('lanes')
    .description('show each lane with its limits and why its mail waits, and what waits by domain')
    .option('--lane <lane>', 'only this one, with each limit, why its mail waits, and what its limits were before')
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
}

function historyLines({ lane, changes, nodes, ages }: ResultOf<'queue.lane'>): string[] {
  const limits = table(
    ['LIMIT', 'TO', 'BY', 'SINCE', 'WHY'],
    lane.limits.map(({ what, domain, to, by, cause, since }) => [
      `${what.replaceAll('_', ' ')}${domain === null ? '' : ` to ${domain}`}`,
      to,
      by,
      since,
      startWords(cause),
    ]),
  );
  const waits = table(
    ['WAITS FOR', 'SINCE', 'UNTIL', 'SET BY', 'WHY'],
    lane.waits.map(({ reason, since, until, by, message }) => [reason, since, until, by, message]),
  );
  const several =
    nodes.length < 2
      ? []
      : table(
          ['NODE', 'IN MEMORY', 'CONNECTIONS', 'A MINUTE', 'PARKED UNTIL', 'LAST REPLY'],
          nodes.map((one) => [
            one.node,
            one.waiting,
            one.connections,
            one.per_minute,
            one.parked_until,
            one.last_reply,
          ]),
        );
  const history = table(
    ['AT', 'NOW', 'WHY'],
    changes.map(({ at, to, cause, node }) => [at, to, nodes.length < 2 ? cause : `${node}: ${cause}`]),
  );
  return [
    ...lanesTable([lane], nodes.length > 1),
    ...[agesLines(ages), several, limits, waits].flatMap((lines) => (lines.length === 0 ? [] : ['', ...lines])),
    '',
    ...(history.length === 0 ? ['its limits have not changed since the start'] : history),
  ];
}

/** Writes how long the mail of a lane has waited. */
function agesLines(ages: ResultOf<'queue.lane'>['ages']): string[] {
  if (ages.waiting === 0) return [];
  return table(
    ['UNDER 1 MIN', 'UNDER 10 MIN', 'UNDER 1 H', 'UNDER 6 H', 'UNDER 24 H', 'LONGER', 'OLDEST'],
    [[ages.under_1m, ages.under_10m, ages.under_1h, ages.under_6h, ages.under_24h, ages.older, ages.oldest_at]],
  );
}

/** In the database mail that is held without an end is due at the end of the year 9999. */
const dueText = (at: string | null): string | null => (at?.startsWith('9999-') === true ? 'when released' : at);

const startWords = (cause: string): string => (cause === 'start' ? 'as every lane begins' : cause);

/** Writes the lanes; with several nodes also the names of those that have each of them. */
function lanesTable(data: ResultOf<'queue.lanes'>['data'], isFleet: boolean): string[] {
  return table(
    [
      'LANE',
      ...(isFleet ? ['NODES'] : []),
      'WAITING',
      'HELD',
      'CONNECTIONS',
      'LIMIT',
      'A MINUTE',
      'PARKED UNTIL',
      'WHY',
      'LAST REPLY',
    ],
    data.map((lane) => [
      lane.name,
      ...(isFleet ? [lane.nodes.join(', ')] : []),
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

function laneLines({ data, domains, nodes }: ResultOf<'queue.lanes'>): string[] {
  const lanes = lanesTable(data, nodes.length > 1);
  const waiting = table(
    ['DOMAIN', 'WAITING', 'DUE NOW', 'HELD', 'OLDEST DUE', 'OLDEST'],
    domains.map((domain) => [
      domain.domain,
      domain.waiting,
      domain.due,
      domain.held,
      dueText(domain.oldest_due_at),
      domain.oldest_at,
    ]),
  );
  if (waiting.length === 0) return [...lanes, 'nothing waits'];
  return lanes.length === 0 ? waiting : [...lanes, '', ...waiting];
}
