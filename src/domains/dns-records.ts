/**
 * Lists the DNS records that a domain needs, and compares them with what DNS answers. Pure. The return path (the envelope sender, where bounces go)
 * is a host below the domain with an MX and a TXT record. A CNAME to our host would need an SPF record there, and some mail systems write the
 * canonical name into MAIL FROM, which breaks SPF alignment (RFC 7489 section 3.1.2). It is accepted all the same: DNS follows it, and a host without
 * MX is its own (RFC 5321 section 5.1).
 */
import { dkimRecord, parseKeyRecord } from '../mail/dkim/key-record.ts';
import type { PublishedKey } from './dkim-key.ts';
import { getDomain } from 'tldts';

export type RecordPurpose = 'dkim' | 'spf' | 'return_path' | 'dmarc' | 'dmarc_consent' | 'tracking' | 'mx';

export interface DnsRecord {
  purpose: RecordPurpose;
  type: 'TXT' | 'MX' | 'CNAME';
  /** The full name without a final dot. */
  host: string;
  /** TXT: unquoted and in one piece. MX: `10 host`. CNAME: the host. */
  value: string;
  /** True if the domain is not verified without it. */
  required: boolean;
}

export interface Comparison {
  status: 'ok' | 'missing' | 'wrong';
  /** The records found that are about this purpose, or null. */
  found: string | null;
}

export interface PublishedDomain {
  name: string;
  returnPath: string;
  keys: readonly PublishedKey[];
  /** The DMARC record that DNS had at the last check; the proposed one counts if there is none. */
  dmarc?: string | null;
  /** True if mail to the domain itself comes here. */
  receiving?: boolean;
}

const LONGEST_FOUND = 1000;

/** Returns the host that a domain can have its tracked links at. */
export const trackingHostOf = (domainName: string): string => `track.${domainName}`;

/** Returns the records that a domain needs. `hostname` gets the return path's mail; tracking hosts must lead to `trackingTarget` (null: none). */
export function wantedRecords(
  { name, returnPath, keys, dmarc = null, receiving = false }: PublishedDomain,
  hostname: string,
  trackingTarget: string | null = null,
): DnsRecord[] {
  // p=none is the usual first policy.
  const proposed = `v=DMARC1; p=none; rua=mailto:dmarc@${returnPath}`;
  return [
    ...keys.map((key) => dkimWanted(name, key, keys)),
    { purpose: 'return_path', type: 'MX', host: returnPath, value: `10 ${hostname}`, required: true },
    // `~all`, because with `-all` some receivers refuse forwarded mail before they check DKIM (RFC 7489 section 10.1).
    { purpose: 'spf', type: 'TXT', host: returnPath, value: `v=spf1 a:${hostname} ~all`, required: true },
    { purpose: 'dmarc', type: 'TXT', host: `_dmarc.${name}`, value: proposed, required: false },
    ...consentsWanted(name, [returnPath, hostname], dmarc ?? proposed),
    ...(trackingTarget === null ? [] : [trackingWanted(name, trackingTarget)]),
    // The record of the return path is the same if that is the domain itself.
    ...(receiving && returnPath !== name ? [receivingWanted(name, hostname)] : []),
  ];
}

/** Below the domain itself, where the return path usually is, reports need no consent. */
const consentsWanted = (name: string, ours: readonly string[], dmarc: string): DnsRecord[] =>
  reportHosts(dmarc)
    .filter((host) => ours.includes(host) && !isSameOrganization(name, host))
    .map((host) => ({
      purpose: 'dmarc_consent',
      type: 'TXT',
      host: consentHost(name, host),
      value: 'v=DMARC1',
      required: false,
    }));

const trackingWanted = (name: string, value: string): DnsRecord => ({
  purpose: 'tracking',
  type: 'CNAME',
  host: trackingHostOf(name),
  value,
  required: false,
});

