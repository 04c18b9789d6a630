/** Writes a DNS record in the forms that DNS providers take: names without the domain, quoted strings, lines of a zone file. Pure. */
import { getDomain } from 'tldts';
import type { DnsRecord } from './dns-records.ts';

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
