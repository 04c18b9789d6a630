/**
 * The DNS records that a domain's owner is asked to publish, and whether what DNS answers does the same job. Pure.
 *
 * The return path (the envelope sender, where bounces go) is a host of its own below the domain and gets an MX and a TXT
 * record, not a CNAME to our host. A CNAME would be one record less, but it needs an SPF record at our own host name, and
 * some mail systems write the canonical name into MAIL FROM, which breaks the alignment of SPF with the sender's domain
 * (RFC 7489 section 3.1.2). Where an owner has set a CNAME all the same, it is taken: DNS follows it, and a host without
 * MX is its own (RFC 5321 section 5.1).
 */
import { dkimRecord, parseKeyRecord } from '../mail/dkim/key-record.ts';
import type { PublishedKey } from './dkim-key.ts';

export type RecordPurpose = 'dkim' | 'spf' | 'return_path' | 'dmarc' | 'tracking' | 'mx';

export interface DnsRecord {
  purpose: RecordPurpose;
  type: 'TXT' | 'MX' | 'CNAME';
  /** The full name without final dot. */
  host: string;
  /** TXT: unquoted and in one piece. MX: `10 host`. CNAME: the host. */
  value: string;
  /** Whether the domain is verified only with it. */
  required: boolean;
}

export interface Comparison {
  status: 'ok' | 'missing' | 'wrong';
  /** What DNS answers now, as far as it is about this purpose. */
  found: string | null;
}

/** The parts of a domain that its records are made of. */
export interface PublishedDomain {
  name: string;
  returnPath: string;
  keys: readonly PublishedKey[];
}

const LONGEST_FOUND = 1000;

/** The host of its own that a domain can have its tracked links at. */
export const trackingHostOf = (domainName: string): string => `track.${domainName}`;

/**
 * `hostname`: our own name in the mail world (setting `smtp.hostname`), where the return path's mail is to go.
 * `trackingTarget`: our own name in the web, where a domain's tracking host is to lead; null where domains have none.
 */
export function wantedRecords(
  { name, returnPath, keys }: PublishedDomain,
  hostname: string,
  trackingTarget: string | null = null,
): DnsRecord[] {
  return [
    ...keys.map((key) => dkimWanted(name, key, keys)),
    { purpose: 'return_path', type: 'MX', host: returnPath, value: `10 ${hostname}`, required: true },
    // `~all`: with `-all` some receivers refuse forwarded mail before they look at DKIM (RFC 7489 section 10.1).
    { purpose: 'spf', type: 'TXT', host: returnPath, value: `v=spf1 a:${hostname} ~all`, required: true },
    // p=none is where everybody begins; the reports go to the return path, so they need no consent from another domain.
    {
      purpose: 'dmarc',
      type: 'TXT',
      host: `_dmarc.${name}`,
      value: `v=DMARC1; p=none; rua=mailto:dmarc@${returnPath}`,
      required: false,
    },
    ...(trackingTarget === null ? [] : [trackingWanted(name, trackingTarget)]),
  ];
}

const trackingWanted = (name: string, value: string): DnsRecord => ({
  purpose: 'tracking',
  type: 'CNAME',
  host: trackingHostOf(name),
  value,
  required: false,
});

/** `answers`: all records of the type at the host, TXT strings joined, MX as `10 host`. */
export function compareRecord(record: DnsRecord, answers: readonly string[]): Comparison {
  switch (record.purpose) {
    case 'dkim':
      return compareDkim(record.value, answers);
    case 'spf':
      return compareSpf(record.value, answers);
    case 'dmarc':
      return compareDmarc(answers);
    case 'return_path':
    case 'mx':
      return compareMx(record.value, answers);
    case 'tracking':
      return compared(answers, () => answers.includes(record.value));
  }
}

/**
 * Required is RSA alone, since every receiver knows it; an Ed25519 key signs once its record is there. A key that is to
 * follow an active one is not required: mail is signed without it.
 */
function dkimWanted(name: string, key: PublishedKey, keys: readonly PublishedKey[]): DnsRecord {
  const hasActive = keys.some(({ algorithm, state }) => algorithm === 'rsa-sha256' && state === 'active');
  const isNeeded = key.state === 'active' || (key.state === 'pending' && !hasActive);
  return {
    purpose: 'dkim',
    type: 'TXT',
    host: `${key.selector}._domainkey.${name}`,
    value: dkimRecord(key.public_key),
    required: key.algorithm === 'rsa-sha256' && isNeeded,
  };
}

/** Two records at a selector give receivers an undefined result (RFC 6376 section 3.6.2.2), so one must be alone. */
function compareDkim(wanted: string, answers: readonly string[]): Comparison {
  return compared(answers, () => answers.length === 1 && isSameKey(wanted, answers[0] ?? ''));
}

function isSameKey(wanted: string, found: string): boolean {
  const ours = parseKeyRecord(wanted);
  const theirs = parseKeyRecord(found);
  if (ours.kind === 'bad' || theirs.kind === 'bad' || ours.record.publicKey === null) return false;
  return theirs.record.publicKey !== null && ours.record.publicKey.equals(theirs.record.publicKey);
}

/** RFC 7208: one record at most (section 4.5), our term among those before `all`, with the result pass. */
function compareSpf(wanted: string, answers: readonly string[]): Comparison {
  const records = answers.filter((text) => /^v=spf1(?: |$)/i.test(text));
  const needed = spfTerms(wanted)[0] ?? '';
  return compared(
    records,
    () => records.length === 1 && spfTerms(records[0] ?? '').some((term) => passesUs(term, needed)),
  );
}

/** `mx` passes us too: the MX of the return path is our host, which is checked beside it. */
function passesUs(term: string, needed: string): boolean {
  return term === needed || term === 'mx' || term === 'all';
}

/** The mechanisms whose match is a pass, up to the first `all`, without `+` and in lower case. */
function spfTerms(record: string): string[] {
  const terms: string[] = [];
  for (const term of record.toLowerCase().split(' ').slice(1)) {
    const bare = term.replace(/^[-+?~]/, '');
    if (!/^[-?~]/.test(term) && bare !== '') terms.push(bare);
    if (bare === 'all') break;
  }
  return terms;
}

/** RFC 7489 section 6.6.3: one record that begins with the version. Any policy will do; a stricter one is the owner's choice. */
function compareDmarc(answers: readonly string[]): Comparison {
  const records = answers.filter((text) => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text));
  return compared(
    records,
    () => records.length === 1 && /;\s*p\s*=\s*(?:none|quarantine|reject)\s*(?:;|$)/i.test(records[0] ?? ''),
  );
}

/** Mail goes to the best preference first: ours must be among those. */
function compareMx(wanted: string, answers: readonly string[]): Comparison {
  const hosts = answers.map((text) => {
    const [preference = '', host = ''] = text.split(' ');
    return { preference: Number(preference), host: bareHost(host) };
  });
  const best = Math.min(...hosts.map(({ preference }) => preference));
  const ours = bareHost(wanted.slice(wanted.indexOf(' ') + 1));
  return compared(answers, () => hosts.some(({ preference, host }) => preference === best && host === ours));
}

function bareHost(host: string): string {
  return host.toLowerCase().replace(/\.$/, '');
}

function compared(relevant: readonly string[], isOk: () => boolean): Comparison {
  if (relevant.length === 0) return { status: 'missing', found: null };
  return { status: isOk() ? 'ok' : 'wrong', found: relevant.join('\n').slice(0, LONGEST_FOUND) };
}
