/** The server: nodes, what needs a person, books, audit, where mail goes, and mail that comes back. */
import type { ResultOf } from '../operator/routes.ts';
import { pluralize } from '../base/pluralize.ts';
import {
  columns,
  facts,
  ofAccount,
  present,
  tableOf,
  type Cell,
  type Input,
  type Presentation,
} from './presentation.ts';

type Node = ResultOf<'nodes.list'>['data'][number];

const nodeColumns = columns<Node>(
  ['NODE', ({ name }) => name],
  'epoch',
  'state',
  'delivers',
  'leads',
  'version',
  'since',
  'last_sign_of_life_at',
  ['THIS ONE', (one) => one.this],
);
const node: Input = { flag: '<node>', says: 'name or epoch' };

export const nodes: readonly Presentation[] = [
  {
    command: 'nodes list',
    operation: 'nodes.list',
    says: 'list the servers that use the database: which of them deliver, their versions and signs of life',
    columns: nodeColumns,
    examples: ['posthorn nodes list', 'posthorn nodes list --json'],
  },
  present<Node>({
    command: 'nodes drain',
    operation: 'nodes.drain',
    says: 'take a node out of service: its mail and webhooks go to the others, no new SMTP sessions, and 503 at /readyz',
    input: [node],
    lines: ({ name, leads, delivers }) => [
      `${name} takes no new SMTP sessions, and answers 503 at /readyz. It still answers requests.`,
      delivers
        ? 'It still delivers its mail, since no other node does that is not drained.'
        : 'The other nodes deliver its mail; it ends the attempts that it has begun.',
      ...(leads ? ['It goes on doing the chores until it is stopped: then another node leads.'] : []),
      `To end this: posthorn nodes resume ${name}`,
    ],
    examples: ['posthorn nodes drain node-b'],
  }),
  {
    command: 'nodes resume',
    operation: 'nodes.resume',
    says: 'put a drained node into service again',
    input: [node],
    columns: nodeColumns,
    examples: ['posthorn nodes resume node-b'],
  },
  present<Node>({
    command: 'nodes remove',
    operation: 'nodes.remove',
    says: 'end a node that is silent: what it still writes fails',
    input: [node, { flag: '--force', says: 'also one that lives: what it is doing ends' }],
    lines: ({ name }) => [`${name} is removed: what it writes fails from now on, and it stops when it notices.`],
    examples: ['posthorn nodes remove node-b', 'posthorn nodes remove node-b --force'],
  }),
];

type Entry = ResultOf<'audit.list'>['data'][number];

export const audit: readonly Presentation[] = [
  {
    command: 'audit',
    operation: 'audit.list',
    says: 'show what people did to an account, or to the server itself, newest first',
    input: [
      { flag: '--server', says: 'acts that concern no account: on the queue, the settings and the server itself' },
      ofAccount,
    ],
    list: { limit: 100 },
    beyond: ({ server }) =>
      server === true ? 'the view v_audit of the database has all' : '`posthorn export audit` writes all of an account',
    columns: columns<Entry>(
      ['AT', ({ at }) => at],
      ['WHO', ({ actor }) => actor],
      ['WHAT', ({ summary, endpoint }) => summary ?? endpoint],
      'result',
      ['REQUEST', (one) => one.request_id],
    ),
    examples: ['posthorn audit --account Acme', 'posthorn audit --server --limit 20'],
  },
];

type Books = ResultOf<'books'>;

export const books: readonly Presentation[] = [
  present<Books>({
    command: 'books',
    operation: 'books',
    says: 'balance the books: counters against rows; exit code 1 if something is missing',
    lines: ({ lines, balanced, accepted, faults }) => [
      ...tableOf(columns<Books['lines'][number]>('status', 'counted', 'found'), lines),
      '',
      balanced ? `balanced: ${pluralize(accepted, 'recipient')} accepted` : 'NOT balanced:',
      ...faults,
    ],
    exit: ({ balanced }) => (balanced ? 0 : 1),
    examples: ['posthorn books', 'posthorn books --json'],
  }),
];

const levelMarks = { red: 'RED  ', amber: 'amber', grey: '     ' } as const;

