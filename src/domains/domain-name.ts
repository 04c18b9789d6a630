/** Checks and spelling of domain names. Pure. */
import { parse } from 'tldts';
import { isProviderDomain } from '../base/mailbox-providers.ts';
import { Problem } from '../base/problem.ts';
import { parseMailbox } from '../mail/address.ts';

/** A domain is what may stand behind the `@` of a sender, so the address rule decides. */
export function checkDomainName(text: string, field: string): string {
  const parsed = parseMailbox(`x@${withoutFinalDot(text)}`);
  if (parsed.kind === 'bad') throw new Problem('invalid_field', `Not a domain name: ${parsed.why}.`, { field });
  return parsed.mailbox.domain;
}

/** Names that many people have addresses under, and none of them the domain. Throws `invalid_field`. */
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

/** A name as it stands in the database, or what was given where it is no name. */
export function canonicalName(text: string): string {
  const parsed = parseMailbox(`x@${withoutFinalDot(text)}`);
  return parsed.kind === 'ok' ? parsed.mailbox.domain : text;
}

function withoutFinalDot(name: string): string {
  return name.endsWith('.') ? name.slice(0, -1) : name;
}
