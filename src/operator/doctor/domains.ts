/** Checks the DNS records of the sending domains. */
import { pluralize } from '../../base/pluralize.ts';
import { rfc3339 } from '../../base/rfc3339.ts';
import { formsOf, type DnsRecord } from '../../domains/dns-records.ts';
import { recordsOf, type DomainWithKeys } from '../../domains/domain-record.ts';
import { recordName } from '../../domains/lost-records.ts';
import { cureOf, type Mistake } from '../../domains/record-mistakes.ts';
import { lookUpRecords, type Found } from '../../domains/verify.ts';
import type { DomainRow } from '../../storage/tables.ts';
import { trackingTargetOf } from '../../tracking/host.ts';
import { failed, unseen, warning, type Check, type Probes, type Verdict } from './probes.ts';

const MOST_DOMAINS = 200;
const AT_ONCE = 8;

export async function* domains(probes: Probes): Check {
  const { store } = probes;
  if (store.kind === 'missing') return yield unseen(store);
  const all = await store.domains(MOST_DOMAINS + 1);
  const looked = all.filter(({ row }) => row.trusted === 0).slice(0, MOST_DOMAINS);
  if (all.length === 0) return 'there is no sending domain yet; `posthorn domains add` adds one';
  yield* (await inTurn(looked, (domain) => faultsOf(probes, domain))).flat();
  if (all.length > MOST_DOMAINS)
    yield warning(
      `only the newest ${String(MOST_DOMAINS)} domains were looked at`,
      'For another: posthorn domains verify NAME; all are checked every six hours, and the log tells those that break (event `domain_status`).',
    );
  const trusted = all.filter(({ row }) => row.trusted === 1).length;
  const rest = trusted === 0 ? '' : `; ${String(trusted)} more trusted without DNS`;
  return `${pluralize(looked.length, 'domain')} with all records in DNS${rest}`;
}

async function faultsOf({ config, resolver }: Probes, domain: DomainWithKeys): Promise<Verdict[]> {
  const wanted = recordsOf(domain, config.smtp.hostname, trackingTargetOf(config));
  const found = await lookUpRecords({ resolver }, wanted);
  const { row } = domain;
  return wanted.flatMap((record, at) => faultOf(row, record, found[at] ?? { status: 'unknown' }));
}

function faultOf(row: DomainRow, record: DnsRecord, found: Found): Verdict[] {
  if (found.status === 'ok' || isLeftOut(record, found)) return [];
  const { name, status } = row;
  const what = `${name}: the ${recordName(record)}`;
  if (found.status === 'unknown') return [warning(`${what} cannot be looked up`, 'See the line of `resolver`.')];
  const fault = `${what} ${faultText(found)}`;
  const why = record.required ? `${fault}${meaningOf(row)}` : fault;
  const cure = `${cureOf(record, found) ?? ''}   (all of them: posthorn domains records ${name})`;
  const more = {
    about: { object: 'domain', id: row.id, name, account_id: row.account_id },
    copy: copyOf(record, found),
  } as const;
  return [record.required && status !== 'pending' ? failed(why, cure, more) : warning(why, cure, more)];
}

/** Optional records other than those of DMARC may be left out by choice, as an Ed25519 key or a tracking host; one at a wrong name is not. */
const isLeftOut = ({ required, purpose }: DnsRecord, found: Found): boolean =>
  found.status === 'missing' && !required && !purpose.startsWith('dmarc') && found.mistake !== 'doubled_name';

/** Returns the form of the record that its mistake asks for. */
function copyOf(record: DnsRecord, { mistake }: Exclude<Found, { status: 'unknown' }>): string[] {
  if (mistake === 'several' || mistake === 'doubled_name') return [];
  const { quoted } = formsOf(record);
  return [mistake === 'cut_off' && quoted !== null ? quoted : record.value];
}

function faultText({ status, found, mistake }: Exclude<Found, { status: 'unknown' }>): string {
  if (mistake === 'doubled_name') return 'is at a name with the domain twice';
  if (mistake === 'alias') return 'cannot be there: the name is an alias (CNAME)';
  if (status === 'missing') return 'is missing';
  const how = mistake === undefined ? undefined : mistakeTexts[mistake];
  return `${how ?? 'is not as it should be'}: ${short(found)}`;
}

const mistakeTexts: Readonly<Partial<Record<Mistake, string>>> = {
  cut_off: 'is cut off',
  quoted: 'has quotation marks in its value',
  spaces: 'has spaces or line ends in its value',
  several: 'is there more than once',
};

/** Returns the consequence of a lost record for the domain's mail. */
function meaningOf({ status, refused_at: at }: DomainRow): string {
  if (at === null) return '';
  return status === 'verified'
    ? `; mail from it keeps going until ${rfc3339(at)}`
    : `; mail from it is refused since ${rfc3339(at)}`;
}

const short = (text: string | null): string => (text ?? '').replaceAll('\n', ' | ').slice(0, 120);

async function inTurn<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE)
    results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(work))));
  return results;
}
