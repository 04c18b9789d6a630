/** `posthorn domains add|records|verify|show|dkim rotate|list`. */
import { Option, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Domain } from '../client/types.ts';
import { askList } from '../operator/operator.ts';
import { helpOf, helpOfPart } from '../operations/summaries.ts';
import type { Context } from './cli.ts';
import { noteMore } from './note-more.ts';
import { printable, table } from './table.ts';

const formNames = ['zone', 'value', 'quoted'] as const;

/** The most domains that `list` shows. */
const MOST_LISTED = 1000;

export function addDomains(program: CommandUnknownOpts, context: Context): void {
  const domains = program.command('domains').description('sending domains and their DNS records');
  addAdd(domains, context);
  domains
    .command('records')
    .description(helpOfPart('getDomain', 'records'))
    .argument('<name>')
    .addOption(
      new Option(
        '--form <form>',
        'only this: zone (lines of a zone file), value (in one piece) or quoted (strings of 255)',
      ).choices(formNames),
    )
    .option('--json', 'as one JSON object')
    .action(async (name, { form, json }) => {
      const { records } = await context.operate((operator) =>
        operator.ask<Domain>('getDomain', { params: { id: name } }),
      );
      noteShortName(context, records);
      context.print(json, { data: records }, () =>
        form === undefined ? recordLines(records) : records.map((record) => inForm(record, form)),
      );
    });
  domains
    .command('verify')
    .description(helpOf('verifyDomain'))
    .argument('<name>')
    .option('--json', 'as one JSON object')
    .action(async (name, { json }) => {
      const domain = await context.operate((operator) =>
        operator.ask<Domain>('verifyDomain', { params: { id: name } }),
      );
      noteShortName(context, domain.records);
      context.print(json, domain, () => stateLines(domain));
    });
  domains
    .command('show')
    .description(helpOf('getDomain'))
    .argument('<name>')
    .option('--json', 'as one JSON object')
    .action((name, { json }) => context.showAnswer(json, 'getDomain', { params: { id: name } }, stateLines));
  domains
    .command('dkim')
    .description('DKIM keys')
    .command('rotate')
    .description(helpOf('rotateDomainDkim'))
    .argument('<name>')
    .option('--at-once', 'sign with them now, for closed networks whose DNS is not asked')
    .option('--json', 'as one JSON object')
    .action(async (name, { atOnce, json }) => {
      const domain = await context.operate((operator) =>
        operator.ask<Domain>('rotateDomainDkim', { params: { id: name }, body: { at_once: atOnce } }),
      );
      const isNew = ({ purpose, host }: Domain['records'][number]): boolean =>
        purpose === 'dkim' &&
        domain.dkim.some(({ selector, state }) => state !== 'retiring' && host.startsWith(`${selector}.`));
      context.print(json, domain, () => recordLines(domain.records.filter(isNew)));
      if (json !== true && atOnce !== true)
        context.note(
          domain.trusted
            ? `Publish these records, then run: posthorn domains verify ${domain.name} - until then the old keys sign. Where no DNS can show them: posthorn domains dkim rotate ${domain.name} --at-once`
            : `Publish these records, then run: posthorn domains verify ${domain.name}`,
        );
    });
  domains
    .command('list')
    .description(helpOf('listDomains'))
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async ({ account, json }) => {
      const list = await context.operate((operator) =>
        askList<Domain>(operator, 'listDomains', { account, query: { status: 'any' }, limit: MOST_LISTED }),
      );
      context.print(json, { data: list.data }, () =>
        table(
          ['NAME', 'STATUS', 'RETURN PATH', 'ID', 'VERIFIED', 'FAILING SINCE', 'REFUSED FROM'],
          list.data.map((domain) => [
            domain.name,
            domain.status,
            domain.return_path,
            domain.id,
            domain.verified_at,
            domain.failing_since,
            domain.refused_at,
          ]),
        ),
      );
      noteMore(context, json, list, { beyond: '`GET /v1/domains` has all, in pages' });
    });
}