/** Mail is sent without it, so it is not required. */
const receivingWanted = (name: string, hostname: string): DnsRecord => ({
  purpose: 'mx',
  type: 'MX',
  host: name,
  value: `10 ${hostname}`,
  required: false,
});

/** Compares a record with the answers: all records of its type at its host, TXT strings joined, MX as `10 host`. */
export function compareRecord(record: DnsRecord, answers: readonly string[]): Comparison {
  switch (record.purpose) {
    case 'dkim':
      return compareDkim(record.value, answers);
    case 'spf':
      return compareSpf(record.value, answers);
    case 'dmarc':
      return compareDmarc(answers);
    case 'dmarc_consent':
      return compared(answers.filter(isDmarc), () => true);
    case 'return_path':
    case 'mx':
      return compareMx(record.value, answers);
    case 'tracking':
      return compared(answers, () => answers.includes(record.value));
  }
}

const isSpf = (text: string): boolean => /^v=spf1(?: |$)/i.test(text);
const isDmarc = (text: string): boolean => /^v\s*=\s*DMARC1\s*(?:;|$)/.test(text);

/** Returns the answers that are about the record's purpose: at most one of them is allowed. */
export function relevantAnswers({ purpose }: DnsRecord, answers: readonly string[]): readonly string[] {
  if (purpose === 'spf') return answers.filter(isSpf);
  return purpose === 'dmarc' || purpose === 'dmarc_consent' ? answers.filter(isDmarc) : answers;
}

/** Only the RSA key is required, since every receiver knows RSA; and not one that follows an active one, with which mail is signed meanwhile. */
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

/** A selector with two records has an undefined result (RFC 6376 section 3.6.2.2), so the record must be the only one. */
function compareDkim(wanted: string, answers: readonly string[]): Comparison {
  return compared(answers, () => answers.length === 1 && isSameKey(wanted, answers[0] ?? ''));
}

function isSameKey(wanted: string, found: string): boolean {
  const ours = parseKeyRecord(wanted);
  const theirs = parseKeyRecord(found);
  if (ours.kind === 'bad' || theirs.kind === 'bad' || ours.record.publicKey === null) return false;
  return theirs.record.publicKey !== null && ours.record.publicKey.equals(theirs.record.publicKey);
}

/** RFC 7208 section 4.5: at most one record; our term must be one of those before `all` that pass. */
function compareSpf(wanted: string, answers: readonly string[]): Comparison {
  const records = answers.filter(isSpf);
  const needed = spfTerms(wanted)[0] ?? '';
  return compared(
    records,
    () => records.length === 1 && spfTerms(records[0] ?? '').some((term) => passesUs(term, needed)),
  );
}

/** The term `mx` passes too: the MX of the return path is our host, which is checked separately. */
const passesUs = (term: string, needed: string): boolean => term === needed || term === 'mx' || term === 'all';

/** Returns the mechanisms that pass, up to the first `all`, without `+` and in lower case. */
function spfTerms(record: string): string[] {
  const terms: string[] = [];
  for (const term of record.toLowerCase().split(' ').slice(1)) {
    const bare = term.replace(/^[-+?~]/, '');
    if (!/^[-?~]/.test(term) && bare !== '') terms.push(bare);
    if (bare === 'all') break;
  }
  return terms;
}

/** RFC 7489 section 6.6.3: one record that begins with the version. Any policy is accepted; a stricter one is the owner's choice. */
function compareDmarc(answers: readonly string[]): Comparison {
  const records = answers.filter(isDmarc);
  return compared(
    records,
    () => records.length === 1 && /;\s*p\s*=\s*(?:none|quarantine|reject)\s*(?:;|$)/i.test(records[0] ?? ''),
  );
}

