/** Describes the state of a domain in words, for pages, commands, mails, logs and problems. Pure. */
import type { DnsRecord, RecordPurpose } from './dns-records.ts';
import type { DomainRecord } from './domain-record.ts';

/**
 * The state of a domain. `trusted`: verified without DNS. `failing`: sends, but lost a required record. `refused`: lost one, and its mail is refused.
 * `unverified`: its records were never all found, or another account has the name.
 */
export type DomainState = 'trusted' | 'verified' | 'failing' | 'refused' | 'unverified';

export function stateOf({
  trusted,
  status,
  taken,
  failing_since,
  verified_at,
}: Pick<DomainRecord, 'trusted' | 'status' | 'taken' | 'failing_since' | 'verified_at'>): DomainState {
  if (trusted) return 'trusted';
  if (status === 'verified') return failing_since === null ? 'verified' : 'failing';
  return status === 'failed' && verified_at !== null && !taken ? 'refused' : 'unverified';
}

const names: Readonly<Record<RecordPurpose, string>> = {
  dkim: 'DKIM key',
  spf: 'SPF record',
  return_path: 'MX record of the return path',
  dmarc: 'DMARC record',
  dmarc_consent: 'consent to DMARC reports',
  tracking: 'alias of the tracking host',
  mx: 'MX record for mail to the domain',
};

/** Returns `SPF record at rp.acme.example`. */
export const recordName = ({ purpose, host }: Pick<DnsRecord, 'purpose' | 'host'>): string =>
  `${names[purpose]} at ${host}`;

type Checked = Pick<DomainRecord['records'][number], 'purpose' | 'host' | 'required' | 'status' | 'checked_at'>;

/** Returns the required records that were missing or wrong when DNS last answered. */
export const lostOf = <R extends Checked>(records: readonly R[]): R[] =>
  records.filter(({ required, status, checked_at }) => required && checked_at !== null && status !== 'ok');

/** Returns `the SPF record at rp.acme.example is missing`; of several, how many there are. */
export function lostText(lost: readonly Pick<Checked, 'purpose' | 'host' | 'status'>[]): string {
  const [first] = lost;
  if (first === undefined) return 'a required DNS record is missing or wrong';
  if (lost.length > 1) return `${String(lost.length)} required DNS records are missing or wrong`;
  return `the ${recordName(first)} is ${first.status === 'missing' ? 'missing' : 'wrong'}`;
}

type Shown = Pick<
  DomainRecord,
  'name' | 'trusted' | 'status' | 'taken' | 'checked_at' | 'failing_since' | 'refused_at' | 'verified_at' | 'records'
>;

/** Returns the records that DNS did not answer for at the last check. An optional one without any answer may be new, as of the next DKIM keys. */
export const unansweredOf = <R extends Checked>(domain: { checked_at: string | null; records: readonly R[] }): R[] =>
  domain.checked_at === null
    ? []
    : domain.records.filter(({ checked_at: at, required }) => at !== domain.checked_at && (required || at !== null));

/** Returns notes on the domain in whole sentences; none if all is well. */
export function notesOn(domain: Shown, now: number): string[] {
  const unanswered = unansweredOf(domain).map(recordName);
  return [
    ...stateNotes(domain, now),
    ...(unanswered.length === 0
      ? []
      : [`DNS did not answer for the ${unanswered.join(' and the ')}. That changes nothing: check again later.`]),
  ];
}

const TAKEN =
  'Another account of this server has verified this name. It can be verified here only when it is removed there.';

function stateNotes(domain: Shown, now: number): string[] {
  const lost = lostText(lostOf(domain.records));
  const { name, refused_at: at } = domain;
  switch (stateOf(domain)) {
    case 'trusted':
      return ['Trusted: DNS is not asked, and mail from it goes.'];
    case 'failing':
      return [
        at === null || Date.parse(at) <= now
          ? `${capital(lost)}. Mail from ${name} is refused as soon as another check finds that.`
          : `${capital(lost)}. Mail from ${name} keeps going until ${at}, and is refused after that.`,
      ];
    case 'refused':
      return [`Mail from ${name} is refused${at === null ? '' : ` since ${at}`}, because ${lost}.`];
    case 'unverified':
      return domain.taken ? [TAKEN] : [];
    case 'verified':
      return [];
  }
}

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
