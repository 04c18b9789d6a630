/** The queue: what waits, what keeps it back, and where it leaves from. */
import { deliveriesAre, limitWords, numbersOf, pluralize } from '../base/pluralize.ts';
import type { ResultOf } from '../operator/routes.ts';
import { columns, present, selectors, table, tableOf, type Input, type Presentation } from './presentation.ts';

type Hold = ResultOf<'queue.holds'>['data'][number];
type Kept = ResultOf<'queue.holds'>['others'][number];
type Queued = ResultOf<'queue.list'>['data'][number];
type Source = ResultOf<'queue.sources'>['data'][number];

/** Tells of domains that an act on a lane has left out. */
const unknownDomains = ({ domains_unknown: count = 0 }: { domains_unknown?: number | undefined }): string[] =>
  count === 0
    ? []
    : [`domains of which DNS has not told where their mail goes are left out: ${String(count)}; try again later`];

const part: readonly Input[] = [...selectors, { flag: '--all', says: 'all of it, of all accounts' }];
/** Mail is not held by its tags. */
const heldPart = part.filter(({ flag }) => !flag.startsWith('--tag'));
const source: Input = { flag: '--source <source>', says: 'of this source of `delivery.sources`' };
const note: Input = { flag: '--note <text>', says: 'why, for others' };
const time: Input = {
  flag: '--for <time>',
  says: 'how long, such as 2h (default: until it is ended)',
  kind: 'hold_time',
  member: 'for_ms',
};
const holding: readonly Input[] = [...heldPart, source, time, note];

/** `instead`: what has become of them, if they are not in force any more. */
const holdLines = (holds: readonly Hold[], instead?: 'released'): string[] =>
  holds.length === 0
    ? ['nothing is held']
    : tableOf(
        columns<Hold>(
          'id',
          [
            'WHAT',
            (one) =>
              instead ??
              (one.kind === 'hold' ? (one.catches_new ? 'paused' : 'held') : `at most ${numbersOf(one).join(', ')}`),
          ],
          ['OF', ({ scope, target }) => `${scope} ${target}`],
          ['NEW MAIL', (one) => one.catches_new],
          'until',
          ['SINCE', (one) => one.created_at],
          ['BY', (one) => one.created_by],
          'note',
        ),
        holds,
      );

const senderColumns = columns<ResultOf<'queue.senders'>['data'][number]>(
  ['NAME', ({ name }) => name ?? 'none'],
  ['ID', ({ name, id }) => (id === name ? null : id)],
  'account',
  'waiting',
  'held',
  'deferred',
  ['OLDEST', (one) => one.oldest_at],
);

const keptColumns = columns<Kept>(
  ['KEPT BACK BY', ({ by }) => by.replaceAll('_', ' ')],
  ['OF', ({ target }) => target],
  'waiting',
  'since',
  'until',
  ['WHY', ({ message }) => message],
);

/** A lane may be held before its first mail; its name may also be mistyped. */
const unknownLane = ({ lane_known: isKnown, target, id }: ResultOf<'queue.hold'>): string[] =>
  isKnown === false
    ? [
        `there is no lane ${JSON.stringify(target)} now: it takes effect with the first mail of such a lane. If the name is mistyped, \`posthorn queue lanes\` shows the right one, and \`posthorn queue release ${id}\` ends this`,
      ]
    : [];

const joined = (lines: readonly string[]): string | null => (lines.length === 0 ? null : lines.join('\n'));

const held = (row: ResultOf<'queue.hold'>): string | null =>
  joined([
    ...unknownLane(row),
    ...(row.others.length === 0
      ? []
      : [
          `the ${row.scope} ${row.target} is held already, by ${row.others.join(', ')}: its mail rests until all of these have ended. \`posthorn queue release ${row.id}\` ends this one`,
        ]),
  ]);

const releasing = (word: 'release' | 'resume', example: string): Presentation =>
  present<ResultOf<'queue.release'>>({
    command: `queue ${word}`,
    operation: 'queue.release',
    says: word === 'release' ? 'let held mail go' : 'end a pause: the same as release',
    input: [{ flag: '[id]', says: 'of the hold; or say of what' }, ...heldPart, source],
    isTried: true,
    lines: ({ data }) => holdLines(data, 'released'),
    examples: [example],
  });

