/** The argument of operations that names the domain of recipients, as an operator types it. */
import { z } from 'zod';
import { Problem } from '../base/problem.ts';
import { parseMailbox, soughtDomain } from '../mail/address.ts';
import { SIMULATOR_DOMAIN } from '../messages/delivery/delivery.ts';

/** A domain in any spelling, such as `bücher.example` or `Example.NET.`; the result is the one that deliveries have. */
export const recipientDomain = z
  .string()
  .min(1)
  .max(253)
  .transform((text) => soughtDomain(text.trim().replace(/\.$/, '')));

/** Throws a Problem for a text that no delivery can have as its domain, such as `@example.net`. */
export function refuseNoDomain(domain: string): void {
  if (domain === SIMULATOR_DOMAIN) return;
  const parsed = parseMailbox(`x@${domain}`);
  if (parsed.kind === 'bad') throw new Problem('invalid_field', `not a domain: ${parsed.why}`, { field: 'domain' });
}
