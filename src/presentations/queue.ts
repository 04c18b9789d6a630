/** The queue: what waits, what keeps it back, and where it leaves from. */
import { deliveriesAre, pluralize } from '../base/pluralize.ts';
import type { ResultOf } from '../operator/routes.ts';
import { columns, present, selectors, table, tableOf, type Input, type Presentation } from './presentation.ts';

type Hold = ResultOf<'queue.holds'>['data'][number];
type Kept = ResultOf<'queue.holds'>['others'][number];
type Queued = ResultOf<'queue.list'>['data'][number];
type Source = ResultOf<'queue.sources'>['data'][number];

/** Tells of domains that an act on a lane has left out. */
const unknownDomains = ({ domains_unknown: count = 0 }: { domains_unknown?: number }): string[] =>
  count === 0
    ? []
    : [`domains of which DNS has not told where their mail goes are left out: ${String(count)}; try again later`];

const part: readonly Input[] = [...selectors, { flag: '--all', says: 'all of it, of all accounts' }];
/** Mail is not held by its tags. */
const heldPart = part.filter(({ flag }) => !flag.startsWith('--tag'));
const source: Input = { flag: '--source <source>', says: 'of this source of `delivery.sources`' };
const note: Input = { flag: '--note <text>', says: 'why, for others' };
const holding: readonly Input[] = [
  ...heldPart,
  source,
  {
    flag: '--for <time>',
    says: 'how long, such as 2h (default: until it is released)',
    kind: 'hold_time',
    member: 'for_ms',
  },
  note,
];

const limitWords = ({ connections, per_minute: perMinute }: Hold): string =>
  [
    ...(connections === null ? [] : [pluralize(connections, 'connection')]),
    ...(perMinute === null ? [] : [`${String(perMinute)} a minute`]),
  ].join(', ');

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
              instead ?? (one.kind === 'hold' ? (one.catches_new ? 'paused' : 'held') : `at most ${limitWords(one)}`),
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
    changes.map(({ at, to, cause, node }) => [at, to, nodes.length < 2 ? cause : atNode(node, cause)]),
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

/** Puts the node before what concerns one of several only. */
const atNode = (node: string | null, text: string): string => (node === null ? text : `${node}: ${text}`);

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

export const queue: readonly Presentation[] = [
  present<ResultOf<'queue.lanes'>>({
    command: 'queue lanes',
    operation: 'queue.lanes',
    says: 'show each lane with its limits and why its mail waits, and what waits by domain',
    input: [
      {
        flag: '--lane <lane>',
        says: 'only this one, with each limit, why its mail waits, and what was changed by whom',
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
    says: 'slow a lane down; without --connections and --per-minute the limit ends',
    input: [
      { flag: '--lane <lane>', says: 'its name, as `queue lanes` shows it', isRequired: true },
      { flag: '--connections <n>', says: 'connections at most', kind: 'limit' },
      { flag: '--per-minute <n>', says: 'mails a minute at most', kind: 'count' },
      {
        flag: '--for <time>',
        says: 'how long, such as 2h (default: until it is ended)',
        kind: 'hold_time',
        member: 'for_ms',
      },
      note,
    ],
    lines: ({ data }, { lane }) => (data.length === 0 ? [`the limit of ${String(lane)} has ended`] : holdLines(data)),
    tip: ({ data }) => joined(data.flatMap((row) => unknownLane({ ...row, others: [] }))),
    examples: [
      'posthorn queue limit --lane mx.example.net --connections 1 --for 6h',
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
