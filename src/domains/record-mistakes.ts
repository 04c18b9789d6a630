/** Recognises how a DNS record went wrong, and says what to do: web forms double the domain, cut long values, or keep quotation marks. Pure. */
import { isIP } from 'node:net';
import {
  compareRecord,
  formsOf,
  relevantAnswers,
  shortName,
  zonesOf,
  type Comparison,
  type DnsRecord,
} from './dns-records.ts';

export const mistakes = [
  /** The record is at its name with the domain once more: `x.acme.test.acme.test`. */
  'doubled_name',
  /** The MX or alias leads to our host with the domain added: `mail.host.test.acme.test`. */
  'doubled_target',
  /** The name is an alias (CNAME), so it can have no TXT record of its own. */
  'alias',
  /** The key ends too early, mostly after 255 characters. */
  'cut_off',
  /** Quotation marks or backslashes are part of the value. */
  'quoted',
  /** Spaces or line ends are part of the value. */
  'spaces',
  /** There are two or more, and one is allowed. */
  'several',
  'other_value',
] as const;
export type Mistake = (typeof mistakes)[number];

export interface Seen {
  /** All records of its type at its host, as for `compareRecord`. */
  values: readonly string[];
  /** The name that the host is an alias of. */
  alias?: string | null;
  /** The doubled name at which the right record was found. */
  doubledAt?: string | null;
}

export interface Checked extends Comparison {
  /** Absent if the record is right, or if nothing is there. */
  mistake?: Mistake;
  /** The other name that the mistake is about: the doubled name, or the target of the alias. */
  at?: string;
}

/** Compares a record with DNS and names the mistake. */
export function checkRecord(record: DnsRecord, { values, alias = null, doubledAt = null }: Seen): Checked {
  const plain = compareRecord(record, values);
  if (plain.status === 'ok') return plain;
  if (alias !== null) return { ...plain, mistake: 'alias', at: alias };
  if (plain.status === 'missing' && doubledAt !== null) return { ...plain, mistake: 'doubled_name', at: doubledAt };
  if (record.type === 'TXT') return { ...plain, ...textMistake(record, values) };
  if (plain.status === 'missing') return plain;
  const isDoubled = values.some((value) => leadsToDoubled(record, value));
  return { ...plain, mistake: isDoubled ? 'doubled_target' : 'other_value' };
}

function textMistake(record: DnsRecord, values: readonly string[]): Partial<Checked> {
  const relevant = relevantAnswers(record, values);
  if (relevant.length > 1) return { mistake: 'several' };
  const repaired = (repair: (text: string) => string): string | undefined =>
    values.find((value) => repair(value) !== value && compareRecord(record, [repair(value)]).status === 'ok');
  const wrong = (mistake: Mistake, found: string): Partial<Checked> => ({ status: 'wrong', mistake, found });
  const quoted = repaired(withoutQuotes);
  if (quoted !== undefined) return wrong('quoted', quoted);
  const spaced = repaired((text) => withoutSpaces(record, withoutQuotes(text)));
  if (spaced !== undefined) return wrong('spaces', spaced);
  const [only] = relevant;
  if (only === undefined) return {};
  return { mistake: record.purpose === 'dkim' && isCutOff(record.value, only) ? 'cut_off' : 'other_value' };
}