function addAdd(domains: CommandUnknownOpts, context: Context): void {
  domains
    .command('add')
    .description(helpOf('createDomain'))
    .argument('<name>')
    .option('--trust', 'verified without DNS, for closed networks')
    .option('--return-path <name>', 'host that bounces go to (default: rp.<name>)')
    .option('--account <account>', 'name or id (default: default)')
    .option('--json', 'as one JSON object')
    .action(async (name, { trust, returnPath, account, json }) => {
      const domain = await context.operate((operator) =>
        operator.ask<Domain>('createDomain', { account, body: { name, trusted: trust, return_path: returnPath } }),
      );
      context.print(json, domain, () => [`${domain.name} is ${domain.status}`, '', ...recordLines(domain.records)]);
      noteShortName(context, domain.records);
      if (json !== true && domain.status !== 'verified') {
        context.note(`Publish the records, then run: posthorn domains verify ${domain.name}`);
      }
    });
}

/** Names the setting where the records contain a host name without a dot, which no other machine can find. */
function noteShortName(context: Context, records: Domain['records']): void {
  const mx = records.find(({ purpose }) => purpose === 'return_path');
  const [, host = ''] = mx?.value.split(' ') ?? [];
  if (host !== '' && !host.includes('.'))
    context.note(
      `These records name this machine as ${host}, which is not a full name, so they cannot work. Set smtp.hostname to its full name, such as mail.example.com, restart, and run: posthorn domains records`,
    );
}

type Form = (typeof formNames)[number];

/** Returns one line; name and type come first, as a value alone does not say where it belongs. */
function inForm({ host, type, value, forms }: Domain['records'][number], form: Form): string {
  if (form === 'zone') return forms.zone_line;
  return `${host}  ${type}  ${form === 'quoted' ? (forms.quoted ?? value) : value}`;
}

/**
 * Writes records as a zone file. Its comments have what web forms want: the name without the domain, and the value in one
 * piece.
 */
function recordLines(records: Domain['records']): string[] {
  return records.flatMap(({ purpose, host, type, value, required, forms }) => [
    `; ${purpose}${required ? '' : ' (optional)'}`,
    `;   name in a web form: ${forms.name}${forms.name === host ? '' : ` (or ${host})`}`,
    forms.priority === null
      ? `;   value in a web form: ${value}`
      : `;   value in a web form: ${forms.target ?? ''} with priority ${String(forms.priority)}`,
    `${host}. ${type} ${forms.quoted ?? `${value}.`}`,
  ]);
}

/** Returns its status, its notes, and the results of the last check. */
function stateLines(domain: Domain): string[] {
  const cures = domain.trusted ? [] : curesOf(domain);
  return [
    `${domain.name} is ${domain.status}`,
    ...domain.notes,
    '',
    ...checkLines(domain),
    ...(cures.length === 0 ? [] : ['', 'What to do:', ...cures]),
  ];
}

/** Returns what to do about each record that is wrong, or required and missing. */
const curesOf = ({ records }: Domain): string[] =>
  records.flatMap(({ purpose, host, required, status, mistake, cure }) =>
    cure === null || (status === 'missing' && mistake === null && !required && purpose !== 'dmarc')
      ? []
      : [`${purpose} at ${host}:`, `  ${printable(cure)}`],
  );

function checkLines({ records }: Domain): string[] {
  return table(
    ['PURPOSE', 'STATUS', 'REQUIRED', 'TYPE', 'HOST', 'FOUND'],
    records.map((record) => [
      record.purpose,
      record.checked_at === null ? 'not asked' : record.status,
      record.required,
      record.type,
      record.host,
      shortened(record.found),
    ]),
  );
}

const LONGEST_SHOWN = 60;

function shortened(found: string | null): string | null {
  const text = printable((found ?? '').replaceAll('\n', ' | '));
  return text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}...`;
}
