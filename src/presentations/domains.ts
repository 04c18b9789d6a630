/** Sending domains. */
import type { Domain } from '../client/types.ts';
import { columns, ofAccount, present, type Input, type Presentation, printable, tableOf } from './presentation.ts';

type DnsRecord = Domain['records'][number];

const named: Input = { flag: '<name>', member: 'id' };

/** Names the setting if the records contain a host name without a dot, which no other machine can find. */
function shortName({ records }: Domain): string | null {
  const mx = records.find(({ purpose }) => purpose === 'return_path');
  const [, host = ''] = mx?.value.split(' ') ?? [];
  if (host === '' || host.includes('.')) return null;
  return `These records name this machine as ${host}, which is not a full name, so they cannot work. Set smtp.hostname to its full name, such as mail.example.com, restart, and run: posthorn domains records`;
}

/** Returns one line; name and type come first, as a value alone does not say where it belongs. */
function inForm({ host, type, value, forms }: DnsRecord, form: string): string {
  if (form === 'zone') return forms.zone_line;
  return `${host}  ${type}  ${form === 'quoted' ? (forms.quoted ?? value) : value}`;
}

/** Writes records as a zone file. Its comments have what web forms want: the name without the domain, and the value in one piece. */
const recordLines = (records: readonly DnsRecord[]): string[] =>
  records.flatMap(({ purpose, host, type, value, required, forms }) => [
    `; ${purpose}${required ? '' : ' (optional)'}`,
    `;   name in a web form: ${forms.name}${forms.name === host ? '' : ` (or ${host})`}`,
    forms.priority === null
      ? `;   value in a web form: ${value}`
      : `;   value in a web form: ${forms.target ?? ''} with priority ${String(forms.priority)}`,
    `${host}. ${type} ${forms.quoted ?? `${value}.`}`,
  ]);

const LONGEST_SHOWN = 60;

const checkColumns = columns<DnsRecord>(
  'purpose',
  ['STATUS', (one) => (one.checked_at === null ? 'not asked' : one.status)],
  'required',
  'type',
  'host',
  [
    'FOUND',
    ({ found }) => {
      const text = printable((found ?? '').replaceAll('\n', ' | '));
      return text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}...`;
    },
  ],
);

/** Returns its status, its notes, the results of the last check, and what to do. */
function stateLines({ name, status, notes, records, trusted }: Domain): string[] {
  const cures = trusted ? [] : records.flatMap(curesOf);
  return [
    `${name} is ${status}`,
    ...notes,
    '',
    ...tableOf(checkColumns, records),
    ...(cures.length === 0 ? [] : ['', 'What to do:', ...cures]),
  ];
}

/** Returns what to do about a record that is wrong, or required and missing. */
const curesOf = ({ purpose, host, required, status, mistake, cure }: DnsRecord): string[] =>
  cure === null || (status === 'missing' && mistake === null && !required && purpose !== 'dmarc')
    ? []
    : [`${purpose} at ${host}:`, `  ${printable(cure)}`];

export const domains: readonly Presentation[] = [
  present<Domain>({
    command: 'domains add',
    operation: 'createDomain',
    input: [
      { flag: '<name>' },
      { flag: '--trust', says: 'verified without DNS, for closed networks', member: 'trusted' },
      { flag: '--return-path <name>', says: 'host that bounces go to (default: rp.<name>)' },
      ofAccount,
    ],
    lines: ({ name, status, records }) => [`${name} is ${status}`, '', ...recordLines(records)],
    warning: shortName,
    tip: ({ name, status }) =>
      status === 'verified' ? null : `Publish the records, then run: posthorn domains verify ${name}`,
    examples: [
      'posthorn domains add example.com',
      'posthorn domains add intern.example --trust',
      'posthorn domains add example.com --return-path bounces.example.com --account Acme',
    ],
  }),
  present<Domain>({
    command: 'domains records',
    operation: 'getDomain',
    says: 'show the DNS records to publish',
    input: [
      named,
      {
        flag: '--form <form>',
        says: 'only this: zone (lines of a zone file), value (in one piece) or quoted (strings of 255)',
        choices: ['zone', 'value', 'quoted'],
        member: null,
      },
    ],
    record: ({ records }) => ({ data: records }),
    lines: ({ records }, { form }) =>
      typeof form === 'string' ? records.map((record) => inForm(record, form)) : recordLines(records),
    warning: shortName,
    examples: ['posthorn domains records example.com', 'posthorn domains records example.com --json'],
  }),
  present<Domain>({
    command: 'domains verify',
    operation: 'verifyDomain',
    input: [named],
    lines: stateLines,
    warning: shortName,
    examples: ['posthorn domains verify example.com'],
  }),
  present<Domain>({
    command: 'domains show',
    operation: 'getDomain',
    input: [named],
    lines: stateLines,
    examples: ['posthorn domains show acme.example', 'posthorn domains show acme.example --json'],
  }),
  present<Domain>({
    command: 'domains receive',
    operation: 'updateDomain',
    says: 'take mail to a domain, which becomes `received` events, or no more',
    input: [
      named,
      {
        flag: '--addresses <addresses>',
        says: 'local parts that take mail: support,reply+* (default: *)',
        kind: 'names',
        member: 'receiving_addresses',
      },
      { flag: '--off', says: 'take no mail any more', member: null },
    ],
    sends: ({ off }) => ({ receiving: off !== true }),
    lines: ({ name, receiving, receiving_addresses: all, records }) =>
      receiving
        ? [
            `${name} takes mail to ${all.join(', ')}`,
            '',
            ...recordLines(records.filter(({ purpose }) => purpose === 'mx')),
          ]
        : [`${name} takes no mail`],
    tip({ name, receiving, trusted }) {
      if (!receiving) return null;
      return trusted ? 'Publish the MX record.' : `Publish the MX record, then run: posthorn domains verify ${name}`;
    },
    examples: [
      'posthorn domains receive example.com',
      'posthorn domains receive example.com --addresses support,reply+*',
    ],
  }),
  present<Domain>({
    command: 'domains dkim rotate',
    operation: 'rotateDomainDkim',
    input: [named, { flag: '--at-once', says: 'sign with them now, for closed networks whose DNS is not asked' }],
    lines: ({ records, dkim }) =>
      recordLines(
        records.filter(
          ({ purpose, host }) =>
            purpose === 'dkim' &&
            dkim.some(({ selector, state }) => state !== 'retiring' && host.startsWith(`${selector}.`)),
        ),
      ),
    tip({ name, trusted }, { at_once: isAtOnce }) {
      if (isAtOnce === true) return null;
      const publish = `Publish these records, then run: posthorn domains verify ${name}`;
      return trusted
        ? `${publish} - until then the old keys sign. Where no DNS can show them: posthorn domains dkim rotate ${name} --at-once`
        : publish;
    },
    examples: ['posthorn domains dkim rotate example.com', 'posthorn domains dkim rotate intern.example --at-once'],
  }),
  {
    command: 'domains list',
    operation: 'listDomains',
    input: [ofAccount],
    with: { status: 'any' },
    list: { most: 1000 },
    beyond: '`GET /v1/domains` has all, in pages',
    columns: columns<Domain>('name', 'status', 'return_path', 'id', 'verified_at', 'failing_since', [
      'REFUSED FROM',
      (one) => one.refused_at,
    ]),
    examples: ['posthorn domains list', 'posthorn domains list --account Acme --json'],
  },
];