/** Web forms store `"a" "b"` as they get it, and zone-file escapes such as `\;`. */
const withoutQuotes = (text: string): string => text.replaceAll(/["\u201c\u201d\\]/g, '').trim();

/** A key has no space that matters; in the other records only those at the ends and line ends are surely wrong. */
const withoutSpaces = ({ purpose }: DnsRecord, text: string): string =>
  purpose === 'dkim' ? text.replaceAll(/\s+/g, '') : text.replaceAll(/[\r\n\t]+/g, ' ').trim();

function isCutOff(wanted: string, found: string): boolean {
  const [ours, theirs] = [keyOf(wanted), keyOf(withoutQuotes(found))];
  return theirs.length > 0 && theirs.length < ours.length && ours.startsWith(theirs);
}

const keyOf = (text: string): string => (/\bp\s*=([^;]*)/.exec(text)?.[1] ?? '').replaceAll(/[\s=]+/g, '');

const targetOf = (value: string): string => value.slice(value.indexOf(' ') + 1).toLowerCase();

const leadsToDoubled = (record: DnsRecord, value: string): boolean =>
  zonesOf(record.host).some((zone) => targetOf(value) === `${targetOf(record.value)}.${zone}`);

/** Returns what to do about a record that is missing or wrong, in whole sentences; null if nothing. */
export function cureOf(
  record: Pick<DnsRecord, 'purpose' | 'type' | 'host' | 'value'>,
  checked: Checked,
): string | null {
  if (checked.status === 'ok') return null;
  const { host, type, value } = record;
  const { mistake, at = '', found } = checked;
  const { zone_line: line } = formsOf(record);
  const publish = `Publish: ${line}`;
  if (mistake === undefined) return publish;
  switch (mistake) {
    case 'doubled_name':
      return `The record is at ${at}, as the web form adds the domain itself. Rename it to ${shortName(host)} there, or write ${host}. with the final dot.`;
    case 'doubled_target':
      return `The web form has added the domain to the host. Write ${targetOf(value)}. with a final dot.`;
    case 'alias':
      return `${host} is an alias (CNAME) of ${at}, which allows no ${type} record of its own. Delete the CNAME, then publish: ${line}`;
    case 'cut_off':
      return `The key ends too early, probably because the web form takes only 255 characters at once. Enter it as two quoted strings, as "posthorn domains records" prints it.`;
    case 'quoted':
      return `Quotation marks or backslashes are part of the value: enter it without them. ${publish}`;
    case 'spaces':
      return `Spaces or line ends are part of the value: enter it in one line. ${publish}`;
    case 'several':
      return severalCure(record, (found ?? '').split('\n'));
    case 'other_value':
      return otherCure(record, found ?? '');
  }
}

const kindNames: Readonly<Partial<Record<DnsRecord['purpose'], string>>> = {
  spf: 'SPF records (RFC 7208 section 4.5)',
  dmarc: 'DMARC records (RFC 7489 section 6.6.3)',
};

function severalCure(record: Pick<DnsRecord, 'purpose' | 'type' | 'host' | 'value'>, found: readonly string[]): string {
  const { purpose, host, value } = record;
  const { zone_line: line, quoted } = formsOf(record);
  const what = kindNames[purpose] ?? 'TXT records (RFC 6376 section 3.6.2.2)';
  const good = found.filter((one) => compareRecord({ ...record, required: true }, [one]).status === 'ok');
  // The owner's own record may ask for more, as p=reject does, or name more senders.
  const best = good.find((one) => one !== value) ?? good[0];
  const one = quoted?.includes('" "') === true ? 'one record of two quoted strings' : 'one record';
  const keep =
    best === undefined ? `Delete them and publish ${one}: ${line}` : `Keep this one and delete the other: ${best}`;
  return `${host} may have only one of its ${String(found.length)} ${what}. ${keep}`;
}

function otherCure(record: Pick<DnsRecord, 'purpose' | 'host' | 'type' | 'value'>, found: string): string {
  const { purpose, host, value } = record;
  const { zone_line: line } = formsOf(record);
  const replace = `Replace it by: ${line}`;
  switch (purpose) {
    case 'spf':
      return `Add ${value.split(' ')[1] ?? ''} to the record that is there, before its "all": ${withTerm(found, value)}`;
    case 'dkim':
      return `Another key or text is at this name. ${replace}`;
    case 'dmarc':
      return `Its policy has to be p=none, p=quarantine or p=reject. ${replace}`;
    case 'dmarc_consent':
      return replace;
    case 'return_path':
    case 'mx': {
      const hosts = found.split('\n').map(targetOf);
      if (hosts.some((one) => isIP(one) > 0)) return `An MX record needs a name, not an address. ${replace}`;
      return `${purpose === 'mx' ? 'Mail goes' : 'Bounces go'} to ${hosts.join(', ')}. Delete that MX record of ${host}, or give it a larger number. Publish: ${line}`;
    }
    case 'tracking':
      return `${host} leads elsewhere. Delete what is there and publish: ${line}`;
  }
}

/** Puts our term of the SPF record before `all`, or at the end. */
function withTerm(found: string, wanted: string): string {
  const term = wanted.split(' ')[1] ?? '';
  const all = /\s[-+?~]?all\b/i.exec(found);
  return all === null ? `${found} ${term} ~all` : `${found.slice(0, all.index)} ${term}${found.slice(all.index)}`;
}