/** Mail goes to the best preference first, so our host must be one of those. */
function compareMx(wanted: string, answers: readonly string[]): Comparison {
  const hosts = answers.map((text) => {
    const [preference = '', host = ''] = text.split(' ');
    return { preference: Number(preference), host: bareHost(host) };
  });
  const best = Math.min(...hosts.map(({ preference }) => preference));
  const ours = bareHost(wanted.slice(wanted.indexOf(' ') + 1));
  return compared(answers, () => hosts.some(({ preference, host }) => preference === best && host === ours));
}

const bareHost = (host: string): string => host.toLowerCase().replace(/\.$/, '');

function compared(relevant: readonly string[], isOk: () => boolean): Comparison {
  if (relevant.length === 0) return { status: 'missing', found: null };
  return { status: isOk() ? 'ok' : 'wrong', found: relevant.join('\n').slice(0, LONGEST_FOUND) };
}

/** Returns the hosts that a DMARC record asks to send aggregate reports to, each once. */
export function reportHosts(record: string): string[] {
  const [, list = ''] = /;\s*rua\s*=([^;\n]*)/i.exec(record) ?? [];
  const hosts = list.split(',').flatMap((uri) => {
    const [, host] = /^\s*mailto:[^@\s]+@([^!\s]+)/i.exec(uri.slice(0, 300)) ?? [];
    return host === undefined ? [] : [host.toLowerCase()];
  });
  return [...new Set(hosts)];
}

/** Returns whether two names are below one registered domain, by the public suffix list (RFC 7489 section 3.2). */
export const isSameOrganization = (a: string, b: string): boolean => organizationOf(a) === organizationOf(b);

/** The list has a private part, too, under which strangers have names, and receivers use all of it. */
const organizationOf = (name: string): string => getDomain(name, { allowPrivateDomains: true }) ?? name;

/** Returns where the consent of the host to reports about the domain is published. */
export const consentHost = (domain: string, host: string): string => `${domain}._report._dmarc.${host}`;

export interface RecordForms {
  /** The host without the registered domain, as many web forms want it; `@` for the domain itself. */
  name: string;
  /** The value of a TXT record as quoted strings of at most 255 bytes (RFC 1035 section 3.3.14); null for other types. */
  quoted: string | null;
  zone_line: string;
  /** The number of an MX record, if a form has a field of its own for it; null for other types. */
  priority: number | null;
  /** The host that an MX record or an alias leads to; null for TXT. */
  target: string | null;
}

const SECONDS = 3600;
const LONGEST_STRING = 255;

export function formsOf({ host, type, value }: Pick<DnsRecord, 'host' | 'type' | 'value'>): RecordForms {
  const quoted = type === 'TXT' ? quotedStrings(value) : null;
  const space = value.indexOf(' ');
  return {
    name: shortName(host),
    quoted,
    zone_line: `${host}. ${String(SECONDS)} IN ${type} ${quoted ?? `${value}.`}`,
    priority: type === 'MX' ? Number(value.slice(0, space)) : null,
    target: type === 'TXT' ? null : value.slice(space + 1),
  };
}

/** The values are ASCII, so a character is a byte. */
function quotedStrings(value: string): string {
  const parts: string[] = [];
  for (let at = 0; at < value.length || at === 0; at += LONGEST_STRING)
    parts.push(value.slice(at, at + LONGEST_STRING));
  return parts.map((part) => `"${part.replaceAll(/["\\]/g, String.raw`\$&`)}"`).join(' ');
}

/** Returns the host without its registered domain, or `@`. */
export function shortName(host: string): string {
  const zone = getDomain(host) ?? '';
  if (host === zone) return '@';
  return zone !== '' && host.endsWith(`.${zone}`) ? host.slice(0, -zone.length - 1) : host;
}

/** Returns the zones that a form may have added to the host: its registered domain, and the domain that the record is for. */
export function zonesOf(host: string): string[] {
  const above = host.replace(/^(?:[^.]+\._domainkey|[^.]+)\./, '');
  return [...new Set([getDomain(host) ?? above, above])].filter((zone) => zone.includes('.'));
}