/** The name of a source, and of its node if there are several. */
const sourceHeads = <Row extends { name: string | null; node: string }>(isFleet: boolean, unnamed: string) => [
  ['SOURCE', ({ name }: Row) => name ?? unnamed] as const,
  ...(isFleet ? [['NODE', ({ node }: Row) => node] as const] : []),
];

function stateOf({ delivers, paused, absent, blocks }: Source): string {
  if (!delivers) return 'its node does not deliver';
  if (paused) return 'paused';
  if (absent.length > 0) return `not on this machine: ${absent.join(', ')}`;
  return blocks.length > 0 ? `off ${String(blocks.length)} sites` : 'in use';
}

function sourceLines({ data, nodes }: ResultOf<'queue.sources'>): string[] {
  const isFleet = nodes.length > 1;
  const blocks = data.flatMap(({ name, node, blocks: all }) => all.map((one) => ({ ...one, name, node })));
  const warm = data.flatMap(({ name, node, warm_up: all }) => all.map((one) => ({ ...one, name, node })));
  const system = "(the system's)";
  const parts = [
    tableOf(
      columns<Source>(...sourceHeads<Source>(isFleet, system), 'pool', 'ipv4', 'ipv6', 'ehlo', ['STATE', stateOf]),
      data,
    ),
    tableOf(
      columns<(typeof blocks)[number]>(
        ...sourceHeads(isFleet, system),
        ['KEPT OFF', ({ site }) => site],
        'until',
        'reply',
      ),
      blocks,
    ),
    tableOf(
      columns<(typeof warm)[number]>(
        ...sourceHeads(isFleet, ''),
        ['WARM-UP AT', ({ site }) => site],
        ['SENT TODAY', ({ sent }) => sent],
        ['OF', ({ cap }) => cap ?? 'warm'],
      ),
      warm,
    ),
  ].filter((lines) => lines.length > 0);
  return [
    ...parts.flatMap((lines, at) => (at === 0 ? lines : ['', ...lines])),
    ...(data.some(({ delivers }) => delivers)
      ? []
      : ['no node delivers mail now: each that runs lacks the role delivery (node.roles) or is drained']),
  ];
}

type Lane = ResultOf<'queue.lanes'>['data'][number];
type OneLane = ResultOf<'queue.lane'>;

const limitColumns = columns<Lane['limits'][number]>(
  ['LIMIT', ({ what, domain }) => `${what.replaceAll('_', ' ')}${domain === null ? '' : ` to ${domain}`}`],
  'to',
  'by',
  'since',
  ['WHY', ({ cause }) => startWords(cause)],
);
const waitColumns = columns<Lane['waits'][number]>(
  ['WAITS FOR', ({ reason }) => reason],
  'since',
  'until',
  ['SET BY', ({ by }) => by],
  ['WHY', ({ message }) => message],
);
const nodeColumns = columns<OneLane['nodes'][number]>(
  'node',
  ['IN MEMORY', ({ waiting }) => waiting],
  'connections',
  ['A MINUTE', (one) => one.per_minute],
  'parked_until',
  'last_reply',
);
const ageColumns = columns<OneLane['ages']>(
  ['UNDER 1 MIN', (one) => one.under_1m],
  ['UNDER 10 MIN', (one) => one.under_10m],
  ['UNDER 1 H', (one) => one.under_1h],
  ['UNDER 6 H', (one) => one.under_6h],
  ['UNDER 24 H', (one) => one.under_24h],
  ['LONGER', (one) => one.older],
  ['OLDEST', (one) => one.oldest_at],
);
const waitingColumns = columns<ResultOf<'queue.lanes'>['domains'][number]>(
  'domain',
  'waiting',
  ['DUE NOW', ({ due }) => due],
  'held',
  // In the database mail that is held without an end is due at the end of the year 9999.
  ['OLDEST DUE', ({ oldest_due_at: at }) => (at.startsWith('9999-') ? 'when released' : at)],
  ['OLDEST', (one) => one.oldest_at],
);
/** With several nodes also the names of those that have each lane. */
const laneColumns = (isFleet: boolean) =>
  columns<Lane>(
    ['LANE', ({ name }) => name],
    ...(isFleet ? [['NODES', ({ nodes }: Lane) => nodes.join(', ')] as const] : []),
    ['WAITING', (lane) => Math.max(lane.waiting, lane.waiting_in_all)],
    'held',
    'connections',
    'limit',
    ['A MINUTE', (lane) => lane.per_minute],
    'parked_until',
    ['WHY', causeOf],
    'last_reply',
  );