export const status: readonly Presentation[] = [
  present<ResultOf<'needs'>>({
    command: 'status',
    operation: 'needs',
    says: 'show what needs a person: blocks, holds, refused domains, webhooks, certificates, disk, deferred mail',
    input: [{ flag: '--account <account>', says: 'name or id of the account (default: all)' }],
    lines: ({ data }) =>
      data.length === 0
        ? ['nothing needs you']
        : data.flatMap(({ level, message, since, until, action }) => [
            `${levelMarks[level]} ${message}`,
            `      ${[since === null ? null : `since ${since}`, until === null ? null : `until ${until}`, action.command].filter((one) => one !== null).join(' · ')}`,
          ]),
    examples: ['posthorn status', 'posthorn status --json'],
  }),
];

type Resolved = ResultOf<'resolve'>;

const hostColumns = columns<Resolved['hosts'][number]>(
  ['HOST', ({ name }) => name],
  'port',
  'preference',
  ['ADDRESSES', ({ addresses }) => addresses.join(', ')],
  'tls',
  'policy',
);

export const resolve: readonly Presentation[] = [
  present<Resolved>({
    command: 'resolve',
    operation: 'resolve',
    says: 'show where mail for a domain goes: hosts, lane, TLS policy, source and limits',
    input: [{ flag: '<domain>' }],
    lines: ({ sts, limits, hosts, ...resolved }) => [
      ...facts([
        ['domain', resolved.domain],
        ['route', resolved.route],
        ['problem', resolved.problem],
        ['lane', resolved.lane],
        ['operator', resolved.operator],
        ['MTA-STS', sts === null ? 'none' : `${sts.mode}: ${sts.mx.join(', ')}`],
        ['TLSA', hosts.flatMap(({ name, tlsa }) => tlsa.map((record) => `${name} ${record}`)).join(', ')],
        ['source', resolved.source ?? "the system's choice"],
        ['connections', limits?.connections],
        ['mails a minute', limits?.per_minute],
        ['mails a connection', limits?.messages_per_connection],
      ]),
      ...(hosts.length === 0 ? [] : ['', ...tableOf(hostColumns, hosts)]),
    ],
    examples: ['posthorn resolve example.net', 'posthorn resolve example.net --json'],
  }),
];

type Unverified = ResultOf<'inbound.unverified'>['data'][number];
const report: Input = { flag: '<report>', says: 'its id', member: 'id' };

export const inbound: readonly Presentation[] = [
  present<ResultOf<'inbound.selfTest'>>({
    command: 'inbound self-test',
    operation: 'inbound.selfTest',
    says: 'send a mail to ourselves that bounces, and see whether that is recognised; exit code 1 if not',
    lines: ({ ok, ms, why }) => [ok ? `a bounce was recognised (${String(ms)} ms)` : `failed: ${why ?? ''}`],
    exit: ({ ok }) => (ok ? 0 : 1),
    examples: ['posthorn inbound self-test'],
  }),
  present<ResultOf<'inbound.unverified'>>({
    command: 'inbound unverified',
    operation: 'inbound.unverified',
    says: 'list bounces and complaints that name a message and prove nothing, so that nothing was done',
    list: { limit: 100 },
    isByLine: true,
    columns: columns<Unverified>('id', 'kind', 'received_at', ['FROM', ({ ip }) => ip], 'sender', 'recipient', [
      'MESSAGE',
      (one) => one.message_id,
    ]),
    examples: ['posthorn inbound unverified', 'posthorn inbound unverified --json | jq .id'],
  }),
  present<ResultOf<'inbound.confirm'>>({
    command: 'inbound confirm',
    operation: 'inbound.confirm',
    says: 'believe an unverified report: the recipient is suppressed as if it had come with proof',
    input: [report],
    lines: ({ id }) => [`confirmed: ${id}`],
    examples: ['posthorn inbound confirm rep_01kg9p6je0ec0s7m42jmky5pp2'],
  }),
];

type Stats = ResultOf<'stats'>;
type StatLine = Stats['data'][number];

const percent = (some: number, of: number): string | null => (of === 0 ? null : ((some / of) * 100).toFixed(1));

