/** Checks and spelling of domain names. Pure. */
import { parse } from 'tldts';
import { isProviderDomain } from '../base/mailbox-providers.ts';
import { Problem } from '../base/problem.ts';
import { parseMailbox } from '../mail/address.ts';

/**
 * Returns the name as A-labels in lower case. A domain is valid if it is valid after the `@` of a sender. Throws
 * `invalid_field`.
 */
export function checkDomainName(text: string, field: string): string {
  // The check below would take the text before the @ for a part of an address.
  if (text.includes('@'))
    throw new Problem('invalid_field', 'This is not a domain name: it has an @. Give what comes after it.', { field });
  // White space at its end would be cut, and not that at its beginning.
  if (/\s/.test(text)) throw new Problem('invalid_field', 'This is not a domain name: it has white space.', { field });
  const parsed = parseMailbox(`x@${withoutFinalDot(text)}`);
  if (parsed.kind === 'bad') throw new Problem('invalid_field', `This is not a domain name: ${parsed.why}.`, { field });
  return parsed.mailbox.domain;
}

/** Refuses names under which many people have addresses: public suffixes and mailbox providers. Throws `invalid_field`. */
export function refuseCommonNames(name: string): void {
  const { publicSuffix, isIcann } = parse(name, { allowPrivateDomains: false });
  if (publicSuffix === name && isIcann === true)
    throw new Problem(
      'invalid_field',
      `${name} is a public suffix, under which others register their domains. Add your own domain.`,
      { field: 'name' },
    );
  if (isProviderDomain(name))
    throw new Problem(
      'invalid_field',
      `${name} is the domain of a mailbox provider, and only the provider can send from it. Add your own domain.`,
      { field: 'name' },
    );
}

/** Returns the name as the database has it, or the text itself if it is not a name. */
export function canonicalName(text: string): string {
  const parsed = parseMailbox(`x@${withoutFinalDot(text)}`);
  return parsed.kind === 'ok' ? parsed.mailbox.domain : text;
}

function withoutFinalDot(name: string): string {
  return name.endsWith('.') ? name.slice(0, -1) : name;
}