function historyLines({ lane, changes, nodes, ages }: OneLane): string[] {
  const isFleet = nodes.length > 1;
  const history = table(
    ['AT', 'NOW', 'WHY'],
    changes.map(({ at, to, cause, node }) => [at, to, isFleet ? `${node}: ${cause}` : cause]),
  );
  const parts = [
    tableOf(ageColumns, ages.waiting === 0 ? [] : [ages]),
    tableOf(nodeColumns, isFleet ? nodes : []),
    tableOf(limitColumns, lane.limits),
    tableOf(waitColumns, lane.waits),
    history.length === 0 ? ['its limits have not changed since the start'] : history,
  ];
  return [
    ...tableOf(laneColumns(isFleet), [lane]),
    ...parts.flatMap((lines) => (lines.length === 0 ? [] : ['', ...lines])),
  ];
}

const startWords = (cause: string): string => (cause === 'start' ? 'as every lane begins' : cause);

/** Returns why its mail waits; if none waits, the limits that were set, with their causes. */
function causeOf({ waits, limits, cause }: Lane): string {
  const [first] = waits;
  if (first !== undefined) return first.message;
  const set = limits.filter(({ by }) => by !== 'start');
  if (set.length === 0) return startWords(cause);
  return set.map(({ what, to, cause: why }) => `${limitWords(what, to)}: ${why}`).join('; ');
}

function laneLines({ data, domains, nodes }: ResultOf<'queue.lanes'>): string[] {
  const lanes = tableOf(laneColumns(nodes.length > 1), data);
  const waiting = tableOf(waitingColumns, domains);
  if (waiting.length === 0) return [...lanes, 'nothing waits'];
  return lanes.length === 0 ? waiting : [...lanes, '', ...waiting];
}

