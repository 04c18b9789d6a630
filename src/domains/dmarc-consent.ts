/**
 * The consent to DMARC reports: those about a domain go to an address of another organization only if that one has a record for
 * it (RFC 7489 section 7.1). Pure.
 */
import { getDomain } from 'tldts';

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