/** The first column names what a line is for. */
const statColumns = ({ by, bucket }: Stats) =>
  columns<StatLine>(
    [
      (by ?? (bucket === 'hour' ? 'hour' : 'day')).toUpperCase(),
      ({ at, key, name }) => name ?? key ?? at.slice(0, bucket === 'hour' ? 16 : 10),
    ],
    ...(by === 'key' ? [['ACCOUNT', (one: StatLine) => one.account] as const] : []),
    ['SENT', ({ counts }) => counts.sent],
    ['DELIVERED', ({ counts }) => counts.delivered],
    ['%', ({ counts }) => percent(counts.delivered, counts.sent)],
    ['BOUNCED', ({ counts }) => counts.bounced],
    ['%', ({ counts }) => percent(counts.bounced, counts.sent)],
    ['DEFERRED', ({ counts }) => counts.deferred],
    ['COMPLAINED', ({ counts }) => counts.complained],
    ['OPENED', ({ counts }) => counts.unique_opened],
    ['CLICKED', ({ counts }) => counts.unique_clicked],
    ['SUPPRESSED', ({ counts }) => counts.suppressed],
    ['FAILED', ({ counts }) => counts.failed],
    ...(by === 'key' ? [['ID', (one: StatLine) => one.key] as const] : []),
  );

/** Mentions simulated mail, so that a user who tries things out does not think that it was lost. */
const noStats = ({ since, until, simulated }: Stats): string =>
  `nothing between ${since} and ${until}${
    simulated === 0 ? '' : `, leaving out simulated mail to ${pluralize(simulated, 'recipient')}: show it with --test`
  }`;

export const stats: readonly Presentation[] = [
  present<Stats>({
    command: 'stats',
    operation: 'stats',
    says: 'show how much was sent, and with which outcomes',
    input: [
      {
        flag: '--days <n>',
        says: 'the number of days (UTC) to show, today included, at most 400 (default: 7)',
        kind: 'days',
      },
      {
        flag: '--hours <n>',
        says: 'the number of hours to show instead, at most 744',
        kind: 'hours',
        conflicts: 'days',
      },
      {
        flag: '--by <what>',
        says: 'tell apart by this',
        choices: ['account', 'key', 'stream', 'tag', 'domain', 'provider', 'template'],
      },
      { flag: '--test', says: 'simulated mail instead of real mail' },
      { flag: '--account <account>', says: 'name or id (default: all)' },
    ],
    lines: (found) => (found.data.length === 0 ? [noStats(found)] : tableOf(statColumns(found), found.data)),
    examples: ['posthorn stats', 'posthorn stats --hours 24 --by account', 'posthorn stats --days 30 --by key --json'],
  }),
];

type Reputation = ResultOf<'reputation'>;

/** The lists of a reputation with their headings; their members are the columns. */
const sections = {
  days: 'Mail by day',
  providers: 'Mail by day and mailbox provider',
  sources: 'Mail by day and source, whose tries are counted as sent',
  dmarc: 'DMARC reports: mail in the name of our domains',
  tls: 'TLS reports: connections to us',
  moments: 'What may have changed it',
  block_lists: 'Block lists',
} as const;

const flat = ({ counts = {}, ...row }: { counts?: object }): Record<string, Cell> => ({ ...row, ...counts });

const sectionLines = (title: string, [first, ...others]: readonly Record<string, Cell>[]): string[] =>
  first === undefined
    ? []
    : ['', title, ...tableOf(columns<Record<string, Cell>>(...Object.keys(first)), [first, ...others])];

function reputationLines({ since, until, days, ...found }: Reputation): string[] {
  const lists = { days: days.map(({ day, counts }) => ({ day, counts })), ...found };
  const lines = Object.entries(sections).flatMap(([name, title]) =>
    sectionLines(title, lists[name as keyof typeof sections].map(flat)),
  );
  return lines.length === 0 ? [`nothing between ${since} and ${until}`] : lines.slice(1);
}

export const reputation: readonly Presentation[] = [
  present<Reputation>({
    command: 'reputation',
    operation: 'reputation',
    says: 'show how receivers treat our mail: outcomes by day and mailbox provider, their DMARC and TLS reports, and what changed',
    input: [
      { flag: '--days <n>', says: 'the number of days to show, at most 400 (default: 30)', kind: 'days' },
      ofAccount,
    ],
    lines: reputationLines,
    examples: ['posthorn reputation', 'posthorn reputation --days 7 --json'],
  }),
];