export const queue: readonly Presentation[] = [
  present<ResultOf<'queue.lanes'>>({
    command: 'queue lanes',
    operation: 'queue.lanes',
    says: 'show each lane with its limits and why its mail waits, and what waits by domain',
    input: [
      {
        flag: '--lane <lane>',
        says: 'only this one, with each limit, why its mail waits, and what its limits were before',
      },
    ],
    instead: { given: 'lane', operation: 'queue.lane', lines: historyLines },
    lines: laneLines,
    examples: ['posthorn queue lanes', 'posthorn queue lanes --lane mx.example.net'],
  }),
  present<ResultOf<'queue.hold'>>({
    command: 'queue hold',
    operation: 'queue.hold',
    says: 'keep back mail that waits now, until it is released',
    input: [...holding, { flag: '--new', says: 'also mail that is accepted later' }],
    isTried: true,
    lines: (row) => holdLines([row]),
    tip: held,
    examples: ['posthorn queue hold --stream broadcast', 'posthorn queue hold --domain example.net --new --for 2h'],
  }),
  present<ResultOf<'queue.hold'>>({
    command: 'queue pause',
    operation: 'queue.hold',
    says: 'keep back waiting mail and mail that is accepted later',
    input: holding,
    isTried: true,
    with: { new: true },
    lines: (row) => holdLines([row]),
    tip: held,
    examples: [
      'posthorn queue pause --domain example.net --for 2h --note "they move their servers"',
      'posthorn queue pause --domain example.net --account Bulky --dry-run',
      'posthorn queue pause --all',
    ],
  }),
  releasing('release', 'posthorn queue release --stream broadcast'),
  releasing('resume', 'posthorn queue resume --domain example.net'),
  present<ResultOf<'queue.holds'>>({
    command: 'queue holds',
    operation: 'queue.holds',
    says: 'list what is held, paused and limited, and all that keeps mail back',
    lines({ data, others }) {
      const kept = tableOf(keptColumns, others);
      if (kept.length === 0) return holdLines(data);
      return data.length === 0 ? kept : [...holdLines(data), '', ...kept];
    },
    examples: ['posthorn queue holds', 'posthorn queue holds --json'],
  }),
  present<ResultOf<'queue.limit'>>({
    command: 'queue limit',
    operation: 'queue.limit',
    says: 'slow a lane or other mail down; without a number the limit ends',
    input: [
      ...part.filter(({ flag }) => /^--(?:lane|domain|account|stream|all)\b/.test(flag)),
      source,
      { flag: '--connections <n>', says: 'connections of a lane at most', kind: 'limit' },
      { flag: '--per-minute <n>', says: 'mails a minute of a lane at most', kind: 'count' },
      { flag: '--per-hour <n>', says: 'mails an hour (UTC) at most', kind: 'count' },
      { flag: '--per-day <n>', says: 'mails a day (UTC) at most', kind: 'count' },
      time,
      note,
    ],
    lines: ({ data }) => (data.length === 0 ? ['the limit has ended'] : holdLines(data)),
    tip: ({ data }) => joined(data.flatMap((row) => unknownLane({ ...row, others: [] }))),
    examples: [
      'posthorn queue limit --lane mx.example.net --connections 1 --for 6h',
      'posthorn queue limit --account Bulky --domain example.net --per-hour 500 --per-day 5000',
      'posthorn queue limit --lane mx.example.net',
    ],
  }),
  present<ResultOf<'queue.cancel'>>({
    command: 'queue cancel',
    operation: 'queue.cancel',
    says: 'cancel waiting mail; mail that is being sent cannot be canceled',
    input: part,
    isTried: true,
    lines: (result) => [`${deliveriesAre(result.canceled)} canceled`, ...unknownDomains(result)],
    examples: [
      'posthorn queue cancel --message msg_01jz...',
      'posthorn queue cancel --stream broadcast --account Acme',
      'posthorn queue cancel --lane mx.example.net',
    ],
  }),
  present<ResultOf<'queue.sources'>>({
    command: 'queue sources',
    operation: 'queue.sources',
    says: 'show the addresses that mail leaves from: pauses, block lists, warm-up',
    lines: sourceLines,
    examples: ['posthorn queue sources', 'posthorn queue sources --json'],
  }),
  present<ResultOf<'queue.unblock'>>({
    command: 'queue unblock',
    operation: 'queue.unblock',
    says: 'use a source again at sites that refused it by a block list',
    input: [{ flag: '[source]', says: "its name (default: the system's address)" }],
    lines: (result) => [
      `${pluralize(result.unblocked, 'site')} ${result.unblocked === 1 ? 'gets' : 'get'} mail from it again`,
    ],
    examples: ['posthorn queue unblock'],
  }),
  present<ResultOf<'queue.list'>>({
    command: 'queue list',
    operation: 'queue.list',
    says: 'list what waits, soonest due first',
    input: [
      ...selectors,
      {
        flag: '--by <what>',
        says: 'count what waits by this instead',
        choices: ['account', 'key', 'stream', 'domain', 'tag'],
      },
      { flag: '--status <statuses>', says: 'only these: queued,deferred,...', kind: 'list' },
      {
        flag: '--older-than <time>',
        says: 'only what was accepted, or was to be sent, so long ago, such as 6h',
        kind: 'duration',
      },
      { flag: '--class <class>', says: 'only this class', choices: ['transactional', 'broadcast'] },
    ],
    instead: { given: 'by', operation: 'queue.senders', columns: senderColumns },
    list: { limit: 100 },
    beyond: 'the other options narrow the list',
    columns: columns<Queued>(
      ['NEXT TRY', (one) => (one.held ? 'held' : one.next_attempt_at)],
      ['SINCE', (one) => one.queued_at],
      'status',
      ['ATTEMPTS', (one) => one.attempt_count],
      'recipient',
      ['MESSAGE', (one) => one.message_id],
      ['LAST REPLY', ({ smtp }) => smtp?.reply],
    ),
    tip: (list) => joined(unknownDomains(list)),
    examples: [
      'posthorn queue list --domain example.net',
      'posthorn queue list --lane mx.example.net --older-than 6h',
      'posthorn queue list --by key --domain example.net',
      'posthorn queue list --class broadcast --status deferred --json',
    ],
  }),
  present<ResultOf<'queue.flush'>>({
    command: 'queue flush',
    operation: 'queue.flush',
    says: 'try waiting mail now, whatever its schedule says',
    input: part,
    isTried: true,
    lines: (result) => [
      `${pluralize(result.flushed, 'delivery', 'deliveries')} that waited for a later time ${result.flushed === 1 ? 'is' : 'are'} tried now; pauses between connections end`,
      ...unknownDomains(result),
    ],
    examples: [
      'posthorn queue flush --domain example.net',
      'posthorn queue flush --lane mx.example.net',
      'posthorn queue flush --message msg_01jz...',
      'posthorn queue flush --all',
    ],
  }),
];
